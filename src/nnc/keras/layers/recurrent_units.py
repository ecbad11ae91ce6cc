"""Recurrent layers under Keras' names: weights, defaults and orders of gates are Keras'; the loops are nnc's.

A masked step keeps the state. Its output is zero, where Keras repeats the last one: layers behind skip it either way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from nnc import numerics as n
from nnc.arguments import Count, Share
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.errors import ArgumentError, ShapeError
from nnc.keras import activations
from nnc.keras.engine.base_layer import Layer
from nnc.keras.layers.core import as_float
from nnc.keras.layers.gates import Gated, GRUGates, LSTMGates, RNNGates, dropped_ones, in_time, stepped
from nnc.keras.named import refused
from nnc.nn.modules.recurrent_directions import StepMask, direction, gru_sequences, lstm_sequences, rnn_sequences
from nnc.ops import RecurrentWeights
from nnc.ops.sequence.recurrent import Activation

__all__ = ["Bidirectional", "GRU", "LSTM", "SimpleRNN"]


class _Recurrent(Gated):
    def __init__(
        self,
        units: Count,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        dropout: Share = 0.0,
        recurrent_dropout: Share = 0.0,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        **options: Any,
    ) -> None:
        starts = kernel_initializer, recurrent_initializer, bias_initializer
        super().__init__(units, activation, recurrent_activation, use_bias, *starts, **options)
        if stateful:
            fix = "return_state=True, and initial_state of the next call"
            raise refused(type(self).__name__, "stateful", stateful, fix)
        self.rates, self.go_backwards = (dropout, recurrent_dropout), go_backwards
        self.return_sequences, self.return_state = return_sequences, return_state
        self.penalties = kernel_regularizer, recurrent_regularizer

    @property
    def is_plain(self) -> bool:
        """Whether the loops of nnc have its functions, tanh and sigmoid; others are stepped through by `nnc.scan`."""
        return self.functions == (activations.tanh, activations.sigmoid)

    def make_weights(self, input_shape: Any) -> None:
        if len(input_shape) != 3:
            raise ShapeError(type(self).__name__, got=f"{input_shape}", need="3 dimensions [batch, steps, features]")
        super().make_weights(input_shape)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Steps stay masked where there are steps."""
        return previous_mask if self.return_sequences and not self.return_state else None

    def call(self, sequence: Any, initial_state: Any = None, mask: Any = None, training: bool = False) -> Any:
        """Of x[batch, steps, features] the last output, or all of them; with `return_state` the last states too."""
        x = as_float(sequence)
        if training and self.rates[0]:
            x = x * dropped_ones((x.shape[0], 1, x.shape[2]), x.dtype, self.rates[0], training)
        given = initial_state if isinstance(initial_state, list | tuple) else [initial_state]
        first = tuple(state for state in given if state is not None)
        if len(first) not in (0, self.states):
            raise ArgumentError(type(self).__name__, got=f"{len(first)} first states", need=f"{self.states}")
        first = first or (n.zeros((x.shape[0], self.units), dtype=x.dtype, device=x.device),) * self.states
        steps, real = n.transpose(x, (1, 0, 2)), None
        if mask is not None:
            real = StepMask(n.transpose(mask, (1, 0)))
            steps = real.real(steps)
        kept = dropped_ones((x.shape[0], self.units), x.dtype, self.rates[1], training)
        if self.is_plain and not isinstance(kept, ArrayOperand):
            y, ends = direction(steps, self._weights(), first, self.go_backwards, real, self._sequences)
        else:
            y, ends = self._stepped(steps, first, kept, mask)
        output = ends[0]
        if self.return_sequences:
            output = n.transpose(y, (1, 0, 2))
            output = n.flip(output, axis=1) if self.go_backwards else output
        return (output, *ends) if self.return_state else output

    def _stepped(self, steps: Any, first: Any, kept: Any, mask: Any) -> Any:
        """All outputs in the order of the steps, and the last states, by any functions."""
        rows, real = in_time(steps, mask, self.go_backwards)
        y, ends = stepped(lambda z, states: self.step(z, states, kept), first, rows @ self.kernel, real)
        return (n.flip(y, axis=0) if self.go_backwards else y), ends

    def _weights(self) -> RecurrentWeights[Any]:
        bias = (
            self.bias
            if self.use_bias
            else n.zeros(self.kernel.shape[1:], dtype=self.kernel.dtype, device=self.kernel.device)
        )
        return RecurrentWeights(self.kernel, self.recurrent_kernel, bias, None)

    def _sequences(self, z: Any, weights: Any, states: Any, reverse: bool) -> Any:
        raise NotImplementedError


