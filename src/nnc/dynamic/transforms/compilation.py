"""Functions compiled by one word: recorded once per signature, planned, run as one program.

    step = compile(function)
    step(x, flag=True)         the first call records, plans and runs; the next one of this signature runs

A signature is the shapes and element types of all arrays among the arguments, nested in tuples, lists and dictionaries,
and the values of everything else: numbers, texts and other static arguments; of layers and modules, which one it is. A
number that changes from call to call is better given as an array. A new signature is recorded anew; `recorded` counts
them.

Called on recorded variables, a compiled function is one node of the record: it keeps what its gradient reads, and
gradients go through it, to any order, by programs of their own. Called while another function is recorded, it becomes a
part of that one's program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.concrete import TuneOptions, checked_tuning
from nnc.core.precautions.forking import fork_safe_rlock
from nnc.core.precautions.origin import caller_origin
from nnc.core.precautions.recent import RecentlyUsed, TwoGenerations
from nnc.core.running.inspectors import INSPECTORS
from nnc.core.values.pool import Pool
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.dynamic.calls import ProgramCall, ProgramOptions
from nnc.dynamic.graph import DynamicGraph, default_graph
from nnc.dynamic.state import HasParameters
from nnc.dynamic.traced import FunctionTrace, TracedValue, active_trace
from nnc.dynamic.transforms.batched import active_levels
from nnc.dynamic.transforms.randomness import next_counter
from nnc.dynamic.transforms.signatures import is_tensor, key_of_variables, kind_of, names_of, spec_of
from nnc.dynamic.tree import LEAF, Structure, Tree, flatten
from nnc.dynamic.variable import Variable
from nnc.errors import SymbolError, UsageError
from nnc.ops.movement.copy import contiguous
from nnc.symbolic import Compiled, MemoryStatement, Symbol, SymbolicGraph, TensorKey
from nnc.symbolic import compile as compile_graph
from nnc.symbolic.compiler import Arena, MovingProgram
from nnc.symbolic.passes import simplify

P = ParamSpec("P")
R = TypeVar("R")
Signature = tuple[Structure, tuple[Hashable, ...]]
Mode = Callable[[], Hashable]
KEPT_SIGNATURES = 1024


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How programs are made: see `nnc.symbolic.compile`."""

    backend: str = ""
    memory_limit: int | None = None
    autotune: TuneOptions | bool = False
    deterministic: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """A function as it was recorded, before passes changed it: inputs, outputs, constants."""

    graph: SymbolicGraph
    inputs: tuple[TensorKey, ...]
    outputs: tuple[TensorKey, ...]
    constants: Mapping[TensorKey, Tensor]


@dataclass(slots=True, eq=False)
class _Recorded:
    """A function recorded for one signature.

    `results` are symbols, or whatever else the function gave, as it is. `call` is the same as a node of the record.
    """

    compiled: Compiled
    moving: MovingProgram
    inputs: tuple[Symbol, ...]
    outputs: tuple[Symbol, ...]
    results: tuple[Any, ...]
    structure: Structure
    source: _Source
    signature: str
    call: ProgramCall | None = None
    # Variables that the function uses: each call gives their values. And those that it renews, with their outputs.
    captured: tuple[Variable, ...] = ()
    renewed: tuple[tuple[Variable, Symbol], ...] = ()
    # Per result which output it is, None for what is no symbol.
    order: tuple[int | None, ...] = ()
    renewals: tuple[tuple[Variable, int], ...] = ()
    # What the program depends on beside arguments, such as whether a layer is in training, by its owner's identity.
    modes: Mapping[int, Mode] = field(default_factory=dict)
    # The signature that it is kept under.
    of: Signature = (LEAF, ())

    def __post_init__(self) -> None:
        numbers = {entry: number for number, entry in enumerate(self.outputs)}
        self.order = tuple(numbers[entry] if isinstance(entry, Symbol) else None for entry in self.results)
        self.renewals = tuple((variable, numbers[symbol]) for variable, symbol in self.renewed)

    def assembled(self, values: Sequence[Variable]) -> Tree:
        """What the function gives, of the values of its outputs."""
        if self.structure is LEAF and self.order[0] is not None:
            return values[self.order[0]]
        pairs = zip(self.order, self.results, strict=True)
        return self.structure.unflatten([entry if place is None else values[place] for place, entry in pairs])


