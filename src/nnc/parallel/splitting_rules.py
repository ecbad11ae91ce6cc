"""What operators make of values that are split among ranks: a row for each, which gives our block of each output.

A rule that cannot keep blocks apart gives None: its inputs are joined then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from nnc.core.values.command import Command
from nnc.core.values.spec import Shape
from nnc.graph import Op
from nnc.ops import add, affine, broadcast_to, reshape, where
from nnc.ops.movement.broadcast import BROADCAST_TO, BroadcastAttrs
from nnc.ops.movement.fill import fill_like, scalar_like
from nnc.ops.movement.movement import TransposeAttrs
from nnc.ops.random.random import DROPOUT
from nnc.ops.rules import PATTERN, Pattern
from nnc.parallel.block_operators import LEAVE, OWN_ROWS, RankBlockAttrs
from nnc.parallel.collectives import GroupAttrs
from nnc.parallel.splitting import GraphSplitter, Made, Rule, SplitValue
from nnc.parallel.splitting_rows import (
    columns_of,
    cross_entropy_of_columns,
    first_largest,
    softmax_of_columns,
    sum_of_columns,
    written,
)
from nnc.symbolic import Symbol
from nnc.symbolic.records import ExecSymbol, TensorKey


def rule_of(op: Op[Any]) -> Rule | None:
    """The row of an operator; those that work element by element have one together."""
    rule = RULES.get(op.name)
    if rule is None and op in PATTERN and PATTERN[op] in (Pattern.ELEMENTWISE, Pattern.BROADCAST):
        return _elementwise
    return rule


def _given(record: ExecSymbol) -> list[TensorKey]:
    return [key for key in record.inputs if key is not None]


def _first_split(splitter: GraphSplitter, record: ExecSymbol, *, parts: bool = False) -> tuple[int, Shape, int] | None:
    """The axis that the first split input is split along, its shape, and in how many parts, if several will do."""
    for key in _given(record):
        split = splitter.split_of(key, parts=parts)
        if split is not None:
            return split.axis, splitter.spec(key).shape, split.parts
    return None


def _causes(splits: Sequence[SplitValue | None]) -> frozenset[str]:
    return frozenset[str]().union(*(split.causes for split in splits if split is not None))


def _elementwise(splitter: GraphSplitter, record: ExecSymbol) -> Made | None:
    """Operands along one axis of the result, whole where they are spread along it."""
    shapes = {splitter.spec(key).shape for key in record.outputs}
    place = _first_split(splitter, record, parts=True)
    if place is None or len(shapes) > 1:
        return None
    (shape,), parts = shapes, place[2]
    axis = place[0] + len(shape) - len(place[1])
    symbols, splits = list[Symbol | None](), list[SplitValue]()
    for key in record.inputs:
        if key is None:
            symbols.append(None)
            continue
        spec = splitter.spec(key)
        own = axis - (len(shape) - spec.rank)
        if own < 0 or spec.shape[own] == 1 < shape[axis]:
            symbols.append(splitter.enter(key))
            continue
        split = splitter.take(key, own, uneven=True, parts=parts) if spec.shape[own] == shape[axis] else None
        if split is None:
            return None
        splits.append(split)
        symbols.append(split.symbol)
    made = splitter.made(record.command, symbols, record)
    return [SplitValue(symbol, axis, _causes(splits), parts) for symbol in made]


def _softmax(splitter: GraphSplitter, record: ExecSymbol) -> Made | None:
    """Of whole rows, or of our columns of them."""
    columns, place = columns_of(splitter, record), _first_split(splitter, record)
    if columns is not None:
        return softmax_of_columns(splitter, record, columns)
    return None if place is None or place[0] == len(place[1]) - 1 else _elementwise(splitter, record)


def _cross_entropy(splitter: GraphSplitter, record: ExecSymbol) -> Made | None:
    """Of our columns of logits."""
    columns = columns_of(splitter, record)
    return None if columns is None else cross_entropy_of_columns(splitter, record, columns)


def _position(splitter: GraphSplitter, record: ExecSymbol) -> Made | None:
    """Of whole rows, or of our columns of them."""
    columns = columns_of(splitter, record, record.command.attrs.axes)
    return _reduced(splitter, record) if columns is None else first_largest(splitter, record, columns)


def _summed(splitter: GraphSplitter, record: ExecSymbol) -> Made | None:
    """Over axes that are whole, or over ours."""
    columns = columns_of(splitter, record, record.command.attrs.axes)
    return _reduced(splitter, record) if columns is None else sum_of_columns(splitter, record, columns)


def _dropout(splitter: GraphSplitter, record: ExecSymbol) -> Made | None:
    """Our block of the mask that one rank would draw."""
    x, counter = _given(record)
    split = splitter.split_of(x)
    if split is None or record.command.attrs.entirety:
        return None
    ones = fill_like(splitter.graph.symbol(x), 1.0)
    _, drawn = splitter.made(Command(DROPOUT, record.command.attrs), [ones, splitter.graph.symbol(counter)], record)
    mask = splitter.take(drawn.key, split.axis, uneven=True)
    if mask is None:
        return None
    kept = affine(split.symbol, 1.0 / (1.0 - record.command.attrs.rate))
    y = where(mask.symbol, kept, scalar_like(kept, 0.0))
    return [SplitValue(y, split.axis, split.causes), SplitValue(mask.symbol, split.axis, split.causes)]


def _normalized(splitter: GraphSplitter, record: ExecSymbol) -> Made | None:
    """Over axes that are whole, by parameters that are whole."""
    x, *parameters = _given(record)
    split, attrs = splitter.split_of(x), record.command.attrs
    if split is None or split.axis in (*attrs.axes, *attrs.parameter_axes):
        return None
    made = splitter.made(record.command, [split.symbol, *map(splitter.enter, parameters)], record)
    return [SplitValue(symbol, split.axis, split.causes) for symbol in made]


def _product(splitter: GraphSplitter, record: ExecSymbol) -> Made | None:
    """A factor's columns give columns, its rows a summand of each element."""
    a, b, bias = (*record.inputs, None)[:3]
    assert a is not None
    assert b is not None
    attrs, (left, right) = record.command.attrs, (splitter.spec(a).rank, splitter.spec(b).rank)
    inner = (left - 2 if attrs.transpose_a else left - 1, right - 1 if attrs.transpose_b else right - 2)
    columns = right - 2 if attrs.transpose_b else right - 1
    root, parts = splitter.part_of(b, columns)
    weight, of_a = splitter.free(root), splitter.split_of(a)
    if of_a is not None and root == b and splitter.widens(b, columns, inner[1]):
        splitter.join(a, is_worth=True)
        of_a = None
    if weight is not None and weight.request == "row":
        splitter.decide(root, inner[1])
    elif weight is not None and (weight.request or (of_a is None and weight.path not in splitter.denied)):
        parts *= splitter.hints.get(weight.path, 1)
        splitter.decide(root, columns, causes=True, uneven=not weight.request, parts=parts)
    of_b = splitter.split_of(b, parts=True)
    if of_b is not None and of_b.axis == columns:
        return _columns(splitter, record, (a, b, bias), of_b)
    if (of_a is not None and of_a.axis == inner[0]) or (of_b is not None and of_b.axis == inner[1]):
        return _summands(splitter, record, (a, b, bias), inner)
    return _of_rows(splitter, record, (a, b, bias), of_a)


