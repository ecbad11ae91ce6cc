"""Functions that keep their arguments alone for a gradient, and chains of steps that keep a few states.

    y = checkpoint(f)(x)                     what f computes on the way is gone, and computed again for a gradient
    x_n = iterate(step, x_0, n)              x_{i+1} = step(x_i); the gradient has `snapshots` states at a time

A chain of n steps with s snapshots, the first of them x_0, is reversed by the binomial schedule (Griewank and Walther,
Algorithm 799: Revolve, 2000), which makes the fewest steps that there can be:

    t(n, s) = r n - β(s + 1, r - 1),   β(s, r) = (s + r)! / s! r!,   β(s, r - 1) < n ≤ β(s, r)

Both are nodes of the record; what they compute may depend on their arguments alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Literal, TypeAlias

import numpy as np

from nnc.arguments import Count, Size, checked
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.calls import RecordedCall
from nnc.dynamic.graph import DynamicGraph, default_graph
from nnc.dynamic.traced import active_trace, is_array
from nnc.dynamic.transforms.batched import active_levels, operand_of
from nnc.dynamic.transforms.control_flow import scan
from nnc.dynamic.transforms.leaves import ArrayPlaces
from nnc.dynamic.transforms.pullback import vjp
from nnc.dynamic.transforms.randomness import drawing_from, reserved_counters
from nnc.dynamic.transforms.transformed import transformation
from nnc.dynamic.tree import Structure, Tree, flatten
from nnc.dynamic.variable import Variable
from nnc.errors import ShapeError

Function = Callable[..., Any]
# From the values of all inputs to those of all outputs.
Pure: TypeAlias = Callable[[Sequence[Variable]], Sequence[Variable]]


@transformation
def checkpoint(function: Function) -> Function:
    """The function, of whose work a gradient keeps the arguments alone: it is computed again, with the same draws.

    >>> import nnc
    >>> layer = checkpoint(lambda x: nnc.ops.tanh(x * 2.0))
    >>> nnc.grad(lambda x: layer(x).sum())(0.0).item()
    2.0
    """

    @wraps(function)
    def run(*args: Tree, **kwargs: Tree) -> Tree:
        leaves, structure = flatten((args, kwargs))
        graph = _recording_graph(leaves)
        if graph is None:
            return function(*args, **kwargs)
        # The gradient sees the arrays of the node.
        rest = ArrayPlaces(leaves, structure)
        inputs = [graph.constant(reserved_counters(1)), *(_variable(graph, leaves[place]) for place in rest.places)]

        def again(values: Sequence[Variable]) -> tuple[list[Any], Structure]:
            counter, *arrays = values
            positional, named = rest.filled(arrays)
            with drawing_from(int(counter)):
                return flatten(function(*positional, **named))

        call = FunctionCall(
            graph, lambda values: _operands(again(values)[0]), tuple(operand.spec for operand in inputs)
        )
        with graph.apart():
            outputs, shape = again([operand.detach() for operand in inputs])
        recorded = iter(call.recorded(inputs, _operands(outputs)))
        return shape.unflatten([next(recorded) if is_array(output) else output for output in outputs])

    return run


@checked
def iterate(
    step: Function, state: Tree, steps: Size, *operands: Tree, snapshots: Count | Literal["sqrt", "log"] = "sqrt"
) -> Tree:
    """The state behind so many `steps`: state = step(state, *operands), which keeps shapes and element types.

    A gradient holds `snapshots` states at a time, the first one among them: a number, or the square root or the binary
    logarithm of the steps, rounded up. In compiled functions it is a loop of the program, which keeps all states.

    >>> nnc.iterate(lambda x: x * 2, nnc.tensor(1.0), 5).item()
    32.0
    """
    if active_trace() is not None:
        return scan(lambda carry, _: (step(carry, *operands), ()), state, np.zeros(steps, np.float32))[0]
    (first, shape), (rest, others) = flatten(state), flatten(operands)
    graph = _recording_graph([*first, *rest])
    if graph is None or not steps:
        for _ in range(steps):
            state = step(state, *operands)
        return state
    slots = {"sqrt": math.ceil(math.sqrt(steps)), "log": math.ceil(math.log2(steps))}
    kept = max(slots[snapshots], 1) if isinstance(snapshots, str) else snapshots
    # Numbers and other static operands stay as they are. The call outlives arrays in the table of gradient programs.
    beside = ArrayPlaces(rest, others)
    inputs = [_variable(graph, leaf) for leaf in (*first, *(rest[place] for place in beside.places))]
    specs, size = tuple(operand.spec for operand in inputs), len(first)

    def pure(values: Sequence[Variable]) -> Sequence[Variable]:
        leaves, form = flatten(step(shape.unflatten(values[:size]), *beside.filled(values[size:])))
        made = tuple(operand_of(entry).spec for entry in leaves)
        if form != shape or made != specs[:size]:
            got, need = f"a step that gives {', '.join(map(str, made))}", "a state like the one before"
            raise ShapeError("iterate", got=got, need=need, origin=caller_origin())
        return [operand_of(entry) for entry in leaves]  # type: ignore[misc]  # eager values

    call = _ChainCall(graph, pure, specs, size, steps, kept, int(reserved_counters(steps)))
    return shape.unflatten(call.applied(inputs))


def fewest_steps(count: int, snapshots: int) -> int:
    """t(n, s): how many steps the reversal of a chain makes, beside those that it differentiates.

    >>> fewest_steps(1000, 10), fewest_steps(5, 1)
    (3636, 10)
    """
    turns = _turns(count, snapshots)
    return turns * count - (math.comb(snapshots + turns, turns - 1) if turns else 0)


def _turns(count: int, snapshots: int) -> int:
    """r: how often a step is made at most."""
    turns = 0
    while math.comb(snapshots + turns, turns) < count:
        turns += 1
    return turns


def next_snapshot(count: int, snapshots: int) -> int:
    """How many steps behind the first state of a chain the second snapshot lies: t = m + t(n - m, s - 1) + t(m, s)."""
    if snapshots == 1:
        return count - 1
    turns = _turns(count, snapshots)
    return max(math.comb(snapshots + turns - 2, snapshots), count - math.comb(snapshots - 1 + turns, turns), 1)


class FunctionCall(RecordedCall):
    """A function of eager values as a node: it runs again for its gradient."""

    def __init__(self, graph: DynamicGraph, function: Pure, inputs: tuple[TensorSpec, ...]) -> None:
        self.graph, self.function, self.inputs = graph, function, inputs
        self.own = len(inputs)
        self.specs = ()
        self.results = 0
        self._pulled: dict[tuple[int, ...], RecordedCall] = {}

    def with_outputs(self, specs: tuple[TensorSpec, ...]) -> FunctionCall:
        """The same with the specs of what it gives."""
        self.specs, self.results = specs, len(specs)
        return self

    def applied(self, inputs: Sequence[Variable]) -> tuple[Variable, ...]:
        """Run it, and record it."""
        return self.recorded(inputs, self.values([operand.detach() for operand in inputs]))

    def recorded(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> tuple[Variable, ...]:
        """Record that it has run."""
        tensors = [_contiguous(output) for output in outputs]
        self.with_outputs(tuple(tensor.spec for tensor in tensors))
        return self.graph.record_call(self, inputs, tensors)

    def values(self, inputs: Sequence[Variable]) -> Sequence[Variable]:
        """What it gives for constants; SymbolError where it reads a recorded variable beside them."""
        with self.graph.apart():
            return self.function(inputs)

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Write what it gives."""
        given = [Variable(self.graph, operand, None) for operand in inputs]
        for output, value in zip(outputs, self.values(given), strict=True):
            output.copy_from(value.tensor)

    def pullback(self, wanted: tuple[int, ...]) -> RecordedCall:
        """The function's own gradient, by its record."""
        if wanted not in self._pulled:
            specs = (*self.inputs, *(spec for spec in self.specs if spec.dtype.is_float))
            pulled = FunctionCall(self.graph, lambda values: self._slopes(values, wanted), specs)
            self._pulled[wanted] = pulled.with_outputs(tuple(self.inputs[place] for place in wanted))
        return self._pulled[wanted]

    def _slopes(self, values: Sequence[Variable], wanted: tuple[int, ...]) -> Sequence[Variable]:
        return _pulled_back(self.function, values[: self.own], values[self.own :], wanted)