class CompiledFunction(Generic[P, R]):
    """A function that runs as one native program for each signature of its arguments.

    Copied and pickled like the function: by its name where it is the module's, else anew, with programs of its own.
    """

    def __init__(self, function: Callable[P, R], options: CompileOptions = CompileOptions()) -> None:
        checked_tuning("compile", options.autotune, options.deterministic)
        update_wrapper(self, function)
        self.function = function
        self.options = options
        self.recorded = 0
        self._programs: RecentlyUsed[tuple[Hashable, ...], _Recorded] = RecentlyUsed(_nbytes)
        # The modes of the programs that are kept, by signature: those of another signature make no program anew, and
        # a layer is held no longer than its program.
        self._modes: dict[Signature, tuple[Mode, ...]] = {}
        # Signatures of calls with eager values alone, by their containers and specs.
        self._eager: TwoGenerations[tuple[Hashable, ...], Signature] = TwoGenerations(lambda: KEPT_SIGNATURES)
        self._arena = Arena()
        self._pool = Pool()
        self._lock = fork_safe_rlock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the program of this signature, which the first call makes."""
        if INSPECTORS.eager or active_trace() is not None or active_levels():
            return self.function(*args, **kwargs)
        program, arrays = self._program(args, kwargs)
        arrays.extend(program.captured)
        if len(program.inputs) > len(arrays):
            arrays.append(next_counter())
        graph = _graph_of(arrays)
        # What comes of a program that renews variables is constant: their gradients were taken inside.
        if not program.renewed and _is_recorded(arrays) and graph.recording:
            values = self._run_recorded(graph, program, arrays)
        else:
            values = tuple([Variable(graph, tensor, None) for tensor in self._run(program, arrays)])
        for variable, place in program.renewals:
            variable.become(values[place])
        result: R = program.assembled(values)
        return result

    def __reduce__(self) -> str | tuple[object, ...]:
        # A partial function has no name.
        place: str = getattr(self, "__qualname__", "")
        named: object = sys.modules.get(self.__module__)
        for name in place.split("."):
            named = getattr(named, name, None)
        return place if named is self else (CompiledFunction, (self.function, self.options))

    def memory(self, *args: Tree, **kwargs: Tree) -> MemoryStatement:
        """The bytes of the program for these arguments, before it runs. A `TensorSpec` may stand for an array.

        Without arguments, those of the only program that there is.
        """
        return self.program(*args, **kwargs).memory()

    def program(self, *args: Tree, **kwargs: Tree) -> Compiled:
        """The program for these arguments, or the only one, to be looked at."""
        programs = self._programs.values()
        if args or kwargs or not programs:
            return self._program(args, kwargs)[0].compiled
        if len(programs) > 1:
            got, need = f"programs of {len(programs)} signatures", "arguments that say which"
            raise UsageError("compile", got=got, need=need, origin=caller_origin())
        return programs[0].compiled

    @property
    def signatures(self) -> tuple[str, ...]:
        """What the programs that are kept are for, the one used last at the end: each call of another kind makes one.

        >>> double = compile(lambda x, factor: x * factor)
        >>> _ = double(np.ones(3), 2.0), double(np.ones(4), 2.0)
        >>> double.signatures
        ('x=f64[3], factor=2.0', 'x=f64[4], factor=2.0')
        """
        return tuple(entry.signature for entry in self._programs.values())

    def __get__(self, instance: object, owner: type | None = None) -> CompiledFunction[P, R]:
        if instance is None:
            return self
        raise UsageError(
            "compile",
            got=f"a method of {type(instance).__name__}",
            need="a function, whose arguments are all that it depends on",
            fix="compile a function of the object's arrays",
            origin=caller_origin(),
        )

    def _program(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[_Recorded, list[Any]]:
        """The program of the signature, and the arrays among the arguments."""
        arrays: list[Any] = []
        key = None if kwargs else key_of_variables(args, arrays)
        signature = None if key is None else self._eager.get(key)
        if signature is None:
            leaves, structure = flatten((args, kwargs))
            signature = (structure, tuple(map(kind_of, leaves)))
            if key is not None:
                self._eager.put(key, signature)
            arrays = [leaf for leaf in leaves if is_tensor(leaf)]
        program = self._programs.get(self._in_modes(signature))
        if program is None:
            with self._lock:
                program = self._programs.get(self._in_modes(signature))
                if program is None:
                    program = self._keep(signature, self._record(args, kwargs))
                    self._arena.fit(entry.compiled for entry in self._programs.values())
                    self.recorded += 1
        return program, arrays

    def _in_modes(self, signature: Signature) -> tuple[Hashable, ...]:
        modes = self._modes.get(signature)
        return signature if modes is None else (*signature, *[mode() for mode in modes])

    def _keep(self, signature: Signature, made: _Recorded) -> _Recorded:
        """Keep a program, and of modes those alone that programs which are still kept depend on."""
        made.of = signature
        self._modes = _modes_of([*self._programs.values(), made])
        program = self._programs.put(self._in_modes(signature), made)
        self._modes = _modes_of(self._programs.values())
        return program

    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Recorded:
        """Run the function on traced values."""
        trace = FunctionTrace(getattr(self.function, "__name__", "function"))
        leaves, structure = flatten((args, kwargs))
        names = names_of(self.function, structure)
        traced = [
            trace.input(spec_of(leaf), name) if is_tensor(leaf) else leaf
            for leaf, name in zip(leaves, names, strict=True)
        ]
        given_args, given_kwargs = structure.unflatten(traced)
        with trace.active():
            returned, shape = flatten(self.function(*given_args, **given_kwargs))
            results = tuple(_result(trace, entry) for entry in returned)
            renewed = tuple((variable, _result(trace, value)) for variable, value in trace.renewed.values())
        inputs = [entry.symbol for entry in traced if isinstance(entry, TracedValue)]
        captured = tuple(variable for variable, _ in trace.captured.values())
        inputs += [value.symbol for _, value in trace.captured.values()]
        # Where random numbers are drawn, each call gives their counter as one more input.
        inputs += [] if trace.counter is None else [trace.counter.symbol]
        pairs = zip(names_of(self.function, structure), leaves, strict=True)
        shown = ", ".join(f"{name}={spec_of(entry) if is_tensor(entry) else repr(entry)}" for name, entry in pairs)
        made = self._planned(trace, tuple(inputs), results, shape, shown, captured, renewed)
        made.modes = trace.modes
        return made

    def _planned(
        self,
        trace: FunctionTrace,
        inputs: tuple[Symbol, ...],
        results: tuple[Any, ...],
        structure: Structure,
        signature: str,
        captured: tuple[Variable, ...],
        renewed: tuple[tuple[Variable, Symbol], ...],
    ) -> _Recorded:
        """What the function did as a program, and as it was before passes changed it."""
        kept = (*results, *(symbol for _, symbol in renewed))
        outputs = tuple(dict.fromkeys(entry for entry in kept if isinstance(entry, Symbol)))
        copy = trace.graph.duplicate()
        source = _Source(
            copy.graph,
            tuple(copy.tensors[operand.key] for operand in inputs),
            tuple(copy.tensors[output.key] for output in outputs),
            {copy.tensors[constant.key]: tensor for constant, tensor in trace.constants.items()},
        )
        simplify(trace.graph, outputs, backend=self.options.backend)
        compiled = compile_graph(
            trace.graph,
            outputs,
            given={**trace.constants, **dict.fromkeys(inputs)},
            bind=dict.fromkeys(outputs),
            backend=self.options.backend,
            memory_limit=self.options.memory_limit,
            autotune=self.options.autotune,
            deterministic=self.options.deterministic,
        )
        compiled = compiled.in_arena_of(self._arena)
        moving = MovingProgram(compiled, inputs, outputs)
        return _Recorded(
            compiled, moving, inputs, outputs, results, structure, source, signature, None, captured, renewed
        )

    def _run(self, program: _Recorded, arrays: Sequence[Any]) -> list[Tensor]:
        """Each output in memory of its own, computed from the arrays where they are."""
        made = program.moving.fresh(self._pool)
        if made:
            program.moving.run([*map(contiguous_tensor, arrays), *made])
        return made

    def _run_recorded(self, graph: DynamicGraph, program: _Recorded, arrays: Sequence[Any]) -> tuple[Variable, ...]:
        """The outputs as variables, of one node in the record, which keeps what its gradient reads."""
        if any(isinstance(entry, Variable) and entry.graph is not graph for entry in arrays):
            got, need = "variables of several graphs", "variables of one graph"
            raise SymbolError("compile", got=got, need=need, fix="detach() them", origin=caller_origin())
        call = self._call(program)
        made = [Tensor.empty(spec, pool=self._pool) for spec in call.specs]
        call.run([contiguous_tensor(value) for value in arrays], made)
        inputs = [entry if isinstance(entry, Variable) else graph.constant(entry) for entry in arrays]
        return graph.record_call(call, inputs, made[: call.results], made[call.results :])

    def _call(self, program: _Recorded) -> ProgramCall:
        with self._lock:
            if program.call is None:
                source = program.source
                options = ProgramOptions(self._arena, self._lock, self.options.backend, self.options.memory_limit)
                program.call = ProgramCall.taped(source.graph, source.inputs, source.outputs, source.constants, options)
            return program.call

    if not TYPE_CHECKING:
        # A type checker goes by what there is.
        def __getattr__(self, name: str) -> object:
            """Of a layer or module that was compiled: parameters, state_dict, train, …"""
            function = vars(self).get("function")
            if name.startswith("_") or not isinstance(function, HasParameters):
                raise AttributeError(f"compile() has no {name!r}")
            return getattr(function, name)

    def __repr__(self) -> str:
        name = getattr(self.function, "__qualname__", repr(self.function))
        return f"compile({name}), recorded for {self.recorded} signatures"


@overload
def compile(function: Callable[P, R]) -> CompiledFunction[P, R]: ...
@overload
def compile(
    function: None = None,
    *,
    backend: str = "",
    memory_limit: int | None = None,
    autotune: TuneOptions | bool = False,
    deterministic: bool = False,
) -> Callable[[Callable[P, R]], CompiledFunction[P, R]]: ...
@overload
def compile(
    function: Callable[P, R],
    *,
    backend: str = "",
    memory_limit: int | None = None,
    autotune: TuneOptions | bool = False,
    deterministic: bool = False,
) -> CompiledFunction[P, R]: ...
@checked
def compile(
    function: Callable[P, R] | None = None,
    *,
    backend: str = "",
    memory_limit: int | None = None,
    autotune: TuneOptions | bool = False,
    deterministic: bool = False,
) -> CompiledFunction[P, R] | Callable[[Callable[P, R]], CompiledFunction[P, R]]:
    """The function, compiled: each call runs one native program, which the first call of a signature records.

    The function gets traced values in the place of its arrays. It may use Python freely on what is static (shapes,
    numbers among the arguments), and must not branch on elements: `cond`, `while_loop` and `scan` do that in the
    program. With a `memory_limit`, in bytes, the arena of each program takes no more, or MemoryLimitError says what it
    would take.

    >>> @compile
    ... def area(radius):
    ...     return 3.0 * radius * radius
    >>> area(np.float32([1.0, 2.0]))
    Variable(f32[2], constant)
    [ 3. 12.]
    """
    options = CompileOptions(backend, memory_limit, autotune, deterministic)
    if function is None:
        return lambda given: CompiledFunction(given, options)
    return CompiledFunction(function, options)


# JAX's word for it.
jit = compile


def _modes_of(programs: Iterable[_Recorded]) -> dict[Signature, tuple[Mode, ...]]:
    """Per signature the modes of its programs, in an order that does not depend on when they ran."""
    modes_by_owner: dict[Signature, dict[int, Mode]] = {}
    for program in programs:
        if program.modes:
            modes_by_owner.setdefault(program.of, {}).update(program.modes)
    return {signature: tuple(modes[owner] for owner in sorted(modes)) for signature, modes in modes_by_owner.items()}


def _nbytes(program: _Recorded) -> int:
    return program.compiled.memory().program


def _result(trace: FunctionTrace, value: Tree) -> Tree:
    """The symbol of a traced value, in memory that a command of the program writes; anything else as it is."""
    if isinstance(value, Variable) and value.place is not None:
        trace.lift(value)
    if isinstance(value, np.ndarray | Tensor):
        return default_graph().constant(value)
    if not isinstance(value, TracedValue):
        return value
    symbol = trace.symbol(value)
    is_written = trace.graph.root(symbol.key) == symbol.key and trace.graph.writers(symbol.key)
    return symbol if is_written else trace.symbol(contiguous(value))


def contiguous_tensor(value: Tree) -> Tensor:
    """The elements in row-major order, where they are or in a copy."""
    if isinstance(value, TensorSpec):
        got, need = f"the spec {value}", "an array: specs are for memory()"
        raise UsageError("compile", got=got, need=need, origin=caller_origin())
    if type(value) is not Variable and not isinstance(value, Tensor):
        array = np.asarray(value)
        return Tensor.from_numpy(np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape))
    tensor = value if isinstance(value, Tensor) else value.tensor
    return tensor if tensor.is_contiguous else tensor.clone()


def _graph_of(arrays: Sequence[Any]) -> DynamicGraph:
    """The dynamic graph of the first variable, or the default one."""
    for entry in arrays:
        if isinstance(entry, Variable):
            assert isinstance(entry.graph, DynamicGraph)
            return entry.graph
    return default_graph()


def _is_recorded(arrays: Sequence[Any]) -> bool:
    """Whether gradients may be asked for of one of them."""
    for entry in arrays:  # noqa: SIM110  # a generator would cost as much as all of its steps
        if type(entry) is Variable and entry.place is not None:
            return True
    return False
