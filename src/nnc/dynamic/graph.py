"""The dynamic graph: commands run at once on variables, and their record is a symbolic graph.

No tape: `backward` is the symbolic pass on the record. What is already known (the forward values) is given to the
compiler, so only gradients are computed. A gradient program is kept and used again when the same computation is
recorded again, as in every step of a training loop.

What no variable that is still held depends on is forgotten (`nnc.dynamic.record`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import explained, frequent, shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.precautions.recent import RecentlyUsed, TwoGenerations
from nnc.core.running.dispatch import cached_kernels
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.device import CPU
from nnc.core.values.recorder import PROFILER
from nnc.core.values.spec import Shape, TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.dynamic.calls import RecordedCall
from nnc.dynamic.execution.lazy import COMMANDS, NBYTES, QUEUES, CommandQueue, Gathering, LazyPrograms, LazyReport
from nnc.dynamic.execution.memoization import CACHES, ResultCache, remembering, unshared
from nnc.dynamic.execution.prepared import PreparedCommand, prepare_command
from nnc.dynamic.program import Computation, GradientProgram, Signature, gradient_program
from nnc.dynamic.record import (
    Place,
    RecordedNode,
    RecordedView,
    leading_to,
    outputs_of,
    root_of,
)  # fmt: skip
from nnc.dynamic.recording_graph import APART, UNRECORDED, RecordingGraph
from nnc.dynamic.refusals import captured_operand, check_command, check_variables, foreign_operand
from nnc.dynamic.replay import Replay
from nnc.dynamic.tensor_hooks import accumulate, gradients_through, hooked_places, hooks_of, retain
from nnc.dynamic.traced import active_trace
from nnc.dynamic.variable import Reduced, Variable
from nnc.errors import ArgumentError, ArityError, SymbolError
from nnc.ops.movement.copy import contiguous
from nnc.ops.rules import NoAttrs
from nnc.symbolic.compiler import Arena
from nnc.symbolic.minimization import steering_dtype


@explained
class DynamicGraph(RecordingGraph):
    """Makes variables, runs commands on them, records, differentiates; from any thread."""

    instead: ClassVar[str] = "make a graph, and variables in it of the values"

    def __init__(self, backend: str = "") -> None:
        super().__init__()
        self.backend = backend
        self._programs: RecentlyUsed[Signature, GradientProgram] = RecentlyUsed(
            lambda entry: entry.compiled.compiled.memory().program
        )
        self._ready: TwoGenerations[tuple[object, ...], PreparedCommand] = TwoGenerations(cached_kernels)
        self._arena = Arena()
        self._lazy = LazyPrograms(backend, self._pool)

    # ---- running

    @frequent
    def execute(self, command: AnyCommand, inputs: Sequence[Variable | None]) -> tuple[Variable, ...]:
        """Run `command` now; record it when an input is recorded."""
        ready, tensors, places, oldest = self._looked_up(command, inputs)
        if ready.writes_over or QUEUES.get() or CACHES.get():
            outputs = self._run_ready(ready, tensors, inputs)
        else:
            outputs = ready.run(self._pool, tensors)
        if oldest is None or self._number in UNRECORDED.get():
            if oldest is not None and self._number in APART.get():
                raise captured_operand(command)
            if len(outputs) == 1:
                return (Variable(self, outputs[0], None),)
            return tuple([Variable(self, tensor, None) for tensor in outputs])
        node = self._node(ready, tensors, places, outputs, oldest, caller_origin())
        if len(outputs) == 1:
            return (self._recorded(outputs[0], node),)
        return tuple(map(self._recorded, outputs, outputs_of(node)))

    def _compute(self, command: AnyCommand, inputs: Sequence[Variable | None]) -> tuple[Tensor, ...]:
        """Run `command` now, without recording it."""
        ready, tensors, _, _ = self._looked_up(command, inputs)
        return self._run_ready(ready, tensors, inputs)

    def _looked_up(
        self, command: AnyCommand, inputs: Sequence[Variable | None]
    ) -> tuple[PreparedCommand, list[Tensor | None], list[Place | None], int | None]:
        """The command on these operands' specs, their tensors and places, and the oldest node that leads to one."""
        tensors: list[Tensor | None] = []
        places: list[Place | None] = []
        key: list[AnyCommand | TensorSpec | None] = [command]
        oldest: int | None = None
        try:
            for variable in inputs:
                if variable is None:
                    tensors.append(None)
                    places.append(None)
                    key.append(None)
                    continue
                if type(variable) is not Variable:
                    raise foreign_operand(command, variable)
                place, tensor = variable.place, variable.tensor
                if place is not None:
                    if variable.graph is not self:
                        raise foreign_operand(command, variable)
                    if oldest is None or place.oldest < oldest:
                        oldest = place.oldest
                tensors.append(tensor)
                places.append(place)
                key.append(tensor.spec)
        except TypeError:
            raise ArgumentError("execute", got=f"inputs={shown(inputs)}", need="several operands") from None
        try:
            ready = self._ready.get(tuple(key))
        except TypeError:
            check_command(command)
            raise
        if ready is None:
            ready = self.prepared(command, tuple([None if tensor is None else tensor.spec for tensor in tensors]))
        return ready, tensors, places, oldest

    def _run_ready(
        self, ready: PreparedCommand, tensors: list[Tensor | None], inputs: Sequence[Variable | None]
    ) -> tuple[Tensor, ...]:
        """The outputs of a command: now, or as far as commands wait or results are kept in this thread."""
        queue, cache = QUEUES.get().get(self._number), CACHES.get().get(self._number)
        if ready.writes_over:
            if queue is not None:
                queue.run()
            return ready.run(self._pool, [unshared(entry) for entry in tensors])

        def compute() -> tuple[Tensor, ...]:
            return ready.run(self._pool, tensors) if queue is None else queue.append(ready, inputs)

        return compute() if cache is None else cache.outputs(ready, inputs, compute)

    @frequent
    def replay(self, replay: Replay, values: Sequence[Variable]) -> tuple[Variable, ...] | None:
        """The outputs of commands on values of the specs that they are for, as `execute` gives them one by one.

        None where that has more to do than to run and to record them: where commands wait, results are kept, or
        somebody looks at each.
        """
        unrecorded = self._number in UNRECORDED.get()
        if QUEUES.get() or CACHES.get() or PROFILER.recorders or (unrecorded and self._number in APART.get()):
            return None
        tensors: list[Tensor | None] = [None]
        places: list[Place | None] = [None]
        for value in values:
            if value.graph is not self:
                return None
            tensors.append(value.tensor)
            places.append(None if unrecorded else value.place)
        for command in replay.commands:
            given = [tensors[number] for number in command.inputs]
            made = command.ready.run(self._pool, given)
            tensors += made
            known = [places[number] for number in command.inputs]
            ages = [place.oldest for place in known if place is not None]
            if ages:
                node = self._node(command.ready, given, known, made, min(ages), command.origin)
                places += outputs_of(node)
            else:
                places += [None] * len(made)
            for number in command.last:
                tensors[number] = None
        return tuple([self._given(tensors[number], places[number]) for number in replay.outputs])

    def _given(self, tensor: Tensor | None, place: Place | None) -> Variable:
        assert tensor is not None
        return Variable(self, tensor, None) if place is None else self._recorded(tensor, place)

    def prepared(self, command: AnyCommand, specs: tuple[TensorSpec | None, ...]) -> PreparedCommand:
        """The command on these specs: the same object as long as the table keeps it."""
        ready = self._ready.get((command, *specs))
        if ready is not None:
            return ready
        check_command(command)
        return self._ready.put((command, *specs), prepare_command(command, specs, self.backend))

    def lazy(self, most_commands: int = COMMANDS, most_bytes: int = NBYTES) -> AbstractContextManager[LazyReport]:
        """Commands in this thread (or asynchronous task) wait until somebody looks at a value (`execution.lazy`)."""
        return Gathering(self._number, CommandQueue(self._lazy, most_commands, most_bytes))

    @contextmanager
    def memoized(self, cache: ResultCache) -> Iterator[ResultCache]:
        """Equal commands on equal elements, in this thread (or task), are computed once (`execution.memoization`)."""
        with remembering(self._number, cache):
            yield cache

    def reduced(self, variable: Variable) -> Reduced:
        """What pickle keeps of a leaf or a constant: its elements, restored on the default graph."""
        restored = restored_constant if variable.place is None else restored_leaf
        copy = self.copied(variable)
        return restored, (copy.numpy() if copy.spec.device.is_host else copy.tensor,)

    def view(self, of: Variable, spec: TensorSpec, offset: int, strides: Shape) -> Variable:
        """A variable over a part of `of`'s root."""
        tensor = of.root.view(spec, offset, strides)
        if of.place is None:
            return Variable(self, tensor, None, of.root)
        place = RecordedView(root_of(of.place), spec, offset, strides, next(self._numbers), caller_origin())
        return self._recorded(tensor, place, of.root)

    # ---- gradients

    def backward(
        self,
        outputs: Sequence[Variable],
        inputs: Sequence[Variable],
        *,
        create_graph: bool = False,
        constant: bool = False,
    ) -> tuple[Variable, ...]:
        """d(sum of outputs) / d(input), one variable per input.

        With `create_graph` the gradients are recorded too and can be differentiated again; else they are leaves, or
        with `constant` not recorded at all.
        """
        targets = [self._place_of(variable, "output") for variable in outputs]
        sources = [self._place_of(variable, "input") for variable in inputs]
        computation = Computation(targets, sources)
        program = self._programs.get(computation.signature)
        if program is None:
            made = gradient_program(computation, self.backend, self._arena)
            program = self._programs.put(computation.signature, made)
            self._arena.fit(self, (entry.compiled.compiled for entry in self._programs.values()))
        return self._run(program, computation, create_graph, constant)

    def accumulate(self, output: Variable) -> None:
        """Add the gradient of a scalar to `grad` of each leaf variable that led to it."""
        self._place_of(output, "output")
        assert output.place is not None
        leading = leading_to([output.place])
        nodes = {place for place in leading if isinstance(place, RecordedNode)}
        held = [variable for variable in (reference() for reference in self._held.copy()) if variable is not None]
        leaves = [each for each in held if each.place in nodes and self.is_leaf(each) and each.dtype.is_continuous]
        hooked = hooked_places(leading)
        if not leaves and not hooked:
            return
        if hooked:
            with self.recorded():
                gradients = gradients_through(self, output, leaves, hooked)
        else:
            gradients = self.backward([output], leaves, constant=True)
        for leaf, gradient in zip(leaves, gradients, strict=True):
            accumulate(leaf, gradient)

    def hooks_of(self, variable: Variable) -> list[Callable[[Variable], Variable | None]]:
        """What the gradient of a value that was computed goes through."""
        return hooks_of(variable).hooks

    def retain(self, variable: Variable) -> None:
        """Let a value that was computed have its gradient."""
        retain(variable)

    def gradients_of_trace(self) -> dict[int, Any] | None:
        """In a function that is compiled, the gradients of variables so far."""
        trace = active_trace()
        return None if trace is None else trace.gradients

    @frequent
    def renew(self, old: Variable, command: AnyCommand, inputs: Sequence[Variable | None]) -> tuple[Variable, ...]:
        """Run a command that is not recorded and whose first output takes the place of `old`: a leaf for a leaf."""
        new, *others = self._compute(command, inputs)
        first = Variable(self, new, None) if old.place is None else self._leaf(new)
        return (first, *[Variable(self, tensor, None) for tensor in others])

    def apply_gradients(
        self,
        optimizer: AnyCommand,
        parameters: Sequence[Variable],
        gradients: Sequence[Variable],
        states: Sequence[Sequence[Variable]],
        scalars: Sequence[float],
    ) -> tuple[list[Variable], list[tuple[Variable, ...]]]:
        """One `optimizer` command per parameter: (new parameters as fresh leaves, new states).

        `scalars` are the command's last inputs, such as the rate. The old variables keep their values.
        """
        if not len(parameters) == len(gradients) == len(states):
            got = f"{len(parameters)} parameters, {len(gradients)} gradients, {len(states)} states"
            raise ArityError("apply_gradients", got=got, need="one gradient and one list of states per parameter")
        dtype = steering_dtype(*(parameter.spec.dtype for parameter in parameters))
        devices = dict.fromkeys(parameter.spec.device for parameter in parameters)
        steering = {device: [self.constant(value, dtype, device=device) for value in scalars] for device in devices}
        leaves, following = [], []
        for parameter, gradient, state in zip(parameters, gradients, states, strict=True):
            operands = (gradient, parameter, *state, *steering[parameter.spec.device])
            updated, *rest = self._compute(optimizer, operands)
            leaves.append(self._leaf(updated))
            following.append(tuple(Variable(self, tensor, None) for tensor in rest))
        return leaves, following

    def fork(self, variable: Variable) -> Variable:
        """A recorded variable of the same value, over the same memory, for a gradient that goes by it alone."""
        place, tensor = variable.place, variable.tensor
        if place is None:
            return self._leaf(tensor)
        if not tensor.is_contiguous:
            return contiguous(variable)
        copy = self.prepared(Command(contiguous, NoAttrs()), (tensor.spec,))
        node = self._node(copy, (tensor,), (place,), (tensor,), place.oldest, caller_origin())
        return self._recorded(tensor, node)

    def reserved(self) -> tuple[int, int, int]:
        """Bytes that tensors have, bytes that wait for tensors, bytes of the arena of gradient programs."""
        return self._pool.lent, self._pool.waiting, self._arena.taken

    @frequent
    def record_call(
        self, call: RecordedCall, inputs: Sequence[Variable], results: Sequence[Tensor], tape: Sequence[Tensor] = ()
    ) -> tuple[Variable, ...]:
        """Record what has been run elsewhere as one node; its `tape` lives as long as a gradient may read it."""
        tensors, places = [operand.tensor for operand in inputs], [operand.place for operand in inputs]
        oldest = min(place.oldest for place in places if place is not None)
        node = self._node(call, tensors, places, (*results, *tape), oldest, caller_origin())
        return tuple([self._recorded(*pair) for pair in zip(results, outputs_of(node), strict=False)])

    def _place_of(self, variable: Variable, role: str) -> Place:
        check_variables("backward", [variable])
        if variable.graph is not self or variable.place is None:
            got = f"an {role} {variable.spec} that is not recorded"
            raise SymbolError(
                "backward", got=got, need="a variable of this graph", fix="make it with variable(), outside no_grad()"
            )
        return variable.place

    def _run(
        self, program: GradientProgram, computation: Computation, create_graph: bool, constant: bool
    ) -> tuple[Variable, ...]:
        """Run a program on the places of a computation; the gradients as leaves, or recorded, or neither."""
        roots = [computation.memory(number) for number in program.given]
        for number, root in zip(program.given, roots, strict=True):
            if root.storage.watch is not None:
                computation.check_unwritten(number, root.storage)
        roots += program.compiled.fresh(self._pool)
        program.compiled.run(roots)
        tensors = [
            roots[result.root] if result.part is None else roots[result.root].view(*result.part)
            for result in program.results
        ]
        if not create_graph:
            return tuple([Variable(self, entry, None) if constant else self._leaf(entry) for entry in tensors])
        slots = program.grafted(computation.places, roots, self._numbers)
        return tuple(
            [
                self._recorded(tensor, slots[entry.slot], None if entry.part is None else roots[entry.root])
                for entry, tensor in zip(program.results, tensors, strict=True)
            ]
        )


_DEFAULT = DynamicGraph()


def default_graph() -> DynamicGraph:
    """The graph of `nnc.tensor` and `nnc.variable`, which the whole process shares."""
    return _DEFAULT


def restored_constant(elements: NDArray[np.generic] | Tensor) -> Variable:
    """A constant that was pickled, on the default graph."""
    return _DEFAULT.constant(elements, device=None if isinstance(elements, Tensor) else CPU)


def restored_leaf(elements: NDArray[np.generic] | Tensor) -> Variable:
    """A leaf that was pickled, on the default graph."""
    return _DEFAULT.variable(elements, device=None if isinstance(elements, Tensor) else CPU)
