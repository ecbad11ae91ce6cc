"""Functions compiled by one word: recorded once per signature, planned, run as one program.

    step = compile(function)
    step(x, flag=True)         the first call records, plans and runs; the next one of this signature runs

A signature is the shapes and element types of all arrays among the arguments, nested in tuples, lists and dictionaries,
and the values of everything else: numbers, texts and other static arguments; of layers and modules, which one it is. A
number that changes from call to call is better given as an array.

A function is recorded with open sizes where arrays of another size come, or where `sizes` names axes. All sizes at
which it takes the same way have programs of that one record; it does not run again for them. What it compares or
computes with a size is kept as a guard or a formula; what reads one as a number (`range(x.shape[0])`, an array of so
many elements) has it recorded for each. `recorded` counts how often it ran for that.

Called on recorded variables, a compiled function is one node of the record: it keeps what its gradient reads, and
gradients go through it, to any order, by programs of their own. Called while another function is recorded, it becomes a
part of that one's program.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.concrete import TuneOptions, checked_tuning
from nnc.core.precautions.forking import fork_safe_rlock
from nnc.core.precautions.named_functions import is_named
from nnc.core.precautions.origin import caller_origin
from nnc.core.precautions.recent import RecentlyUsed, TwoGenerations
from nnc.core.running.device_context import present
from nnc.core.running.inspectors import INSPECTORS
from nnc.core.values.device import AnyDevice, device_of
from nnc.core.values.pool import Pool
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.dynamic.calls import ProgramCall, ProgramOptions
from nnc.dynamic.graph import DynamicGraph, default_graph
from nnc.dynamic.state import HasParameters
from nnc.dynamic.traced import active_trace
from nnc.dynamic.transforms.batched import active_levels
from nnc.dynamic.transforms.compile_options import PLAIN, CompileOptions
from nnc.dynamic.transforms.named_sizes import NamedSizes, Sizes
from nnc.dynamic.transforms.randomness import next_counter
from nnc.dynamic.transforms.recorded_programs import compiled, first_program
from nnc.dynamic.transforms.recording import (
    FunctionDraft,
    FunctionTemplate,
    Mode,
    RecordedFunction,
    Signature,
    place_of,
    record,
)
from nnc.dynamic.transforms.signatures import is_tensor, key_of_variables, kind_of, names_of, spec_of
from nnc.dynamic.transforms.transformed import check_named
from nnc.dynamic.tree import Structure, Tree, flatten
from nnc.dynamic.variable import Variable
from nnc.errors import SymbolError, UsageError
from nnc.symbolic import Compiled, MemoryStatement
from nnc.symbolic.compiler import Arena, ArenaLimit, MovingProgram
from nnc.symbolic.sharing.openings import Opening, Templates

P = ParamSpec("P")
R = TypeVar("R")
KEPT_SIGNATURES = 1024


@dataclass(frozen=True, slots=True, eq=False)
class LastKey:
    """The last signature, its modes of this table, what they were, and the key of its program."""

    signature: Signature
    table: Mapping[Signature, tuple[Mode, ...]]
    modes: tuple[Mode, ...]
    values: list[Hashable]
    key: tuple[Hashable, ...]


class CompiledFunction(Generic[P, R]):
    """A function that runs as one native program for each signature of its arguments.

    Copied and pickled like the function: by its name where it is the module's, else anew, with programs of its own.
    """

    def __init__(self, function: Callable[P, R], options: CompileOptions = PLAIN) -> None:
        checked_tuning("compile", options.autotune, options.deterministic)
        update_wrapper(self, function)
        self.function = function
        self.options = options
        # How often the function ran to be recorded.
        self.recorded = 0
        self._sizes = NamedSizes.of(options.sizes)
        self._templates: Templates[FunctionDraft] = Templates()
        self._programs: RecentlyUsed[tuple[Hashable, ...], RecordedFunction] = RecentlyUsed(_nbytes)
        # The modes of the programs that are kept, by signature: those of another signature make no program anew, and
        # a layer is held no longer than its program.
        self._modes: dict[Signature, tuple[Mode, ...]] = {}
        self._last_key: LastKey | None = None
        # Signatures of calls with eager values alone, by their containers and specs.
        self._eager: TwoGenerations[tuple[Hashable, ...], Signature] = TwoGenerations(lambda: KEPT_SIGNATURES)
        self._arena = options.arena or Arena()
        self._pool = Pool()
        self._lock = fork_safe_rlock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the program of this signature, which the first call makes."""
        if self.options.device is not None:
            args, kwargs = self.options.moved((args, kwargs))
        if INSPECTORS.eager or active_trace() is not None or active_levels():
            with self.options.place:
                return self.function(*args, **kwargs)
        program, arrays = self._program(args, kwargs)
        draft = program.draft
        arrays.extend(draft.captured)
        if len(draft.inputs) > len(arrays):
            arrays.append(next_counter())
        graph, tensors, recorded = _operands(arrays)
        # What comes of a program that renews variables is constant: their gradients were taken inside.
        if recorded and not draft.renewed and graph.recording:
            values = dict(enumerate(self._run_recorded(graph, program, arrays, tensors)))
        else:
            # Each output in memory of its own, computed from the arrays where they are.
            made = program.moving.fresh(self._pool)
            if made:
                program.moving.run(tensors + made)
            if program.renewals:
                graph.settle([(variable, made[place]) for variable, place in program.renewals])
            if program.is_single:
                single: Any = Variable(graph, made[program.given[0]], None)
                return single  # type: ignore[no-any-return]  # what the function gives
            values = {place: Variable(graph, made[place], None) for place in program.given}
        result: R = program.assembled(values)
        return result

    def __copy__(self) -> CompiledFunction[P, R]:
        return self if is_named(self) else CompiledFunction(self.function, self.options)

    def __deepcopy__(self, memo: dict[int, object]) -> CompiledFunction[P, R]:
        if is_named(self):
            return self
        return CompiledFunction(deepcopy(self.function, memo), deepcopy(self.options, memo))

    def __reduce__(self) -> str | tuple[object, ...]:
        if is_named(self):
            return getattr(self, "__qualname__", "")
        check_named("compile", [self.function])
        return CompiledFunction, (self.function, self.options)

    def memory(self, *args: Tree, **kwargs: Tree) -> MemoryStatement:
        """The bytes of the program for these arguments, before it runs. A `TensorSpec` may stand for an array.

        Without arguments, those of the only program that there is.
        """
        return self._looked_at(args, kwargs).program.memory()

    def program(self, *args: Tree, **kwargs: Tree) -> Compiled:
        """The program for these arguments, or the only one, to be looked at."""
        return self._looked_at(args, kwargs).compiled

    def _looked_at(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RecordedFunction:
        programs = self._programs.values()
        if args or kwargs or not programs:
            return self._program(*self.options.moved((args, kwargs)))[0]
        if len(programs) > 1:
            got, need = f"programs of {len(programs)} signatures", "arguments that say which"
            raise UsageError("compile", got=got, need=need, origin=caller_origin())
        return programs[0]

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

    def _program(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[RecordedFunction, list[Any]]:
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
                    kept = tuple(entry.program for entry in self._programs.values())
                    self._arena.fit(self, kept, name=_name_of(self.function))
        return program, arrays

    def _in_modes(self, signature: Signature) -> tuple[Hashable, ...]:
        """The signature with what its modes are now: the same object as the last time where they are the same."""
        last, table = self._last_key, self._modes
        if last is None or last.signature is not signature or last.table is not table:
            modes = table.get(signature, ())
            values = [mode() for mode in modes]
            last = self._last_key = LastKey(signature, table, modes, values, (*signature, *values))
            return last.key
        values = [mode() for mode in last.modes] if last.modes else last.values
        if values != last.values:
            last = self._last_key = LastKey(signature, table, last.modes, values, (*signature, *values))
        return last.key

    def _keep(self, signature: Signature, made: RecordedFunction) -> RecordedFunction:
        """Keep a program, and modes and templates as long as there is a program of theirs."""
        made.of = signature
        self._modes = _modes_of([*self._programs.values(), made])
        program = self._programs.put(self._in_modes(signature), made)
        programs = self._programs.values()
        # What modes were held by the last key is held no longer.
        self._modes, self._last_key = _modes_of(programs), None
        self._templates.keep_only({entry.kind for entry in programs})
        return program

    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RecordedFunction:
        """The program for these arguments: of what the function did at other sizes, or of what it does now."""
        leaves, structure = flatten((args, kwargs))
        names = tuple(names_of(self.function, structure))
        specs = {place_of(place): spec_of(leaf) for place, leaf in enumerate(leaves) if is_tensor(leaf)}
        shapes = {place: spec.shape for place, spec in specs.items()}
        places = {names[int(place)]: place for place in specs}
        groups = self._sizes.groups({name: shapes[place] for name, place in places.items()})
        named = [tuple([(places[name], axis) for name, axis in group]) for group in groups]
        kinds = [
            (len(spec.shape), replace(spec, shape=())) if (spec := specs.get(place_of(place))) else kind_of(leaf)
            for place, leaf in enumerate(leaves)
        ]
        make, kind = partial(self._template, leaves, structure, names), (structure, tuple(kinds))
        draft = self._templates.draft(kind, shapes, make, named)
        if draft is None:
            with self.options.place:
                draft = record(self.function, leaves, structure, names)
            self.recorded += 1
            program = first_program(draft, self.options)
        else:
            program = compiled(draft, self.options)
        pairs = zip(names, leaves, strict=True)
        shown = ", ".join(f"{name}={spec_of(entry) if is_tensor(entry) else repr(entry)}" for name, entry in pairs)
        program = program.in_arena_of(self._arena)
        moving = MovingProgram(program, draft.inputs, draft.outputs)
        made = RecordedFunction(program, moving, draft, shown)
        made.kind = kind
        return made

    def _template(
        self, leaves: Sequence[Any], structure: Structure, names: Sequence[str], opening: Opening
    ) -> FunctionTemplate | None:
        """The function recorded with open sizes; None where it refuses them, whose code may be anybody's."""
        try:
            with self.options.place:
                draft = record(self.function, leaves, structure, names, opening.shapes).simplified(self.options.backend)
        except Exception:  # what is wrong is told where sizes are plain
            return None
        template = FunctionTemplate.of(opening, draft, self.options.backend)
        self.recorded += template is not None
        return template

    def _run_recorded(
        self, graph: DynamicGraph, program: RecordedFunction, arrays: Sequence[Any], tensors: Sequence[Tensor]
    ) -> tuple[Variable, ...]:
        """The outputs as variables, of one node in the record, which keeps what its gradient reads."""
        inputs = []
        for entry in arrays:
            operand = entry if type(entry) is Variable else graph.constant(entry)
            if operand.graph is not graph:
                got, need = "variables of several graphs", "variables of one graph"
                raise SymbolError("compile", got=got, need=need, fix="detach() them", origin=caller_origin())
            inputs.append(operand)
        call = program.call or self._call(program)
        moving = call.program()
        made = moving.fresh(self._pool)
        moving.run([*tensors, *call.constants.values(), *made])
        return graph.record_call(call, inputs, made[: call.results], made[call.results :])

    def _call(self, program: RecordedFunction) -> ProgramCall:
        with self._lock:
            if program.call is None:
                source = program.draft.source
                options = ProgramOptions(self._arena, self._lock, self.options.backend, self.options.limit)
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
        return f"compile({_name_of(self.function)}), recorded {self.recorded} times"


@overload
def compile(function: Callable[P, R]) -> CompiledFunction[P, R]: ...
@overload
def compile(
    function: None = None,
    *,
    backend: str = "",
    memory_limit: ArenaLimit | None = None,
    autotune: TuneOptions | bool = False,
    deterministic: bool = False,
    sizes: Sizes | None = None,
    device: AnyDevice | None = None,
    arena: Arena | None = None,
) -> Callable[[Callable[P, R]], CompiledFunction[P, R]]: ...
@overload
def compile(
    function: Callable[P, R],
    *,
    backend: str = "",
    memory_limit: ArenaLimit | None = None,
    autotune: TuneOptions | bool = False,
    deterministic: bool = False,
    sizes: Sizes | None = None,
    device: AnyDevice | None = None,
    arena: Arena | None = None,
) -> CompiledFunction[P, R]: ...
@checked
def compile(
    function: Callable[P, R] | None = None,
    *,
    backend: str = "",
    memory_limit: ArenaLimit | None = None,
    autotune: TuneOptions | bool = False,
    deterministic: bool = False,
    sizes: Sizes | None = None,
    device: AnyDevice | None = None,
    arena: Arena | None = None,
) -> CompiledFunction[P, R] | Callable[[Callable[P, R]], CompiledFunction[P, R]]:
    """The function, compiled: each call runs one native program, which the first call of a signature records.

    The function gets traced values in the place of its arrays. It may use Python freely on what is static (shapes,
    numbers among the arguments), and must not branch on elements: `cond`, `while_loop` and `scan` do that in the
    program. With a `memory_limit`, in bytes, the arena of each program takes no more, or MemoryLimitError says what it
    would take. With a `device` arguments go there, and so do arrays that the function makes; results stay there. Else
    it runs where its arguments are. What its programs compute lies in the `arena`, where one is shared (`nnc.arena`).

    Axes open at the second size that comes. `sizes={"x": ("n", 64), "n": range(1, 513)}` opens the first axis of the
    argument x at once, for sizes from 1 to 512, and fixes the second one; None is an axis of any size. ShapeError for
    other sizes, and where two axes of one name differ.

    >>> @compile
    ... def area(radius):
    ...     return 3.0 * radius * radius
    >>> area(np.float32([1.0, 2.0]))
    Variable(f32[2], constant)
    [ 3. 12.]
    """
    place = None if device is None else present(device_of(device))
    options = CompileOptions(backend, memory_limit, autotune, deterministic, sizes, place, arena)
    if function is None:
        return lambda given: CompiledFunction(given, options)
    return CompiledFunction(function, options)


def _name_of(function: object) -> str:
    return str(getattr(function, "__qualname__", repr(function)))


# JAX's word for it.
jit = compile


def _modes_of(programs: Iterable[RecordedFunction]) -> dict[Signature, tuple[Mode, ...]]:
    """Per signature the modes of its programs, in an order that does not depend on when they ran."""
    modes_by_owner: dict[Signature, dict[int, Mode]] = {}
    for program in programs:
        if program.draft.modes:
            modes_by_owner.setdefault(program.of, {}).update(program.draft.modes)
    return {signature: tuple(modes[owner] for owner in sorted(modes)) for signature, modes in modes_by_owner.items()}


def _nbytes(program: RecordedFunction) -> int:
    return program.program.memory().program


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


def _operands(arrays: Sequence[Any]) -> tuple[DynamicGraph, list[Tensor], bool]:
    """The graph of the first variable or the default one, contiguous tensors, and whether one is recorded."""
    graph: DynamicGraph | None = None
    recorded = False
    tensors = []
    for entry in arrays:
        if type(entry) is not Variable:
            tensors.append(contiguous_tensor(entry))
            continue
        tensor = entry.tensor
        tensor.check_file()
        tensors.append(tensor if tensor.is_contiguous else tensor.clone())
        if entry.place is not None:
            # Gradients may be asked for.
            recorded = True
        if graph is None:
            assert isinstance(entry.graph, DynamicGraph)
            graph = entry.graph
    return graph or default_graph(), tensors, recorded
