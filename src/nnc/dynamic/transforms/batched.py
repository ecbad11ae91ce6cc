"""Functions of one example applied to a whole batch, by the batching rules of operators.

    vmap(f)(x)[b] = f(x[b])        vmap(f, in_axes=(0, None))(x, w)[b] = f(x[b], w)

Inside, an argument that is mapped is a batched value: it has the shape of one example and stands for all of them, and a
command on it runs once for the whole batch, eagerly or in the trace of a compiled function. What the function has from
elsewhere is the same for all examples. Calls nest; a command belongs to the innermost one that maps an operand of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from typing import Any, ClassVar, Literal, NoReturn, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from nnc.core.precautions.origin import caller_origin
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.spec import OptionalSpecs, Shape, TensorSpec
from nnc.core.values.tensor import as_array
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.graph import default_graph
from nnc.dynamic.traced import active_trace, is_array
from nnc.dynamic.transforms.transformed import transformation
from nnc.dynamic.tree import Structure, Tree, flatten
from nnc.errors import AttributeValueError, ShapeError, SymbolError, UsageError
from nnc.ops.batching import BATCHED, BatchedCall
from nnc.ops.movement.broadcast import broadcast_to, reshape
from nnc.ops.movement.movement import transpose
from nnc.ops.number import INTEGERS
from nnc.ops.operand import Operand
from nnc.ops.rules import infer

Function = Callable[..., Any]


class VmapLevel:
    """A call of a function under vmap, `depth` of them around it, with `size` examples; closed when it is over.

    Random numbers are the same for all examples, unless `draws_differ`.
    """

    def __init__(self, size: int, *, draws_differ: bool = False) -> None:
        around = _LEVELS.get()
        self.size = size
        self.draws_differ = draws_differ
        self.depth = len(around)
        self.is_open = False

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Inside, in this thread, derivatives are those of each example."""
        token, before, self.is_open = _LEVELS.set((*_LEVELS.get(), self)), self.is_open, True
        try:
            yield
        finally:
            _LEVELS.reset(token)
            self.is_open = before

    @contextmanager
    def left(self) -> Iterator[None]:
        """Inside, the innermost call is the one around this."""
        token = _LEVELS.set(_LEVELS.get()[: self.depth])
        try:
            yield
        finally:
            _LEVELS.reset(token)

    def example(self, value: object) -> object:
        """The batched value of an operand with the batch as first axis; anything else as it is."""
        return BatchedValue(self, value) if isinstance(value, ArrayOperand) else value

    def whole(self, value: object) -> ArrayOperand:
        """All examples, the batch as first axis: repeated where there is one value for all."""
        if isinstance(value, BatchedValue) and value.level is self:
            return value.value
        operand = operand_of(value)
        return broadcast_to(operand, (self.size, *operand.shape))


_LEVELS: ContextVar[tuple[VmapLevel, ...]] = ContextVar("levels", default=())


def active_levels() -> tuple[VmapLevel, ...]:
    """The calls under vmap that this thread is in, outermost first."""
    return _LEVELS.get()


@contextmanager
def outside_levels() -> Iterator[None]:
    """Inside, no call under vmap is active: what is done here has all examples."""
    token = _LEVELS.set(())
    try:
        yield
    finally:
        _LEVELS.reset(token)


