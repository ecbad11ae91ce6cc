"""What functions of the namespace take: arrays of all kinds, lists and numbers, as operands that meet.

as_array([1.0, 2.0])        a constant; eager, traced and batched values as they are
pair(x, 0.5)                both as arrays of one element type, by `nnc.dynamic.arrays.promotion`
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Number
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nnc.arguments import shown
from nnc.array_api.creation import asarray
from nnc.array_api.data_types import lifted, numpy_work
from nnc.array_api.manipulation import place_of as place_of
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.device import Device
from nnc.core.values.dtype import C64, C128, F32, F64, AnyDType, DType, dtype_of
from nnc.core.values.spec import TensorSpec, check_shape
from nnc.core.values.tensor import Tensor
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.arrays.promotion import beside_number, continuous, promoted
from nnc.dynamic.eager import tensor
from nnc.dynamic.state import parameter_over
from nnc.dynamic.tree import Tree
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, AttributeValueError, DTypeError, UsageError
from nnc.ops.elementwise.pointwise import cast
from nnc.ops.number import integers_of
from nnc.ops.operand import Operand

Array = ArrayOperand
AnyArray = ArrayOperand | Tensor | ArrayLike
Axes = int | Iterable[int] | None
Sizes = int | Sequence[int]
AnyDevice = Device | str | None


def as_array(value: AnyArray) -> Array:
    """The operand itself; a constant of anything else. UsageError for a symbol, which has operators alone."""
    if isinstance(value, ArrayOperand):
        return value
    if isinstance(value, Operand):
        fix = "nnc.ops, such as nnc.ops.exp(x)"
        raise UsageError("nnc", got=f"a {type(value).__name__} {value.spec}", need="an array or a number", fix=fix)
    return asarray(value)


def asked(x: Array, requires_grad: bool) -> Array:
    """The array, or a leaf over its memory that gradients can be asked for."""
    if not requires_grad:
        return x
    if type(x) is not Variable:
        got, fix = "requires_grad=True in a function that is compiled or mapped", "give it as an argument of nnc.grad"
        raise UsageError("requires_grad", got=got, need="an eager value", fix=fix)
    if not x.dtype.is_continuous:
        got, fix = str(x.spec), "dtype=nnc.f32"
        raise UsageError("requires_grad", got=got, need="floating-point elements", fix=fix, origin=caller_origin())
    return parameter_over(x.tensor)


def arrays(values: Iterable[AnyArray]) -> list[Array]:
    """Several, each as `as_array`; of one array its rows."""
    return [as_array(entry) for entry in values]


def pair(x1: AnyArray, x2: AnyArray) -> tuple[Array, Array]:
    """Both as arrays of the element type that holds both; a number takes that of the array beside it."""
    if _is_number(x1) and not _is_number(x2):
        second, first = _with_number(as_array(x2), x1)
        return first, second
    if _is_number(x2):
        return _with_number(as_array(x1), x2)
    return promoted(as_array(x1), as_array(x2))


def floats(*values: AnyArray) -> list[Array]:
    """All in the float or complex type that holds all; a number takes that of the array beside it."""
    given = [continuous(as_array(values[0]))]
    for value in values[1:]:
        met = pair(given[-1], value)
        given = [pair(each, met[0])[0] for each in given] + [continuous(met[1])]
    return given


def _is_number(value: object) -> bool:
    return isinstance(value, Number | np.bool_) and not isinstance(value, ArrayOperand)


def _with_number(x: Array, number: AnyArray) -> tuple[Array, Array]:
    wide = beside_number(x, number)
    if isinstance(number, complex | np.complexfloating) and wide.dtype.is_float:
        wide = cast(wide, C128 if wide.dtype is F64 else C64)
    with numpy_work("number"):
        return wide, lifted(wide, np.asarray(number, wide.dtype.numpy))


def met(values: Iterable[AnyArray]) -> list[Array]:
    """All in the element type that holds all."""
    given = arrays(values)
    if not given:
        raise AttributeValueError("arrays", got="none", need="at least one")
    home = given[0]
    for other in given[1:]:
        home = promoted(home, other)[0]
    return [cast(array, home.dtype) for array in given]


def real_numbers(subject: str, value: AnyArray) -> np.ndarray:
    """Numbers that are known already, in f64."""
    values = value.cpu().numpy() if isinstance(value, Array) else np.asarray(value)
    if dtype_of(values.dtype).kind == "complex":
        raise DTypeError(subject, got="complex numbers", need="real ones")
    return values.astype(np.float64)


def chosen_dtype(dtype: AnyDType | None, otherwise: DType) -> DType:
    """The element type that is asked for."""
    return otherwise if dtype is None else dtype_of(dtype)


def sizes_of(shape: Sizes) -> tuple[int, ...]:
    """A shape, also of one size."""
    try:
        return check_shape(integers_of(shape))
    except TypeError:
        raise ArgumentError("shape", got=shown(shape), need="a size, or a sequence of sizes") from None


# ---- what all arrays are instances of, as annotations and `isinstance` ask: `x: torch.Tensor`, `torch.Tensor([1, 2])`

if TYPE_CHECKING:
    AnyTensor = Variable
else:

    class TensorKind(type):
        """The class of `Tensor`, which makes variables."""

        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, ArrayOperand)

        def __subclasscheck__(cls, kind: type) -> bool:
            return issubclass(kind, ArrayOperand)

        def __call__(cls, *data: Tree, **options: Tree) -> Variable:
            """Of values in f32 unless `dtype` is given, or zeros of these sizes."""
            if data and all(type(size) is int for size in data):
                return tensor(Tensor.zeros(TensorSpec(check_shape(data, "Tensor"), F32)), **options)
            if not data:
                return tensor(np.zeros(0, np.float32), **options)
            if isinstance(data[0], ArrayOperand) or hasattr(data[0], "dtype"):
                return tensor(*data, **options)
            return tensor(*data, **{"dtype": F32, **options})

        def __getattr__(cls, name: str) -> object:
            """Methods of variables, `Tensor.add(x, y)`."""
            return getattr(Variable, name)

    _ABOUT = "An array: `isinstance(x, Tensor)`, `Tensor([1, 2])` in f32."
    AnyTensor = TensorKind("Tensor", (), {"__doc__": _ABOUT, "__module__": "nnc"})
