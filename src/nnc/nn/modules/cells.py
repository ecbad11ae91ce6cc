"""One step of a recurrent network, as PyTorch has it: `h, c = nn.LSTMCell(8, 16)(x, (h, c))` of x[batch, features].

Tensors have PyTorch's names (`weight_ih`, `bias_hh`), lie as there, [gates · units, in], and are uniform in ±1/√units.
A state that is left out is zeros; without a batch x is [features].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

from nnc.arguments import Count, checked
from nnc.core.values.spec import Shape
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.errors import ShapeError
from nnc.nn.modules.module import Module
from nnc.nn.modules.starting_values import start_uniform_tensors
from nnc.ops import broadcast_to, gemm, relu, sigmoid, tanh
from nnc.ops.movement.fill import scalar_like

__all__ = ["GRUCell", "LSTMCell", "RNNCell"]


def lstm_step(
    sums: Sequence[ArrayOperand],
    c: ArrayOperand,
    activation: Callable[..., Any] = tanh,
    gate: Callable[..., Any] = sigmoid,
) -> tuple[ArrayOperand, ArrayOperand]:
    """(h', c') of the sums of the gates i, f, g, o: c' = gate(f) · c + gate(i) · act(g);  h' = gate(o) · act(c')."""
    i, f, g, o = sums
    c = gate(f) * c + gate(i) * activation(g)
    return gate(o) * activation(c), c


class _Cell(Module):
    """What the cells share: two products, of the input and of the state."""

    branches_in_training: ClassVar[bool] = False
    gates: ClassVar[int]

    def __init__(self, input_size: Count, hidden_size: Count, bias: bool) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        wide = self.gates * hidden_size
        shapes: dict[str, Shape] = {"weight_ih": (wide, input_size), "weight_hh": (wide, hidden_size)}
        start_uniform_tensors(self, shapes | ({"bias_ih": (wide,), "bias_hh": (wide,)} if bias else {}), hidden_size)

    def _rows(self, x: ArrayOperand) -> ArrayOperand:
        """x with a batch."""
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            kind = type(self).__name__
            need = f"[batch, features] of {self.input_size} features"
            fix = f"nn.{kind}({x.shape[-1] if x.ndim else 1}, {self.hidden_size})"
            raise ShapeError(kind, got=f"x={x.spec}", need=need, fix=fix)
        return x if x.ndim == 2 else x.expand_dims(0)

    def _state(self, given: Any, rows: ArrayOperand) -> ArrayOperand:  # noqa: ANN401  # an array or None
        if given is None:
            return broadcast_to(scalar_like(rows, 0.0), (rows.shape[0], self.hidden_size))
        state: ArrayOperand = given if given.ndim == 2 else given.expand_dims(0)
        if state.shape != (rows.shape[0], self.hidden_size):
            got, need = f"a state {given.spec}", f"[{rows.shape[0]}, {self.hidden_size}]"
            raise ShapeError(type(self).__name__, got=got, need=need)
        return state

    def _products(self, rows: ArrayOperand, state: ArrayOperand) -> tuple[list[ArrayOperand], list[ArrayOperand]]:
        """Those of the input and those of the state, gate by gate."""
        of_input = gemm(rows, self.weight_ih, self.bias_ih if self.bias else None, transpose_b=True)
        of_state = gemm(state, self.weight_hh, self.bias_hh if self.bias else None, transpose_b=True)
        return list(of_input.chunk(self.gates, 1)), list(of_state.chunk(self.gates, 1))


@checked
class RNNCell(_Cell):
    """h' = tanh(x · weight_ih + bias_ih + h · weight_hh + bias_hh), or relu of it.

    >>> nn.RNNCell(3, 4)(nnc.ones((2, 3))).shape
    (2, 4)
    """

    gates = 1

    def __init__(
        self,
        input_size: Count,
        hidden_size: Count,
        bias: bool = True,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
    ) -> None:
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, bias)

    def forward(self, input: Any, hx: Any = None) -> Any:  # noqa: ANN401  # arrays
        """The next state."""
        rows = self._rows(input)
        (z,), (m,) = self._products(rows, self._state(hx, rows))
        h = tanh(z + m) if self.nonlinearity == "tanh" else relu(z + m)
        return h if input.ndim == 2 else h[0]


@checked
class GRUCell(_Cell):
    """h' = (1 - s) · n + s · h, gates r, s and the candidate n = tanh(x part + r · state part).

    >>> nn.GRUCell(3, 4)(nnc.ones((2, 3))).shape
    (2, 4)
    """

    gates = 3

    def __init__(self, input_size: Count, hidden_size: Count, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size, bias)

    def forward(self, input: Any, hx: Any = None) -> Any:  # noqa: ANN401  # arrays
        """The next state."""
        rows = self._rows(input)
        state = self._state(hx, rows)
        z, m = self._products(rows, state)
        reset, kept = sigmoid(z[0] + m[0]), sigmoid(z[1] + m[1])
        candidate = tanh(z[2] + reset * m[2])
        h = candidate + kept * (state - candidate)
        return h if input.ndim == 2 else h[0]


@checked
class LSTMCell(_Cell):
    """(h', c'): c' = f · c + i · g;  h' = o · tanh c', gates i, f, g, o.

    >>> h, c = nn.LSTMCell(3, 4)(nnc.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    gates = 4

    def __init__(self, input_size: Count, hidden_size: Count, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size, bias)

    def forward(self, input: Any, hx: Any = None) -> Any:  # noqa: ANN401  # arrays
        """The next states."""
        rows = self._rows(input)
        h, c = (self._state(state, rows) for state in (hx if hx is not None else (None, None)))
        z, m = self._products(rows, h)
        h, c = lstm_step([first + second for first, second in zip(z, m, strict=True)], c)
        return (h, c) if input.ndim == 2 else (h[0], c[0])
