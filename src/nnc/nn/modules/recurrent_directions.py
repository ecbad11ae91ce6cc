"""One direction of a recurrent layer over x[steps, batch, features], with a mask or without, and what cells compute.

A mask[steps, batch] of bool says which steps are real. Real steps are moved together before a direction runs, and
outputs moved back: the loops know no masks. A masked step keeps the state, and its output is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Generic, TypeAlias

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.dtype import I32
from nnc.nn.layers.layer import T
from nnc.ops import (
    RecurrentWeights,
    add,
    affine,
    broadcast_to,
    cast,
    clamp,
    cumsum,
    equal,
    gather,
    gemm,
    reduce_sum,
    reshape,
    slice_axis,
    sort,
    where,
)
from nnc.ops.movement.fill import scalar_like
from nnc.ops.sequence import recurrent as ops

# The states of all steps, [steps, batch, units] each, from the products z[steps, batch, gates · units].
Sequences: TypeAlias = Callable[[T, RecurrentWeights[T], Sequence[T], bool], tuple[T, ...]]


def rnn_sequences(
    z: T, weights: RecurrentWeights[T], states: Sequence[T], reverse: bool, activation: ops.Activation
) -> tuple[T, ...]:
    """h"""
    return z.apply(Command(ops.RNN, ops.RnnAttrs(activation, reverse)), (z, weights.u, *states))


def gru_sequences(z: T, weights: RecurrentWeights[T], states: Sequence[T], reverse: bool) -> tuple[T, ...]:
    """h"""
    return z.apply(Command(ops.GRU, ops.RecurrentAttrs(reverse)), (z, weights.u, *states, weights.state_bias))[:1]


def lstm_sequences(z: T, weights: RecurrentWeights[T], states: Sequence[T], reverse: bool) -> tuple[T, ...]:
    """h, c"""
    return z.apply(Command(ops.LSTM, ops.RecurrentAttrs(reverse)), (z, weights.u, *states))[:2]


def direction(
    x: T,
    weights: RecurrentWeights[T],
    first: tuple[T, ...],
    reverse: bool,
    mask: StepMask[T] | None,
    sequences_of: Sequences[T],
) -> tuple[T, tuple[T, ...]]:
    """y[steps, batch, units] of one direction, and the states it ends with."""
    if mask is None:
        sequences = sequences_of(gemm(x, weights.w, weights.bias), weights, first, reverse)
        end = 0 if reverse else x.shape[0] - 1
        return sequences[0], tuple(at_place(sequence, 0, end) for sequence in sequences)
    moved = mask.together(x, reverse)
    sequences = sequences_of(gemm(moved, weights.w, weights.bias), weights, first, reverse)
    ends = tuple(mask.last(*pair, reverse) for pair in zip(sequences, first, strict=True))
    return mask.apart(sequences[0], reverse), ends


@dataclass(frozen=True, eq=False)
class StepMask(Generic[T]):
    """mask[steps, batch]: real steps are moved to where a direction begins, in their order.

    A direction that goes forwards begins at step 0, the other one at the last step.
    """

    mask: T

    @cached_property
    def number(self) -> T:
        """How many steps up to this one are real, [steps, batch]."""
        return cumsum(cast(self.mask, I32), 0)

    @cached_property
    def count(self) -> T:
        """Real steps of each example, [1, batch]."""
        return reduce_sum(cast(self.mask, I32), (0,), keepdims=True)

    def real(self, x: T) -> T:
        """x[steps, batch, features] with zeros where nothing is real: whatever stands there is read by nobody."""
        return where(along(self.mask, x), x, scalar_like(x, 0.0))

    def together(self, x: T, reverse: bool) -> T:
        """Real steps first, or last for the direction that begins there."""
        steps = self.mask.shape[0]
        key = affine(cast(self.mask, I32), float(steps if reverse else -steps))
        moment = cumsum(affine(key, 0.0, 1.0), 0)
        return gather(x, along(cast(sort(add(key, moment), 0)[1], I32), x), 0)

    def apart(self, y: T, reverse: bool) -> T:
        """Outputs at the steps they belong to, zeros elsewhere."""
        return self.real(gather(y, along(self._inside(self.number, reverse), y), 0))

    def last(self, sequence: T, first: T, reverse: bool) -> T:
        """The state after the last real step that the direction comes to; the first state where no step is real."""
        number = affine(self.count, 0.0, 1.0) if reverse else self.count
        wide = slice_axis(sequence, 0, 0, 1)
        steps = gather(sequence, along(self._inside(number, reverse), wide), 0)
        empty = equal(self.count, scalar_like(self.count, 0.0))
        return where(at_place(along(empty, wide), 0, 0), first, at_place(steps, 0, 0))

    def _inside(self, number: T, reverse: bool) -> T:
        """Where the real step of this number (from 1) was moved to; some place for those that are not real."""
        steps = self.mask.shape[0]
        place = affine(number, 1.0, -1.0)
        if reverse:
            place = add(place, broadcast_to(affine(self.count, -1.0, float(steps)), place.shape))
        return clamp(place, 0.0, float(steps - 1))


def along(x: T, like: T) -> T:
    """x[steps, batch] for each feature."""
    return broadcast_to(reshape(x, (*x.shape, 1)), (*x.shape, like.shape[-1]))


def at_place(x: T, axis: int, index: int) -> T:
    """x at one place of an axis, a view."""
    return reshape(slice_axis(x, axis, index, index + 1), (*x.shape[:axis], *x.shape[axis + 1 :]))