@transformation
def vmap(
    function: Function, in_axes: Tree = 0, out_axes: Tree = 0, *, randomness: Literal["same", "different"] = "same"
) -> Function:
    """The function of one example, for a batch of them: commands run once, by the batching rules of operators.

    `in_axes` says which axis of each argument is the batch, None for what is the same for all examples: one value for
    all arguments, or one for each, which may be nested as the argument is. Arrays among keyword arguments have it
    first. `out_axes` says the same of the results. Numbers and other static arguments have None. `randomness` says
    whether all examples draw the same numbers (`nnc.dropout` and its kin) or each draws its own.

    >>> vmap(lambda x, y: (x * y).sum())(np.ones((3, 2)), np.ones((3, 2))).shape
    (3,)
    """

    @wraps(function)
    def mapped(*args: Tree, **kwargs: Tree) -> Tree:
        axes = in_axes if isinstance(in_axes, tuple | list) else (in_axes,) * len(args)
        if len(axes) != len(args):
            _refuse(f"in_axes of {len(axes)} arguments", f"{len(args)}, one per argument")
        leaves, structure = flatten((args, kwargs))
        places = [*_axes_of(tuple(axes), flatten(args)[1])]
        places += [0 if is_array(leaf) else None for leaf in leaves[len(places) :]]
        fronted = [_fronted(leaf, axis) for leaf, axis in zip(leaves, places, strict=True)]
        level = VmapLevel(_size(fronted, places), draws_differ=randomness == "different")
        given = [entry if axis is None else level.example(entry) for entry, axis in zip(fronted, places, strict=True)]
        with level.entered():
            positional, named = structure.unflatten(given)
            outputs, shape = flatten(function(*positional, **named))
            results = [_result(level, *pair) for pair in zip(outputs, _axes_of(out_axes, shape), strict=True)]
        return shape.unflatten(results)

    return mapped


