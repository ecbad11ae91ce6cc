"""Traced values: what stands for a tensor while a function is recorded once, to be compiled.

A function trace is a symbolic graph that grows while the function runs on traced values instead of tensors. They have
shapes and element types, and no elements: whoever asks for those gets an error that says what to use.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nnc.core.precautions.origin import caller_origin
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.values.command import AnyCommand
from nnc.core.values.device import Device
from nnc.core.values.dtype import I64
from nnc.core.values.pool import Pool
from nnc.core.values.spec import Shape, TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.tree import Tree
from nnc.dynamic.values import tensor_of
from nnc.dynamic.variable import Variable
from nnc.errors import SymbolError, UsageError
from nnc.ops.movement.copy import stop_gradient
from nnc.ops.operand import Operand
from nnc.symbolic.gradient import backward
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.records import TensorKey

_ACTIVE: ContextVar[FunctionTrace | None] = ContextVar("active", default=None)


# Odd, with bits all over: counters of iterations are far from each other and from those of other calls (2^64 / φ).
SPREAD = 0x9E3779B97F4A7C15


def wrapped(number: int) -> np.ndarray:
    """The number modulo 2^64, as an i64."""
    return np.array(number % (1 << 64), np.uint64).view(np.int64)


class FunctionTrace:
    """The graph of a function that is being recorded; `current` is it, or the body of a loop or branch inside.

    `constants` are the tensors that the function brings along: arrays, and eager values that are not recorded.
    """

    def __init__(self, name: str) -> None:
        self.graph = SymbolicGraph(name)
        self.current = self.graph
        self.constants: dict[Symbol, Tensor] = {}
        self.is_open = False
        self.is_recording = True
        # What draws of random numbers read: an input that each call gives another value. And how many draws there are.
        self.counter: TracedValue | None = None
        self.draws = 0
        # The counts of the loops whose bodies are being built, outermost first.
        self.turns: tuple[Symbol, ...] = ()
        self._pool = Pool()
        self._known: dict[tuple[int, Device | None], tuple[object, TracedValue]] = {}
        # Variables whose values come with each call, what becomes of them, and their gradients so far.
        self.captured: dict[int, tuple[Variable, TracedValue]] = {}
        self.renewed: dict[int, tuple[Variable, TracedValue]] = {}
        self.gradients: dict[int, TracedValue] = {}
        # Behind a renewal a parameter is a leaf again, by which gradients may be asked for: the last one, and all.
        self._leaf: dict[int, TracedValue] = {}
        self._leaves: dict[int, list[TracedValue]] = {}
        # What the program depends on beside its arguments.
        self.modes: dict[int, Callable[[], Hashable]] = {}

    @contextmanager
    def active(self) -> Iterator[None]:
        """Inside, in this thread, functions of eager and of traced values take the traced way."""
        token, self.is_open = _ACTIVE.set(self), True
        try:
            yield
        finally:
            _ACTIVE.reset(token)
            self.is_open = False

    @contextmanager
    def recording(self, wanted: bool) -> Iterator[None]:
        """Inside, gradients flow through what is computed, or none does."""
        before, self.is_recording = self.is_recording, wanted
        try:
            yield
        finally:
            self.is_recording = before

    @contextmanager
    def inside(self, body: SymbolicGraph, turn: Symbol | None = None) -> Iterator[None]:
        """Inside, commands go to the body of a branch, or of a loop whose count of iterations is `turn`."""
        before, self.current = self.current, body
        self.turns += () if turn is None else (turn,)
        try:
            yield
        finally:
            self.current = before
            self.turns = self.turns if turn is None else self.turns[:-1]

    def input(self, spec: TensorSpec, name: str) -> TracedValue:
        """A value that comes with each call."""
        return TracedValue(self, self.graph.input(spec, name))

    def held(self, variable: Variable) -> TracedValue:
        """The value of a variable that each call finds, or what the function has made of it."""
        number = id(variable)
        if number not in self.renewed:
            return self._capture(variable)
        renewed = self.renewed[number][1]
        if variable.place is None:
            return renewed
        if number not in self._leaf:
            self._leaf[number] = stop_gradient(renewed)
            self._leaves.setdefault(number, []).append(self._leaf[number])
        return self._leaf[number]

    def _capture(self, variable: Variable) -> TracedValue:
        """The value that each call finds."""
        number = id(variable)
        if number not in self.captured:
            self.captured[number] = (variable, self.input(variable.spec, "state"))
        return self.captured[number][1]

    def renew(self, variable: Variable, value: object) -> None:
        """The variable has this value behind each call."""
        if self.current is not self.graph:
            got, fix = "a variable that the body of a loop or branch assigns to", "carry it, and assign it behind"
            raise UsageError("compile", got=got, need="a value", fix=fix, origin=caller_origin())
        traced = self.lift(value)
        assert traced is not None
        self._capture(variable)
        self.renewed[id(variable)] = (variable, traced)
        self._leaf.pop(id(variable), None)

    def accumulate(self, output: TracedValue) -> None:
        """Add the gradient of a scalar to those of all variables that are held and may be trained."""
        leaves = [
            (number, leaf)
            for number, (variable, value) in self.captured.items()
            if variable.place is not None
            for leaf in (value, *self._leaves.get(number, ()))
        ]
        if any(variable.leaf_hooks is not None for variable, _ in self.captured.values()):
            got, fix = "a parameter with a hook", "nnc.custom_vjp says a gradient in compiled functions"
            raise UsageError("backward", got=got, need="an eager loop", fix=fix, origin=caller_origin())
        slopes = backward(self.current, [self.symbol(output)], [self.symbol(value) for _, value in leaves])
        for (number, _), symbol in zip(leaves, slopes, strict=True):
            gradient = self.value(symbol)
            known = self.gradients.get(number)
            self.gradients[number] = gradient if known is None else known + gradient

    def draw(self) -> tuple[TracedValue, int]:
        """The counter of a call, in loops another one for each iteration, and a seed that no other draw has."""
        if self.counter is None:
            self.counter = self.input(TensorSpec((), I64), "counter")
        self.draws += 1
        counter = self.counter
        for depth, turn in enumerate(self.turns):
            counter = counter + (self.value(turn) + 1) * wrapped(SPREAD ** (depth + 1))
        return counter, self.draws

    def value(self, symbol: Symbol) -> TracedValue:
        """The traced value of a symbol."""
        return TracedValue(self, symbol)

    def symbol(self, value: object, device: Device | None = None) -> Symbol:
        """The symbol, in the graph that is being built, of what a command reads; an array is on that `device`."""
        traced = self.lift(value, device)
        if traced is None:
            raise SymbolError("compile", got=f"a {type(value).__name__}", need="an array", origin=caller_origin())
        return self.current.symbol(self._own(traced))

    def _own(self, traced: TracedValue) -> TensorKey:
        if traced.trace is not self or not self.is_open:
            raise SymbolError(
                "compile",
                got=f"{traced.spec}, traced by a call that is over",
                need="values of this call",
                fix="return it from the compiled function instead of keeping it",
                origin=caller_origin(),
            )
        return self.current.own(traced.symbol)

    def lift(self, value: object, device: Device | None = None) -> TracedValue | None:
        """A constant of the function for an array or an eager value; SymbolError for a recorded one.

        An array goes to the `device`, where one is named.
        """
        if isinstance(value, TracedValue):
            return value
        if isinstance(value, Variable) and value.place is not None:
            raise SymbolError(
                "compile",
                got=f"a recorded variable {value.spec} that is no argument",
                need="every variable as an argument, so that a call sees its value of that day and gradients reach it",
                fix="pass it to the compiled function, or detach() it to have its value fixed",
                origin=caller_origin(),
            )
        if not isinstance(value, Variable | Tensor) and (isinstance(value, Operand) or not hasattr(value, "__array__")):
            return None
        if isinstance(value, Variable):
            device = value.spec.device
        key = (id(value), device)
        if key not in self._known:
            tensor = value.tensor if isinstance(value, Variable) else value
            share = isinstance(tensor, Tensor) and _stays(tensor, device)
            constant = tensor_of(tensor, None, self._pool, device=device, share=share)
            self._known[key] = (value, TracedValue(self, self.constant(constant)))
        return self._known[key][1]

    def constant(self, tensor: Tensor) -> Symbol:
        """The symbol of a tensor that the function brings along."""
        symbol = self.graph.input(tensor.spec, "constant")
        self.constants[symbol] = tensor
        return symbol


def _stays(tensor: Tensor, device: Device | None) -> bool:
    """Whether it lies in a file that is mapped to be read: nobody changes it, and processes have it in memory once."""
    here = tensor.is_contiguous and device in (None, tensor.spec.device)
    return here and tensor.storage.file is not None and tensor.storage.read_only


def active_trace() -> FunctionTrace | None:
    """The trace that is being recorded in this thread."""
    return _ACTIVE.get()


class TracedValue(ArrayOperand, Uncopied):
    """A tensor of a function that is being recorded: its spec outlives that, its elements come in a run."""

    __slots__ = ("__weakref__", "_spec", "symbol", "trace")
    instead: ClassVar[str] = "return it from the compiled function"

    def __init__(self, trace: FunctionTrace, symbol: Symbol) -> None:
        self.trace = trace
        self.symbol = symbol
        self._spec = symbol.spec

    @property
    def spec(self) -> TensorSpec:
        """Shape, element type, layout and device."""
        return self._spec

    @property
    def strides(self) -> Shape:
        """Strides in elements over the root's memory."""
        return self.symbol.strides

    @property
    def offset(self) -> int:
        """Elements between the root's first element and this value's."""
        return self.symbol.offset

    def apply(self, command: AnyCommand, inputs: Sequence[Operand | None]) -> tuple[Self, ...]:
        """Append the command to the graph that is being built."""
        for other in inputs:
            if isinstance(other, ArrayOperand) and not isinstance(other, TracedValue | Variable):
                return other.apply(command, inputs)  # type: ignore[return-value, arg-type]  # a batch around this value
        trace = self.trace
        trace.symbol(self)
        symbols = [None if operand is None else trace.symbol(operand, self._spec.device) for operand in inputs]
        outputs = tuple(type(self)(trace, symbol) for symbol in trace.current.apply(command, symbols))
        if trace.is_recording or command.op is stop_gradient:
            return outputs
        return tuple(stop_gradient(output) if output.dtype.is_continuous else output for output in outputs)

    def alias(self, spec: TensorSpec, offset: int, strides: Shape) -> Self:
        """A part of the same memory."""
        symbol = self.trace.symbol(self)
        return type(self)(self.trace, symbol.graph.alias(symbol.key, spec, offset, strides))

    def lift(self, value: object) -> Self | None:
        """An array, on the device of this value, or an eager value as a constant of the function."""
        return self.trace.lift(value, self._spec.device)  # type: ignore[return-value]  # the class is final

    def twin(self) -> Self:
        """Another handle of the same value."""
        return type(self)(self.trace, self.symbol)

    def _assign(self, new: Self) -> None:
        if type(new) is not type(self):
            got = f"what is known only under vmap(), {new.spec}"
            raise UsageError("x[index] = value", got=got, need="a traced value", fix="x = x.at[index].set(value)")
        self.symbol, self._spec = new.symbol, new.spec

    def backward(self, gradient: ArrayOperand | None = None, retain_graph: bool | None = None) -> None:
        """Add the gradient of this scalar to `grad` of each parameter that the function uses; see `Variable`."""
        if gradient is not None:
            (self * stop_gradient(gradient)).sum().backward()
            return
        if self.shape:
            self._refuse("backward", "a scalar", "sum() or mean() it")
        self.trace.accumulate(self)

    def detach(self) -> Self:
        """The same elements, through which no gradient flows."""
        return stop_gradient(self)

    def renewed(self, command: AnyCommand, inputs: Sequence[Operand | None]) -> tuple[Self, ...]:
        """As `apply`: what takes the place of old values is the caller's matter."""
        return self.apply(command, inputs)

    def numpy(self) -> NDArray[np.generic]:
        """SymbolError: there are no elements before the run."""
        self._refuse("numpy", "elements", "compute with nnc.ops, or return it and look at it outside")

    def item(self) -> NoReturn:
        """SymbolError, as `numpy`."""
        self._refuse("item", "a number", "compute with nnc.ops, or return it and look at it outside")

    def tolist(self) -> NoReturn:
        """SymbolError, as `numpy`."""
        self._refuse("tolist", "numbers", "compute with nnc.ops, or return it and look at it outside")

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        return self.numpy()

    def __bool__(self) -> bool:
        self._refuse("truth", "a truth value", "choose with nnc.ops.where(), nnc.cond() or nnc.while_loop()")

    def __float__(self) -> float:
        self._refuse("float", "a number", "leave it a tensor, or make it a static argument")

    def __int__(self) -> int:
        self._refuse("int", "a number", "leave it a tensor, or make it a static argument")

    def __index__(self) -> int:
        self._refuse("index", "a number", "x[i] takes it as it is; sizes must be static arguments")

    def _refuse(self, subject: str, need: str, fix: str) -> NoReturn:
        got = f"the traced value {self.spec}, which has elements only in a run"
        raise SymbolError(subject, got=got, need=need, fix=fix, origin=caller_origin())

    def __repr__(self) -> str:
        return f"TracedValue({self.spec})"


ARRAYS = (ArrayOperand, Tensor, np.ndarray)


def is_array(value: Tree) -> bool:
    """True for what a compiled function takes as a tensor: arrays, tensors, variables and traced values."""
    return isinstance(value, ARRAYS) or (hasattr(value, "__array__") and not isinstance(value, Operand | type))
