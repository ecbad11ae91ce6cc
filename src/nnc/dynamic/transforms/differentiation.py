"""Derivatives of functions: of eager values at once, of traced values in the graph that is being recorded.

    grad(f)(x)              = df/dx                         value_and_grad(f)(x) = f(x), df/dx
    vjp(f, x)               = f(x), u ↦ uᵀ J                jvp(f, (x,), (v,))   = f(x), J v
    hessian(f)(x)[i…, j…]   = d²f / dx[i…] dx[j…]

The functions take numbers, arrays and variables, nested in tuples, lists and dictionaries, and derivatives come in the
same containers. They may be nested, to any order. A derivative goes by the argument alone: a variable that is an
argument and stands in the function beside it counts as two.

What comes back is recorded where it depends on variables that were recorded before the call, so that it can be
differentiated once more; else it is constant, and a loop of updates leaves nothing behind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

import numpy as np

from nnc.arguments import checked, shown
from nnc.concrete import CountBelow
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.graph import DynamicGraph, default_graph
from nnc.dynamic.state import HasParameters, constant_of, current
from nnc.dynamic.traced import FunctionTrace, TracedValue, active_trace, is_array
from nnc.dynamic.transforms.batched import BatchedValue, VmapLevel, active_levels, vmap
from nnc.dynamic.transforms.leaves import as_array_like, flatten_arrays, trained_of, unbatched
from nnc.dynamic.transforms.transformed import Function, transformation
from nnc.dynamic.tree import Structure, Tree, flatten, map_leaves
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, AttributeValueError, NotDifferentiableError, ShapeError
from nnc.ops.indexing.indexing import one_hot
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.movement import concatenate
from nnc.ops.number import INTEGERS
from nnc.symbolic.control import while_loop
from nnc.symbolic.forward import jvp as symbolic_jvp
from nnc.symbolic.gradient import backward
from nnc.symbolic.ir import Symbol


@transformation
def value_and_grad(
    function: Function, argnums: int | Sequence[int] | Function = 0, *, has_aux: bool = False
) -> Function:
    """The function that gives (value, gradient of the value by the arguments at `argnums`).

    The value is a scalar. With `has_aux` the function returns (value, anything else), and the other thing stands beside
    the value: ((value, aux), gradient).

    `value_and_grad(net, loss)` gives the value of `loss` and its gradient by the parameters of a layer or module, a
    dictionary by path; so does `value_and_grad(loss)` where the argument at `argnums` is a layer.
    """
    if not isinstance(argnums, (*INTEGERS, Sequence)):
        return _by_parameters(function, argnums, has_aux)

    @wraps(function)
    def differentiated(*args: Tree, **kwargs: Tree) -> Tree:
        if isinstance(argnums, INTEGERS) and argnums < len(args) and isinstance(args[argnums], HasParameters):
            return _by_parameters(args[argnums], function, has_aux)(*args, **kwargs)
        world = world_of("grad", (args, kwargs))
        with world.entered():
            leaves, structure, given = world.leaves(args, (argnums,) if isinstance(argnums, INTEGERS) else argnums)
            result = function(*given, **map_leaves(world.plain, kwargs))
            value, aux = result if has_aux else (result, None)
            gradients = structure.unflatten(world.backward([world.scalar(value)], leaves))
            first = gradients[0] if isinstance(argnums, INTEGERS) else gradients
            value, aux, first = map_leaves(world.settled, (value, aux, first))
        return ((value, aux) if has_aux else value), first

    return differentiated


def _by_parameters(owner: object, function: Function, has_aux: bool) -> Function:
    """(value, gradient by the trained parameters of their owner), all of it constant."""
    if not isinstance(owner, HasParameters):
        got, need = shown(owner), "a layer or module beside its loss"
        raise ArgumentError("value_and_grad", got=got, need=need, fix="value_and_grad(net, loss)(…)")

    @wraps(function)
    def differentiated(*args: Tree, **kwargs: Tree) -> Tree:
        world = world_of("grad", ())
        # A model has leaves from here on.
        owner.trainable_parameters()
        with world.entered():
            result = function(*args, **kwargs)
            value, aux = result if has_aux else (result, None)
            variables = trained_of(owner)
            leaves = [current(variable) for variable in variables.values()]
            slopes = world.constant_slopes(world.scalar(value), leaves)
            value, aux = map_leaves(_detached, (value, aux))
        return ((value, aux) if has_aux else value), dict(zip(variables, slopes, strict=True))

    return differentiated


def _detached(value: Tree) -> Tree:
    return constant_of(value) if isinstance(value, ArrayOperand) else value


@transformation
def grad(function: Function, argnums: int | Sequence[int] | Function = 0, *, has_aux: bool = False) -> Function:
    """The function that gives the gradient of the scalar `function`; with `has_aux` (gradient, aux).

    >>> nnc.grad(lambda x: (x * x).sum())(nnc.tensor(3.0)).item()
    6.0
    """
    both = value_and_grad(function, argnums, has_aux=has_aux)

    @wraps(function)
    def differentiated(*args: Tree, **kwargs: Tree) -> Tree:
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return differentiated


@checked
def jvp(function: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Tree, Tree]:
    """(function(*primals), its change when the primals move along the tangents)."""
    primals = tuple(primals)
    world = world_of("jvp", primals)
    with world.entered():
        leaves, structure, given = world.leaves(primals, range(len(primals)))
        directions = world.alike(tuple(tangents), structure, leaves)
        result = function(*given)
        outputs, shape = flatten_arrays("jvp", result)
        changes = world.forward(outputs, leaves, directions)
        return map_leaves(world.settled, result), map_leaves(world.settled, shape.unflatten(changes))


@transformation
def hessian(function: Function) -> Function:
    """The function that gives the second derivatives of the scalar `function` of one array: [*x.shape, *x.shape]."""

    @wraps(function)
    def differentiated(x: Tree) -> Tree:
        world = world_of("hessian", x)
        with world.entered():
            (leaf,), _, _ = world.leaves((x,), (0,))
            if not leaf.size:
                return world.settled(leaf.reshape(*leaf.shape, *leaf.shape))
            return world.settled(world.second(lambda entry: world.scalar(function(entry)), leaf))

    return differentiated


def argument_place(subject: str, number: int, count: int) -> int:
    """The place of argument `number`, which may count from the end."""
    if -count <= number < count:
        return number % count
    got, need = f"argument {number} of {count}", "a position of an argument"
    raise AttributeValueError(subject, got=got, need=need, origin=caller_origin())


class _World(ABC):
    """Where a function is differentiated: eagerly, or in a trace."""

    def __init__(self, subject: str) -> None:
        self.subject = subject

    @abstractmethod
    def entered(self) -> AbstractContextManager[None]:
        """What the function runs in."""

    @abstractmethod
    def leaf(self, value: Tree) -> Tree:
        """A value to differentiate by, which nothing else stands for."""

    @abstractmethod
    def plain(self, value: Tree) -> Tree:
        """An array as an operand of this world; anything else as it is."""

    @abstractmethod
    def backward(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> Sequence[Any]:
        """d(sum of outputs) / d(input)."""

    @abstractmethod
    def forward(self, outputs: Sequence[Any], inputs: Sequence[Any], tangents: Sequence[Any]) -> Sequence[Any]:
        """J v."""

    @abstractmethod
    def second(self, function: Function, leaf: Tree) -> Tree:
        """The matrix of second derivatives."""

    def constant_slopes(self, output: Any, inputs: Sequence[Any]) -> Sequence[Any]:  # noqa: ANN401  # an operand
        """d output / d input, for updates: nothing is differentiated by them."""
        return self.backward([output], inputs)

    @abstractmethod
    def settled(self, value: Tree) -> Tree:
        """A result as it leaves this world."""

    def leaves(self, args: Sequence[Any], argnums: Iterable[int]) -> tuple[list[Any], Structure, list[Any]]:
        """The leaves to differentiate by, how they hang together, and all arguments with them in their places."""
        places = [argument_place(self.subject, number, len(args)) for number in argnums]
        flat, structure = flatten(tuple(args[place] for place in places))
        made = [self._checked(value) for value in flat]
        # Other handles than those that derivatives are asked for, so that the function may assign to its arguments.
        chosen = dict(zip(places, structure.unflatten([entry.twin() for entry in made]), strict=True))
        given = [
            chosen[place] if place in chosen else map_leaves(self.plain, argument)
            for place, argument in enumerate(args)
        ]
        return made, structure, given

    def scalar(self, value: Tree) -> Tree:
        """The value, if it is one that has a gradient."""
        if not isinstance(value, ArrayOperand) or value.shape != ():
            kind = str(value.spec) if isinstance(value, ArrayOperand) else f"a {type(value).__name__}"
            got, fix = f"a function that gives {kind}", "sum() it, or use vjp()"
            raise ShapeError(self.subject, got=got, need="a scalar", fix=fix, origin=caller_origin())
        return value

    def alike(self, values: object, structure: Structure, operands: Sequence[Any]) -> list[Any]:
        """The values as operands, in the containers and of the shapes of these."""
        flat, other = flatten(values)
        pairs = zip(flat, operands, strict=False)
        lifted = [
            entry if isinstance(entry, BatchedValue) else operand.lift(as_array_like(entry, operand))
            for entry, operand in pairs
        ]
        got, need = [entry.shape for entry in lifted], [entry.shape for entry in operands]
        if other != structure or got != need:
            raise ShapeError(self.subject, got=f"shapes {got}", need=f"{need}, nested alike", origin=caller_origin())
        return [entry.astype(operand.dtype) for entry, operand in zip(lifted, operands, strict=True)]

    def _checked(self, value: Tree) -> Tree:
        made = self.leaf(value) if is_array(value) or isinstance(value, int | float | complex) else value
        if not isinstance(made, ArrayOperand) or not made.dtype.is_continuous:
            got = str(made.spec) if isinstance(made, ArrayOperand) else f"a {type(value).__name__}"
            need, fix = "floating-point arrays or numbers to differentiate by", "name others with argnums="
            raise NotDifferentiableError(self.subject, got=got, need=need, fix=fix, origin=caller_origin())
        return made


class _EagerWorld(_World):
    """Functions run at once, and their record is differentiated."""

    def __init__(self, subject: str, graph: DynamicGraph) -> None:
        super().__init__(subject)
        self.graph = graph
        self.outside = graph.recording
        self.mark = graph.mark()

    def entered(self) -> AbstractContextManager[None]:
        """Everything is recorded inside, even in `no_grad`: it is needed for the derivative."""
        return self.graph.recorded()

    def leaf(self, value: Tree) -> Variable:
        """A variable over the same memory."""
        return self.graph.fork(value) if isinstance(value, Variable) else self.graph.variable(value)

    def plain(self, value: Tree) -> Tree:
        """Arrays as constants."""
        return self.graph.constant(value) if is_array(value) and not isinstance(value, Variable) else value

    def backward(self, outputs: Sequence[Any], inputs: Sequence[Any], *, again: bool = False) -> Sequence[Any]:
        """Recorded where they are to be differentiated once more."""
        recorded = [output for output in outputs if output.place is not None]
        again = again or any(map(self._lasts, recorded))
        return self.graph.backward(recorded, inputs, create_graph=again, constant=not again)

    def forward(self, outputs: Sequence[Any], inputs: Sequence[Any], tangents: Sequence[Any]) -> Sequence[Any]:
        """Jᵀ u is linear in u: its own gradient by u, for seeds v, is J v, whatever u is."""
        seeds = [self.graph.variable(np.zeros(output.shape, output.dtype.numpy)) for output in outputs]
        pulled = self.backward([(y * u).sum() for y, u in zip(outputs, seeds, strict=True)], inputs, again=True)
        return self.backward([(g * v).sum() for g, v in zip(pulled, tangents, strict=True)], seeds)

    def second(self, function: Function, leaf: Tree) -> Tree:
        """Row by row: the gradient is recorded once, and each of its elements has a gradient."""
        (slope,) = self.backward([function(leaf)], [leaf], again=True)
        basis = np.eye(leaf.size, dtype=leaf.dtype.numpy).reshape(leaf.size, *leaf.shape)
        rows = [self.backward([(slope * row).sum()], [leaf])[0] for row in basis]
        return concatenate([row.add_axis(0) for row in rows]).reshape(*leaf.shape, *leaf.shape)

    def constant_slopes(self, output: Any, inputs: Sequence[Any]) -> Sequence[Any]:  # noqa: ANN401  # an operand
        """As `backward`, not recorded."""
        return self.graph.backward([output] if output.place is not None else [], inputs, constant=True)

    def settled(self, value: Tree) -> Tree:
        """Recorded where it depends on what was recorded before, else constant."""
        if not isinstance(value, Variable) or value.place is None or self._lasts(value):
            return value
        return value.detach()

    def _lasts(self, value: Variable) -> bool:
        return self.outside and self.graph.depends_on_older(value, self.mark)


class _TracedWorld(_World):
    """Derivatives are appended to the graph that is being recorded."""

    def __init__(self, subject: str, trace: FunctionTrace) -> None:
        super().__init__(subject)
        self.trace = trace

    def entered(self) -> AbstractContextManager[None]:
        """Everything is recorded inside, even in `no_grad`."""
        return self.trace.recording(True)

    def leaf(self, value: Tree) -> Tree:
        """A copy, which passes take away: derivatives go by the argument alone."""
        lifted = self.trace.lift(np.float32(value) if isinstance(value, int | float) else value)
        assert lifted is not None
        return contiguous(lifted)

    def plain(self, value: Tree) -> Tree:
        """Arrays as constants of the function."""
        return self.trace.lift(value) if is_array(value) else value

    def backward(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> Sequence[Any]:
        """By the symbolic pass."""
        return self._values(backward(self.trace.current, self._symbols(outputs), self._symbols(inputs)))

    def forward(self, outputs: Sequence[Any], inputs: Sequence[Any], tangents: Sequence[Any]) -> Sequence[Any]:
        """By the symbolic pass."""
        given = (self._symbols(outputs), self._symbols(inputs), self._symbols(tangents))
        return self._values(symbolic_jvp(self.trace.current, *given))

    def second(self, function: Function, leaf: Tree) -> Tree:
        """A loop over the rows, each the gradient of one element of the gradient."""
        trace, count = self.trace, leaf.size
        with while_loop(trace.current, CountBelow(count)) as loop:
            turn = loop.carry(trace.symbol(leaf.lift(np.float32(0.0))))
            loop.next(turn, turn)
            with trace.inside(loop.body, loop.count):
                (inner,) = self._values([loop.capture(trace.symbol(leaf))])
                inner = contiguous(inner)
                (slope,) = self.backward([function(inner)], [inner])
                row = one_hot(trace.value(loop.count).reshape(1), count, leaf.dtype).reshape(leaf.shape)
                (curved,) = self._symbols(self.backward([(slope * row).sum()], [inner]))
        return trace.value(loop.rows(curved)).reshape(*leaf.shape, *leaf.shape)

    def settled(self, value: Tree) -> Tree:
        """As it is."""
        return value

    def _symbols(self, values: Sequence[Any]) -> list[Symbol]:
        return [self.trace.symbol(value) for value in values]

    def _values(self, symbols: Sequence[Symbol]) -> list[TracedValue]:
        return [self.trace.value(symbol) for symbol in symbols]


class _BatchedWorld(_World):
    """A function is differentiated for each example of a batch, inside another world.

    Examples do not depend on each other, so the gradient of the sum over all of them is that of each: it goes by leaves
    of which each example has its own.
    """

    def __init__(self, subject: str, level: VmapLevel, around: _World) -> None:
        super().__init__(subject)
        self.level = level
        self.around = around

    def entered(self) -> AbstractContextManager[None]:
        """As around."""
        return self.around.entered()

    def leaf(self, value: Tree) -> Tree:
        """All examples as one leaf."""
        return self.level.example(self.around.leaf(self.level.whole(value)))

    def plain(self, value: Tree) -> Tree:
        """As around; batched values as they are."""
        return value if isinstance(value, BatchedValue) else self.around.plain(value)

    def backward(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> Sequence[Any]:
        """Of what depends on the leaves, which are batched."""
        reached = [entry.value for entry in outputs if self._is_own(entry)]
        return [self.level.example(entry) for entry in self.around.backward(reached, [entry.value for entry in inputs])]

    def forward(self, outputs: Sequence[Any], inputs: Sequence[Any], tangents: Sequence[Any]) -> Sequence[Any]:
        """All examples along their tangents."""
        given = ([self.level.whole(entry) for entry in each] for each in (outputs, inputs, tangents))
        return [self.level.example(entry) for entry in self.around.forward(*given)]

    def second(self, function: Function, leaf: Tree) -> Tree:
        """All rows at once: the derivative of the gradient along each direction."""
        basis = np.eye(leaf.size, dtype=leaf.dtype.numpy).reshape(leaf.size, *leaf.shape)
        rows = vmap(lambda direction: jvp(grad(function), (leaf,), (direction,))[1])(basis)
        return rows.reshape(*leaf.shape, *leaf.shape)

    def settled(self, value: Tree) -> Tree:
        """As around."""
        return self.level.example(self.around.settled(value.value)) if self._is_own(value) else value

    def _is_own(self, value: Tree) -> bool:
        return isinstance(value, BatchedValue) and value.level is self.level


def world_of(subject: str, arguments: object) -> _World:
    """The trace that is being recorded, or the dynamic graph of the arguments, or the default one; within batches."""
    world = _plain_world(subject, arguments)
    for level in active_levels():
        world = _BatchedWorld(subject, level, world)
    return world


def _plain_world(subject: str, arguments: object) -> _World:
    trace = active_trace()
    if trace is not None:
        return _TracedWorld(subject, trace)
    first = _first_variable(arguments)
    graph = default_graph() if first is None else first.graph
    assert isinstance(graph, DynamicGraph)
    return _EagerWorld(subject, graph)


def _first_variable(arguments: Tree) -> Variable | None:
    """The first leaf that is a variable, or a batch of one."""
    waiting = [arguments]
    while waiting:
        value = unbatched(waiting.pop())
        if isinstance(value, Variable):
            return value
        if isinstance(value, dict):
            waiting.extend(reversed(value.values()))
        elif isinstance(value, tuple | list):
            waiting.extend(reversed(value))
    return None
