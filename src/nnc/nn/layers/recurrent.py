"""Recurrent layers over [batch, steps, features], with masks, initial states and both directions.

RNN    h = tanh(z + h₋ · state_weight) or relu,  z = x · input_weight + bias
GRU    m = h₋ · state_weight + state_bias;  r, s = σ(z + m);  n = tanh(z + r · m);  h = (1 - s) · n + s · h₋
LSTM   i, f, g, o = σ, σ, tanh, σ of z + h₋ · state_weight;  c = f · c₋ + i · g;  h = o · tanh c

Layers of any depth give y[batch, steps, units], with both directions y[batch, steps, 2 · units], forwards first;
without `return_sequences` what each direction ends with, y[batch, units]. With `return_state` the last states follow,
h and for LSTM c, [batch, layers · directions, units] in PyTorch's order. Further inputs are, in this order and each
where it is wanted, a mask[batch, steps] of bool and the first states (both of LSTM), of the shape of the last ones.

A step that is masked keeps the state, and its output is zero, as in PyTorch's packed sequences; it may stand anywhere.
Real steps are moved together before a direction runs, and outputs moved back: the loops know no masks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar, Generic, Literal

from nnc.arguments import Count, Share, checked
from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.dtype import BOOL, I32
from nnc.errors import ArityError, ShapeError
from nnc.nn.layers.initializers import glorot_uniform, zeros
from nnc.nn.layers.layer import MultiLayer, Scope, T, require_rank
from nnc.ops import (
    RecurrentWeights,
    add,
    affine,
    broadcast_to,
    cast,
    clamp,
    concatenate,
    cumsum,
    dropout,
    equal,
    gather,
    gemm,
    reduce_sum,
    reshape,
    slice_axis,
    sort,
    transpose,
    where,
)
from nnc.ops.movement.fill import FILL, FillAttrs, scalar_like
from nnc.ops.sequence import recurrent as ops

__all__ = ["GRU", "LSTM", "RNN"]


@dataclass(frozen=True, slots=True)
class Recurrent(MultiLayer):
    """`layers` of `units` on top of each other; in training a share `dropout` of what one hands on is dropped."""

    gates: ClassVar[int]
    states: ClassVar[int] = 1
    state_bias: ClassVar[bool] = False

    units: Count
    layers: Count = 1
    bidirectional: bool = False
    dropout: Share = 0.0
    return_sequences: bool = True
    return_state: bool = False

    @abstractmethod
    def _sequences(self, z: T, weights: RecurrentWeights[T], states: Sequence[T], reverse: bool) -> tuple[T, ...]:
        """The states of all steps, [steps, batch, units] each, from the products z[steps, batch, gates · units]."""

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to `x`[batch, steps, features], a mask and first states."""
        x, mask, first = self._parted(inputs)
        y = transpose(x, (1, 0, 2))
        if mask is not None:
            y = mask.real(y)
        last: list[tuple[T, ...]] = []
        for layer in range(self.layers):
            inside = scope.inside(str(layer))
            y = self._dropped(inside, y) if layer else y
            parts = []
            for reverse in (False, True)[: 1 + self.bidirectional]:
                weights = self._weights(inside.inside("reverse") if reverse else inside, y)
                sequence, ends = self._direction(y, weights, first[len(last)], reverse, mask)
                parts.append(sequence)
                last.append(ends)
            y = parts[0] if len(parts) == 1 else concatenate(parts, 2)
        output = transpose(y, (1, 0, 2))
        if not self.return_sequences:
            ends_of_top = [ends[0] for ends in last[-1 - self.bidirectional :]]
            output = ends_of_top[0] if len(ends_of_top) == 1 else concatenate(ends_of_top, 1)
        if not self.return_state:
            return (output,)
        return (output, *(_side_by_side([ends[state] for ends in last]) for state in range(self.states)))

    def _parted(self, inputs: tuple[T, ...]) -> tuple[T, _Mask[T] | None, list[tuple[T, ...]]]:
        """x, the mask, and the first states of each layer and direction: zeros unless given."""
        name, (x, *others) = type(self).__name__, inputs
        require_rank(name, x, 3, "batch, steps, features")
        mask = None
        if others and others[0].spec.dtype is BOOL:
            given = others.pop(0)
            if given.shape != x.shape[:2]:
                raise ShapeError(name, got=f"x={x.spec}, mask={given.spec}", need=f"a mask {list(x.shape[:2])}")
            mask = _Mask(transpose(given, (1, 0)))
        if len(others) not in (0, self.states):
            need = f"x, a mask (bool) where there is one, and {self.states} first states or none"
            raise ArityError(name, got=", ".join(str(operand.spec) for operand in inputs), need=need)
        shape = (x.shape[0], self.layers * (1 + self.bidirectional), self.units)
        wanted = replace(x.spec, shape=shape)
        if any(state.spec != wanted for state in others):
            got = ", ".join(str(state.spec) for state in others)
            raise ShapeError(name, got=got, need=f"first states {wanted} [batch, layers · directions, units]")
        if not others:
            zeros = x.apply(Command(FILL, FillAttrs(0.0, replace(x.spec, shape=(shape[0], self.units)))), ())[0]
            return x, mask, [(zeros,) * self.states] * shape[1]
        rows = range(shape[1])
        return x, mask, [tuple(_place(state, 1, row) for state in others) for row in rows]

    def _direction(
        self, x: T, weights: RecurrentWeights[T], first: tuple[T, ...], reverse: bool, mask: _Mask[T] | None
    ) -> tuple[T, tuple[T, ...]]:
        """y[steps, batch, units] of one direction, and the states it ends with."""
        if mask is None:
            sequences = self._sequences(gemm(x, weights.w, weights.bias), weights, first, reverse)
            end = 0 if reverse else x.shape[0] - 1
            return sequences[0], tuple(_place(sequence, 0, end) for sequence in sequences)
        moved = mask.together(x, reverse)
        sequences = self._sequences(gemm(moved, weights.w, weights.bias), weights, first, reverse)
        ends = tuple(mask.last(*pair, reverse) for pair in zip(sequences, first, strict=True))
        return mask.apart(sequences[0], reverse), ends

    def _weights(self, scope: Scope[T], x: T) -> RecurrentWeights[T]:
        wide = self.gates * self.units
        return RecurrentWeights(
            scope.parameter("input_weight", (x.shape[-1], wide), x, glorot_uniform),
            scope.parameter("state_weight", (self.units, wide), x, glorot_uniform),
            scope.parameter("bias", (wide,), x, zeros),
            scope.parameter("state_bias", (wide,), x, zeros) if self.state_bias else None,
        )

    def _dropped(self, scope: Scope[T], y: T) -> T:
        stream = scope.stream() if self.dropout else None
        return y if stream is None else dropout(y, stream[0], self.dropout, seed=stream[1])


