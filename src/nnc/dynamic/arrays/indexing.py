"""Indexing by arrays: integers or truth values choose elements.

    x[:, rows]        y[i, k…, …] = x[i, rows[k…], …]
    x[rows, columns]  y[k…] = x[rows[k…], columns[k…]]
    x[mask]           the elements, or rows, where the mask holds; of one truth value y[0, …] = x[…] or nothing

Arrays that stand side by side are read together, broadcast. Slices, `None` and integers may stand around them. Values
that are known are checked here, with negative ones counted from the end; those of a traced index only in the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import shown
from nnc.classes import dataclass
from nnc.core.values.device import CPU
from nnc.core.values.dtype import BOOL, I64, DType
from nnc.core.values.tensor import Tensor
from nnc.dynamic.arrays.lifting import LiftingOperand
from nnc.errors import AttributeValueError, DTypeError, IndexRangeError, ShapeError
from nnc.ops.arithmetic import Index
from nnc.ops.elementwise.pointwise import (
    add,
    affine,
    cast,
    divide,
    equal,
    less,
    maximum,
    minimum,
    multiply,
    power,
    where,
)
from nnc.ops.indexing.indexing import gather, index_select, scatter, scatter_along
from nnc.ops.indexing.order import sort
from nnc.ops.movement.broadcast import broadcast_to, reshape
from nnc.ops.movement.fill import scalar_like
from nnc.ops.movement.generate import arange_like
from nnc.ops.operand import Operand

A = TypeVar("A", bound=LiftingOperand)
Known = NDArray[np.int64]


def is_advanced(part: object) -> bool:
    """True for what chooses elements one by one: lists, arrays, tensors, operands."""
    if isinstance(part, np.ndarray):
        return part.ndim > 0 or part.dtype == np.bool_
    return isinstance(part, list | Tensor | Operand)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Indices of neighbouring axes from `axis` on, all of one shape after broadcasting."""

    axis: int
    parts: Sequence[Known | Operand]


def take(x: A, index: tuple[object, ...]) -> A:
    """`x[index]`, of whose parts at least one is an array."""
    basic: list[Index] = []
    chosen: list[tuple[int, Known | Operand]] = []
    source = axis = 0
    for part, axes in _with_axes(x, index):
        if not is_advanced(part):
            basic.append(part)  # type: ignore[arg-type]  # the basic indexing of `x` says what is wrong with it
            # An axis of size 1 for None, none for an integer, one for a slice.
            axis += part is None or isinstance(part, slice)
        else:
            _check_mask(x, part, source, axes)
            for entry in _indices(part):
                chosen.append((axis, entry))
                # One truth value stands for no axis of x: what it chooses from is a new one of size 1.
                basic.append(slice(None) if axes else None)
                axis += 1
        source += axes
    view = x[tuple(basic)]
    first = chosen[0][0]
    if [place for place, _ in chosen] != list(range(first, first + len(chosen))):
        raise AttributeValueError("index", got="arrays apart", need="arrays of indices side by side", fix="index twice")
    return _select(view, _Chosen(first, [entry for _, entry in chosen]))


def _with_axes(x: A, index: tuple[object, ...]) -> Iterator[tuple[object, int]]:
    """Each part with how many axes of `x` it stands for, `...` written out."""
    axes = [_axes_of(part) for part in index]
    dots, rest = sum(part is Ellipsis for part in index), x.spec.rank - sum(axes)
    if dots > 1 or rest < 0:
        got = f"{sum(axes)} positions and {dots} ... of {x.spec}"
        raise IndexRangeError("index", got=got, need=f"at most {x.spec.rank} and one ...")
    for part, count in zip(index, axes, strict=True):
        if part is Ellipsis:
            yield from ((slice(None), 1) for _ in range(rest))
        else:
            yield part, count


def _axes_of(part: object) -> int:
    if part is None or part is Ellipsis:
        return 0
    return _rank(part) if _is_mask(part) else 1


def _check_mask(x: A, part: object, axis: int, axes: int) -> None:
    """A mask has the sizes of the axes that it stands for, or as in NumPy none, and then nothing is chosen."""
    shape = part.shape if isinstance(part, Operand) else _array(part).shape
    sizes = x.shape[axis : axis + axes]
    if _is_mask(part) and not all(entry in (size, 0) for entry, size in zip(shape, sizes, strict=True)):
        need = f"the sizes of the axes {list(sizes)}"
        raise IndexRangeError("index", got=f"a mask of shape {list(shape)} for {x.spec}", need=need)


def _is_mask(part: object) -> bool:
    if isinstance(part, Operand):
        return part.spec.dtype is BOOL
    return is_advanced(part) and _array(part).dtype == np.bool_


def _rank(part: object) -> int:
    return part.spec.rank if isinstance(part, Operand) else _array(part).ndim


def _array(part: object) -> NDArray[np.generic]:
    array = part.to(CPU).numpy() if isinstance(part, Tensor) else np.asarray(part)
    return array.astype(np.int64) if array.size == 0 and array.dtype.kind == "f" else array