class _ChainCall(FunctionCall):
    """`count` steps, which change the first `size` of the values."""

    def __init__(
        self,
        graph: DynamicGraph,
        step: Pure,
        inputs: tuple[TensorSpec, ...],
        size: int,
        count: int,
        snapshots: int,
        counter: int,
    ) -> None:
        super().__init__(graph, lambda values: self.advanced(values, 0, count), inputs)
        self.step, self.size, self.count, self.snapshots, self.counter = step, size, count, snapshots, counter

    def advanced(self, values: Sequence[Variable], start: int, steps: int) -> list[Variable]:
        """The state behind some steps more."""
        state, operands = list(values[: self.size]), values[self.size :]
        for number in range(start, start + steps):
            with drawing_from(self.counter + number):
                state = list(self.step((*state, *operands)))
        return state

    def pullback(self, wanted: tuple[int, ...]) -> RecordedCall:
        """The reversal; its own gradient is that of the plain chain's."""
        if wanted not in self._pulled:
            plain = super().pullback(wanted)
            assert isinstance(plain, FunctionCall)
            self._pulled[wanted] = _ReversalCall(self, plain, wanted)
        return self._pulled[wanted]


class _ReversalCall(FunctionCall):
    """The gradient of a chain, step by step from the end: a few states are kept, the others computed again."""

    def __init__(self, chain: _ChainCall, plain: FunctionCall, wanted: tuple[int, ...]) -> None:
        super().__init__(chain.graph, plain.function, plain.inputs)
        self.with_outputs(plain.specs)
        self.chain, self.wanted = chain, wanted

    def values(self, inputs: Sequence[Variable]) -> Sequence[Variable]:
        """d x_n / d input, times the seeds."""
        with self.graph.apart():
            return self._reversed(inputs[: self.chain.own], inputs[self.chain.own :])

    def _reversed(self, inputs: Sequence[Variable], seeds: Sequence[Variable]) -> list[Variable]:
        chain, size = self.chain, self.chain.size
        operands = tuple(inputs[size:])
        floats = [place for place in range(size) if chain.inputs[place].dtype.is_float]
        places = (*floats, *(place for place in self.wanted if place >= size))
        # Snapshots: the number of the state, and the state.
        stack = [(0, list(inputs[:size]))]
        sums: dict[int, Variable] = {}
        for number in reversed(range(chain.count)):
            state = self._state(number, stack, operands)

            def step(values: Sequence[Variable], turn: int = number) -> Sequence[Variable]:
                with drawing_from(chain.counter + turn):
                    return chain.step(values)

            slopes = dict(zip(places, _pulled_back(step, (*state, *operands), seeds, places), strict=True))
            seeds = [slopes[place] for place in floats]
            for place in places[len(floats) :]:
                sums[place] = sums[place] + slopes[place] if place in sums else slopes[place]
        sums.update(zip(floats, seeds, strict=True))
        return [sums[place] for place in self.wanted]

    def _state(
        self, number: int, stack: list[tuple[int, list[Variable]]], operands: tuple[Variable, ...]
    ) -> list[Variable]:
        """State `number`, from the last snapshot in front of it; others are made on the way."""
        while stack[-1][0] > number:
            stack.pop()
        chain = self.chain
        start, state = stack[-1]
        while start < number:
            free = chain.snapshots - len(stack)
            steps = next_snapshot(number + 1 - start, free + 1) if free else number - start
            state = chain.advanced((*state, *operands), start, steps)
            start += steps
            if free:
                stack.append((start, state))
        return state


