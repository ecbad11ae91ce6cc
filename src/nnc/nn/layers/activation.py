"""Activations: functions of nnc.ops as layers.

class ReLU(Activation, of=relu): ...     a row: a function without options is a layer by its name alone
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias

from nnc.arguments import Finite, checked, shown
from nnc.classes import QUIET, dataclass
from nnc.errors import ArgumentError, ShapeError
from nnc.nn.layers.embedding import broadcast_rows
from nnc.nn.layers.initializers import constant
from nnc.nn.layers.layer import Layer, Scope, T
from nnc.ops import (
    abs,
    add,
    affine,
    clamp,
    divide,
    elu,
    gelu,
    gelu_tanh,
    leaky_relu,
    log_softmax,
    multiply,
    relu,
    selu,
    sigmoid,
    slice_axis,
    softmax,
    softplus,
    subtract,
    swish,
    tanh,
    transpose,
)

__all__ = [
    "Clamp", "ELU", "GELU", "GELUTanh", "GLU", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid",
    "LogSoftmax", "Mish", "PReLU", "ReLU", "ReLU6", "SELU", "Sigmoid", "SiLU", "Softmax", "Softplus", "Softsign",
    "Tanh",
]  # fmt: skip


class OperandFunction(Protocol):
    """A function of nnc.ops that takes one operand, of any kind."""

    def __call__(self, x: T, /) -> T: ...


class Activation(Layer):
    """y = f(x): its subclasses say of which function, and are whole with that."""

    __slots__ = ()
    replays: ClassVar[bool] = True
    function: ClassVar[OperandFunction]

    def __init__(self, inplace: bool = False) -> None:
        """`inplace` is PyTorch's, and changes nothing: memory is planned."""

    def __init_subclass__(cls, of: OperandFunction) -> None:
        # As a static method: functions of classes are given the layer first.
        cls.function = staticmethod(of)
        cls.__init__ = Activation.__init__  # type: ignore[method-assign]  # of classes that are made of no text
        dataclass(frozen=True)(cls)
        super().__init_subclass__()

    def build(self, scope: Scope[T], x: T) -> T:
        """The function of `x`."""
        return self.function(x)

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()


class ReLU(Activation, of=relu):
    """y = max(x, 0).

    >>> nn.ReLU()([[2.0]])
    Variable(f32[1, 1], constant)
    [[2.]]
    """


class Sigmoid(Activation, of=sigmoid):
    """y = 1 / (1 + e^-x).

    >>> nn.Sigmoid()([[2.0]])
    Variable(f32[1, 1], constant)
    [[0.8808]]
    """


class Tanh(Activation, of=tanh):
    """y = tanh x.

    >>> nn.Tanh()([[2.0]])
    Variable(f32[1, 1], constant)
    [[0.964]]
    """


class GELU(Activation, of=gelu):
    """y = x · Φ(x); with `approximate="tanh"`, as PyTorch says it, `GELUTanh`.

    >>> nn.GELU()([[2.0]])
    Variable(f32[1, 1], constant)
    [[1.9545]]
    """

    def __new__(cls, approximate: str = "none") -> Any:  # noqa: ANN401  # this layer, or the one of the formula
        """The layer of the formula that is asked for."""
        if not isinstance(approximate, str) or approximate not in ("none", "tanh"):
            raise ArgumentError("GELU", got=f"approximate={shown(approximate)}", need="'none' or 'tanh'")
        return object.__new__(GELUTanh if approximate == "tanh" else cls)


@checked
@dataclass(frozen=True, slots=True)
class Softmax(Layer):
    """y = e^x / sum e^x over the axis, the last one unless given.

    >>> nn.Softmax()([[2.0]])
    Variable(f32[1, 1], constant)
    [[1.]]
    """

    axis: int = field(default=-1, metadata=QUIET)

    def build(self, scope: Scope[T], x: T) -> T:
        return _along(softmax, x, self.axis)


class GELUTanh(Activation, of=gelu_tanh):
    """y = x · (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2, as GPT-2 has it.

    >>> nn.GELUTanh()([[2.0]])
    Variable(f32[1, 1], constant)
    [[1.9546]]
    """


