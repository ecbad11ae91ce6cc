"""Cells under Keras' names, one step each: `RNN(cell)` steps them through a sequence by `nnc.scan`.

A cell of your own is a layer with `state_size`, whose `call(inputs, states)` gives (output, states).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from nnc import numerics as n
from nnc.arguments import Count, Share, checked
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.tensor import as_array
from nnc.dynamic.transforms.control_flow import scan
from nnc.dynamic.transforms.randomness import dropout
from nnc.dynamic.tree import flatten
from nnc.errors import ArgumentError
from nnc.keras import activations, initializers
from nnc.keras.engine.base_layer import Layer
from nnc.keras.layers.core import as_float

__all__ = ["GRUCell", "LSTMCell", "RNN", "SimpleRNNCell", "StackedRNNCells"]

States = Sequence[Any]
Stepped = tuple[Any, tuple[Any, ...]]


def lstm_step(z: Any, c: Any, activation: Any, gate: Any) -> Stepped:
    """c = f · c₋ + i · g;  h = o · act(c), of z = x · kernel + h₋ · recurrent + bias, gates in the order i, f, g, o."""
    i, f, g, o = n.split(z, 4, axis=-1)
    c = gate(f) * c + gate(i) * activation(g)
    h = gate(o) * activation(c)
    return h, (h, c)


def gru_step(
    z: Any, states: States, recurrent: Any, activation: Any, gate: Any, kept: Any, bias: Any = None, behind: bool = True
) -> Stepped:
    """h = u · h₋ + (1 - u) · act(x + r · h₋ · recurrent), gates u, r, h; r before the product unless `behind`."""
    (h,) = states
    xu, xr, xh = n.split(z, 3, axis=-1)
    units, known = h.shape[-1], h * kept
    if behind:
        inner = known @ recurrent
        u, r, new = n.split(inner if bias is None else inner + bias, 3, axis=-1)
        update, new = gate(xu + u), xh + gate(xr + r) * new
    else:
        u, r = n.split(known @ recurrent[:, : 2 * units], 2, axis=-1)
        update, new = gate(xu + u), xh + (gate(xr + r) * known) @ recurrent[:, 2 * units :]
    h = update * h + (1 - update) * activation(new)
    return h, (h,)


def rnn_step(z: Any, states: States, recurrent: Any, activation: Any, kept: Any) -> Stepped:
    """h = act(x · kernel + bias + h₋ · recurrent)"""
    h = activation(z + (states[0] * kept) @ recurrent)
    return h, (h,)


def stepped(step: Callable[[Any, Any], Stepped], first: Sequence[Any], rows: Any, real: Any = None) -> Stepped:
    """y[steps, …] of rows[steps, …], and the last states; a step that is not `real`[steps, batch] keeps them."""

    def turn(states: Any, row: Any) -> Any:
        x, own = row if real is not None else (row, None)
        y, news = step(x, states)
        if own is not None:
            news = tuple(_where(own, new, old) for new, old in zip(news, states, strict=True))
            y = _where(own, y, n.zeros(y.shape, dtype=y.dtype))
        return tuple(news), y

    ends, y = scan(turn, tuple(first), rows if real is None else (rows, real))
    return y, tuple(ends)


def _where(real: Any, new: Any, old: Any) -> Any:
    return n.where(n.reshape(real, (real.shape[0], *(1,) * (new.ndim - 1))), new, old)


@checked
class _Cell(Layer):
    gates: ClassVar[int]
    states: ClassVar[int] = 1

    def __init__(
        self,
        units: Count,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        dropout: Share = 0.0,
        recurrent_dropout: Share = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.units, self.use_bias = units, use_bias
        self.activation, self.gate = activations.get(activation), activations.get(recurrent_activation)
        self.starts = kernel_initializer, recurrent_initializer, bias_initializer
        self.rates = dropout, recurrent_dropout

    @property
    def state_size(self) -> Any:
        """Sizes of the states."""
        return self.units if self.states == 1 else [self.units] * self.states

    def make_weights(self, input_shape: Any) -> None:
        wide = self.gates * self.units
        self.kernel = self.add_weight((input_shape[-1], wide), self.starts[0], name="kernel")
        self.recurrent_kernel = self.add_weight((self.units, wide), self.starts[1], name="recurrent_kernel")
        if self.use_bias:
            self.bias = self.add_weight(*self.first_bias(), name="bias")

    def first_bias(self) -> tuple[tuple[int, ...], Any]:
        """Its shape, and how it begins."""
        return (self.gates * self.units,), self.starts[2]

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        """The output of a step, and the states behind it."""
        x = as_float(inputs)
        x, kept = (dropout(x, self.rates[0]) if training and self.rates[0] else x), 1.0
        if training and self.rates[1]:
            kept = dropout(n.ones(states[0].shape, dtype=x.dtype), self.rates[1])
        y, news = self.step(x @ self.kernel, list(states), kept)
        return y, list(news)

    def step(self, z: Any, states: list[Any], kept: Any) -> Stepped:
        """One step."""
        raise NotImplementedError


@checked
class LSTMCell(_Cell):
    """A step of `LSTM`: the states are h and c."""

    gates, states = 4, 2

    def __init__(self, units: Count, *args: Any, unit_forget_bias: bool = True, **options: Any) -> None:
        super().__init__(units, *args, **options)
        self.unit_forget_bias = unit_forget_bias

    def first_bias(self) -> tuple[tuple[int, ...], Any]:
        shape, start = super().first_bias()
        return shape, forget_ones(start, self.units) if self.unit_forget_bias else start

    def step(self, z: Any, states: list[Any], kept: Any) -> Stepped:
        z = z + self.bias if self.use_bias else z
        z = z + (states[0] * kept) @ self.recurrent_kernel
        return lstm_step(z, states[1], self.activation, self.gate)


def forget_ones(start: Any, units: int) -> Callable[[tuple[int, ...]], Any]:
    """A bias that is 1 for the forget gate, and else begins as `start` says."""

    def values(shape: tuple[int, ...]) -> Any:
        draw = initializers.get(start)
        assert draw is not None
        drawn = as_array(draw(shape)).copy()
        drawn[units : 2 * units] = 1.0
        return drawn

    return values


@checked
class GRUCell(_Cell):
    """A step of `GRU`."""

    gates = 3

    def __init__(self, units: Count, *args: Any, reset_after: bool = True, **options: Any) -> None:
        super().__init__(units, *args, **options)
        self.reset_after = reset_after

    def first_bias(self) -> tuple[tuple[int, ...], Any]:
        return (2, 3 * self.units) if self.reset_after else (3 * self.units,), self.starts[2]

    def step(self, z: Any, states: list[Any], kept: Any) -> Stepped:
        outer: Any = self.bias if self.use_bias else None
        inner: Any = None
        if self.use_bias and self.reset_after:
            outer, inner = self.bias[0], self.bias[1]
        z = z if outer is None else z + outer
        weights = self.recurrent_kernel, self.activation, self.gate
        return gru_step(z, states, *weights, kept, inner, self.reset_after)


@checked
class SimpleRNNCell(_Cell):
    """A step of `SimpleRNN`."""

    gates = 1

    def __init__(self, units: Count, activation: Any = "tanh", use_bias: bool = True, **options: Any) -> None:
        super().__init__(units, activation, "sigmoid", use_bias, **options)

    def step(self, z: Any, states: list[Any], kept: Any) -> Stepped:
        z = z + self.bias if self.use_bias else z
        return rnn_step(z, states, self.recurrent_kernel, self.activation, kept)


@checked
class StackedRNNCells(Layer):
    """Cells one above another; the states of all stand one behind the other."""

    def __init__(self, cells: Sequence[Any], **options: Any) -> None:
        super().__init__(**options)
        self.cells = list(cells)

    @property
    def state_size(self) -> list[int]:
        """Sizes of the states."""
        return [size for cell in self.cells for size in sizes_of(cell)]

    def call(self, inputs: Any, states: Any) -> Any:
        """The output of a step of the last cell, and the states behind it."""
        news: list[Any] = []
        left = list(states)
        for cell in self.cells:
            count = len(sizes_of(cell))
            inputs, own = cell(inputs, left[:count])
            left = left[count:]
            news.extend(own if isinstance(own, list | tuple) else [own])
        return inputs, news


def sizes_of(cell: Any) -> list[Any]:
    """The sizes of the states of a cell."""
    size = getattr(cell, "state_size", None)
    if size is None:
        fix = "self.state_size = units in its __init__"
        raise ArgumentError("RNN", got=type(cell).__name__, need="cells", fix=fix, origin=caller_origin())
    return list(size) if isinstance(size, list | tuple) else [size]


@checked
class RNN(Layer):
    """A cell, or several one above another, stepped through x[batch, steps, …].

    >>> from nnc import keras
    >>> keras.layers.RNN(keras.layers.LSTMCell(4))(n.ones((2, 5, 3))).shape
    (2, 4)
    """

    def __init__(
        self,
        cell: Any,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        unroll: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.cell = StackedRNNCells(cell) if isinstance(cell, list | tuple) else cell
        self.return_sequences, self.return_state, self.go_backwards = return_sequences, return_state, go_backwards
        sizes_of(self.cell)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Steps stay masked where there are steps."""
        return previous_mask if self.return_sequences and not self.return_state else None

    def call(self, sequence: Any, initial_state: Any = None, mask: Any = None) -> Any:
        """The last output, or all of them; with `return_state` the last states too."""
        x = n.moveaxis(as_float(sequence), 1, 0)
        real = None if mask is None else n.transpose(mask, (1, 0))
        if self.go_backwards:
            x, real = n.flip(x, axis=0), None if real is None else n.flip(real, axis=0)
        first = [state for state in flatten(initial_state)[0] if state is not None] or self.first_states(x)
        # Once before the loop, which makes the weights: in it they would be values of a turn.
        self.cell.ensure_built((x[0],)) if isinstance(self.cell, _Cell) else self.cell(x[0], first)

        def step(row: Any, states: Any) -> Stepped:
            y, news = self.cell(row, list(states))
            return y, tuple(news) if isinstance(news, list | tuple) else (news,)

        y, ends = stepped(step, first, x, real)
        output = n.moveaxis(y, 0, 1) if self.return_sequences else ends[0] if real is not None else y[-1]
        return (output, *self.hung(ends)) if self.return_state else output

    def hung(self, states: Sequence[Any]) -> list[Any]:
        """The states as they hang together: those of each cell, where several stand above one another."""
        if not isinstance(self.cell, StackedRNNCells):
            return list(states)
        left, groups = list(states), []
        for cell in self.cell.cells:
            count = len(sizes_of(cell))
            groups.append(left[0] if count == 1 else left[:count])
            left = left[count:]
        return groups

    def first_states(self, x: Any) -> list[Any]:
        """States of zeros for x[steps, batch, …]."""
        shapes = [tuple(size) if isinstance(size, list | tuple) else (size,) for size in sizes_of(self.cell)]
        return [n.zeros((x.shape[1], *shape), dtype=x.dtype) for shape in shapes]