def _indices(part: object) -> tuple[Known | Operand, ...]:
    """The index of each axis that an array stands for: itself, or where a mask holds."""
    known = _values(part)
    if known is None:
        assert isinstance(part, Operand)
        if part.spec.dtype is not BOOL:
            return (part,)
        if (mask := _tensor(part)) is None:
            raise AttributeValueError(
                "index",
                got=f"a mask {part.spec} whose values only a run knows",
                need="a shape that is known before the run",
                fix="choose with nnc.ops.where()",
            )
        # The shape of what it chooses: the host has to know it.
        known = _array(mask)
    if known.dtype == np.bool_:
        return tuple(np.nonzero(np.atleast_1d(known)))
    if known.dtype.kind not in "iu":
        raise AttributeValueError("index", got=f"an array of {known.dtype}", need="integers or truth values")
    return (known.astype(np.int64),)


def _values(part: object) -> NDArray[np.generic] | None:
    """The elements where the host knows them; None for a traced operand, and for one that lies on a device."""
    if not isinstance(part, Operand):
        return _array(part)
    tensor = _tensor(part)
    return None if tensor is None or not tensor.spec.device.is_host else _array(tensor)


def _tensor(part: Operand) -> Tensor | None:
    """What an eager operand holds."""
    tensor = getattr(part, "tensor", None)
    return tensor if isinstance(tensor, Tensor) else None


def _select(x: A, chosen: _Chosen) -> A:
    """Rows of the axes, seen as one, at the places row · size + column."""
    axis, sizes = chosen.axis, x.shape[chosen.axis : chosen.axis + len(chosen.parts)]
    for part, size, place in zip(chosen.parts, sizes, range(axis, x.spec.rank), strict=False):
        if isinstance(part, np.ndarray) and part.size and not -size <= part.min() <= part.max() < size:
            raise IndexRangeError(
                "index", got=f"an index outside axis {place} of {x.spec}", need=f"-{size} ≤ index < {size}"
            )
    merged = reshape(x, (*x.shape[:axis], math.prod(sizes), *x.shape[axis + len(sizes) :]))
    known = [part for part in chosen.parts if isinstance(part, np.ndarray)]
    if len(known) == len(chosen.parts):
        places: Known = np.zeros((), np.int64)
        try:
            for part, size in zip(known, sizes, strict=True):
                places = places * size + np.where(part < 0, part + size, part)
        except ValueError:
            raise ShapeError("index", got=str([part.shape for part in known]), need="shapes that broadcast") from None
        index = x.lift(places)
    else:
        index = _combined(x, chosen.parts, sizes)
    assert index is not None
    return index_select(merged, index, axis)


def _combined(x: A, parts: Sequence[Known | Operand], sizes: Sequence[int]) -> A:
    """The same of operands."""
    total: A | None = None
    for part, size in zip(parts, sizes, strict=True):
        # An operand that belongs to an inner world, such as a batch around it, takes x there.
        lifted: Any = x.lift(part)
        lifted = part if lifted is None else lifted
        places = cast(lifted, I64)
        places = where(less(places, scalar_like(places, 0.0)), affine(places, 1.0, size), places)
        total = places if total is None else add(affine(total, size), places)
    assert total is not None
    return total


@dataclass(frozen=True, slots=True)
class At(Generic[A]):
    """`x.at[index]`: places of an array, for a new one with other elements there."""

    x: A
    # Any index gives places: Python would ask for one more for ever.
    __iter__: ClassVar[None] = None

    def __getitem__(self, index: object) -> IndexedPlaces[A]:
        return IndexedPlaces(self.x, index)


