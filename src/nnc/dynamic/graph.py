"""The dynamic graph: commands run at once on variables, and their record is a symbolic graph.

No tape: `backward` is the symbolic pass on the record. What is already known (the forward values) is given to the
compiler, so only gradients are computed. A gradient program is kept and used again when the same computation is
recorded again, as in every step of a training loop.

A recorded exec is forgotten when no variable that is still held depends on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import ClassVar

from numpy.typing import ArrayLike

from nnc.arguments import explained, frequent, shown
from nnc.core.command import AnyCommand, Command
from nnc.core.dispatch import kept_kernels
from nnc.core.dtype import DType
from nnc.core.forking import fork_safe_rlock
from nnc.core.origin import caller_origin
from nnc.core.pool import Pool
from nnc.core.recent import RecentlyUsed, TwoGenerations
from nnc.core.shield import Shield
from nnc.core.spec import Shape, TensorSpec
from nnc.core.tensor import Tensor
from nnc.core.uncopied import Uncopied
from nnc.dynamic.calls import CALL, CallAttrs, RecordedCall
from nnc.dynamic.lazy import COMMANDS, NBYTES, QUEUES, CommandQueue, LazyPrograms, LazyReport, gathering
from nnc.dynamic.memoization import CACHES, ResultCache, remembering, unshared
from nnc.dynamic.prepared import PreparedCommand, prepare_command
from nnc.dynamic.program import GradientProgram, Signature, computation_of, gradient_program, part_of, signature_of
from nnc.dynamic.values import tensor_of
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, ArityError, SymbolError
from nnc.graph import DictStorage
from nnc.ops.copy import COPY, contiguous
from nnc.ops.rules import NoAttrs
from nnc.symbolic.compiler import Arena
from nnc.symbolic.ir import AliasOf, ExecKey, ExecSymbol, SymbolicGraph, TensorKey, TensorSymbol
from nnc.symbolic.minimization import steering_dtype

# Graphs by number that do not record in this context.
_UNRECORDED: ContextVar[frozenset[int]] = ContextVar("unrecorded", default=frozenset())
# Graphs by number of which nothing that is recorded may be read.
_APART: ContextVar[frozenset[int]] = ContextVar("apart", default=frozenset())
_NUMBERS = count()


@dataclass(slots=True)
class _Known:
    """The memory of a recorded root, and how many variables hold it or an alias of it."""

    tensor: Tensor
    handles: int = 0


class _Edit:
    """An edit of a graph's record, within a shield: other threads wait, and so do handles that go meanwhile."""

    __slots__ = ("_graph",)

    def __init__(self, graph: DynamicGraph) -> None:
        self._graph = graph

    def __enter__(self) -> None:
        self._graph._lock.acquire()
        self._graph._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        graph = self._graph
        try:
            if graph._depth == 1:
                graph._forget_gone()
        finally:
            graph._depth -= 1
            graph._lock.release()
        if graph._gone:
            graph._settle()


