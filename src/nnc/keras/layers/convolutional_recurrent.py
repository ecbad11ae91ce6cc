"""LSTM whose products are convolutions, under Keras' names, over [batch, steps, spatial…, channels]."""

from __future__ import annotations

from typing import Any

from nnc import numerics as n
from nnc.arguments import Count, Share
from nnc.keras import activations
from nnc.keras.layers.convolutional import Padding, WindowedLayer
from nnc.keras.layers.core import as_float
from nnc.keras.layers.gates import Stepped, dropped_ones, forget_ones, in_time, stepped
from nnc.keras.layers.spatial import Sizes, window_over
from nnc.nn.modules.cells import lstm_step
from nnc.ops import convolution

__all__ = ["ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"]


class _ConvLSTM(WindowedLayer):
    """c = f · c₋ + i · g;  h = o · act(c), of z = x ∗ kernel + h₋ ∗ recurrent_kernel + bias."""

    other_axes = 3

    def __init__(
        self,
        filters: Count,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Padding = "valid",
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        unit_forget_bias: bool = True,
        dropout: Share = 0.0,
        recurrent_dropout: Share = 0.0,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(kernel_size, strides, padding, dilation_rate, data_format, activation, use_bias, **options)
        self.filters, self.functions = filters, (self.activation, activations.get(recurrent_activation))
        self.starts = kernel_initializer, recurrent_initializer, bias_initializer
        self.unit_forget_bias, self.rates = unit_forget_bias, (dropout, recurrent_dropout)
        self.return_sequences, self.return_state, self.go_backwards = return_sequences, return_state, go_backwards

    def make_weights(self, input_shape: Any) -> None:
        wide = 4 * self.filters
        self.kernel = self.add_weight((*self.kernel_size, input_shape[-1], wide), self.starts[0], name="kernel")
        shape = (*self.kernel_size, self.filters, wide)
        self.recurrent_kernel = self.add_weight(shape, self.starts[1], name="recurrent_kernel")
        if self.use_bias:
            start = forget_ones(self.starts[2], self.filters) if self.unit_forget_bias else self.starts[2]
            self.bias = self.add_weight((wide,), start, name="bias")

    def call(self, sequence: Any, initial_state: Any = None, mask: Any = None, training: bool = False) -> Any:
        """The last output, or all of them; with `return_state` h and c too."""
        x = as_float(sequence)
        batch, steps = x.shape[:2]
        if training and self.rates[0]:
            x = x * dropped_ones((batch, 1, *x.shape[2:]), x.dtype, self.rates[0], training)
        flat = n.reshape(x, (batch * steps, *x.shape[2:]))
        z = self._product(flat, self.kernel, self.strides, self.padding, self.dilation_rate)
        z = z + self.bias if self.use_bias else z
        rows, real = in_time(n.moveaxis(n.reshape(z, (batch, steps, *z.shape[1:])), 1, 0), mask, self.go_backwards)
        first = list(
            initial_state or [n.zeros((batch, *z.shape[1:-1], self.filters), dtype=x.dtype, device=x.device)] * 2
        )
        kept = dropped_ones(first[0].shape, x.dtype, self.rates[1], training)

        def step(row: Any, states: Any) -> Stepped:
            ones = (1,) * self.rank
            inner = self._product(states[0] * kept, self.recurrent_kernel, ones, "same", ones)
            h, c = lstm_step(n.split(row + inner, 4, axis=-1), states[1], *self.functions)
            return h, (h, c)

        y, ends = stepped(step, first, rows, real)
        output = n.moveaxis(y, 0, 1) if self.return_sequences else ends[0]
        return (output, *ends) if self.return_state else output

    def _product(self, x: Any, kernel: Any, strides: Any, padding: str, dilations: Any) -> Any:
        extents = self.kernel_size
        if self.rank == 1:
            # Pictures of one row.
            x, kernel, extents = n.expand_dims(x, 1), n.expand_dims(kernel, 0), (1, *extents)
            strides, dilations = (1, *strides), (1, *dilations)
        y = convolution(x, kernel, None, window=window_over(x.shape[1:-1], extents, strides, padding, dilations))
        return y[:, 0] if self.rank == 1 else y


class ConvLSTM1D(_ConvLSTM, rank=1):
    """Over steps of [steps, channels]."""


class ConvLSTM2D(_ConvLSTM, rank=2):
    """Over steps that are images.

    >>> from nnc import keras
    >>> keras.layers.ConvLSTM2D(2, 3, padding="same")(n.ones((1, 3, 4, 4, 1))).shape
    (1, 4, 4, 2)
    """


class ConvLSTM3D(_ConvLSTM, rank=3):
    """Over steps of depth, height and width."""