def _columns(
    splitter: GraphSplitter,
    record: ExecSymbol,
    factors: tuple[TensorKey, TensorKey, TensorKey | None],
    of_b: SplitValue,
) -> Made | None:
    """Each rank has its columns; those that fill up the last block get no gradient, whatever is computed of them."""
    a, _, bias = factors
    left, own = splitter.enter(a), None
    if bias is not None:
        if splitter.free(bias) and not splitter.divides(bias, 0):
            splitter.decide(bias, 0, uneven=True)
        own = splitter.take(bias, 0, uneven=True, parts=of_b.parts)
    (y,) = splitter.made(record.command, [left, of_b.symbol, None if own is None else own.symbol], record)
    split = SplitValue(y, y.spec.rank - 1, of_b.causes, of_b.parts)
    return [replace(split, symbol=splitter.within(split, splitter.spec(record.outputs[0]).shape[-1], 0.0))]


def _summands(
    splitter: GraphSplitter,
    record: ExecSymbol,
    factors: tuple[TensorKey, TensorKey, TensorKey | None],
    inner: tuple[int, int],
) -> Made | None:
    """Each rank has the product of its blocks; the sum of all is whole, and the bias is added to it once."""
    a, b, bias = factors
    left, right = splitter.take(a, inner[0]), splitter.take(b, inner[1])
    if left is None or right is None:
        return None
    (part,) = splitter.made(record.command, [left.symbol, right.symbol, None], record)
    total = Command(LEAVE, GroupAttrs(splitter.group))
    if bias is None:
        return [written(splitter, total, [part], record)]
    splitter.join(bias)
    (y,) = splitter.made(total, [part], record)
    return [written(splitter, add.command, [y, broadcast_to(splitter.graph.symbol(bias), y.shape)], record)]


