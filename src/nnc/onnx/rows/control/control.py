"""What is no plain call: constants, shapes, branches, loops, sequences and optionals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

import onnx
from nnc import ops
from nnc.core.values.dtype import I64
from nnc.errors import FormatError, ShapeError, UsageError
from nnc.onnx.importer import OnnxImporter, Special
from nnc.onnx.kept.asked_elements import Unknown
from nnc.onnx.node import Array, OnnxNode
from nnc.onnx.node_values import OnnxValue
from nnc.onnx.rows.control.loops import UNROLLED, repeated, scan_of
from nnc.onnx.rows.control.operands import Inputs, axis_numbers, items_of, known_integer, place_among, value_at
from nnc.onnx.rows.learning.learning import labels_of
from nnc.onnx.size_elements import array_of_sizes
from nnc.symbolic import Symbol, case_of

MOST_UNROLLED = 4096
# A sequence of this many slices, or a Scan of this many empty rows, takes some seconds.
MOST_PARTS = 1 << 16
# Branches in branches on data; the compiler plans an inner one about four times for each around it.
MOST_NESTED = 6
Scope = Mapping[str, OnnxValue]


def _constant(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    (name, value), *_ = node.attributes.items() or [("", None)]
    if isinstance(value, onnx.TensorProto):
        # Single numbers are options of other nodes, and nothing that is trained.
        return [importer.tensor(value, node.outputs[0] if math.prod(value.dims) > 1 else "")]
    kinds = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}
    if name in ("value_string", "value_strings"):
        return [OnnxValue(np.array(value, object))]
    if name not in kinds:
        raise FormatError(node.label, got=f"attribute {name or 'none'}", need="a dense value")
    return [OnnxValue(np.array(value, kinds[name]))]


def _dimensions(value: OnnxValue, node: OnnxNode) -> tuple[int, ...]:
    if value.symbol is None and value.array is not None:
        return tuple(value.array.shape)
    if value.spec is None:
        raise FormatError(node.label, got="a sequence", need="a tensor")
    return value.spec.shape


def _first(inputs: Inputs, node: OnnxNode) -> OnnxValue:
    if not inputs or inputs[0] is None:
        raise FormatError(node.label, got="no input", need="one")
    return inputs[0]


def _shape(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    shape = _dimensions(_first(inputs, node), node)
    end = node.integer("end", len(shape))
    return [OnnxValue(array_of_sizes(shape[node.integer("start", 0) : end]))]


def _size(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    return [OnnxValue(array_of_sizes([math.prod(_dimensions(_first(inputs, node), node))]).reshape(()))]


def _graph(node: OnnxNode, name: str) -> onnx.GraphProto:
    graph = node.attributes.get(name)
    if not isinstance(graph, onnx.GraphProto):
        raise FormatError(node.label, got=f"no graph {name}", need="one")
    return graph


def _if(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    """One branch where the condition is known; else `case..of` both."""
    condition = _first(inputs, node)
    branches = [_graph(node, name) for name in ("else_branch", "then_branch")]
    if condition.array is not None:
        chosen = branches[int(bool(condition.array.reshape(-1)[0]))]
        return importer.run(chosen, dict(scope))
    return _choose(importer, condition, branches, scope)


def _choose(
    importer: OnnxImporter, condition: OnnxValue, branches: Sequence[onnx.GraphProto], scope: Scope
) -> Sequence[OnnxValue]:
    """Each branch is built in a graph of its own, which captures what it reads of the graph around."""
    if importer.branches >= MOST_NESTED and condition.sources:
        raise Unknown(condition.sources, f"the condition of a branch in {MOST_NESTED} others")
    choice = ops.cast(ops.reshape(importer.operand(condition), ()), I64)
    outer = importer.graph

    def build(graph: onnx.GraphProto, *operands: Symbol) -> tuple[Symbol, ...]:
        importer.graph = operands[0].graph
        importer.branches += 1
        try:
            return tuple(importer.operand(entry) for entry in importer.run(graph, dict(scope)))
        finally:
            importer.graph = outer
            importer.branches -= 1

    try:
        results = case_of(outer, choice, [partial(build, graph) for graph in branches], [choice])
    except UsageError:
        # A branch that does not fit these shapes is one that is not meant to be taken.
        if not condition.sources:
            raise
        raise Unknown(condition.sources, "the condition of a branch that does not fit") from None
    return [OnnxValue(symbol=result, sources=condition.sources) for result in results]


def _loop(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    """Iteration after iteration, as far as the count and the conditions are known."""
    body = _graph(node, "body")
    most = known_integer(inputs, 0, node)
    condition = inputs[1] if len(inputs) > 1 else None
    carried = [_present(operand, node) for operand in inputs[2:]]
    names = [entry.name for entry in body.input]
    stacked: list[list[OnnxValue]] = [[] for _ in body.output[1 + len(carried) :]]
    if _is_native(most, condition):
        native = repeated(importer, node, body, most, condition, carried, scope)
        if native is not None:
            return native
    count = 0
    while (most is None or count < most) and _holds(condition, node):
        if count >= MOST_UNROLLED:
            raise ShapeError(node.label, got=f"more than {MOST_UNROLLED} iterations", need="fewer")
        inner = dict(scope)
        flag = OnnxValue(np.array(True)) if condition is None else condition
        inner.update(zip(names, [OnnxValue(np.array(count, np.int64)), flag, *carried]))
        condition, *results = importer.run(body, inner)
        carried = results[: len(carried)]
        for rows, value in zip(stacked, results[len(carried) :], strict=True):
            rows.append(value)
        count += 1
    return [
        *carried,
        *(_stack(importer, rows, body.output[1 + len(carried) + place]) for place, rows in enumerate(stacked)),
    ]


def _is_native(most: int | None, condition: OnnxValue | None) -> bool:
    """Whether a loop is tried as one of ours: where its condition depends on data, or it has many iterations."""
    return (condition is not None and condition.array is None) or (most is not None and most > UNROLLED)


def _holds(condition: OnnxValue | None, node: OnnxNode) -> bool:
    if condition is None:
        return True
    if condition.array is None:
        raise Unknown(condition.sources, f"the condition of {node.label}")
    return bool(condition.array.reshape(-1)[0])


def _present(value: OnnxValue | None, node: OnnxNode) -> OnnxValue:
    if value is None:
        raise FormatError(node.label, got="a missing input", need="one")
    return value


def _stack(importer: OnnxImporter, rows: Sequence[OnnxValue], output: onnx.ValueInfoProto, axis: int = 0) -> OnnxValue:
    """Rows along a new axis."""
    if not rows:
        kind = output.type.tensor_type
        sizes = [entry.dim_value for entry in kind.shape.dim]
        return OnnxValue(np.empty((0, *sizes), onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type or 1)))
    sources = frozenset[str]().union(*(entry.sources for entry in rows))
    if all(entry.array is not None for entry in rows):
        return OnnxValue(np.stack([np.asarray(entry.array) for entry in rows], axis), sources=sources)
    operands = [importer.operand(entry) for entry in rows]
    axis %= operands[0].spec.rank + 1
    wide = [ops.reshape(operand, (*operand.shape[:axis], 1, *operand.shape[axis:])) for operand in operands]
    return OnnxValue(symbol=wide[0] if len(wide) == 1 else ops.concatenate(wide, axis), sources=sources)


def _scan(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    """Slices of the scanned inputs, one iteration each."""
    body = _graph(node, "body")
    scanned = node.integer("num_scan_inputs", 0)
    if node.opset < 9:
        return _scan_of_batches(importer, node, inputs, scope)
    given = [_present(operand, node) for operand in inputs]
    states, sequences = given[: len(given) - scanned], given[len(given) - scanned :]
    outputs = len(body.output) - len(states)
    into = axis_numbers(node, "scan_input_axes", scanned)
    backward = axis_numbers(node, "scan_input_directions", scanned)
    out_axes = axis_numbers(node, "scan_output_axes", outputs)
    out_backward = axis_numbers(node, "scan_output_directions", outputs)
    count = _dimensions(sequences[0], node)[into[0]]
    if count > MOST_PARTS and all(0 in _dimensions(sequence, node) for sequence in sequences):
        raise ShapeError(node.label, got=f"{count} rows of nothing", need=f"at most {MOST_PARTS}")
    if count > UNROLLED:
        pick = partial(_picked, importer, sequences, into, backward, count)
        native = scan_of(importer, body, count, states, pick, scope)
        if native is not None:
            return [*native[: len(states)], *_laid(native[len(states) :], out_axes, out_backward)]
    if count > MOST_UNROLLED:
        raise ShapeError(node.label, got=f"{count} iterations", need=f"at most {MOST_UNROLLED}")
    stacked: list[list[OnnxValue]] = [[] for _ in range(outputs)]
    for step in range(count):
        rows = [
            value_at(importer, value, count - 1 - step if backward[place] else step, into[place])
            for place, value in enumerate(sequences)
        ]
        inner = dict(scope)
        inner.update(zip((entry.name for entry in body.input), [*states, *rows]))
        results = importer.run(body, inner)
        states = results[: len(states)]
        for place, value in enumerate(results[len(states) :]):
            stacked[place].append(value)
    ordered = [rows[::-1] if out_backward[place] else rows for place, rows in enumerate(stacked)]
    offset = len(states)
    return [
        *states,
        *(_stack(importer, rows, body.output[offset + place], out_axes[place]) for place, rows in enumerate(ordered)),
    ]


def _scan_of_batches(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    """Operator set 8: the lengths come first, and everything has a batch in front, scanned entry by entry."""
    if inputs[0] is not None:
        raise FormatError(node.label, got="sequences of several lengths", need="sequences of one length")
    given = [_present(operand, node) for operand in inputs[1:]]
    attributes = {name: value for name, value in node.attributes.items() if name != "directions"}
    attributes["scan_input_directions"] = node.attributes.get("directions", ())
    newer = replace(node, opset=9, attributes={name: value for name, value in attributes.items() if value != ()})
    entries = [
        _scan(importer, newer, [value_at(importer, operand, place, 0) for operand in given], scope)
        for place in range(_dimensions(given[0], node)[0])
    ]
    outputs = _graph(node, "body").output
    return [_stack(importer, rows, outputs[place]) for place, rows in enumerate(zip(*entries, strict=True))]


def _picked(
    importer: OnnxImporter,
    sequences: Sequence[OnnxValue],
    axes: Sequence[int],
    backward: Sequence[int],
    count: int,
    step: Symbol,
) -> list[OnnxValue]:
    """Each sequence at a step that a loop counts."""
    rows = []
    for value, axis, back in zip(sequences, axes, backward, strict=True):
        x = importer.operand(value)
        index = ops.reshape(step * -1 + (count - 1) if back else step, (1,))
        row = ops.index_select(x, index, axis % x.spec.rank)
        shape = [size for entry, size in enumerate(x.shape) if entry != axis % x.spec.rank]
        rows.append(OnnxValue(symbol=ops.reshape(row, shape)))
    return rows


def _laid(rows: Sequence[OnnxValue], axes: Sequence[int], backward: Sequence[int]) -> list[OnnxValue]:
    """Rows along axis 0 as outputs of a Scan want them."""
    results = []
    for value, axis, back in zip(rows, axes, backward, strict=True):
        assert value.symbol is not None
        y = ops.flip(value.symbol, 0) if back else value.symbol
        order = [*range(1, y.spec.rank)]
        order.insert(axis % y.spec.rank, 0)
        results.append(OnnxValue(symbol=ops.transpose(y, tuple(order)), sources=value.sources))
    return results


# ---- sequences and optionals: known at import, whatever their tensors are


def _sequence(items: Sequence[OnnxValue]) -> list[OnnxValue]:
    return [OnnxValue(items=tuple(items), sources=frozenset[str]().union(*(item.sources for item in items)))]


def _sequence_construct(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    return _sequence([_present(operand, node) for operand in inputs])


def _sequence_empty(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    return _sequence([])


def _sequence_insert(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    items = list(items_of(inputs[0], node))
    items.insert(place_among(inputs, 2, len(items), node, end=True), _present(inputs[1], node))
    return _sequence(items)


def _sequence_erase(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    items = list(items_of(inputs[0], node))
    del items[place_among(inputs, 1, len(items), node)]
    return _sequence(items)


def _sequence_at(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    items = items_of(inputs[0], node)
    return [items[place_among(inputs, 1, len(items), node)]]


def _sequence_length(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    return [OnnxValue(np.array(len(items_of(inputs[0], node)), np.int64))]


def _concat_from(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    items = items_of(inputs[0], node)
    axis = node.integer("axis", 0)
    if node.integer("new_axis", 0):
        return [_stack(importer, items, onnx.ValueInfoProto(), axis)]
    sources = frozenset[str]().union(*(item.sources for item in items))
    if all(item.array is not None for item in items):
        return [OnnxValue(np.concatenate([np.asarray(item.array) for item in items], axis), sources=sources)]
    operands = [importer.operand(item) for item in items]
    return [OnnxValue(symbol=ops.concatenate(operands, axis % operands[0].spec.rank), sources=sources)]


def _split_to(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    value = _first(inputs, node)
    shape = _dimensions(value, node)
    axis = node.integer("axis", 0) % len(shape)
    split = inputs[1] if len(inputs) > 1 else None
    if split is None:
        _check_parts(node, shape[axis])
        parts = [value_at(importer, value, index, axis) for index in range(shape[axis])]
        if node.integer("keepdims", 1):
            parts = [_piece(importer, value, axis, index, index + 1) for index in range(shape[axis])]
        return _sequence(parts)
    if split.array is None:
        raise Unknown(split.sources, f"the split of {node.label}")
    if split.array.ndim:
        ends = np.cumsum(split.array).tolist()
    else:
        each = int(split.array)
        if each < 1:
            raise FormatError(node.label, got=f"parts of {each}", need="at least 1 along the axis")
        _check_parts(node, -(-shape[axis] // each))
        ends = [min(each * (part + 1), shape[axis]) for part in range(-(-shape[axis] // each))]
    return _sequence([_piece(importer, value, axis, start, end) for start, end in zip([0, *ends], ends)])


def _check_parts(node: OnnxNode, count: int) -> None:
    """ShapeError for a sequence that is too long to be made one by one."""
    if count > MOST_PARTS:
        raise ShapeError(node.label, got=f"{count} parts", need=f"at most {MOST_PARTS}")


def _piece(importer: OnnxImporter, value: OnnxValue, axis: int, start: int, stop: int) -> OnnxValue:
    if value.array is not None:
        index = tuple(slice(start, stop) if entry == axis else slice(None) for entry in range(value.array.ndim))
        return OnnxValue(value.array[index], sources=value.sources)
    return OnnxValue(symbol=ops.slice_axis(importer.operand(value), axis, start, stop), sources=value.sources)


def _sequence_map(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    body = _graph(node, "body")
    count = len(items_of(inputs[0], node))
    results: list[list[OnnxValue]] = [[] for _ in body.output]
    for place in range(count):
        inner = dict(scope)
        values = [
            operand.items[place] if operand is not None and operand.items is not None else operand for operand in inputs
        ]
        inner.update((name.name, _present(value, node)) for name, value in zip(body.input, values))
        for rows, value in zip(results, importer.run(body, inner), strict=True):
            rows.append(value)
    return [_sequence(rows)[0] for rows in results]


def _optional(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    return [inputs[0] if inputs and inputs[0] is not None else OnnxValue()]


def _has_element(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    value = inputs[0] if inputs else None
    there = value is not None and (value.array is not None or value.symbol is not None or value.items is not None)
    return [OnnxValue(np.array(there))]


def _identity(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    return [_first(inputs, node)]


def _labelled(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    """A classifier whose classes may be text: the graph computes their places."""
    values = importer.call(node, importer.rows[f"{node.domain}.{node.op}"], inputs)
    labels = labels_of(node)
    if labels and isinstance(labels[0], str):
        words = np.array(labels, object)
        values[0].meaning = lambda places: words[places]
    return values


def _mapped(importer: OnnxImporter, node: OnnxNode, inputs: Inputs, scope: Scope) -> Sequence[OnnxValue]:
    """A map from class to score for each row."""
    value, labels = _first(inputs, node), labels_of(node)
    shape = _dimensions(value, node)
    if not 1 <= len(shape) <= 2 or shape[-1] != len(labels):
        raise FormatError(node.label, got=f"scores {list(shape)}", need=f"one of each of {len(labels)} classes")

    def maps(rows: Array) -> list[dict[object, float]]:
        return [dict(zip(labels, row, strict=True)) for row in np.atleast_2d(rows).tolist()]

    return [OnnxValue(value.array, value.symbol, value.sources, meaning=maps)]


ML = "ai.onnx.ml"
SPECIALS: dict[str, Special] = {
    **{f"{ML}.{name}": _labelled for name in ("LinearClassifier", "TreeEnsembleClassifier")},
    f"{ML}.ZipMap": _mapped,
    "Constant": _constant,
    "Shape": _shape,
    "Size": _size,
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
    "Identity": _identity,
    "SequenceConstruct": _sequence_construct,
    "SequenceEmpty": _sequence_empty,
    "SequenceInsert": _sequence_insert,
    "SequenceErase": _sequence_erase,
    "SequenceAt": _sequence_at,
    "SequenceLength": _sequence_length,
    "SequenceMap": _sequence_map,
    "ConcatFromSequence": _concat_from,
    "SplitToSequence": _split_to,
    "Optional": _optional,
    "OptionalGetElement": _optional,
    "OptionalHasElement": _has_element,
}