class LSTM(_Recurrent, LSTMGates):
    """c = f · c₋ + i · g;  h = o · tanh c, gates in the order i, f, g, o; the forget gate's bias begins at 1.

    >>> from nnc import keras
    >>> keras.layers.LSTM(4)(n.ones((2, 5, 3))).shape
    (2, 4)
    >>> keras.layers.LSTM(4, return_sequences=True)(n.ones((2, 5, 3))).shape
    (2, 5, 4)
    """

    def __init__(
        self,
        units: Count,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        unit_forget_bias: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(
            units, activation, recurrent_activation, use_bias, kernel_initializer, recurrent_initializer,
            bias_initializer, **options,
        )  # fmt: skip
        self.unit_forget_bias = unit_forget_bias

    def _sequences(self, z: Any, weights: Any, states: Any, reverse: bool) -> Any:
        return lstm_sequences(z, weights, states, reverse)


class GRU(_Recurrent, GRUGates):
    """h = z · h₋ + (1 - z) · tanh(x + r · h₋ · recurrent_kernel), gates in the order z, r, h; bias[2, 3 · units]."""

    def __init__(self, units: Count, *args: Any, reset_after: bool = True, **options: Any) -> None:
        super().__init__(units, *args, **options)
        self.reset_after = reset_after

    @property
    def is_plain(self) -> bool:
        return self.reset_after and super().is_plain

    def _weights(self) -> RecurrentWeights[Any]:
        # The loops have r before z.
        bias = (
            self.bias
            if self.use_bias
            else n.zeros((2, 3 * self.units), dtype=self.kernel.dtype, device=self.kernel.device)
        )
        kernel, recurrent, bias = map(self._reset_first, (self.kernel, self.recurrent_kernel, bias))
        return RecurrentWeights(kernel, recurrent, bias[0], bias[1])

    def _reset_first(self, weight: Any) -> Any:
        u = self.units
        return n.concatenate([weight[:, u : 2 * u], weight[:, :u], weight[:, 2 * u :]], axis=1)

    def _sequences(self, z: Any, weights: Any, states: Any, reverse: bool) -> Any:
        return gru_sequences(z, weights, states, reverse)


class SimpleRNN(_Recurrent, RNNGates):
    """h = tanh(x · kernel + h₋ · recurrent_kernel + bias), or another function of it."""

    def __init__(self, units: Count, activation: Any = "tanh", use_bias: bool = True, **options: Any) -> None:
        super().__init__(units, activation, "sigmoid", use_bias, **options)

    @property
    def is_plain(self) -> bool:
        """Whether it is tanh or relu."""
        return self.functions[0] in (activations.tanh, activations.relu)

    def _sequences(self, z: Any, weights: Any, states: Any, reverse: bool) -> Any:
        return rnn_sequences(
            z, weights, states, reverse, Activation("relu" if self.functions[0] is activations.relu else "tanh")
        )


MERGED: dict[str, Callable[[Any, Any], Any]] = {
    "concat": lambda y, z: n.concatenate([y, z], axis=-1),
    "sum": lambda y, z: y + z,
    "ave": lambda y, z: (y + z) / 2,
    "mul": lambda y, z: y * z,
}


class Bidirectional(Layer):
    """A recurrent layer and one like it that goes backwards; `merge_mode` "concat", "sum", "ave", "mul", or None.

    >>> from nnc import keras
    >>> keras.layers.Bidirectional(keras.layers.LSTM(4))(n.ones((2, 5, 3))).shape
    (2, 8)
    """

    def __init__(
        self,
        layer: Layer,
        merge_mode: Literal["concat", "sum", "ave", "mul"] | None = "concat",
        weights: Any = None,
        backward_layer: Layer | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if not isinstance(layer, _Recurrent):
            got, need = type(layer).__name__, "LSTM, GRU or SimpleRNN"
            raise ArgumentError("Bidirectional", got=got, need=need)
        self.forward_layer, self.merge_mode = layer, merge_mode
        config = {**layer.get_config(), "go_backwards": not layer.go_backwards, "name": f"backward_{layer.name}"}
        self.backward_layer = type(layer).from_config(config) if backward_layer is None else backward_layer
        self.return_sequences, self.return_state = layer.return_sequences, layer.return_state

    def make_weights(self, input_shape: Any) -> None:
        self.forward_layer.build(input_shape)
        self.backward_layer.build(input_shape)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Steps stay masked where there are steps."""
        return previous_mask if self.return_sequences and not self.return_state else None

    def call(self, sequence: Any, initial_state: Any = None, mask: Any = None) -> Any:
        """Both directions side by side."""
        states = list(initial_state or ())
        half = len(states) // 2
        ahead = _apart(self.forward_layer(sequence, initial_state=states[:half] or None, mask=mask))
        back = _apart(self.backward_layer(sequence, initial_state=states[half:] or None, mask=mask))
        y, z = ahead[0], back[0]
        z = n.flip(z, axis=1) if self.return_sequences else z
        merged: Any = (y, z)
        if self.merge_mode is not None:
            merged = MERGED[self.merge_mode](y, z)
        if not self.return_state:
            return merged
        return (*(merged if isinstance(merged, tuple) else (merged,)), *ahead[1:], *back[1:])


def _apart(given: Any) -> tuple[Any, ...]:
    return given if isinstance(given, tuple) else (given,)