def _of_rows(
    splitter: GraphSplitter,
    record: ExecSymbol,
    factors: tuple[TensorKey, TensorKey, TensorKey | None],
    of_a: SplitValue | None,
) -> Made | None:
    """A product of our rows, or of our part of a batch of products."""
    a, b, bias = factors
    left, right = splitter.spec(a).rank, splitter.spec(b).rank
    rank = splitter.spec(record.outputs[0]).rank
    if of_a is None:
        return None
    is_batch = of_a.axis < left - 2
    axis = rank - (left - of_a.axis) if is_batch else rank - 2
    place = axis - (rank - right)
    if is_batch and place >= 0 and splitter.spec(b).shape[place] > 1:
        other = splitter.take(b, place)
        if other is None:
            return None
        second = other.symbol
    else:
        second = splitter.enter(b)
    third = None if bias is None else splitter.enter(bias)
    (y,) = splitter.made(record.command, [of_a.symbol, second, third], record)
    return [SplitValue(y, axis, of_a.causes)]


def _looked_up(splitter: GraphSplitter, record: ExecSymbol) -> Made | None:
    """Rows of a table whose rows are split are summed over ranks, of which one has each; features stay split."""
    table, index = _given(record)
    weight, axis = splitter.free(table), record.command.attrs.axis
    if weight is not None and axis == 0 and splitter.spec(table).rank == 2 and splitter.pays_alone(table):
        column = weight.request == "column"
        splitter.decide(table, int(column), causes=column, uneven=not column)
    split = splitter.split_of(table)
    if split is None:
        return None
    splitter.join(index)
    if split.axis != axis:
        (y,) = splitter.made(record.command, [split.symbol, splitter.graph.symbol(index)], record)
        behind = split.axis if split.axis < axis else split.axis + splitter.spec(index).rank - 1
        return [SplitValue(y, behind, split.causes)]
    if axis or table not in splitter.weights:
        return None
    attrs = RankBlockAttrs(splitter.group, 0, splitter.spec(table).shape[0])
    own, inside = splitter.graph.apply(Command(OWN_ROWS, attrs), [splitter.graph.symbol(index)])
    (rows,) = splitter.made(record.command, [split.symbol, own], record)
    behind = rows.spec.rank - own.spec.rank
    mask = broadcast_to(reshape(inside, (*inside.shape, *(1,) * behind)), rows.shape)
    part = where(mask, rows, scalar_like(rows, 0.0))
    return [written(splitter, Command(LEAVE, GroupAttrs(splitter.group)), [part], record)]


def _broadcast(splitter: GraphSplitter, record: ExecSymbol) -> Made | None:
    (x,) = _given(record)
    split, spec = splitter.split_of(x, parts=True), splitter.spec(record.outputs[0])
    if split is None:
        return None
    axis = split.axis + spec.rank - splitter.spec(x).rank
    command = Command(BROADCAST_TO, BroadcastAttrs(splitter.block_spec(spec, axis).shape))
    return [replace(split, symbol=splitter.made(command, [split.symbol], record)[0], axis=axis)]


def _transposed(splitter: GraphSplitter, record: ExecSymbol) -> Made | None:
    split = splitter.split_of(_given(record)[0], parts=True)
    if split is None:
        return None
    attrs: TransposeAttrs = record.command.attrs
    (y,) = splitter.made(record.command, [split.symbol], record)
    return [replace(split, symbol=y, axis=attrs.permutation.index(split.axis))]


def _concatenated(splitter: GraphSplitter, record: ExecSymbol) -> Made | None:
    place = _first_split(splitter, record)
    if place is None or place[0] == record.command.attrs.axis:
        return None
    splits = [splitter.take(key, place[0]) for key in _given(record)]
    if not all(splits):
        return None
    symbols = [split.symbol for split in splits if split is not None]
    return [SplitValue(splitter.made(record.command, symbols, record)[0], place[0], _causes(splits))]


