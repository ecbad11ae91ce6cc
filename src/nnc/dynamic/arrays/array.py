"""What eager variables and traced values share: they behave as arrays do.

    x + 1, 2 * x, array * x, x * other        a number takes x's element type, an array is a constant
    x == other, x < other                     element by element; `hash` goes by identity
    len(x), for row in x, x[1:, None]         NumPy's basic indexing gives views
    x[[0, 2]], x[x > 0], x[rows, columns]     integers and truth values select
    np.sin(x), array @ x                      recorded as `nnc.ops` are; what is not known is an error

Operands of two element types meet in the one that holds both (`nnc.dynamic.arrays.promotion`): f32 with f64 is f64, i64
with f32 is f32, and integers divided by integers are f32.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import explained_as, shown
from nnc.core.precautions.machine_memory import check_entries
from nnc.core.precautions.origin import caller_origin
from nnc.core.running.namespace import array_namespace
from nnc.core.values.command import AnyCommand
from nnc.core.values.device import CPU, Device, device_of
from nnc.core.values.dtype import C128, F64, DType
from nnc.dynamic.arrays import numpy_functions
from nnc.dynamic.arrays.element_count import ElementCount
from nnc.dynamic.arrays.in_place_twins import InPlaceTwins
from nnc.dynamic.arrays.indexing import At, is_advanced, take
from nnc.dynamic.arrays.located import located, located_operator
from nnc.dynamic.arrays.nameless import WITHOUT_A_NAME, is_statement
from nnc.dynamic.arrays.place_methods import PlaceMethods
from nnc.dynamic.arrays.promotion import beside_number, continuous, product_of, promoted, sum_of
from nnc.dynamic.arrays.worded import WordedMethods
from nnc.errors import DeviceError, ShapeError, UsageError
from nnc.ops.arithmetic import ArithmeticOperand, Index
from nnc.ops.elementwise.integers import floor_divide, remainder, shift_left, shift_right
from nnc.ops.elementwise.pointwise import (
    add,
    divide,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    multiply,
    not_equal,
    power,
    subtract,
)
from nnc.ops.function import BinaryOperator
from nnc.ops.movement.fill import scalar_like
from nnc.ops.movement.movement import transpose
from nnc.ops.operand import T
from nnc.ops.products.products import matmul
from nnc.vocabulary.answers import Answering
from nnc.vocabulary.names import ARRAY

A = TypeVar("A", bound="ArrayOperand")
Axes = int | Iterable[int] | None
NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)


def _quotient(a: T, b: T) -> T:
    """a / b, of integers as f32."""
    return divide(continuous(a), continuous(b))


# The operator that a rule is for operands of one floating type.
FLOAT_RULES: dict[Callable[[Any, Any], Any], BinaryOperator] = {
    sum_of: add, subtract: subtract, product_of: multiply, _quotient: divide, less: less, less_equal: less_equal,
    greater: greater, greater_equal: greater_equal,
}  # fmt: skip


def _over(x: A, number: Any) -> A:  # noqa: ANN401  # Python's and NumPy's numbers
    return ArithmeticOperand.__truediv__(continuous(x), number)  # type: ignore[no-any-return]  # an operand as x


def _under(x: A, number: Any) -> A:  # noqa: ANN401  # as above
    return ArithmeticOperand.__rtruediv__(continuous(x), number)


@explained_as("")
class ArrayOperand(WordedMethods, PlaceMethods, InPlaceTwins, Answering):
    """An operand that behaves as an array."""

    __slots__ = ()
    forms: ClassVar[Mapping[str, str]] = ARRAY
    # NumPy's arrays leave `array ∘ operand` to the operand.
    __array_priority__ = 1000.0

    # ---- arithmetic

    def _meet(
        self,
        rule: Callable[[Any, Any], Any],
        of_number: Callable[[Any, Any], Any],
        other: object,
        swapped: bool = False,
    ) -> Self:
        """`rule` of this operand and `other`, or of the two swapped; a number takes the element type of this one."""
        if type(other) is type(self) and self.spec.dtype is other.spec.dtype:
            return rule(other, self) if swapped else rule(self, other)  # type: ignore[no-any-return]  # as below
        if isinstance(other, NUMBERS) and not (isinstance(other, bool | np.bool_) and self.spec.dtype.kind == "bool"):
            return of_number(beside_number(self, other), other)  # type: ignore[no-any-return]  # an operand as this one
        operand = other if type(other) is type(self) else self.lift(self._as_array(other))
        if operand is None:
            return NotImplemented  # type: ignore[no-any-return]  # Python then asks the other operand
        first, second = promoted(self, operand)
        return rule(second, first) if swapped else rule(first, second)  # type: ignore[no-any-return]  # as above

    def _as_array(self, other: object) -> object:
        """A truth value, or a complex number in the precision of this operand, as an array; anything else as it is."""
        if isinstance(other, bool):
            return np.asarray(other)
        if not isinstance(other, complex | np.complexfloating):
            return other
        return np.asarray(other, np.complex128 if self.dtype in (F64, C128) else np.complex64)

    @located_operator
    def __add__(self, other: object) -> Self:
        return self._meet(sum_of, ArithmeticOperand.__add__, other)

    @located_operator
    def __radd__(self, other: object) -> Self:
        return self._meet(sum_of, ArithmeticOperand.__radd__, other, swapped=True)

    @located_operator
    def __sub__(self, other: object) -> Self:
        return self._meet(subtract, ArithmeticOperand.__sub__, other)

    @located_operator
    def __rsub__(self, other: object) -> Self:
        return self._meet(subtract, ArithmeticOperand.__rsub__, other, swapped=True)

    @located_operator
    def __mul__(self, other: object) -> Self:
        return self._meet(product_of, ArithmeticOperand.__mul__, other)

    @located_operator
    def __rmul__(self, other: object) -> Self:
        return self._meet(product_of, ArithmeticOperand.__rmul__, other, swapped=True)

    @located_operator
    def __truediv__(self, other: object) -> Self:
        return self._meet(_quotient, _over, other)

    @located_operator
    def __rtruediv__(self, other: object) -> Self:
        return self._meet(_quotient, _under, other, swapped=True)

    @located_operator
    def __pow__(self, other: object) -> Self:
        return self._meet(power, ArithmeticOperand.__pow__, other)

    @located_operator
    def __rpow__(self, other: object) -> Self:
        return self._meet(power, ArithmeticOperand.__rpow__, other, swapped=True)

    @located_operator
    def __floordiv__(self, other: object) -> Self:
        return self._meet(floor_divide, ArithmeticOperand.__floordiv__, other)

    @located_operator
    def __rfloordiv__(self, other: object) -> Self:
        return self._meet(floor_divide, ArithmeticOperand.__rfloordiv__, other, swapped=True)

    @located_operator
    def __mod__(self, other: object) -> Self:
        return self._meet(remainder, ArithmeticOperand.__mod__, other)

    @located_operator
    def __rmod__(self, other: object) -> Self:
        return self._meet(remainder, ArithmeticOperand.__rmod__, other, swapped=True)

    @located_operator
    def __lshift__(self, other: object) -> Self:
        return self._meet(shift_left, ArithmeticOperand.__lshift__, other)

    @located_operator
    def __rlshift__(self, other: object) -> Self:
        return self._meet(shift_left, ArithmeticOperand.__rlshift__, other, swapped=True)

    @located_operator
    def __rshift__(self, other: object) -> Self:
        return self._meet(shift_right, ArithmeticOperand.__rshift__, other)

    @located_operator
    def __rrshift__(self, other: object) -> Self:
        return self._meet(shift_right, ArithmeticOperand.__rrshift__, other, swapped=True)

    @located_operator
    def __matmul__(self, other: object) -> Self:
        return self._meet(matmul, type(self)._times_number, other)

    @located_operator
    def __rmatmul__(self, other: object) -> Self:
        return self._meet(matmul, type(self)._times_number, other, swapped=True)

    def _times_number(self, other: object) -> Self:
        raise ShapeError("matmul", got=f"{self.spec} and a number", need="at least one axis each", fix="use *")

    def __pos__(self) -> Self:
        return self.twin()

    # ---- truth

    @located_operator
    def __eq__(self, other: object) -> Self:  # type: ignore[override]  # elements, as of arrays
        return self._meet(equal, lambda x, value: equal(x, scalar_like(x, value)), other)

    @located_operator
    def __ne__(self, other: object) -> Self:  # type: ignore[override]  # elements, as of arrays
        return self._meet(not_equal, lambda x, value: not_equal(x, scalar_like(x, value)), other)

    __hash__ = object.__hash__

    @located_operator
    def __lt__(self, other: object) -> Self:
        return self._meet(less, ArithmeticOperand.__lt__, other)

    @located_operator
    def __le__(self, other: object) -> Self:
        return self._meet(less_equal, ArithmeticOperand.__le__, other)

    @located_operator
    def __gt__(self, other: object) -> Self:
        return self._meet(greater, ArithmeticOperand.__gt__, other)

    @located_operator
    def __ge__(self, other: object) -> Self:
        return self._meet(greater_equal, ArithmeticOperand.__ge__, other)

    @located_operator
    def __and__(self, other: object) -> Self:
        return self._meet(ArithmeticOperand.__and__, ArithmeticOperand.__and__, other)

    @located_operator
    def __or__(self, other: object) -> Self:
        return self._meet(ArithmeticOperand.__or__, ArithmeticOperand.__or__, other)

    @located_operator
    def __xor__(self, other: object) -> Self:
        return self._meet(ArithmeticOperand.__xor__, ArithmeticOperand.__xor__, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    @located
    def __invert__(self) -> Self:
        return super().__invert__()

    # ---- parts

    @located
    def __getitem__(self, index: object) -> Self:
        """Views for NumPy's basic indexing; copies for arrays of integers or truth values.

        Where the truth values are known only in a run, so is the shape: that is an error of traced values.
        """
        parts = index if isinstance(index, tuple) else (index,)
        if any(map(is_advanced, parts)):
            return take(self, parts)
        basic: tuple[Index, ...] = parts
        return super().__getitem__(basic)

    @located
    def __setitem__(self, index: object, value: object) -> None:
        """The name stands for `x.at[index].set(value)` from now on; views of x keep what they have.

        Gradients flow through both. UsageError for a variable that gradients can be asked for, and for `x[0][1] = v`,
        which would change what `x[0]` gives and not x.
        """
        if sys.getrefcount(self) == WITHOUT_A_NAME and is_statement() and not self._is_data():
            got = "a value that nobody holds, such as x[0] in x[0][1] = value"
            fix = "x[0, 1] = value; of a module's buffer self.x = self.x.at[index].set(value)"
            raise UsageError("x[index] = value", got=got, need="a name", fix=fix, origin=caller_origin())
        self._assign(self.at[index].set(value))

    def _is_data(self) -> bool:
        """Whether another value holds what this is given."""
        return False

    @property
    def at(self) -> At[Self]:
        """`x.at[index].set(value)`: a new array with other elements there; also add, multiply, min and max."""
        return At(self)

    @located
    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("len", got=str(self.spec), need="at least one axis")
        return self.shape[0]

    def __iter__(self) -> Iterator[Self]:
        check_entries("iter", len(self))
        return iter([self[row] for row in range(len(self))])

    # ---- the array's own words

    @property
    def T(self) -> Self:  # noqa: N802  # the name that arrays have for it
        """The axes in reverse order."""
        return transpose(self)

    @property
    def mT(self) -> Self:  # noqa: N802  # the name that arrays have for it
        """The last two axes swapped."""
        if self.ndim < 2:
            raise ShapeError("mT", got=str(self.spec), need="two axes or more", origin=caller_origin())
        return transpose(self, (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2))

    @property
    def device(self) -> Device:
        """Where the elements are."""
        return self.spec.device

    @located
    def to_device(self, device: object, /, *, stream: object = None) -> Self:
        """The same values on that device; another handle of x where they are there. Without a stream."""
        if not isinstance(device, Device | str) or stream is not None:
            got = f"{shown(device)}, stream {shown(stream)}"
            raise UsageError("to_device", got=got, need="a device, without a stream", fix="x.to_device('cpu')")
        try:
            return self.to(device_of(device))
        except DeviceError as error:
            error.subject = "to_device"
            raise

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """`nnc.array_api`, in that version of the standard."""
        return array_namespace(api_version)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.spec.rank

    @property
    def size(self) -> ElementCount:
        """Number of elements; called, the shape or the size of an axis, as in PyTorch: `x.size(0)`."""
        return ElementCount.of(self.spec)

    def numel(self) -> int:
        """Number of elements, as PyTorch calls it."""
        return self.spec.elements

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.spec.dtype

    @located
    def block_until_ready(self) -> Self:
        """x, computed where it waits under `nnc.lazy()`; elsewhere it is there when the call is over."""
        self.to(CPU).numpy()
        return self

    # ---- NumPy's protocols

    @located
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> object:
        """`np.sin(x)`, `array * x`: as `nnc.ops` compute it; UsageError for what they do not."""
        return numpy_functions.call_ufunc(self, ufunc, method, inputs, options)

    @located
    def __array_function__(
        self, function: Callable[..., object], types: object, args: tuple[Any, ...], options: dict[str, Any]
    ) -> object:
        """`np.sum(x)`, `np.concatenate([x, y])`: as `nnc.ops` compute it; UsageError for what they do not."""
        return numpy_functions.call_function(function, args, options)

    @abstractmethod
    def _assign(self, new: Self) -> None:
        """Stand for the value of `new` from now on."""

    @abstractmethod
    def renewed(self, command: AnyCommand, inputs: Sequence[Self | None]) -> tuple[Self, ...]:
        """The outputs of a command that renews this operand, as an optimizer does: not recorded, a leaf for a leaf."""

    @abstractmethod
    def numpy(self) -> NDArray[np.generic]:
        """The elements; UsageError where there are none yet."""

    @abstractmethod
    def item(self) -> Any:  # noqa: ANN401  # float, int, bool or complex
        """The only element, as a Python number; UsageError where there is none yet."""

    @abstractmethod
    def tolist(self) -> Any:  # noqa: ANN401  # numbers in nested lists
        """The elements as Python's numbers, in nested lists; UsageError where there are none yet."""

    @abstractmethod
    def backward(self, gradient: ArrayOperand | None = None, retain_graph: bool | None = None) -> None:
        """Add the gradient of this scalar to `grad` of each leaf that led to it, as PyTorch does."""

    @abstractmethod
    def detach(self) -> Self:
        """The same elements, through which no gradient flows."""
