"""What recurrent layers and cells share: weights of some gates, one step of them, and the loop over steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from nnc import numerics as n
from nnc.arguments import Count, checked
from nnc.core.values.tensor import as_array
from nnc.dynamic.transforms.control_flow import scan
from nnc.dynamic.transforms.randomness import dropout
from nnc.keras import activations, initializers
from nnc.keras.engine.base_layer import Layer
from nnc.nn.modules.cells import lstm_step

States = Sequence[Any]
Stepped = tuple[Any, tuple[Any, ...]]


def stepped(step: Callable[[Any, Any], Stepped], first: States, rows: Any, real: Any = None) -> Stepped:
    """y[steps, …] of rows[steps, …], and the last states; a step that is not `real`[steps, batch] keeps them."""

    def turn(states: Any, row: Any) -> Any:
        x, own = row if real is not None else (row, None)
        y, news = step(x, states)
        if own is not None:
            news = tuple(_where(own, new, old) for new, old in zip(news, states, strict=True))
            y = _where(own, y, n.zeros_like(y))
        return tuple(news), y

    ends, y = scan(turn, tuple(first), rows if real is None else (rows, real))
    return y, tuple(ends)


def _where(real: Any, new: Any, old: Any) -> Any:
    return n.where(n.reshape(real, (real.shape[0], *(1,) * (new.ndim - 1))), new, old)


def in_time(rows: Any, mask: Any, backwards: bool) -> tuple[Any, Any]:
    """rows[steps, batch, …] and the mask[batch, steps] beside them, in the order in which they are stepped through."""
    real = None if mask is None else n.transpose(mask, (1, 0))
    if not backwards:
        return rows, real
    return n.flip(rows, axis=0), None if real is None else n.flip(real, axis=0)


def forget_ones(start: Any, units: int) -> Callable[[tuple[int, ...]], Any]:
    """A bias that is 1 for the forget gate, and else begins as `start` says."""

    def values(shape: tuple[int, ...]) -> Any:
        draw = initializers.get(start)
        assert draw is not None
        drawn = as_array(draw(shape)).copy()
        drawn[units : 2 * units] = 1.0
        return drawn

    return values


def dropped_ones(shape: Sequence[int], dtype: Any, rate: float, training: bool) -> Any:
    """What scales values of which the same ones are dropped at all steps; 1 where nothing is."""
    return dropout(n.ones(tuple(shape), dtype=dtype), rate) if training and rate else 1.0


@checked
class Gated(Layer):
    """A kernel and a recurrent kernel of `gates` · units columns, with a bias."""

    gates: ClassVar[int]
    states: ClassVar[int] = 1
    penalties: tuple[Any, Any] = (None, None)
    functions: tuple[Any, Any]

    def __init__(
        self,
        units: Count,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.units, self.use_bias = units, use_bias
        self.functions = activations.get(activation), activations.get(recurrent_activation)
        self.starts = kernel_initializer, recurrent_initializer, bias_initializer

    def make_weights(self, input_shape: Any) -> None:
        rows = ("kernel", input_shape[-1]), ("recurrent_kernel", self.units)
        for (name, size), start, penalty in zip(rows, self.starts, self.penalties):
            self.add_weight((size, self.gates * self.units), start, regularizer=penalty, name=name)
        if self.use_bias:
            self.add_weight(*self.first_bias(), name="bias")

    def first_bias(self) -> tuple[tuple[int, ...], Any]:
        """Its shape, and how it begins."""
        return (self.gates * self.units,), self.starts[2]

    def biased(self, z: Any) -> Any:
        """z = x · kernel, with the bias."""
        return z + self.bias if self.use_bias else z

    def step(self, z: Any, states: States, kept: Any) -> Stepped:
        """One step of z = x · kernel, of whose states `kept` scales what is fed back."""
        raise NotImplementedError


class LSTMGates(Gated):
    """c = f · c₋ + i · g;  h = o · act(c), gates in the order i, f, g, o."""

    gates, states = 4, 2
    unit_forget_bias: bool

    def first_bias(self) -> tuple[tuple[int, ...], Any]:
        shape, start = super().first_bias()
        return shape, forget_ones(start, self.units) if self.unit_forget_bias else start

    def step(self, z: Any, states: States, kept: Any) -> Stepped:
        z = self.biased(z) + (states[0] * kept) @ self.recurrent_kernel
        h, c = lstm_step(n.split(z, 4, axis=-1), states[1], *self.functions)
        return h, (h, c)


class GRUGates(Gated):
    """h = u · h₋ + (1 - u) · act(x + r · h₋ · recurrent), gates u, r, h; without `reset_after` r before the product."""

    gates = 3
    reset_after: bool

    def first_bias(self) -> tuple[tuple[int, ...], Any]:
        return (2, 3 * self.units) if self.reset_after else (3 * self.units,), self.starts[2]

    def biased(self, z: Any) -> Any:
        return z + (self.bias[0] if self.reset_after else self.bias) if self.use_bias else z

    def step(self, z: Any, states: States, kept: Any) -> Stepped:
        activation, gate = self.functions
        xu, xr, xh = n.split(self.biased(z), 3, axis=-1)
        wide, known = 2 * self.units, states[0] * kept
        if self.reset_after:
            inner = known @ self.recurrent_kernel
            u, r, new = n.split(inner + self.bias[1] if self.use_bias else inner, 3, axis=-1)
            update, new = gate(xu + u), xh + gate(xr + r) * new
        else:
            u, r = n.split(known @ self.recurrent_kernel[:, :wide], 2, axis=-1)
            update, new = gate(xu + u), xh + (gate(xr + r) * known) @ self.recurrent_kernel[:, wide:]
        h = update * states[0] + (1 - update) * activation(new)
        return h, (h,)


class RNNGates(Gated):
    """h = act(x · kernel + bias + h₋ · recurrent)"""

    gates = 1

    def step(self, z: Any, states: States, kept: Any) -> Stepped:
        h = self.functions[0](self.biased(z) + (states[0] * kept) @ self.recurrent_kernel)
        return h, (h,)