@dataclass(frozen=True, slots=True)
class IndexedPlaces(Generic[A]):
    """What `x[index]` names, for a copy of x in which other values are there; a number or an array, broadcast."""

    x: A
    index: object

    def set(self, value: object) -> A:
        """y[index] = value; the last one where a place is named more than once."""
        if (chosen := self._where(lambda x, given: given, value)) is not None:
            return chosen
        flat, (places, values) = reshape(self.x, (-1,)), self._pairs(value)
        return reshape(scatter(flat, places, values, 0), self.x.shape)

    def add(self, value: object) -> A:
        """y[index] += value, each time that a place is named."""
        if (chosen := self._where(add, value)) is not None:
            return chosen
        places, values = self._pairs(value)
        return add(self.x, reshape(scatter_along(values, places, 0, self.x.spec.elements), self.x.shape))

    def subtract(self, value: object) -> A:
        """y[index] -= value, each time that a place is named."""
        operand = self._operand(value)
        return self.add(multiply(operand, scalar_like(operand, -1)))

    def multiply(self, value: object) -> A:
        """y[index] = x[index] · value, at places that are named once."""
        return self._combined(multiply, value)

    def divide(self, value: object) -> A:
        """y[index] = x[index] / value, at places that are named once."""
        return self._combined(divide, value)

    def power(self, value: object) -> A:
        """y[index] = x[index]^value, at places that are named once."""
        return self._combined(power, value)

    def min(self, value: object) -> A:
        """y[index] = the smallest of x[index] and the values for it."""
        return self._combined(minimum, value, largest=False)

    def max(self, value: object) -> A:
        """y[index] = the largest of x[index] and the values for it."""
        return self._combined(maximum, value, largest=True)

    def apply(self, function: Callable[[A], A]) -> A:
        """y[index] = function(x[index]), once where a place is named more than once."""
        return self.set(function(self.x[self.index]))  # type: ignore[index]  # whatever the indexing of an array takes

    def get(self, *, mode: str | None = None, fill_value: float | None = None) -> A:
        """x[index]; with `mode="fill"`, `fill_value` (nan when None) for places of one axis beyond the array."""
        if mode in (None, "promise_in_bounds"):
            return self.x[self.index]  # type: ignore[index]  # as above
        places = self.x.lift(np.asarray(self.index) if isinstance(self.index, int | list) else self.index)
        if mode not in ("fill", "clip") or places is None or places.spec.dtype.kind != "int":
            need = "'fill' or 'clip', and integers for the first axis"
            raise AttributeValueError("at", got=f"mode={mode!r} with {shown(self.index)}", need=need)
        size = self.x.shape[0]
        counted = (
            places
            if mode == "clip"
            else where(less(places, scalar_like(places, 0)), add(places, scalar_like(places, size)), places)
        )
        near = minimum(maximum(counted, scalar_like(counted, 0)), scalar_like(counted, size - 1))
        taken: A = self.x[near]  # type: ignore[index]  # as above
        if mode == "clip":
            return taken
        inside = equal(near, counted)
        wide = broadcast_to(reshape(inside, (*inside.shape, *(1,) * (taken.spec.rank - inside.spec.rank))), taken.shape)
        return where(wide, taken, scalar_like(taken, np.nan if fill_value is None else fill_value))

    def _where(self, rule: Callable[[A, A], A], value: object) -> A | None:
        """By a mask whose values only a run knows, of a value that is one for all places; None for other indices."""
        x, mask = self.x, self.index
        if not isinstance(mask, Operand) or mask.spec.dtype is not BOOL or _values(mask) is not None:
            return None
        rank = mask.spec.rank
        operand = self._operand(value)
        if mask.shape != x.shape[:rank] or operand.spec.rank > x.spec.rank - rank:
            return None
        wide = reshape(mask, (*mask.shape, *(1,) * (x.spec.rank - rank)))
        # The two worlds' operands may be of two classes.
        return where(broadcast_to(wide, x.shape), rule(x, broadcast_to(operand, x.shape)), x)  # type: ignore[return-value]

    def _combined(self, rule: Callable[[A, A], A], value: object, largest: bool | None = None) -> A:
        """`rule` of x and the value; where `largest` says which of several counts, that stands last and is kept."""
        if (chosen := self._where(rule, value)) is not None:
            return chosen
        flat, (places, values) = reshape(self.x, (-1,)), self._pairs(value)
        known = _values(places)
        repeats = known is None or len(np.unique(known)) != known.size
        if largest is not None and repeats:
            order = sort(values, 0, descending=not largest)[1]
            places, values = gather(places, order, 0), gather(values, order, 0)
        elif known is not None and repeats:
            raise AttributeValueError(
                "at", got="a place that is named twice", need="each once", fix="use add() or set()"
            )
        return reshape(scatter(flat, places, rule(gather(flat, places, 0), values), 0), self.x.shape)

    def _pairs(self, value: object) -> tuple[A, A]:
        """Where the elements of x[index] are in the row-major order of x, and what is given for each."""
        x = self.x
        order = reshape(arange_like(x, x.spec.elements, dtype=I64), x.shape)
        places: A = order[self.index]  # type: ignore[index]  # whatever the indexing of an array takes
        return reshape(places, (-1,)), reshape(broadcast_to(self._operand(value), places.shape), (-1,))

    def _operand(self, value: object) -> A:
        """The value in the array's element type."""
        x = self.x
        kind = x.spec.dtype.kind
        own = isinstance(value, list) or (isinstance(value, complex) and kind == "complex")
        given = np.asarray(value, x.spec.dtype.numpy) if own else value
        operand = scalar_like(x, given) if isinstance(given, int | float) else x.lift(given)
        if operand is None and isinstance(given, LiftingOperand):
            # An operand of an inner world, such as a batch around it, which takes x there.
            operand = given  # type: ignore[assignment]  # the two worlds' operands are of two classes
        if operand is None or (operand.spec.dtype.kind != kind and not _holds(x.spec.dtype, operand.spec.dtype)):
            got = f"a {type(value).__name__}" if operand is None else str(operand.spec)
            raise DTypeError("at", got=got, need=f"a number or an array of {x.spec.dtype}", fix="astype() it")
        return cast(operand, x.spec.dtype)


def _holds(dtype: DType, other: DType) -> bool:
    """True for complex numbers beside floats, and for integers of other signs that fit."""
    return np.can_cast(other.numpy, dtype.numpy) and (other.kind, dtype.kind) in (("float", "complex"), ("uint", "int"))