@explained
class DynamicGraph(Uncopied):
    """Makes variables, runs commands on them, records, differentiates; from any thread."""

    instead: ClassVar[str] = "make a graph, and variables in it of the values"

    def __init__(self, backend: str = "") -> None:
        self.record = SymbolicGraph("record", storage=DictStorage)
        self.backend = backend
        self._number = next(_NUMBERS)
        self._known: dict[TensorKey, _Known] = {}
        # Per alias how many variables and recorded execs name it: it is forgotten when nobody does.
        self._alias_uses: dict[TensorKey, int] = {}
        # Per root that an exec writes the oldest root that leads to it.
        self._oldest: dict[TensorKey, TensorKey] = {}
        self._programs: RecentlyUsed[Signature, GradientProgram] = RecentlyUsed(
            lambda one: one.compiled.compiled.memory().program
        )
        self._ready: TwoGenerations[tuple[object, ...], PreparedCommand] = TwoGenerations(kept_kernels)
        self._arena = Arena(0)
        self._pool = Pool()
        self._lazy = LazyPrograms(backend, self._pool)
        # Edits of the record: one thread at a time, how deep it is in them, and the handles that went meanwhile.
        self._lock = fork_safe_rlock()
        self._depth = 0
        self._gone: deque[TensorKey] = deque()

    # ---- variables

    def variable(self, value: ArrayLike | Tensor, dtype: DType | str | None = None, *, share: bool = False) -> Variable:
        """A leaf that gradients can be asked for; a copy of `value`, or with `share` its own memory.

        Shared memory is not to be written as long as anything that was computed from it waits for its gradient.
        """
        return self._leaf(tensor_of(value, dtype, self._pool, share=share))

    def constant(self, value: ArrayLike | Tensor, dtype: DType | str | None = None, *, share: bool = False) -> Variable:
        """A value that is not recorded: no gradient flows to it. Memory as in `variable`."""
        return Variable(self, tensor_of(value, dtype, self._pool, share=share), None)

    def detach(self, variable: Variable) -> Variable:
        """The same memory as a constant."""
        return Variable(self, variable.tensor, None, variable.root)

    def copied(self, variable: Variable) -> Variable:
        """A leaf or a constant like this one, in memory of its own; SymbolError for what was computed."""
        key = variable.key
        if key is None:
            return Variable(self, variable.tensor.clone(), None)
        if self.record.root(key) != key or self.record.writers(key):
            got, need = "a variable that was computed", "a leaf or a constant: a copy would lose its gradient"
            raise SymbolError("copy", got=got, need=need, fix="detach() it", origin=caller_origin())
        tensor = variable.tensor.clone()
        with Shield(), _Edit(self):
            return self._hold(tensor)

    def twin(self, variable: Variable) -> Variable:
        """Another handle of the same value."""
        if variable.key is None:
            return self.detach(variable)
        with Shield(), _Edit(self):
            if self.record.root(variable.key) == variable.key:
                handle = self._hold(variable.tensor, variable.key)
                # Another object over the same memory tells this handle from the one that `variable` gave.
                handle.tensor = variable.tensor.view(variable.spec, 0, variable.tensor.strides)
                return handle
            return self._hold_alias(variable.tensor, variable.key, variable.root)

    def is_leaf(self, variable: Variable) -> bool:
        """True for a recorded variable that nothing computed, and for a view of one; not for its twins."""
        if variable.key is None:
            return False
        root = self.record.root(variable.key)
        return not self.record.writers(root) and (root != variable.key or variable.tensor is variable.root)

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
        outputs = self._compute(command, inputs)
        for variable in inputs:
            if variable is not None and variable.key is not None:
                break
        else:
            return tuple([Variable(self, tensor, None) for tensor in outputs])
        if not self.recording:
            if self._number in _APART.get():
                raise _beside(command)
            return tuple([Variable(self, tensor, None) for tensor in outputs])
        origin = caller_origin()
        with Shield(), _Edit(self):
            # Lists: a generator is resumed, at the price of a call, for each of its elements.
            keys = tuple([None if variable is None else variable.key for variable in inputs])
            if None in keys:
                keys = tuple([None if variable is None else self._key_of(variable) for variable in inputs])
            written = tuple([self._new_symbol(tensor.spec, origin) for tensor in outputs])
            self._count_aliases(self.record.add_exec(ExecSymbol(command, keys, written, "", origin)))
            return tuple([self._hold(tensor, key) for tensor, key in zip(outputs, written, strict=True)])

    def _compute(self, command: AnyCommand, inputs: Sequence[Variable | None]) -> tuple[Tensor, ...]:
        """Run `command` now, whether or not it is recorded."""
        tensors: list[Tensor | None] = []
        specs: list[TensorSpec | None] = []
        try:
            for variable in inputs:
                if variable is None:
                    tensors.append(None)
                    specs.append(None)
                elif type(variable) is Variable and (variable.key is None or variable.graph is self):
                    tensor = variable.tensor
                    tensors.append(tensor)
                    specs.append(tensor.spec)
                else:
                    raise _foreign(command, variable)
        except TypeError:
            raise ArgumentError("execute", got=f"inputs={shown(inputs)}", need="several operands") from None
        key = (command, *specs)
        try:
            ready = self._ready.get(key)
        except TypeError:
            _check_command(command)
            raise
        if ready is None:
            _check_command(command)
            ready = self._ready.put(key, prepare_command(command, tuple(specs), self.backend))
        queue, cache = QUEUES.get().get(self._number), CACHES.get().get(self._number)
        if ready.writes_over:
            if queue is not None:
                queue.run()
            return ready.run(self._pool, [unshared(one) for one in tensors])
        if queue is None and cache is None:
            return ready.run(self._pool, tensors)

        def compute() -> tuple[Tensor, ...]:
            return ready.run(self._pool, tensors) if queue is None else queue.append(ready, inputs)

        return compute() if cache is None else cache.outputs(ready, inputs, compute)

    @contextmanager
    def lazy(self, most_commands: int = COMMANDS, most_bytes: int = NBYTES) -> Iterator[LazyReport]:
        """Commands in this thread (or asynchronous task) wait until somebody looks at a value (`nnc.dynamic.lazy`)."""
        with gathering(self._number, CommandQueue(self._lazy, most_commands, most_bytes)) as report:
            yield report

    @contextmanager
    def memoized(self, cache: ResultCache) -> Iterator[ResultCache]:
        """Equal commands on equal elements, in this thread (or task), are computed once (`nnc.dynamic.memoization`)."""
        with remembering(self._number, cache):
            yield cache

    def view(self, of: Variable, spec: TensorSpec, offset: int, strides: Shape) -> Variable:
        """A variable over a part of `of`'s root."""
        tensor = of.root.view(spec, offset, strides)
        if of.key is None:
            return Variable(self, tensor, None, of.root)
        alias = AliasOf(self.record.root(of.key), offset, strides)
        with Shield(), _Edit(self):
            symbol = self.record.tensors.new(TensorSymbol(spec, "", alias, caller_origin()))
            return self._hold_alias(tensor, symbol, of.root)

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
        targets = [self._recorded(variable, "output") for variable in outputs]
        sources = [self._recorded(variable, "input") for variable in inputs]
        with Shield(), _Edit(self):
            computation = computation_of(self.record, targets, sources)
            signature = signature_of(self.record, computation, self._known)
            program = self._programs.get(signature)
            part = part_of(self.record, computation, self._known) if program is None else None
        if part is not None:
            program = self._programs.put(signature, gradient_program(part, computation, self.backend, self._arena))
            self._arena.fit(one.compiled.compiled for one in self._programs.values())
        assert program is not None
        return self._run(program, tuple(computation.numbers), create_graph, constant)

    def renew(self, old: Variable, command: AnyCommand, inputs: Sequence[Variable | None]) -> tuple[Variable, ...]:
        """Run a command that is not recorded and whose first output takes the place of `old`: a leaf for a leaf."""
        new, *others = self._compute(command, inputs)
        first = Variable(self, new, None) if old.key is None else self._leaf(new)
        return (first, *(Variable(self, tensor, None) for tensor in others))

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
        steering = [self.constant(value, dtype) for value in scalars]
        leaves, following = [], []
        for parameter, gradient, state in zip(parameters, gradients, states, strict=True):
            updated, *rest = self._compute(optimizer, (gradient, parameter, *state, *steering))
            leaves.append(self._leaf(updated))
            following.append(tuple(Variable(self, tensor, None) for tensor in rest))
        return leaves, following

    def fork(self, variable: Variable) -> Variable:
        """A recorded variable of the same value, over the same memory, for a gradient that goes by it alone."""
        if variable.key is None:
            return self._leaf(variable.tensor)
        if not variable.tensor.is_contiguous:
            return contiguous(variable)
        origin = caller_origin()
        with Shield(), _Edit(self):
            key = self._new_symbol(variable.spec, origin)
            copy = ExecSymbol(Command(COPY, NoAttrs()), (variable.key,), (key,), "", origin)
            self._count_aliases(self.record.add_exec(copy))
            return self._hold(variable.tensor, key)

    def mark(self) -> TensorKey:
        """What is recorded from now on has a key from this one on."""
        return self.record.tensors.next_key

    def depends_on_older(self, variable: Variable, mark: TensorKey) -> bool:
        """True when something that was recorded before the mark leads to the variable."""
        if variable.key is None:
            return False
        with self._lock:
            root = self.record.root(variable.key)
            return self._oldest.get(root, root) < mark

    def alive(self) -> list[tuple[TensorSpec, str, bool, int]]:
        """Spec, line, whether a variable holds it, and address of each recorded root that has memory."""
        with self._lock:
            known, records = self._known, self.record.tensors
            return [
                (one.tensor.spec, records[key].origin, one.handles > 0, one.tensor.address)
                for key, one in known.items()
            ]

    def reserved(self) -> tuple[int, int, int]:
        """Bytes that tensors have, bytes that wait for tensors, bytes of the arena of gradient programs."""
        arena = self._arena.storage
        return self._pool.lent, self._pool.waiting, 0 if arena is None else arena.nbytes

    def record_call(
        self, call: RecordedCall, inputs: Sequence[Variable], results: Sequence[Tensor], tape: Sequence[Tensor] = ()
    ) -> tuple[Variable, ...]:
        """Record what has been run elsewhere as one node; its `tape` lives as long as a gradient may read it."""
        origin = caller_origin()
        with Shield(), _Edit(self):
            keys = tuple(self._key_of(variable) for variable in inputs)
            written = tuple(self._new_symbol(tensor.spec, origin) for tensor in (*results, *tape))
            command = Command(CALL, CallAttrs(call))
            self._count_aliases(self.record.add_exec(ExecSymbol(command, keys, written, "", origin)))
            held = tuple(self._hold(tensor, key) for tensor, key in zip(results, written, strict=False))
            self._known.update(zip(written[len(results) :], map(_Known, tape), strict=True))
            return held

    def _recorded(self, variable: Variable, role: str) -> TensorKey:
        _check_variables("backward", [variable])
        if variable.graph is not self or variable.key is None:
            got = f"an {role} {variable.spec} that is not recorded"
            raise SymbolError(
                "backward", got=got, need="a variable of this graph", fix="make it with variable(), outside no_grad()"
            )
        return variable.key

    def _run(
        self, program: GradientProgram, keys: Sequence[TensorKey], create_graph: bool, constant: bool
    ) -> tuple[Variable, ...]:
        """Run a program on the tensors with the numbered `keys`; the gradients as leaves, or recorded, or neither."""
        numbers, graph = program.numbers, program.graph
        with Shield(), _Edit(self):
            roots = {symbol.key: self._known[keys[numbers[symbol.key]]].tensor for symbol in program.given}
        roots.update({symbol.key: Tensor.empty(symbol.spec, pool=self._pool) for symbol in program.fresh})
        program.compiled.run([roots[symbol.key] for symbol in (*program.given, *program.fresh)])
        tensors = []
        for symbol in program.results:
            root, region = roots[graph.root(symbol.key)], graph.region(symbol.key)
            tensors.append(root if symbol.key in roots else root.view(symbol.spec, region.offset, region.strides))
        if not create_graph:
            return tuple(Variable(self, one, None) if constant else self._leaf(one) for one in tensors)
        mapped = {key: keys[number] for key, number in numbers.items()}
        with Shield(), _Edit(self):
            for made in self.record.graft(graph, program.execs, [symbol.key for symbol in program.results], mapped):
                self._count_aliases(made)
            return tuple(
                self._hold(tensor, mapped[symbol.key])
                if symbol.key in roots
                else self._hold_alias(tensor, mapped[symbol.key], roots[graph.root(symbol.key)])
                for symbol, tensor in zip(program.results, tensors, strict=True)
            )

    # ---- the record

    def _leaf(self, tensor: Tensor) -> Variable:
        """A variable over this very tensor."""
        if not self.recording:
            return Variable(self, tensor, None)
        contiguous = _contiguous(tensor)
        with Shield(), _Edit(self):
            return self._hold(contiguous)

    def _new_symbol(self, spec: TensorSpec, origin: str) -> TensorKey:
        return self.record.tensors.new(TensorSymbol(spec, "", None, origin))

    def _hold(self, tensor: Tensor, key: TensorKey | None = None) -> Variable:
        """A recorded variable over `tensor`; a new symbol unless its key is given."""
        symbol = self._new_symbol(tensor.spec, caller_origin()) if key is None else key
        self._known.setdefault(symbol, _Known(tensor)).handles += 1
        return Variable(self, tensor, symbol)

    def _hold_alias(self, tensor: Tensor, key: TensorKey, root: Tensor) -> Variable:
        """A recorded variable over a part of `root`."""
        self._known.setdefault(self.record.root(key), _Known(root)).handles += 1
        self._alias_uses[key] = self._alias_uses.get(key, 0) + 1
        return Variable(self, tensor, key, root)

    def _key_of(self, variable: Variable) -> TensorKey:
        """The symbol of a variable; a constant gets one for as long as the record reads it."""
        if variable.key is not None:
            return variable.key
        key = self._new_symbol(variable.spec, caller_origin())
        self._known[key] = _Known(_contiguous(variable.tensor))
        return key

    def _count_aliases(self, key: ExecKey) -> None:
        """One more use of each alias that a new exec reads or writes; what its outputs depend on, back to the start."""
        record, tensors = self.record.execs[key], self.record.tensors
        roots = []
        for tensor in (*record.inputs, *record.outputs):
            if tensor is not None:
                alias = tensors[tensor].alias
                if alias is not None:
                    self._alias_uses[tensor] = self._alias_uses.get(tensor, 0) + 1
                roots.append(tensor if alias is None else alias.root)
        oldest = min(map(self._oldest.get, roots, roots))
        for root in roots[-len(record.outputs) :]:
            self._oldest[root] = oldest

    def _discount(self, key: TensorKey) -> None:
        """One use less of `key`, an alias; forgotten with the last."""
        self._alias_uses[key] -= 1
        if not self._alias_uses[key]:
            del self._alias_uses[key]
            self.record.tensors.remove(key)

    @frequent
    def release(self, key: TensorKey) -> None:
        """A handle of `key` is gone, at any moment and on any thread: in an edit of the record it waits for the end."""
        self._gone.append(key)
        self._settle()

    def _settle(self) -> None:
        """Forget what has gone, unless somebody edits the record, who then does it behind that."""
        while self._gone and self._lock.acquire(blocking=False):
            try:
                if self._depth:
                    return
                with Shield(), _Edit(self):
                    pass
            finally:
                self._lock.release()

    def _forget_gone(self) -> None:
        """Forget what no held variable depends on any more."""
        while self._gone:
            key = self._gone.popleft()
            root = self.record.root(key)
            self._known[root].handles -= 1
            if key in self._alias_uses:
                self._discount(key)
            queue = [root]
            while queue:
                queue.extend(self._forget(queue.pop()))

    def _forget(self, root: TensorKey) -> list[TensorKey]:
        """Drop `root` when nobody holds or reads it, with its writer; returns the roots that this may free."""
        record = self.record
        if root not in record.tensors or not self._idle(root):
            return []
        freed: list[TensorKey] = []
        for writer in record.writers(root):
            others = set(record.roots(record.execs[writer].outputs)) - {root}
            if others and not all(map(self._idle, others)):
                return []
            removed = record.remove_exec(writer)
            freed.extend(record.roots(removed.inputs))
            for key in (*removed.inputs, *removed.outputs):
                if key is not None and key in self._alias_uses:
                    self._discount(key)
            for other in others:
                self._drop(other)
        self._drop(root)
        return freed

    def _idle(self, root: TensorKey) -> bool:
        known = self._known.get(root)
        return (known is None or known.handles == 0) and not self.record.readers(root)

    def _drop(self, root: TensorKey) -> None:
        self._known.pop(root, None)
        self._oldest.pop(root, None)
        self.record.remove_tensor(root)


