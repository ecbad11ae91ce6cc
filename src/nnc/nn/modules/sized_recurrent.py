"""Recurrent layers as PyTorch has them: `nn.LSTM(8, 16, num_layers=2, batch_first=True)`, which gives (y, (h, c)).

Inputs are [steps, batch, features], with `batch_first` [batch, steps, features], or [steps, features] of one example;
states are [layers · directions, batch, units]. What gates compute is in `recurrent_layers`. Tensors have PyTorch's
names (`weight_ih_l0`, `bias_hh_l1_reverse`), lie as there, [gates · units, in], and are made with the layer, uniform
in ±1/√units.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from nnc.arguments import Count, Share, checked_as
from nnc.core.values.spec import Shape
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.transforms.randomness import dropout as dropped
from nnc.errors import ShapeError
from nnc.nn.modules.module import Module
from nnc.nn.modules.packed_sequence import PackedSequence
from nnc.nn.modules.recurrent_directions import (
    StepMask,
    direction,
    gru_sequences,
    lstm_sequences,
    rnn_sequences,
)
from nnc.nn.modules.starting_values import start_uniform_tensors
from nnc.ops import RecurrentWeights, broadcast_to, concatenate, stack
from nnc.ops.movement.fill import scalar_like
from nnc.ops.sequence.recurrent import Activation

# States of all layers and directions: one array, or two for LSTM.
States: TypeAlias = tuple[ArrayOperand, ...]


class SizedRecurrent(Module):
    """`num_layers` of `hidden_size` units on top of each other, for inputs of `input_size` features."""

    branches_in_training: ClassVar[bool] = False
    gates: ClassVar[int]
    states: ClassVar[int] = 1
    name: ClassVar[str]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, dropout, bidirectional
        wide = self.gates * hidden_size
        shapes: dict[str, Shape] = {}
        for layer in range(num_layers):
            inputs = hidden_size * (1 + bidirectional) if layer else input_size
            for end in self._ends(layer):
                shapes |= {f"weight_ih_{end}": (wide, inputs), f"weight_hh_{end}": (wide, hidden_size)}
                shapes |= {f"bias_ih_{end}": (wide,), f"bias_hh_{end}": (wide,)} if bias else {}
        start_uniform_tensors(self, shapes, hidden_size)

    @abstractmethod
    def _sequences(
        self, z: ArrayOperand, weights: RecurrentWeights[ArrayOperand], states: Sequence[ArrayOperand], reverse: bool
    ) -> States:
        """The states of all steps from the products z."""

    def _biases(self, end: str, like: ArrayOperand) -> tuple[ArrayOperand | None, ArrayOperand | None]:
        """What is added to products of the input, both biases, and to those of the state where that differs."""
        return getattr(self, f"bias_ih_{end}") + getattr(self, f"bias_hh_{end}") if self.bias else None, None

    def _ends(self, layer: int) -> list[str]:
        """What the names of a layer's tensors end with, for each direction."""
        return [f"l{layer}", f"l{layer}_reverse"][: 1 + self.bidirectional]

    def forward(self, input: Any, hx: Any = None) -> Any:  # noqa: ANN401  # arrays, packed ones, and states
        """(y, h), or (y, (h, c)): outputs of all steps, and what each layer and direction ends with."""
        packed = isinstance(input, PackedSequence)
        y, alone = self._steps_first(input.steps if packed else input, packed)
        mask = StepMask(input.mask) if packed else None
        y = y if mask is None else mask.real(y)
        first = self._first_states(hx, y, alone)
        last: list[States] = []
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                y = dropped(y, self.dropout)
            parts = []
            for reverse, end in enumerate(self._ends(layer)):
                weights = self._weights(end, y)
                start = tuple(state[len(last)] for state in first)
                sequence, ends = direction(y, weights, start, bool(reverse), mask, self._sequences)
                parts.append(sequence)
                last.append(ends)
            y = parts[0] if len(parts) == 1 else concatenate(parts, 2)
        states = tuple(stack([ends[place] for ends in last], 0) for place in range(self.states))
        if alone:
            y, states = y[:, 0], tuple(state[:, 0] for state in states)
        elif self.batch_first and not packed:
            y = y.swapaxes(0, 1)
        return PackedSequence(y, input.mask) if packed else y, states if len(states) > 1 else states[0]

    def _steps_first(self, x: ArrayOperand, packed: bool) -> tuple[ArrayOperand, bool]:
        """x as [steps, batch, features], and whether it was one example."""
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            axes = "[batch, steps, features]" if self.batch_first else "[steps, batch, features]"
            fix = f"nn.{self.name}({x.shape[-1] if x.ndim else 1}, {self.hidden_size}); nn.{self.name}(units) finds it"
            raise ShapeError(self.name, got=f"x={x.spec}", need=f"{axes} of {self.input_size} features", fix=fix)
        if x.ndim == 2:
            return x.expand_dims(1), True
        return x.swapaxes(0, 1) if self.batch_first and not packed else x, False

    def _first_states(self, given: Any, x: ArrayOperand, alone: bool) -> States:  # noqa: ANN401  # arrays
        """[layers · directions, batch, units] each; zeros unless given."""
        shape = (self.num_layers * (1 + self.bidirectional), x.shape[1], self.hidden_size)
        if given is None:
            return (broadcast_to(scalar_like(x, 0.0).reshape(1, 1, 1), shape),) * self.states
        states = tuple(given) if isinstance(given, tuple | list) else (given,)
        states = tuple(state.expand_dims(1) for state in states) if alone else states
        if len(states) != self.states or any(state.shape != shape for state in states):
            got, need = ", ".join(str(state.spec) for state in states), f"{self.states} of {list(shape)}"
            raise ShapeError(self.name, got=f"first states {got}", need=f"{need} [layers · directions, batch, units]")
        return states

    def _weights(self, end: str, like: ArrayOperand) -> RecurrentWeights[ArrayOperand]:
        bias, state_bias = self._biases(end, like)
        w, u = (getattr(self, f"weight_{part}_{end}").T for part in ("ih", "hh"))
        return RecurrentWeights(w, u, bias, state_bias)

    def flatten_parameters(self) -> None:
        """Nothing: weights lie as kernels read them."""

    def __repr__(self) -> str:
        options = f", num_layers={self.num_layers}" if self.num_layers > 1 else ""
        options += ", batch_first=True" if self.batch_first else ""
        options += ", bidirectional=True" if self.bidirectional else ""
        return f"{self.name}({self.input_size}, {self.hidden_size}{options})"