@checked
@dataclass(frozen=True, slots=True)
class RNN(Recurrent):
    """h = tanh(x · input_weight + h₋ · state_weight + bias), or relu of it (Elman 1990).

    >>> nn.RNN(4)(nnc.ones((2, 5, 3))).shape
    (2, 5, 4)
    """

    gates = 1
    activation: Literal["tanh", "relu"] = "tanh"

    def _sequences(self, z: T, weights: RecurrentWeights[T], states: Sequence[T], reverse: bool) -> tuple[T, ...]:
        attrs = ops.RnnAttrs(ops.Activation(self.activation), reverse)
        return z.apply(Command(ops.RNN, attrs), (z, weights.u, *states))


@checked
@dataclass(frozen=True, slots=True)
class GRU(Recurrent):
    """h = (1 - s) · n + s · h₋ with gates r, s and the candidate n (Cho et al. 2014), as PyTorch and Keras have it.

    >>> nn.GRU(4, bidirectional=True)(nnc.ones((2, 5, 3))).shape
    (2, 5, 8)
    """

    gates = 3
    state_bias = True

    def _sequences(self, z: T, weights: RecurrentWeights[T], states: Sequence[T], reverse: bool) -> tuple[T, ...]:
        command = Command(ops.GRU, ops.RecurrentAttrs(reverse))
        return z.apply(command, (z, weights.u, *states, weights.state_bias))[:1]


@checked
@dataclass(frozen=True, slots=True)
class LSTM(Recurrent):
    """c = f · c₋ + i · g;  h = o · tanh c: long short-term memory (Hochreiter & Schmidhuber 1997).

    >>> nn.LSTM(4)(nnc.ones((2, 5, 3))).shape
    (2, 5, 4)
    >>> nn.LSTM(4, return_sequences=False)(nnc.ones((2, 5, 3))).shape
    (2, 4)
    """

    gates = 4
    states = 2

    def _sequences(self, z: T, weights: RecurrentWeights[T], states: Sequence[T], reverse: bool) -> tuple[T, ...]:
        return z.apply(Command(ops.LSTM, ops.RecurrentAttrs(reverse)), (z, weights.u, *states))[:2]


@dataclass(frozen=True, eq=False)
class _Mask(Generic[T]):
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
        return where(_along(self.mask, x), x, scalar_like(x, 0.0))

    def together(self, x: T, reverse: bool) -> T:
        """Real steps first, or last for the direction that begins there."""
        steps = self.mask.shape[0]
        key = affine(cast(self.mask, I32), float(steps if reverse else -steps))
        moment = cumsum(affine(key, 0.0, 1.0), 0)
        return gather(x, _along(cast(sort(add(key, moment), 0)[1], I32), x), 0)

    def apart(self, y: T, reverse: bool) -> T:
        """Outputs at the steps they belong to, zeros elsewhere."""
        return self.real(gather(y, _along(self._inside(self.number, reverse), y), 0))

    def last(self, sequence: T, first: T, reverse: bool) -> T:
        """The state after the last real step that the direction comes to; the first state where no step is real."""
        number = affine(self.count, 0.0, 1.0) if reverse else self.count
        wide = slice_axis(sequence, 0, 0, 1)
        steps = gather(sequence, _along(self._inside(number, reverse), wide), 0)
        empty = equal(self.count, scalar_like(self.count, 0.0))
        return where(_place(_along(empty, wide), 0, 0), first, _place(steps, 0, 0))

    def _inside(self, number: T, reverse: bool) -> T:
        """Where the real step of this number (from 1) was moved to; some place for those that are not real."""
        steps = self.mask.shape[0]
        place = affine(number, 1.0, -1.0)
        if reverse:
            place = add(place, broadcast_to(affine(self.count, -1.0, float(steps)), place.shape))
        return clamp(place, 0.0, float(steps - 1))


def _along(x: T, like: T) -> T:
    """x[steps, batch] for each feature."""
    return broadcast_to(reshape(x, (*x.shape, 1)), (*x.shape, like.shape[-1]))


def _place(x: T, axis: int, index: int) -> T:
    """x at one place of an axis, a view."""
    return reshape(slice_axis(x, axis, index, index + 1), (*x.shape[:axis], *x.shape[axis + 1 :]))


def _side_by_side(states: Sequence[T]) -> T:
    """[batch, states, units]"""
    return concatenate([reshape(state, (state.shape[0], 1, state.shape[1])) for state in states], 1)
