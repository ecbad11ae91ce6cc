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

Where the size of the input is said, as in `nn.LSTM(8, 16)`, it is PyTorch's layer (`sized_recurrent`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

from nnc.arguments import Count, Share, checked
from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.dtype import BOOL
from nnc.errors import ArityError, ShapeError
from nnc.nn.layers.initializers import glorot_uniform, zeros
from nnc.nn.layers.layer import MultiLayer, Scope, T, require_rank
from nnc.nn.modules.recurrent_directions import (
    StepMask,
    at_place,
    direction,
    gru_sequences,
    lstm_sequences,
    rnn_sequences,
)
from nnc.nn.modules.sized_recurrent import SizedGRU, SizedLSTM, SizedRecurrent, SizedRNN
from nnc.ops import RecurrentWeights, concatenate, dropout, reshape, transpose
from nnc.ops.movement.fill import FILL, FillAttrs
from nnc.ops.sequence.recurrent import Activation

__all__ = ["GRU", "LSTM", "RNN"]

# Options that PyTorch's layers alone have.
SIZED = frozenset({"input_size", "batch_first"})


@dataclass(frozen=True, slots=True)
class Recurrent(MultiLayer):
    """`layers` of `units` on top of each other; in training a share `dropout` of what one hands on is dropped."""

    gates: ClassVar[int]
    sized: ClassVar[type[SizedRecurrent]]
    states: ClassVar[int] = 1
    state_bias: ClassVar[bool] = False

    units: Count
    layers: Count = 1
    bidirectional: bool = False
    dropout: Share = 0.0
    return_sequences: bool = True
    return_state: bool = False

    def __new__(cls, *sizes: Any, **options: Any) -> Any:  # noqa: ANN401  # this layer, or that of the sizes
        """PyTorch's layer where the size of the input is said."""
        if len(sizes) > 1 or not SIZED.isdisjoint(options) or (sizes and "hidden_size" in options):
            return cls.sized(*sizes, **options)
        return object.__new__(cls)

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
                sequence, ends = direction(y, weights, first[len(last)], reverse, mask, self._sequences)
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

    def _parted(self, inputs: tuple[T, ...]) -> tuple[T, StepMask[T] | None, list[tuple[T, ...]]]:
        """x, the mask, and the first states of each layer and direction: zeros unless given."""
        name, (x, *others) = type(self).__name__, inputs
        require_rank(name, x, 3, "batch, steps, features")
        mask = None
        if others and others[0].spec.dtype is BOOL:
            given = others.pop(0)
            if given.shape != x.shape[:2]:
                raise ShapeError(name, got=f"x={x.spec}, mask={given.spec}", need=f"a mask {list(x.shape[:2])}")
            mask = StepMask(transpose(given, (1, 0)))
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
        return x, mask, [tuple(at_place(state, 1, row) for state in others) for row in rows]

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
    >>> y, h = nn.RNN(3, 4)(nnc.ones((5, 2, 3)))
    >>> y.shape, h.shape
    ((5, 2, 4), (1, 2, 4))
    """

    sized = SizedRNN
    gates = 1
    activation: Literal["tanh", "relu"] = "tanh"

    if TYPE_CHECKING:

        @overload
        def __init__(
            self,
            units: Count,
            *,
            layers: Count = 1,
            bidirectional: bool = False,
            dropout: Share = 0.0,
            return_sequences: bool = True,
            return_state: bool = False,
            activation: Literal["tanh", "relu"] = "tanh",
        ) -> None: ...
        @overload
        def __init__(
            self,
            input_size: Count,
            hidden_size: Count,
            num_layers: Count = 1,
            nonlinearity: Literal["tanh", "relu"] = "tanh",
            bias: bool = True,
            batch_first: bool = False,
            dropout: Share = 0.0,
            bidirectional: bool = False,
        ) -> None: ...
        def __init__(self, *sizes: Any, **options: Any) -> None: ...

    def _sequences(self, z: T, weights: RecurrentWeights[T], states: Sequence[T], reverse: bool) -> tuple[T, ...]:
        return rnn_sequences(z, weights, states, reverse, Activation(self.activation))


@checked
@dataclass(frozen=True, slots=True)
class GRU(Recurrent):
    """h = (1 - s) · n + s · h₋ with gates r, s and the candidate n (Cho et al. 2014), as PyTorch and Keras have it.

    >>> nn.GRU(4, bidirectional=True)(nnc.ones((2, 5, 3))).shape
    (2, 5, 8)
    >>> y, h = nn.GRU(3, 4, num_layers=2, batch_first=True)(nnc.ones((2, 5, 3)))
    >>> y.shape, h.shape
    ((2, 5, 4), (2, 2, 4))
    """

    sized = SizedGRU
    gates = 3
    state_bias = True

    if TYPE_CHECKING:

        @overload
        def __init__(
            self,
            units: Count,
            *,
            layers: Count = 1,
            bidirectional: bool = False,
            dropout: Share = 0.0,
            return_sequences: bool = True,
            return_state: bool = False,
        ) -> None: ...
        @overload
        def __init__(
            self,
            input_size: Count,
            hidden_size: Count,
            num_layers: Count = 1,
            bias: bool = True,
            batch_first: bool = False,
            dropout: Share = 0.0,
            bidirectional: bool = False,
        ) -> None: ...
        def __init__(self, *sizes: Any, **options: Any) -> None: ...

    def _sequences(self, z: T, weights: RecurrentWeights[T], states: Sequence[T], reverse: bool) -> tuple[T, ...]:
        return gru_sequences(z, weights, states, reverse)


@checked
@dataclass(frozen=True, slots=True)
class LSTM(Recurrent):
    """c = f · c₋ + i · g;  h = o · tanh c: long short-term memory (Hochreiter & Schmidhuber 1997).

    >>> nn.LSTM(4)(nnc.ones((2, 5, 3))).shape
    (2, 5, 4)
    >>> nn.LSTM(4, return_sequences=False)(nnc.ones((2, 5, 3))).shape
    (2, 4)
    >>> y, (h, c) = nn.LSTM(3, 4, batch_first=True)(nnc.ones((2, 5, 3)))
    >>> y.shape, h.shape, c.shape
    ((2, 5, 4), (1, 2, 4), (1, 2, 4))
    """

    sized = SizedLSTM
    gates = 4
    states = 2

    if TYPE_CHECKING:

        @overload
        def __init__(
            self,
            units: Count,
            *,
            layers: Count = 1,
            bidirectional: bool = False,
            dropout: Share = 0.0,
            return_sequences: bool = True,
            return_state: bool = False,
        ) -> None: ...
        @overload
        def __init__(
            self,
            input_size: Count,
            hidden_size: Count,
            num_layers: Count = 1,
            bias: bool = True,
            batch_first: bool = False,
            dropout: Share = 0.0,
            bidirectional: bool = False,
        ) -> None: ...
        def __init__(self, *sizes: Any, **options: Any) -> None: ...

    def _sequences(self, z: T, weights: RecurrentWeights[T], states: Sequence[T], reverse: bool) -> tuple[T, ...]:
        return lstm_sequences(z, weights, states, reverse)


for _layer, _sized in ((RNN, SizedRNN), (GRU, SizedGRU), (LSTM, SizedLSTM)):
    # So that `isinstance(layer, nn.LSTM)` holds for both.
    _layer.register(_sized)


def _side_by_side(states: Sequence[T]) -> T:
    """[batch, states, units]"""
    return concatenate([reshape(state, (state.shape[0], 1, state.shape[1])) for state in states], 1)