def _reduced(splitter: GraphSplitter, record: ExecSymbol) -> Made | None:
    """Over axes that are whole."""
    (x,) = _given(record)
    split, attrs, rank = splitter.split_of(x), record.command.attrs, splitter.spec(x).rank
    axes = {axis % max(rank, 1) for axis in attrs.axes}
    if split is None or split.axis in axes or not axes:
        return None
    axis = split.axis if attrs.keepdims else split.axis - sum(axis < split.axis for axis in axes)
    return [SplitValue(splitter.made(record.command, [split.symbol], record)[0], axis, split.causes)]


def _attention(splitter: GraphSplitter, record: ExecSymbol) -> Made | None:
    """q, k and v[batch, steps, heads, width] by their heads; one head of keys and values is that of all ranks."""
    *operands, mask = record.inputs
    split = next((each for each in map(splitter.split_of, _given(record)[:3]) if each is not None), None)
    if split is None or split.axis != 2:
        return None
    symbols, splits = list[Symbol | None](), list[SplitValue]()
    for place, key in enumerate(operands):
        assert key is not None
        if place and splitter.spec(key).shape[2] == 1:
            symbols.append(splitter.enter(key))
            continue
        own = splitter.take(key, 2)
        if own is None:
            return None
        splits.append(own)
        symbols.append(own.symbol)
    if mask is None:
        symbols.append(None)
    elif splitter.spec(mask).shape[1] == 1:
        symbols.append(splitter.enter(mask))
    else:
        own = splitter.take(mask, 1)
        if own is None:
            return None
        symbols.append(own.symbol)
    y, scores = splitter.made(record.command, symbols, record)
    return [SplitValue(y, 2, _causes(splits)), SplitValue(scores, 1, _causes(splits))]


def _kept(splitter: GraphSplitter, record: ExecSymbol) -> Made | None:
    """Updates written into a cache that is split as they are."""
    cache, places, updates = _given(record)
    split = splitter.split_of(updates)
    if split is None or split.axis == record.command.attrs.axis:
        return None
    old, own = splitter.adopt(cache, split.axis), splitter.take(places, split.axis)
    if old is None or own is None:
        return None
    (y,) = splitter.made(record.command, [old.symbol, own.symbol, split.symbol], record)
    return [SplitValue(y, split.axis, split.causes)]


def _cached_attention(splitter: GraphSplitter, record: ExecSymbol) -> Made | None:
    """By heads, over what is kept of the same ones."""
    *heads, positions, k_scale, v_scale, starts = record.inputs
    keys = (*heads, k_scale, v_scale)
    splits = [None if key is None else splitter.take(key, 2) for key in keys]
    if any(split is None and key is not None for split, key in zip(splits, keys, strict=True)):
        return None
    whole = [key for key in (positions, starts) if key is not None]
    for key in whole:
        splitter.join(key)
    own = [None if split is None else split.symbol for split in splits]
    first, *others = [splitter.graph.symbol(key) for key in whole]
    inputs = [*own[:3], first, *own[3:], others[0] if others else None]
    return [SplitValue(splitter.made(record.command, inputs, record)[0], 2, _causes(splits))]


def _turned(splitter: GraphSplitter, record: ExecSymbol) -> Made | None:
    """Heads by angles of steps."""
    x, angles = _given(record)
    split = splitter.split_of(x)
    if split is None or split.axis != 2 or splitter.spec(x).rank != 4:
        return None
    splitter.join(angles)
    (y,) = splitter.made(record.command, [split.symbol, splitter.graph.symbol(angles)], record)
    return [SplitValue(y, 2, split.causes)]


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **dict.fromkeys(("softmax", "log_softmax"), _softmax),
        **dict.fromkeys(("cast", "copy", "where"), _elementwise),
        **dict.fromkeys(("layer_norm", "rms_norm"), _normalized),
        **dict.fromkeys(("reduce_max", "reduce_min"), _reduced),
        **dict.fromkeys(("reduce_sum", "reduce_mean"), _summed),
        "argmax": _position,
        "attention": _attention,
        "broadcast_to": _broadcast,
        "cached_attention": _cached_attention,
        "concatenate": _concatenated,
        "dropout": _dropout,
        "gemm": _product,
        "index_select": _looked_up,
        "rotary": _turned,
        "scatter": _kept,
        "softmax_cross_entropy": _cross_entropy,
        "transfer": _elementwise,
        "transpose": _transposed,
    }
)