class BatchedValue(ArrayOperand, Uncopied):
    """One example's value, for all examples: `value` has the batch as first axis."""

    __slots__ = ("level", "value")
    instead: ClassVar[str] = "return it from the function under vmap()"

    def __init__(self, level: VmapLevel, value: ArrayOperand) -> None:
        self.level = level
        self.value = value

    @property
    def spec(self) -> TensorSpec:
        """Shape, element type, layout and device, of one example."""
        return replace(self.value.spec, shape=self.value.shape[1:])

    @property
    def strides(self) -> Shape:
        """Strides in elements over the root's memory."""
        return self.value.strides[1:]

    @property
    def offset(self) -> int:
        """Elements between the root's first element and the first example's."""
        return self.value.offset

    def apply(self, command: AnyCommand, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run the command for all examples, by its batching rule, in the innermost call that maps an input."""
        levels = [entry.level for entry in (self, *inputs) if isinstance(entry, BatchedValue)]
        level = max(levels, key=lambda entry: entry.depth)
        if not level.is_open:
            got = f"{self.spec}, of a call under vmap() that is over"
            self._refuse("values of this call", "return it from the function instead of keeping it", got)
        if not any(isinstance(entry, BatchedValue) and entry.level is level for entry in inputs):
            outputs: tuple[Any, ...] = self.value.apply(command, inputs)
            return outputs
        if command.op not in BATCHED:
            name = command.op.name
            raise UsageError(
                name,
                got="operands under vmap()",
                need=f"a batching rule of {name}, which has none",
                fix="loop over the examples, or give operator() a rule `batched`",
                origin=caller_origin(),
            )
        call = _LevelCall(level, command, inputs)
        # What one example refuses is refused: a rule sees axes that the example has not.
        infer(command.op, command.attrs, call.specs)
        results: tuple[Any, ...] = BATCHED[command.op](call)
        return tuple(BatchedValue(level, result) for result in results)

    def alias(self, spec: TensorSpec, offset: int, strides: Shape) -> Any:  # noqa: ANN401  # a class is no type of its own
        """The same part of each example."""
        whole = replace(spec, shape=(self.level.size, *spec.shape))
        return BatchedValue(self.level, self.value.alias(whole, offset, (self.value.strides[0], *strides)))

    def lift(self, value: object) -> Any:  # noqa: ANN401  # operands of all kinds meet here
        """Other operands as they are; an array as an operand that is the same for all examples."""
        return value if isinstance(value, ArrayOperand) else self.value.lift(value)

    def renewed(self, command: AnyCommand, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """As `apply`: what takes the place of old values is the caller's matter."""
        return self.apply(command, inputs)

    def twin(self) -> Any:  # noqa: ANN401  # as above
        """Another handle of the same values."""
        return BatchedValue(self.level, self.value)

    def _assign(self, new: Any) -> None:  # noqa: ANN401  # as above
        if new.level is not self.level:
            got, need = f"values of an inner call, {new.spec}", "values of this call"
            raise UsageError("x[index] = value", got=got, need=need, fix="x = x.at[index].set(value)")
        self.value = new.value

    def detach(self) -> Any:  # noqa: ANN401  # as above
        """The same elements, through which no gradient flows."""
        value: Any = self.value
        return BatchedValue(self.level, value.detach())

    def numpy(self) -> NDArray[np.generic]:
        """SymbolError: it stands for many values."""
        self._refuse("elements of one value", "compute with nnc.ops, or return it and look at it outside")

    def item(self) -> NoReturn:
        """SymbolError, as `numpy`."""
        self._refuse("one number", "compute with nnc.ops, or return it and look at it outside")

    def tolist(self) -> NoReturn:
        """SymbolError, as `numpy`."""
        self._refuse("numbers of one value", "compute with nnc.ops, or return it and look at it outside")

    def backward(self, gradient: ArrayOperand | None = None, retain_graph: bool | None = None) -> NoReturn:
        """SymbolError: it stands for many values."""
        self._refuse("one scalar", "nnc.grad(f) inside of vmap(), or backward() of a sum outside")

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        return self.numpy()

    def __bool__(self) -> bool:
        self._refuse("one truth value", "choose with nnc.ops.where(), nnc.cond() or nnc.while_loop()")

    def __float__(self) -> float:
        self._refuse("one number", "leave it a tensor, or give it in_axes None")

    def __int__(self) -> int:
        self._refuse("one number", "leave it a tensor, or give it in_axes None")

    def __index__(self) -> int:
        self._refuse("one number", "x[i] takes it as it is; sizes must be the same for all examples")

    def _refuse(self, need: str, fix: str, got: str = "") -> NoReturn:
        shown = got or f"a batched value, {self.spec} for each of {self.level.size} examples"
        raise SymbolError("vmap", got=shown, need=need, fix=fix, origin=caller_origin())

    def __repr__(self) -> str:
        return f"BatchedValue({self.spec}, {self.level.size} examples)"


class _LevelCall(BatchedCall[Any]):
    """An application inside a call under vmap; inputs of that call stand with their batch, others as they are."""

    def __init__(self, level: VmapLevel, command: AnyCommand, inputs: Sequence[Any]) -> None:
        self.level = level
        self.command = command
        self.inputs = inputs
        self.attrs = command.attrs
        self.size = level.size
        self.specs: OptionalSpecs = tuple(None if entry is None else entry.spec for entry in inputs)
        self.batched = tuple(isinstance(entry, BatchedValue) and entry.level is level for entry in inputs)
        names = command.op.inputs
        self.names = names if isinstance(names, tuple) else ("x",) * len(inputs)

    def plain(self, index: int) -> Operand | None:
        """Input `index` as it is."""
        if self.batched[index]:
            raise UsageError(
                self.command.op.name,
                got=f"{self.names[index]} under vmap()",
                need=f"one {self.names[index]} for all examples",
                fix="give it in_axes None, or loop over the examples",
                origin=caller_origin(),
            )
        operand: Operand | None = self.inputs[index]
        return operand

    def spread(self, index: int) -> Operand:
        """[b, …]"""
        return self.level.whole(self.inputs[index])

    def aligned(self, index: int, rank: int) -> Operand:
        """[b, 1…, …] of `rank` axes behind the batch."""
        if not self.batched[index]:
            operand: Operand = self.inputs[index]
            return operand
        whole: ArrayOperand = self.inputs[index].value
        return reshape(whole, (self.size, *(1,) * (rank + 1 - whole.spec.rank), *whole.shape[1:]))

    def merged(self, index: int, axis: int) -> Operand:
        """[…, b · n, …]"""
        whole = self.spread(index)
        place = axis % (whole.spec.rank - 1)
        order = (*range(1, place + 1), 0, *range(place + 1, whole.spec.rank))
        moved = transpose(whole, order)
        return reshape(moved, (*moved.shape[:place], self.size * whole.shape[place + 1], *moved.shape[place + 2 :]))

    def parted(self, y: Operand, axis: int) -> Operand:
        """[b, …, n, …]"""
        place = axis % y.spec.rank
        rest = y.shape[place] // self.size if self.size else 0
        return self.fronted(reshape(y, (*y.shape[:place], self.size, rest, *y.shape[place + 1 :])), place)

    def fronted(self, y: Operand, axis: int) -> Operand:
        """The axis first."""
        return transpose(y, (axis, *(other for other in range(y.spec.rank) if other != axis)))

    def apply(self, inputs: Sequence[Operand | None], attrs: object = None) -> tuple[Operand, ...]:
        """The operator in the world around this call."""
        command = self.command if attrs is None else Command(self.command.op, attrs)
        first = next(entry for entry in inputs if entry is not None)
        return first.apply(command, inputs)

    def composed(self, function: Callable[[Sequence[Operand]], Sequence[Operand]]) -> tuple[Operand, ...]:
        """The function of batched values."""
        results = function([entry for entry in self.inputs if entry is not None])
        return tuple(self.level.whole(entry) for entry in results)

    def again(self, inputs: Sequence[Operand]) -> tuple[Operand, ...]:
        """The operator on batched values."""
        outputs: tuple[Operand, ...] = inputs[0].apply(self.command, inputs)
        return outputs


def operand_of(value: object) -> ArrayOperand:
    """An operand as it is; an array or a number as a constant of the world that the caller is in."""
    if isinstance(value, ArrayOperand):
        return value
    trace = active_trace()
    # What f32 does not hold is infinite in it.
    with np.errstate(over="ignore"):
        given = np.float32(value) if isinstance(value, float) else value
        array = value if is_array(value) else as_array(cast("ArrayLike", given))
    made = default_graph().constant(array) if trace is None else trace.lift(array)  # type: ignore[arg-type]  # it is an array
    assert made is not None
    return made


def _refuse(got: str, need: str) -> NoReturn:
    raise AttributeValueError("vmap", got=got, need=need, origin=caller_origin())


def _axes_of(axes: Tree, structure: Structure) -> Iterator[int | None]:
    """The axis of each leaf; an axis that stands for a container is that of all leaves in it."""
    if axes is None or isinstance(axes, INTEGERS):
        yield from (None if axes is None else int(axes) for _ in structure.paths())
        return
    if structure.kind is None:
        _refuse(f"axes of type {type(axes).__name__}", "an axis, or None")
    parts = [axes[key] for key in structure.keys if key in axes] if isinstance(axes, Mapping) else list(axes)
    if isinstance(axes, Mapping) != (structure.kind is dict) or len(parts) != len(structure.parts):
        _refuse("axes in other containers than the values", "one axis for a container, or one for each part")
    for part, inner in zip(parts, structure.parts, strict=True):
        yield from _axes_of(part, inner)


def _fronted(leaf: Tree, axis: int | None) -> Tree:
    """An array with the batch as first axis; what is the same for all examples as it is."""
    if axis is None:
        return leaf
    if not is_array(leaf):
        _refuse(f"a {type(leaf).__name__} to map", "arrays; None in in_axes for what is the same for all examples")
    operand = operand_of(leaf)
    rank = operand.ndim
    if not -rank <= axis < rank:
        raise ShapeError("vmap", got=f"axis {axis} of {operand.spec}", need="an axis", origin=caller_origin())
    return transpose(operand, (axis % rank, *(other for other in range(rank) if other != axis % rank)))


def _size(fronted: Sequence[Tree], places: Sequence[int | None]) -> int:
    sizes = {entry.shape[0] for entry, axis in zip(fronted, places, strict=True) if axis is not None}
    if len(sizes) != 1:
        got = f"batches of {sorted(sizes)}" if sizes else "nothing to map"
        raise ShapeError("vmap", got=got, need="arrays of equally many examples", origin=caller_origin())
    (size,) = sizes
    return int(size)


def _result(level: VmapLevel, value: Tree, axis: int | None) -> Tree:
    """A result with the batch along `axis`; None asks for one that is the same for all examples."""
    if not (is_array(value) or isinstance(value, int | float)):
        return value
    if axis is None:
        if isinstance(value, BatchedValue) and value.level is level:
            _refuse(f"a result {value.spec} that differs between examples", "an axis for it in out_axes")
        return value
    whole = level.whole(value)
    rank = whole.ndim
    if not -rank <= axis < rank:
        raise ShapeError("vmap", got=f"axis {axis} for {whole.spec}", need="an axis", origin=caller_origin())
    return transpose(whole, (*range(1, axis % rank + 1), 0, *range(axis % rank + 1, rank)))
