"""Open sizes: which sizes are compiled, and whether rows that only fill up a size can reach the others.

Training has programs for the first `EXACT` sizes that it meets; any other takes the one of the next power of two from
`LEAST` on, if padding reaches no real row. That is read off two graphs of one layer whose sizes differ: the axes that
differ are those of rows, and each command must keep rows apart along them (`ROWS`), or look at earlier ones alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType
from typing import Any

from nnc.classes import dataclass
from nnc.ops.rules import PATTERN, Pattern
from nnc.symbolic import Symbol, SymbolicGraph
from nnc.symbolic.records import ExecSymbol, TensorKey, TensorSymbol

# Half of the programs that a model keeps: training that meets more sizes would make them again and again.
EXACT = 16
LEAST = 16
# So many tokens of a prompt are read in a step: longer ones take several, and need no larger arena.
MOST_STEPS = 256
# Sizes of the two graphs: neither divides the other.
SMALL, LARGE = 5, 7


def padded_size(size: int, most: int | None = None) -> int:
    """The next power of two, `LEAST` or more, but not above `most`.

    >>> [padded_size(size) for size in (1, 16, 17, 300)], padded_size(70, 100)
    ([16, 16, 32, 512], 100)
    """
    padded = max(LEAST, 1 << int(size - 1).bit_length())
    return padded if most is None else min(padded, most)


@dataclass(frozen=True, slots=True)
class Built:
    """A graph of some size; results whose rows are to stay what they are, and renewed values as a whole."""

    graph: SymbolicGraph
    results: tuple[Symbol, ...]
    renewed: tuple[Symbol, ...] = ()


@dataclass(frozen=True, slots=True)
class _Call:
    """An exec, with the axis of rows of each input and output (None for those without rows)."""

    record: ExecSymbol
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    ranks: tuple[int, ...]
    # Of any operator.
    attrs: Any


Rows = dict[TensorKey, int | None]
Mixed = dict[TensorKey, str]


def obstacle(build: Callable[[int], Built], axis: int, *, apart: bool = False) -> str:
    """Why rows along `axis` of results depend on what fills up the others; an empty text where they do not.

    Where rows are to be `apart`, no row depends on any other, nor on its place among them.
    """
    small, large = build(SMALL), build(LARGE)
    if _counts(small.graph) != _counts(large.graph):
        return "its graph depends on the size"
    rows, mixed = _by_sizes(small.graph, large.graph, apart=apart)
    views: dict[TensorKey, list[TensorKey]] = {}
    for key, tensor in small.graph.tensors.items():
        if tensor.alias is not None:
            views.setdefault(tensor.alias.root, []).append(key)
    others = dict(zip(small.graph.execs, large.graph.execs, strict=True))
    for exec_key in small.graph.execs.toposort():
        call = small.graph.execs[exec_key]
        if not _alike(call, large.graph.execs[others[exec_key]]):
            return f"attributes of {call.name or call.command.op.name} depend on the size"
        reached = next((mixed[key] for key in call.inputs if key in mixed), "")
        why = reached or _exec_obstacle(small.graph, call, rows, apart=apart)
        read = any(rows[key] is not None for key in call.inputs if key is not None)
        for key in call.outputs:
            if why or (read and rows[key] is None):
                mixed[key] = why or f"{call.name or call.command.op.name} joins rows"
                mixed.update((view, mixed[key]) for view in views.get(key, ()))
    return _of_results(small, axis, rows, mixed)


def _counts(graph: SymbolicGraph) -> tuple[int, int]:
    return len(graph.tensors), len(graph.execs)


def _alike(first: ExecSymbol, other: ExecSymbol) -> bool:
    """Whether two commands differ in nothing but shapes."""
    a, b = first.command, other.command
    if a.op.name == "fill":
        return bool(a.attrs.value == b.attrs.value)
    return a == b or (a.op is b.op and a.op.name in SHAPED)


def _by_sizes(small: SymbolicGraph, large: SymbolicGraph, *, apart: bool) -> tuple[Rows, Mixed]:
    """The axis of rows of each tensor, and those that are no multiple of rows, or views that mix them."""
    rows, mixed = Rows(), Mixed()
    for (key, record), (_, other) in zip(small.tensors.items(), large.tensors.items(), strict=True):
        sizes = tuple(zip(record.spec.shape, other.spec.shape, strict=False))
        places = [place for place, (a, b) in enumerate(sizes) if a != b]
        rows[key] = places[0] if places else None
        if len(places) > 1 or any(sizes[place][0] * LARGE != sizes[place][1] * SMALL for place in places):
            mixed[key] = f"{record.name or 'a tensor'} has sizes {record.spec.shape} and {other.spec.shape}"
        elif record.alias is not None:
            why = _alias_obstacle(record, other, small.tensors[record.alias.root], rows)
            if apart and places and rows[record.alias.root] is None:
                why = f"{record.name or 'a view'} takes as many rows as there are steps"
            why = why or mixed.get(record.alias.root, "")
            mixed.update({key: why} if why else {})
    return rows, mixed


def _of_results(built: Built, axis: int, rows: Rows, mixed: Mixed) -> str:
    for symbol in (*built.results, *built.renewed):
        if symbol.key in mixed:
            return mixed[symbol.key]
    for symbol in built.results:
        if rows[symbol.key] != axis:
            return f"an output of shape {symbol.shape} has no rows on axis {axis}"
    return ""


def _alias_obstacle(
    record: TensorSymbol, other: TensorSymbol, root: TensorSymbol, rows: Mapping[TensorKey, int | None]
) -> str:
    """A view keeps rows in their order, or takes the first of a tensor without rows."""
    assert record.alias is not None
    assert other.alias is not None
    own, whole = record.spec.shape, root.spec.shape
    axis = rows[record.alias.root]
    place = next((at for at, sizes in enumerate(zip(own, other.spec.shape)) if sizes[0] != sizes[1]), None)
    if axis is None:
        return "" if record.alias.offset == other.alias.offset else f"{record.name or 'a view'} depends on the size"
    if place is None:
        return f"{record.name or 'a view'} takes one row"
    if len(own) == len(whole):
        return "" if place == axis else "a view moves rows"
    return "" if prod(own[:place]) == prod(whole[:axis]) else "a view mixes rows with other axes"


def _exec_obstacle(
    graph: SymbolicGraph, record: ExecSymbol, rows: Mapping[TensorKey, int | None], *, apart: bool
) -> str:
    inputs = tuple(None if key is None else rows[key] for key in record.inputs)
    outputs = tuple(rows[key] for key in record.outputs)
    ranks = tuple(0 if key is None else graph.tensors[key].spec.rank for key in record.inputs)
    call = _Call(record, inputs, outputs, ranks, record.command.attrs)
    op = record.command.op
    name = record.name or op.name
    if apart and _is_placed(call):
        return f"{name} looks at other steps, or at how many there are"
    if all(axis is None for axis in inputs):
        known = outputs == (None,) * len(outputs) or op.name in PLACED or bool(record.inputs)
        return "" if known else f"{name} may depend on the size"
    rule = ROWS.get(op.name)
    if rule is None and op in PATTERN and PATTERN[op] in (Pattern.ELEMENTWISE, Pattern.BROADCAST):
        rule = _elementwise
    if rule is None:
        return f"{name} is not known to keep rows apart"
    return "" if rule(call) else f"{name} lets rows reach each other"


def _elementwise(call: _Call) -> bool:
    """All rows lie on one axis."""
    return len({axis for axis in (*call.inputs, *call.outputs) if axis is not None}) == 1


def _within(call: _Call) -> bool:
    """Works within rows of the first axis, or on axes that attributes name and rows are not on."""
    axes = getattr(call.attrs, "axes", None)
    return _elementwise(call) and (call.inputs[0] == 0 if axes is None else call.inputs[0] not in axes)


def _last(call: _Call) -> bool:
    """Works along the last axis, which rows are not on."""
    return _elementwise(call) and call.inputs[0] is not None and call.inputs[0] < call.ranks[0] - 1


def _turned(call: _Call) -> bool:
    """Rows of x, each by its own row of angles, which may lack the batch."""
    x, angles = call.inputs
    own = {0: 0 if call.ranks[1] == 3 else None, 1: call.ranks[1] - 2}
    return x is not None and angles in (None, own.get(x))


def _reduced(call: _Call) -> bool:
    return call.inputs[0] not in call.attrs.axes and call.outputs[0] is not None


def _product(call: _Call) -> bool:
    """Rows of the left factor, or of a batch of products."""
    left, right, *_ = call.inputs
    rank = call.ranks[0]
    if left is None or left == rank - (2 if call.attrs.transpose_a else 1) or call.outputs[0] != left:
        return False
    return right is None or (right == left < rank - 2)


def _is_placed(call: _Call) -> bool:
    """Whether the place of a row among the others matters, or what earlier ones hold."""
    name = call.record.command.op.name
    if name == "attention":
        return call.inputs[:2] == (1, 1)
    if ROWS.get(name) is _recurrent:
        return call.inputs[0] == 0
    return name in PLACED - {"fill"} and not call.record.inputs and call.outputs != (None,)


def _attention(call: _Call) -> bool:
    """Examples; or steps, where none sees a later one, or all see the same, each with a row of the mask."""
    axes = {axis for axis in call.inputs if axis is not None}
    if call.inputs[:3] == (1, None, None):
        return all(axis in (None, rank - 2) for axis, rank in zip(call.inputs[3:], call.ranks[3:], strict=True))
    masked = any(key is not None for key in call.record.inputs[3:])
    return axes == {0} or (axes == {1} and call.attrs.causal and not masked)


def _recurrent(call: _Call) -> bool:
    """Examples (axis 1); or steps (axis 0) in their order."""
    return call.inputs[0] == 1 or (call.inputs[0] == 0 and not call.attrs.reverse and call.outputs[0] == 0)


def _along(call: _Call) -> bool:
    """Works along an axis that rows are not on."""
    rank = call.ranks[0]
    return _elementwise(call) and call.attrs.axis % max(rank, 1) != call.inputs[0]


def _concatenated(call: _Call) -> bool:
    return all(axis == call.outputs[0] for axis in call.inputs) and call.attrs.axis != call.outputs[0]


def _looked_up(call: _Call) -> bool:
    return call.inputs[0] is None


def _transposed(call: _Call) -> bool:
    return call.inputs[0] is not None and call.outputs[0] == call.attrs.permutation.index(call.inputs[0])


# Attributes hold the shape of a result.
SHAPED = frozenset({"broadcast_to", "arange", "rotary_angles", "random_uniform", "random_normal"})
# Made from their place alone, the first ones are the same whatever the size.
PLACED = frozenset({"fill", "arange", "rotary_angles", "random_uniform", "random_normal"})
ROWS: Mapping[str, Callable[[_Call], bool]] = MappingProxyType(
    {
        **dict.fromkeys(("softmax", "log_softmax", "dequantize_blocks", "block_product"), _last),
        "rotary": _turned,
        **dict.fromkeys(("layer_norm", "rms_norm"), _within),
        **dict.fromkeys(("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_norm"), _reduced),
        **dict.fromkeys(("convolution", "max_pool", "average_pool", "upsample", "pad", "flip"), _within),
        **dict.fromkeys(("lstm", "gru", "rnn"), _recurrent),
        **dict.fromkeys(("cumulative_sum", "sort", "top_k", "gather"), _along),
        **dict.fromkeys(("broadcast_to", "cast", "copy", "where", "dropout", "one_hot", "rotary_angles"), _elementwise),
        "attention": _attention,
        "concatenate": _concatenated,
        "gemm": _product,
        "index_select": _looked_up,
        "transpose": _transposed,
    }
)
