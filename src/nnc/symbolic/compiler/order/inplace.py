"""Which output may take over the memory of which input, as far as the exec itself decides that.

Whether the input is dead behind the exec depends on the order; `order` and `liveness` ask that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

from nnc.core.values.spec import contiguous_strides
from nnc.ops.rules import INPLACE
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import ExecSymbol, TensorKey

Pair = tuple[TensorKey, TensorKey]
# Up to this many pairs the best choice is found by trying all; no operator comes near.
EXHAUSTIVE = 10


def shareable(graph: SymbolicGraph, record: ExecSymbol) -> tuple[Pair, ...]:
    """(root read, root written): equal in shape and type, and every read of that root is in step with the writing."""
    allowed = INPLACE[record.command.op](record.command.attrs).allowed
    pairs = []
    for source, target in allowed:
        taken, written = record.inputs[source], record.outputs[target]
        if taken is None or not _fits(graph, taken, written):
            continue
        root = graph.root(taken)
        in_step = {position for position, output in allowed if output == target}
        readers = (
            position for position, key in enumerate(record.inputs) if key is not None and graph.root(key) == root
        )
        if all(position in in_step and record.inputs[position] == taken for position in readers):
            pairs.append((root, written))
    return tuple(dict.fromkeys(pairs))


def choose_pairs(pairs: Sequence[Pair], nbytes: Callable[[Pair], int]) -> tuple[Pair, ...]:
    """Pairs in which no root comes twice, of the most bytes together; of equal ones the first."""
    if len({source for source, _ in pairs}) == len(pairs) == len({target for _, target in pairs}):
        return tuple(pairs)
    if len({target for _, target in pairs}) == 1:
        return (max(pairs, key=nbytes),)
    if len(pairs) > EXHAUSTIVE:
        return _apart(pairs)
    choices = (choice for size in range(len(pairs), 0, -1) for choice in combinations(pairs, size))
    apart = [choice for choice in choices if _apart(choice) == choice]
    return max(apart, key=lambda choice: sum(map(nbytes, choice)), default=())


def _apart(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """Pairs in order, without those whose input or output an earlier one has."""
    sources: set[TensorKey] = set()
    targets: set[TensorKey] = set()
    kept = []
    for source, target in pairs:
        if source not in sources and target not in targets:
            sources.add(source)
            targets.add(target)
            kept.append((source, target))
    return tuple(kept)


def _fits(graph: SymbolicGraph, taken: TensorKey, written: TensorKey) -> bool:
    """The input is a whole root, perhaps by another shape, and the output a root of the same shape and type."""
    if graph.root(written) != written or graph.root(taken) == written:
        return False
    first, second, base = (graph.tensors[key].spec for key in (taken, written, graph.root(taken)))
    if (first.shape, first.dtype, first.device) != (
        second.shape,
        second.dtype,
        second.device,
    ) or first.elements != base.elements:
        return False
    region = graph.region(taken)
    return region.offset == 0 and region.strides == contiguous_strides(first.shape)