@checked
@dataclass(frozen=True, slots=True)
class Clamp(Layer):
    """y = min(max(x, low), high): with 0 and 6 the ReLU6 of mobile networks.

    >>> nn.Clamp(0.0, 1.0)([[2.0]])
    Variable(f32[1, 1], constant)
    [[1.]]
    """

    low: Finite = 0.0
    high: Finite = 6.0

    def build(self, scope: Scope[T], x: T) -> T:
        return clamp(x, self.low, self.high)


@checked
@dataclass(frozen=True, slots=True)
class Hardtanh(Layer):
    """y = min(max(x, min_val), max_val); `inplace` changes nothing.

    >>> nn.Hardtanh()([[2.0]])
    Variable(f32[1, 1], constant)
    [[1.]]
    """

    min_val: Finite = -1.0
    max_val: Finite = 1.0
    inplace: bool = False

    def build(self, scope: Scope[T], x: T) -> T:
        return clamp(x, self.min_val, self.max_val)


@checked
@dataclass(frozen=True, slots=True)
class ReLU6(Layer):
    """y = min(max(x, 0), 6), of mobile networks; `inplace` changes nothing.

    >>> nn.ReLU6()([[8.0]])
    Variable(f32[1, 1], constant)
    [[6.]]
    """

    inplace: bool = False

    def build(self, scope: Scope[T], x: T) -> T:
        return clamp(x, 0.0, 6.0)


@checked
@dataclass(frozen=True, slots=True)
class LeakyReLU(Layer):
    """y = x where x > 0, else slope · x.

    >>> nn.LeakyReLU(0.5)([[2.0]])
    Variable(f32[1, 1], constant)
    [[2.]]
    """

    slope: Finite = 0.01
    inplace: bool = field(default=False, metadata=QUIET)

    def build(self, scope: Scope[T], x: T) -> T:
        return leaky_relu(x, self.slope)


@checked
@dataclass(frozen=True, slots=True)
class PReLU(Layer):
    """y = x where x > 0, else weight · x, with a weight per channel that begins at `slope` (He et al. 2015).

    >>> nn.PReLU()([[2.0]])
    Variable(f32[1, 1], recorded)
    [[2.]]
    """

    slope: Finite = 0.25

    def build(self, scope: Scope[T], x: T) -> T:
        weight = scope.parameter("weight", x.shape[-1:], x, constant(self.slope))
        below = subtract(x, relu(x))
        return add(relu(x), multiply(below, broadcast_rows(weight, x)))


@checked
@dataclass(frozen=True, slots=True)
class ELU(Layer):
    """y = x where x > 0, else alpha · (e^x - 1).

    >>> nn.ELU()([[2.0]])
    Variable(f32[1, 1], constant)
    [[2.]]
    """

    alpha: Finite = 1.0
    inplace: bool = field(default=False, metadata=QUIET)

    def build(self, scope: Scope[T], x: T) -> T:
        return elu(x, self.alpha)


class SELU(Activation, of=selu):
    """y = s · elu(x, a), with the s and a that keep mean and variance (Klambauer et al. 2017).

    >>> nn.SELU()([[2.0]])
    Variable(f32[1, 1], constant)
    [[2.1014]]
    """


class SiLU(Activation, of=swish):
    """y = x · sigmoid(x), also called swish.

    >>> nn.SiLU()([[2.0]])
    Variable(f32[1, 1], constant)
    [[1.7616]]
    """


class Softplus(Activation, of=softplus):
    """y = ln(1 + e^x).

    >>> nn.Softplus()([[2.0]])
    Variable(f32[1, 1], constant)
    [[2.1269]]
    """


def _log_sigmoid(x: T) -> T:
    return affine(softplus(affine(x, -1.0)), -1.0)


class LogSigmoid(Activation, of=_log_sigmoid):
    """y = -ln(1 + e^-x), the logarithm of the logistic function.

    >>> nn.LogSigmoid()([[2.0]])
    Variable(f32[1, 1], constant)
    [[-0.1269]]
    """


def _mish(x: T) -> T:
    return multiply(x, tanh(softplus(x)))