def _pulled_back(
    function: Pure, inputs: Sequence[Variable], seeds: Sequence[Variable], wanted: Sequence[int]
) -> Sequence[Variable]:
    """The gradients of the wanted inputs for the seeds of the floating outputs."""

    def of(*chosen: Variable) -> tuple[Variable, ...]:
        given = list(inputs)
        for place, value in zip(wanted, chosen, strict=True):
            given[place] = value
        return tuple(entry for entry in function(given) if entry.dtype.is_float)

    _, pullback = vjp(of, *(inputs[place] for place in wanted))
    slopes: tuple[Variable, ...] = pullback(tuple(seeds))
    return slopes


def _recording_graph(leaves: Sequence[Any]) -> DynamicGraph | None:
    """The graph that a call is to be recorded on, if it is."""
    if active_trace() is not None or active_levels():
        return None
    recorded = [entry for entry in leaves if isinstance(entry, Variable) and entry.place is not None]
    graph = recorded[0].graph if recorded else default_graph()
    assert isinstance(graph, DynamicGraph)
    return graph if recorded and graph.recording else None


def _operands(values: Sequence[Any]) -> list[Variable]:
    return [operand_of(entry) for entry in values if is_array(entry)]  # type: ignore[misc]  # eager values


def _variable(graph: DynamicGraph, value: Tree) -> Variable:
    return value if isinstance(value, Variable) else graph.constant(value)


def _contiguous(value: ArrayOperand) -> Tensor:
    assert isinstance(value, Variable)
    return value.tensor if value.tensor.is_contiguous else value.tensor.clone()
