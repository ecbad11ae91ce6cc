"""What the execs of one compilation touch, and the bytes that are alive at each step of an order of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field

from nnc.classes import dataclass
from nnc.ops.movement.movement import CONCATENATE
from nnc.symbolic.compiler.order.inplace import Pair, shareable
from nnc.symbolic.compiler.order.live_bytes import LiveBytes, Span, shared_bytes
from nnc.symbolic.ir import SymbolicGraph, bodies_of
from nnc.symbolic.records import ExecKey, TensorKey


@dataclass(frozen=True, slots=True)
class Uses:
    """Roots in and out per exec, pairs (in, out) that may share memory, and how many bytes each root takes.

    `scratch` is the memory that an exec's kernel has for itself while it runs.
    """

    reads: Mapping[ExecKey, tuple[TensorKey, ...]]
    writes: Mapping[ExecKey, tuple[TensorKey, ...]]
    pairs: Mapping[ExecKey, tuple[Pair, ...]]
    nbytes: Mapping[TensorKey, int]
    kept: frozenset[TensorKey]
    scratch: Mapping[ExecKey, int] = field(default_factory=dict)
    # Asked for a dozen times per exec while an order is looked for.
    _touched: dict[ExecKey, tuple[TensorKey, ...]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        touched = {key: tuple(dict.fromkeys((*reads, *self.writes[key]))) for key, reads in self.reads.items()}
        object.__setattr__(self, "_touched", touched)

    def touched(self, key: ExecKey) -> tuple[TensorKey, ...]:
        """Roots that the exec reads or writes."""
        return self._touched[key]

    def alone(self, key: ExecKey, apart: Collection[TensorKey] = ()) -> int:
        """Bytes that the exec has in memory in any order, scratch among them, those of roots `apart` left out.

        Nor do outputs count that may take over an input's memory.
        """
        left = {target for _, target in self.pairs[key]}.union(apart)
        return sum(self.nbytes[root] for root in self._touched[key] if root not in left) + self.scratch.get(key, 0)


def uses_of(
    graph: SymbolicGraph,
    execs: Sequence[ExecKey],
    free: Iterable[TensorKey],
    kept: Iterable[TensorKey],
    scratch: Mapping[ExecKey, int] | None = None,
) -> Uses:
    """Roots that `free` names cost nothing (their memory is somebody else's); `kept` ones live to the end."""
    reads: dict[ExecKey, tuple[TensorKey, ...]] = {}
    writes: dict[ExecKey, tuple[TensorKey, ...]] = {}
    for key in execs:
        record = graph.execs[key]
        reads[key] = graph.roots(record.inputs)
        writes[key] = graph.roots(record.outputs)
    roots = {root for roots in (*reads.values(), *writes.values()) for root in roots}
    outside = set(free)
    nbytes = {root: 0 if root in outside else graph.tensors[root].spec.nbytes for root in roots}
    pairs = {
        key: tuple(pair for pair in shareable(graph, graph.execs[key]) if nbytes[pair[0]] and nbytes[pair[1]])
        for key in execs
    }
    return Uses(reads, writes, pairs, nbytes, frozenset(kept), scratch or {})


def any_order_bytes(graph: SymbolicGraph, uses: Uses) -> int:
    """max over execs of what one alone has in memory: all that it reads and writes at once, and its scratch.

    No program of the graph takes less, whatever its order, what shares memory and what is computed again, as each exec
    runs once at least. Outputs that may take over an input's memory do not count, nor do inputs of a concatenation,
    which may be computed in it, execs with bodies, which may be other loops, and what lies in files.
    """
    return max((_alone(graph, key, uses) for key in uses.reads), default=0)


def _alone(graph: SymbolicGraph, key: ExecKey, uses: Uses) -> int:
    record = graph.execs[key]
    if bodies_of(record.command):
        return 0
    parts = uses.reads[key] if record.command.op is CONCATENATE else ()
    in_files = [root for root in uses.touched(key) if graph.tensors[root].spec.device.is_file]
    return uses.alone(key, {*parts, *in_files})


class Profile:
    """An order, the first and the last step of each root in it, and the bytes alive; `kept` ones live on behind it."""

    def __init__(self, order: Sequence[ExecKey], uses: Uses) -> None:
        self.uses = uses
        self.order = list(order)
        self.lives: dict[TensorKey, Span] = {}
        for step, key in enumerate(order):
            for root in uses.touched(key):
                self.lives[root] = (self.lives.get(root, (step, step))[0], step)
        self.lives.update((root, (self.lives[root][0], len(order))) for root in uses.kept & self.lives.keys())
        own = [uses.scratch.get(key, 0) for key in order]
        shared = [self._shared(step, key) for step, key in enumerate(order)]
        self.bytes = LiveBytes.counted(((uses.nbytes[root], (life,)) for root, life in self.lives.items()), own, shared)

    def _shared(self, step: int, key: ExecKey) -> int:
        pairs, nbytes = self.uses.pairs[key], self.uses.nbytes.__getitem__
        return shared_bytes(pairs, nbytes, lambda root: (self.lives[root],), step) if pairs else 0


def peak_bytes(order: Sequence[ExecKey], uses: Uses) -> int:
    """max over steps of the bytes alive."""
    return Profile(order, uses).bytes.peak