class Mish(Activation, of=_mish):
    """y = x · tanh(ln(1 + e^x)) (Misra 2019).

    >>> nn.Mish()([[2.0]])
    Variable(f32[1, 1], constant)
    [[1.944]]
    """


def _hard_swish(x: T) -> T:
    return multiply(x, affine(clamp(affine(x, 1.0, 3.0), 0.0, 6.0), 1.0 / 6.0))


class Hardswish(Activation, of=_hard_swish):
    """y = x · min(max(x + 3, 0), 6) / 6 (Howard et al. 2019).

    >>> nn.Hardswish()([[2.0]])
    Variable(f32[1, 1], constant)
    [[1.6667]]
    """


def _hard_sigmoid(x: T) -> T:
    return affine(clamp(affine(x, 1.0, 3.0), 0.0, 6.0), 1.0 / 6.0)


class Hardsigmoid(Activation, of=_hard_sigmoid):
    """y = min(max(x + 3, 0), 6) / 6.

    >>> nn.Hardsigmoid()([[2.0]])
    Variable(f32[1, 1], constant)
    [[0.8333]]
    """


def _soft_sign(x: T) -> T:
    return divide(x, affine(abs(x), 1.0, 1.0))


class Softsign(Activation, of=_soft_sign):
    """y = x / (1 + |x|).

    >>> nn.Softsign()([[2.0]])
    Variable(f32[1, 1], constant)
    [[0.6667]]
    """


@checked
@dataclass(frozen=True, slots=True)
class LogSoftmax(Layer):
    """y = x - ln sum e^x over the axis, the last one unless given.

    >>> nn.LogSoftmax()([[2.0]])
    Variable(f32[1, 1], constant)
    [[0.]]
    """

    axis: int = field(default=-1, metadata=QUIET)

    def build(self, scope: Scope[T], x: T) -> T:
        return _along(log_softmax, x, self.axis)


@checked
@dataclass(frozen=True, slots=True)
class GLU(Layer):
    """y = a · sigmoid(b), a and b the halves of the last axis (Dauphin et al. 2017).

    >>> nn.GLU()(nnc.ones((2, 4))).shape
    (2, 2)
    """

    def build(self, scope: Scope[T], x: T) -> T:
        if x.shape[-1] % 2:
            raise ShapeError("GLU", got=str(x.spec), need="an even number of features")
        return gated(x, x.spec.rank - 1)


def gated(x: T, axis: int) -> T:
    """a · sigmoid(b), a and b the halves of an axis."""
    half = x.shape[axis] // 2
    return multiply(slice_axis(x, axis, 0, half), sigmoid(slice_axis(x, axis, half, 2 * half)))


def _along(function: OperandFunction, x: T, axis: int) -> T:
    """A function of the last axis along another one."""
    rank = x.spec.rank
    if not -rank <= axis < rank:
        raise ShapeError("Softmax", got=f"axis={axis} of {x.spec}", need=f"an axis from {-rank} to {rank - 1}")
    if axis in (-1, rank - 1):
        return function(x)
    order = [*range(rank)]
    order[axis], order[-1] = order[-1], order[axis]
    return transpose(function(transpose(x, tuple(order))), tuple(order))


# ---- by name, as an option of layers: nn.Dense(32, activation="relu")

ActivationName: TypeAlias = Literal[
    "elu", "gelu", "leaky_relu", "linear", "log_softmax", "relu", "selu", "sigmoid", "silu", "softmax", "softplus",
    "swish", "tanh",
]  # fmt: skip

FUNCTIONS: Mapping[str, OperandFunction] = {
    "elu": elu,
    "gelu": gelu,
    "leaky_relu": leaky_relu,
    "log_softmax": log_softmax,
    "relu": relu,
    "selu": selu,
    "sigmoid": sigmoid,
    "silu": swish,
    "softmax": softmax,
    "softplus": softplus,
    "swish": swish,
    "tanh": tanh,
}


def no_activation() -> ActivationName | None:
    """The field of a layer that has an activation as an option, and none unless it is given."""
    return field(default=None, metadata=QUIET)


def activated(x: T, name: ActivationName | None) -> T:
    """The activation of that name; nothing for none and for "linear"."""
    return x if name is None or name == "linear" else FUNCTIONS[name](x)
