"""What operators make of rows whose columns are split among ranks: logits over a vocabulary, most of all.

Each rank works on its columns, and ranks trade a number or two of each row (Shoeybi et al. 2019):

    softmax_cross_entropy    ln s = ln sum_r e^(ln s_r), s_r = sum_c e^x_r[c]; x[label] of the rank that has it
    softmax, log_softmax     by ln s too
    argmax                   the first of the largest of all ranks
    reduce_sum, reduce_mean  sums of sums

A sum costs a trip: while it is decided what is split, there are rules only for columns of weights that are worth one.
Columns that fill up the last rank's block count for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.dtype import F32
from nnc.ops import (
    add,
    affine,
    broadcast_to,
    cast,
    equal,
    exp,
    gather,
    greater_equal,
    log,
    multiply,
    reduce_max,
    reduce_sum,
    reshape,
    stop_gradient,
    subtract,
    where,
)
from nnc.ops.movement.fill import scalar_like
from nnc.ops.rules import NoAttrs
from nnc.parallel.block_operators import (
    ENTER,
    FIRST_LARGEST,
    JOIN_LOGSUMS,
    LABEL_LOSS,
    LEAVE,
    OWN_LABELS,
    RankBlockAttrs,
)
from nnc.parallel.collectives import GroupAttrs
from nnc.parallel.splitting import GraphSplitter, Made, SplitValue, WriteWhole
from nnc.symbolic import Symbol
from nnc.symbolic.records import ExecSymbol


def columns_of(splitter: GraphSplitter, record: ExecSymbol, axes: Sequence[int] = (-1,)) -> SplitValue | None:
    """Our block of the first operand, where it is split along one of these axes and that is worth trips."""
    key = record.inputs[0]
    assert key is not None
    split, rank = splitter.split_of(key), splitter.spec(key).rank
    if split is None or split.axis not in {axis % rank for axis in axes} or not split.symbol.spec.dtype.is_float:
        return None
    return split if not splitter.deciding or splitter.pays(split) else None


def written(splitter: GraphSplitter, command: AnyCommand, inputs: Sequence[Symbol], record: ExecSymbol) -> WriteWhole:
    """What gives the whole of an output."""
    return lambda y: splitter.write(command, inputs, y, record.name)


def softmax_of_columns(splitter: GraphSplitter, record: ExecSymbol, split: SplitValue) -> Made:
    """y = x - ln s, or e to the power of that."""
    x = _wide(_own(splitter, record, split, -math.inf))
    y = subtract(x, _entered(splitter, _Sums(splitter, x).whole, x))
    y = y if record.command.op.name == "log_softmax" else exp(y)
    return [_result(splitter, record, split, y)]


def cross_entropy_of_columns(splitter: GraphSplitter, record: ExecSymbol, split: SplitValue) -> Made:
    """loss = ln s - x[label]; p = e^(x - ln s), which the gradient reads."""
    labels = record.inputs[1]
    assert labels is not None
    splitter.join(labels)
    x, kind = _own(splitter, record, split, -math.inf), split.symbol.spec.dtype
    wide, graph = _wide(x), splitter.graph
    sums = _Sums(splitter, wide)
    place = RankBlockAttrs(splitter.group, split.axis, _size(splitter, record, split))
    own, known = graph.apply(Command(OWN_LABELS, place), [graph.symbol(labels)])
    mine = greater_equal(own, scalar_like(own, 0))
    index = reshape(where(mine, own, scalar_like(own, 0)), (*own.shape, 1))
    chosen = reshape(gather(wide, index, -1), own.shape)
    (wanted,) = graph.apply(Command(LEAVE, GroupAttrs(splitter.group)), [where(mine, chosen, scalar_like(chosen, 0.0))])
    loss = subtract(reshape(sums.whole, own.shape), wanted)
    loss = cast(where(known, loss, scalar_like(loss, math.nan)), kind)
    share = exp(subtract(sums.shift, sums.whole))
    probability = multiply(sums.powers, _entered(splitter, share, wide))
    inputs = [loss, split.symbol, cast(probability, kind), own]
    total = written(splitter, Command(LABEL_LOSS, NoAttrs()), inputs, record)
    return [total, _result(splitter, record, split, probability)]


def first_largest(splitter: GraphSplitter, record: ExecSymbol, split: SplitValue) -> Made:
    """The first of what is the largest on each rank."""
    attrs = record.command.attrs
    x = _own(splitter, record, split, -math.inf)
    inputs = [reduce_max(x, attrs.axes, keepdims=attrs.keepdims), *splitter.made(record.command, [x], record)]
    place = RankBlockAttrs(splitter.group, split.axis, _size(splitter, record, split))
    return [written(splitter, Command(FIRST_LARGEST, place), inputs, record)]


def sum_of_columns(splitter: GraphSplitter, record: ExecSymbol, split: SplitValue) -> Made:
    """The sum over ranks of each one's sum."""
    key, attrs = record.inputs[0], record.command.attrs
    assert key is not None
    part = reduce_sum(_own(splitter, record, split, 0.0), attrs.axes, keepdims=attrs.keepdims)
    if record.command.op.name == "reduce_mean":
        part = affine(part, 1.0 / math.prod(splitter.spec(key).shape[axis] for axis in attrs.axes))
    return [written(splitter, Command(LEAVE, GroupAttrs(splitter.group)), [part], record)]


class _Sums:
    """ln s of each row and e^(x - shift), which is no larger than 1; rows of -inf alone are no sum."""

    def __init__(self, splitter: GraphSplitter, x: Symbol) -> None:
        largest = stop_gradient(reduce_max(x, -1, keepdims=True))
        nothing = scalar_like(largest, -math.inf)
        empty = equal(largest, nothing)
        self.shift = where(empty, scalar_like(largest, 0.0), largest)
        self.powers = exp(subtract(x, broadcast_to(self.shift, x.shape)))
        total = reduce_sum(self.powers, -1, keepdims=True)
        own = add(log(where(empty, scalar_like(total, 1.0), total)), self.shift)
        (self.whole,) = splitter.graph.apply(
            Command(JOIN_LOGSUMS, GroupAttrs(splitter.group)), [where(empty, nothing, own)]
        )


def _size(splitter: GraphSplitter, record: ExecSymbol, split: SplitValue) -> int:
    """How many columns there are."""
    key = record.inputs[0]
    assert key is not None
    return splitter.spec(key).shape[split.axis]


def _own(splitter: GraphSplitter, record: ExecSymbol, split: SplitValue, filling: float) -> Symbol:
    """Our columns; those that fill up the last block have this value."""
    return splitter.within(split, _size(splitter, record, split), filling)


def _result(splitter: GraphSplitter, record: ExecSymbol, split: SplitValue, y: Symbol) -> SplitValue:
    """Our columns of what is computed; what fills up the last block gets no gradient, which others would see."""
    made = SplitValue(cast(y, split.symbol.spec.dtype), split.axis, split.causes)
    return replace(made, symbol=splitter.within(made, _size(splitter, record, split), 0.0))


def _wide(x: Symbol) -> Symbol:
    """At least f32, as kernels of one rank have it inside."""
    return cast(x, F32) if x.spec.dtype.itemsize < F32.itemsize else x


def _entered(splitter: GraphSplitter, row: Symbol, x: Symbol) -> Symbol:
    """A number of each row, beside our columns."""
    (entered,) = splitter.graph.apply(Command(ENTER, GroupAttrs(splitter.group)), [row])
    return broadcast_to(entered, x.shape)
