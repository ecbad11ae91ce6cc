"""Cells under Keras' names, one step each: `RNN(cell)` steps them through a sequence by `nnc.scan`.

A cell of your own is a layer with `state_size`, whose `call(inputs, states)` gives (output, states).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnc import numerics as n
from nnc.arguments import Count, Share
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.transforms.randomness import dropout
from nnc.dynamic.tree import flatten
from nnc.errors import ArgumentError
from nnc.keras.engine.base_layer import Layer
from nnc.keras.layers.core import as_float
from nnc.keras.layers.gates import Gated, GRUGates, LSTMGates, RNNGates, Stepped, dropped_ones, in_time, stepped

__all__ = ["GRUCell", "LSTMCell", "RNN", "SimpleRNNCell", "StackedRNNCells"]


class _Cell(Gated):
    def __init__(
        self, units: Count, *args: Any, dropout: Share = 0.0, recurrent_dropout: Share = 0.0, **options: Any
    ) -> None:
        super().__init__(units, *args, **options)
        self.rates = dropout, recurrent_dropout

    @property
    def state_size(self) -> Any:
        """Sizes of the states."""
        return self.units if self.states == 1 else [self.units] * self.states

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        """The output of a step, and the states behind it."""
        x = as_float(inputs)
        x = dropout(x, self.rates[0]) if training and self.rates[0] else x
        kept = dropped_ones(states[0].shape, x.dtype, self.rates[1], training)
        y, news = self.step(x @ self.kernel, list(states), kept)
        return y, list(news)


class LSTMCell(_Cell, LSTMGates):
    """A step of `LSTM`: the states are h and c."""

    def __init__(self, units: Count, *args: Any, unit_forget_bias: bool = True, **options: Any) -> None:
        super().__init__(units, *args, **options)
        self.unit_forget_bias = unit_forget_bias


class GRUCell(_Cell, GRUGates):
    """A step of `GRU`."""

    def __init__(self, units: Count, *args: Any, reset_after: bool = True, **options: Any) -> None:
        super().__init__(units, *args, **options)
        self.reset_after = reset_after


class SimpleRNNCell(_Cell, RNNGates):
    """A step of `SimpleRNN`."""

    def __init__(self, units: Count, activation: Any = "tanh", use_bias: bool = True, **options: Any) -> None:
        super().__init__(units, activation, "sigmoid", use_bias, **options)


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
        x, real = in_time(n.moveaxis(as_float(sequence), 1, 0), mask, self.go_backwards)
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
        return [n.zeros((x.shape[1], *shape), dtype=x.dtype, device=x.device) for shape in shapes]