@checked_as("RNN")
class SizedRNN(SizedRecurrent):
    """h = tanh or relu of x · weight_ih + bias_ih + h₋ · weight_hh + bias_hh"""

    gates, name = 1, "RNN"

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
    ) -> None:
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)

    def _sequences(
        self, z: ArrayOperand, weights: RecurrentWeights[ArrayOperand], states: Sequence[ArrayOperand], reverse: bool
    ) -> States:
        return rnn_sequences(z, weights, states, reverse, Activation(self.nonlinearity))


@checked_as("GRU")
class SizedGRU(SizedRecurrent):
    """h = (1 - s) · n + s · h₋ with gates r, s and the candidate n, whose product of the state is gated by r"""

    gates, name = 3, "GRU"

    def __init__(
        self,
        input_size: Count,
        hidden_size: Count,
        num_layers: Count = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: Share = 0.0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)

    def _sequences(
        self, z: ArrayOperand, weights: RecurrentWeights[ArrayOperand], states: Sequence[ArrayOperand], reverse: bool
    ) -> States:
        return gru_sequences(z, weights, states, reverse)

    def _biases(self, end: str, like: ArrayOperand) -> tuple[ArrayOperand | None, ArrayOperand | None]:
        if self.bias:
            return getattr(self, f"bias_ih_{end}"), getattr(self, f"bias_hh_{end}")
        return None, broadcast_to(scalar_like(like, 0.0).reshape(1), (3 * self.hidden_size,))


@checked_as("LSTM")
class SizedLSTM(SizedRecurrent):
    """c = f · c₋ + i · g;  h = o · tanh c, gates i, f, g, o of x · weight_ih + bias_ih + h₋ · weight_hh + bias_hh"""

    gates, states, name = 4, 2, "LSTM"

    def __init__(
        self,
        input_size: Count,
        hidden_size: Count,
        num_layers: Count = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: Share = 0.0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)

    def _sequences(
        self, z: ArrayOperand, weights: RecurrentWeights[ArrayOperand], states: Sequence[ArrayOperand], reverse: bool
    ) -> States:
        return lstm_sequences(z, weights, states, reverse)
