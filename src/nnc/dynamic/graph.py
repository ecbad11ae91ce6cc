"""The dynamic graph: commands run at once on variables, and their record is a symbolic graph.

No tape: `backward` is the symbolic pass on the record. What is already known (the forward values) is given to the
compiler, so only gradients are computed. A gradient program is kept and used again when the same computation is
recorded again, as in every step of a training loop.

What no variable that is still held depends on is forgotten (`nnc.dynamic.record`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, ClassVar
from weakref import getweakrefs, ref

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import explained, frequent, shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.precautions.recent import RecentlyUsed, TwoGenerations
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.running.dispatch import cached_kernels
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.device import CPU, Device
from nnc.core.values.dtype import DType
from nnc.core.values.pool import Pool
from nnc.core.values.recorder import PROFILER
from nnc.core.values.spec import Shape, TensorSpec
from nnc.core.values.storage import Storage
from nnc.core.values.tensor import Tensor
from nnc.dynamic.calls import RecordedCall
from nnc.dynamic.execution.lazy import COMMANDS, NBYTES, QUEUES, CommandQueue, Gathering, LazyPrograms, LazyReport
from nnc.dynamic.execution.memoization import CACHES, ResultCache, remembering, unshared
from nnc.dynamic.execution.prepared import PreparedCommand, prepare_command
from nnc.dynamic.program import Computation, GradientProgram, Signature, gradient_program
from nnc.dynamic.record import (
    NUMBERS,
    Place,
    RecordedNode,
    RecordedOutput,
    RecordedView,
    RecordGraph,
    Source,
    leading_to,
    node_of,
    outputs_of,
    root_of,
)  # fmt: skip
from nnc.dynamic.refusals import check_command, check_variables, foreign_operand, recorded_beside
from nnc.dynamic.replay import Replay
from nnc.dynamic.tensor_hooks import accumulate, gradients_through, hooked_places, hooks_of, retain
from nnc.dynamic.traced import active_trace
from nnc.dynamic.values import tensor_of
from nnc.dynamic.variable import Reduced, Variable
from nnc.errors import ArgumentError, ArityError, SymbolError, UsageError
from nnc.ops.movement.copy import contiguous
from nnc.ops.rules import NoAttrs
from nnc.symbolic.compiler import Arena
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.minimization import steering_dtype
from nnc.symbolic.records import TensorKey

# Graphs by number that do not record in this context.
_UNRECORDED: ContextVar[frozenset[int]] = ContextVar("unrecorded", default=frozenset())
# Graphs by number of which nothing that is recorded may be read.
_APART: ContextVar[frozenset[int]] = ContextVar("apart", default=frozenset())
_NUMBERS = count()


@explained
class DynamicGraph(Uncopied):
    """Makes variables, runs commands on them, records, differentiates; from any thread."""

    instead: ClassVar[str] = "make a graph, and variables in it of the values"

    def __init__(self, backend: str = "") -> None:
        self.backend = backend
        self._number = next(_NUMBERS)
        # Numbers of nodes and views, and the variables that are recorded: what they lead to is the record.
        self._numbers = NUMBERS
        self._held: set[ref[Variable]] = set()
        self._let_go = self._held.discard
        self._record = RecordGraph()
        self._programs: RecentlyUsed[Signature, GradientProgram] = RecentlyUsed(
            lambda entry: entry.compiled.compiled.memory().program
        )
        self._ready: TwoGenerations[tuple[object, ...], PreparedCommand] = TwoGenerations(cached_kernels)
        self._arena = Arena()
        self._pool = Pool()
        self._lazy = LazyPrograms(backend, self._pool)

    # ---- the record

    @property
    def record(self) -> SymbolicGraph:
        """What is recorded now, as a symbolic graph, which is brought up to date at each look."""
        self._record.look(self._places)
        return self._record.graph

    def key_of(self, variable: Variable) -> TensorKey | None:
        """The symbol of a variable in the record, None for a constant."""
        check_variables("key_of", [variable])
        place = variable.place
        if place is None:
            return None
        if variable.graph is not self:
            got, need = f"{variable.spec} of another graph", "a variable of this one"
            raise SymbolError("key_of", got=got, need=need, fix="ask the graph that recorded it")
        self._record.look(self._places)
        return self._record.key(place)

    def _places(self) -> list[Place]:
        """The places that variables hold."""
        held = [entry() for entry in self._held.copy()]
        return [entry.place for entry in held if entry is not None and entry.place is not None]

    @frequent
    def hold(self, variable: Variable) -> None:
        """Keep what leads to a recorded variable in the record, as long as it lives."""
        if all(getweakref.__callback__ is not self._let_go for getweakref in getweakrefs(variable)):
            self._held.add(ref(variable, self._let_go))

    def _recorded(self, tensor: Tensor, place: Place, root: Tensor | None = None) -> Variable:
        """A recorded variable over `tensor`, a part of `root`."""
        made = Variable(self, tensor, place, root)
        self._held.add(ref(made, self._let_go))
        return made

    def _leaf(self, tensor: Tensor) -> Variable:
        """A variable over this very tensor."""
        if not self.recording:
            return Variable(self, tensor, None)
        compact = _contiguous(tensor)
        return self._recorded(compact, self._leaf_node(compact, caller_origin()))

    def _leaf_node(self, tensor: Tensor, origin: str) -> RecordedNode:
        number = next(self._numbers)
        return RecordedNode(None, (), (tensor,), number, number, origin)

    def _node(
        self,
        source: Source,
        tensors: Sequence[Tensor | None],
        places: Sequence[Place | None],
        outputs: tuple[Tensor, ...],
        oldest: int,
        origin: str,
    ) -> RecordedNode:
        """What ran on these tensors, recorded; one without a place gets a leaf for as long as the node reads it."""
        read: list[Place | None] = []
        watched: list[Storage] | None = None
        for tensor, place in zip(tensors, places, strict=True):
            if tensor is None:
                read.append(None)
                continue
            storage = tensor.storage
            if storage.watch is not None:
                watched = [storage, *(watched or ())]
            if place is None:
                kept = tensor if tensor.is_contiguous else tensor.clone()
                number = next(self._numbers)
                place = RecordedNode(None, (), (kept,), number, number, origin)
            read.append(place)
        number = next(self._numbers)
        for storage in watched or ():
            assert storage.watch is not None
            storage.watch.read(storage.bytes, number)
        return RecordedNode(source, tuple(read), outputs, number, oldest, origin)

    # ---- variables

    def variable(
        self,
        value: ArrayLike | Tensor,
        dtype: DType | str | None = None,
        *,
        share: bool = False,
        device: Device | None = None,
    ) -> Variable:
        """A leaf that gradients can be asked for; a copy of `value`, or with `share` its own memory.

        Shared memory is not to be written as long as anything that was computed from it waits for its gradient. A
        tensor stays on its device, anything else goes to that of the context (`nnc.device`), unless one is named.
        """
        return self._leaf(tensor_of(value, dtype, self._pool, share=share, device=device))

    def constant(
        self,
        value: ArrayLike | Tensor,
        dtype: DType | str | None = None,
        *,
        share: bool = False,
        device: Device | None = None,
    ) -> Variable:
        """A value that is not recorded: no gradient flows to it. Memory and device as in `variable`."""
        return Variable(self, tensor_of(value, dtype, self._pool, share=share, device=device), None)

    def detach(self, variable: Variable) -> Variable:
        """The same memory as a constant."""
        return Variable(self, variable.tensor, None, variable.root)

    def copied(self, variable: Variable) -> Variable:
        """A leaf or a constant like this one, in memory of its own; SymbolError for what was computed."""
        place = variable.place
        if place is None:
            return Variable(self, variable.tensor.clone(), None)
        if type(place) is not RecordedNode or place.source is not None:
            got, need = "a variable that was computed", "a leaf or a constant: a copy would lose its gradient"
            raise SymbolError("copy", got=got, need=need, fix="detach() it", origin=caller_origin())
        tensor = variable.tensor.clone()
        return self._recorded(tensor, self._leaf_node(tensor, caller_origin()))

    def reduced(self, variable: Variable) -> Reduced:
        """What pickle keeps of a leaf or a constant: its elements, restored on the default graph."""
        restored = restored_constant if variable.place is None else restored_leaf
        copy = self.copied(variable)
        return restored, (copy.numpy() if copy.spec.device.is_host else copy.tensor,)

    def twin(self, variable: Variable) -> Variable:
        """Another handle of the same value."""
        if variable.place is None:
            return self.detach(variable)
        if type(variable.place) is RecordedView:
            return self._recorded(variable.tensor, variable.place, variable.root)
        # Another object over the same memory tells this handle from the one that `variable` gave.
        tensor = variable.tensor.view(variable.spec, 0, variable.tensor.strides)
        return self._recorded(tensor, variable.place, variable.tensor)

    def is_leaf(self, variable: Variable) -> bool:
        """True for a recorded variable that nothing computed, and for a view of one; not for its twins."""
        place = variable.place
        if place is None or node_of(place).source is not None:
            return False
        return type(place) is RecordedView or variable.tensor is variable.root

    @property
    def recording(self) -> bool:
        """False inside `no_grad`."""
        return self._number not in _UNRECORDED.get()

    @contextmanager
    def no_grad(self) -> Iterator[None]:
        """Run without recording, in this thread (or asynchronous task) alone."""
        token = _UNRECORDED.set(_UNRECORDED.get() | {self._number})
        try:
            yield
        finally:
            _UNRECORDED.reset(token)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """As `no_grad`, and SymbolError for commands that read what was recorded before: what runs here runs again."""
        token = _APART.set(_APART.get() | {self._number})
        try:
            with self.no_grad():
                yield
        finally:
            _APART.reset(token)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Run with recording in this thread, whatever is so outside."""
        token = _UNRECORDED.set(_UNRECORDED.get() - {self._number})
        try:
            yield
        finally:
            _UNRECORDED.reset(token)

    # ---- running

    @frequent
    def execute(self, command: AnyCommand, inputs: Sequence[Variable | None]) -> tuple[Variable, ...]:
        """Run `command` now; record it when an input is recorded."""
        ready, tensors, places, oldest = self._looked_up(command, inputs)
        if ready.writes_over or QUEUES.get() or CACHES.get():
            outputs = self._run_ready(ready, tensors, inputs)
        else:
            outputs = ready.run(self._pool, tensors)
        if oldest is None or self._number in _UNRECORDED.get():
            if oldest is not None and self._number in _APART.get():
                raise recorded_beside(command)
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
        unrecorded = self._number in _UNRECORDED.get()
        if QUEUES.get() or CACHES.get() or PROFILER.recorders or (unrecorded and self._number in _APART.get()):
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

    def at_place(self, tensor: Tensor, place: Place, root: Tensor) -> Variable:
        """A variable over what was recorded there."""
        return self._recorded(tensor, place, root)

    def settle(self, pairs: Iterable[tuple[Variable, Tensor]]) -> None:
        """Let leaves and constants hold other tensors: the same objects, of which what was computed knows nothing."""
        origin = caller_origin()
        for variable, given in pairs:
            tensor = given if given.is_contiguous else given.clone()
            variable.tensor = variable.root = tensor
            if variable.place is not None:
                # What is recorded is held already.
                variable.place = self._leaf_node(tensor, origin)

    def train(self, variable: Variable, wanted: bool) -> None:
        """Let a constant be a leaf, or a leaf a constant: the same object, whose gradient so far is forgotten."""
        if not wanted and not self.is_leaf(variable):
            got, fix = "a variable that was computed", "x.detach()"
            raise UsageError("requires_grad", got=got, need="a leaf or a constant", fix=fix, origin=caller_origin())
        if wanted and not variable.dtype.is_continuous:
            got, fix = str(variable.spec), "x.astype(nnc.f32) before"
            raise UsageError("requires_grad", got=got, need="floating-point elements", fix=fix, origin=caller_origin())
        variable.grad = None
        variable.place = None
        if wanted:
            variable.tensor = variable.root = _contiguous(variable.tensor)
            variable.place = self._leaf_node(variable.tensor, caller_origin())
            self.hold(variable)

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

    def mark(self) -> int:
        """What is recorded from now on has a greater number."""
        return next(self._numbers)

    def depends_on_older(self, variable: Variable, mark: int) -> bool:
        """True when something that was recorded before the mark leads to the variable."""
        return variable.place is not None and variable.place.oldest < mark

    def alive(self) -> list[tuple[TensorSpec, str, bool, int]]:
        """Spec, line, whether a variable holds it, and address of each recorded root that has memory."""
        places = self._places()
        held = {(node_of(entry), _index_of(entry)) for entry in places}
        return [
            (output.spec, node.origin, (node, index) in held, output.address)
            for node in leading_to(places)
            if isinstance(node, RecordedNode)
            for index, output in enumerate(node.outputs)
            if isinstance(output, Tensor)
        ]

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


def _index_of(place: Place) -> int:
    """Which output of its node a place is in."""
    root = root_of(place)
    return root.index if isinstance(root, RecordedOutput) else 0


def _contiguous(tensor: Tensor) -> Tensor:
    """`tensor`, or a copy in row-major order: aliases of recorded tensors count on that order."""
    return tensor if tensor.is_contiguous else tensor.clone()


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