def _check_command(command: object) -> None:
    if not isinstance(command, Command):
        raise ArgumentError("execute", got=f"command={shown(command)}", need="a Command", origin=caller_origin())


def _foreign(command: AnyCommand, operand: object) -> SymbolError:
    """What is wrong with an operand that is no variable of the graph."""
    _check_command(command)
    _check_variables(command.op.name, [operand])
    got, need = "a variable of another graph", "variables of one graph"
    return SymbolError(command.op.name, got=got, need=need, fix="detach() it", origin=caller_origin())


def _beside(command: AnyCommand) -> SymbolError:
    """What is wrong with a recorded variable that is no argument of a function whose gradient goes by arguments."""
    return SymbolError(
        command.op.name,
        got="a recorded variable that is no argument of the function that runs as one node",
        need="every variable as an argument, so that gradients reach it",
        fix="pass it, or detach() it",
        origin=caller_origin(),
    )


def _check_variables(subject: str, operands: Sequence[object]) -> None:
    """SymbolError for an operand that is neither a variable nor absent, such as an array or a symbol."""
    for operand in operands:
        if operand is not None and not isinstance(operand, Variable):
            got = f"a {type(operand).__name__}"
            raise SymbolError(
                subject, got=got, need="variables", fix="variable() or constant()", origin=caller_origin()
            )


def _contiguous(tensor: Tensor) -> Tensor:
    """`tensor`, or a copy in row-major order: aliases of recorded tensors count on that order."""
    return tensor if tensor.is_contiguous else tensor.clone()
