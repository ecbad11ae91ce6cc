"""A model of a file: run, plan, train. Each signature of inputs has a program of its own, kept up to a bound.

Programs of a model take turns in one arena.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from copy import copy
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from nnc.arguments import explained
from nnc.classes import dataclass
from nnc.core.precautions.collection import RareCollections
from nnc.core.precautions.recent import RecentlyUsed
from nnc.core.quantization_modes import QuantizationMode
from nnc.core.running.late_names import LateModule
from nnc.core.values.device import CPU, Device
from nnc.core.values.spec import Shape
from nnc.core.values.tensor import as_array
from nnc.errors import ShapeError, UsageError
from nnc.onnx.kept.asked_elements import TWINS, Unknown
from nnc.onnx.kept.input_signatures import kind_of, signature
from nnc.onnx.made.kept_file import ModelFile
from nnc.onnx.made.kept_programs import CachedProgram, CachedSources, ProgramPlace
from nnc.onnx.made.model_stages import AnyProgram, OnnxStages, is_cut
from nnc.onnx.made.onnx_program import Array, OnnxProgram, Result, check_memory, look_of
from nnc.symbolic import Arena, MemoryStatement, trim_after
from nnc.symbolic.sharing.openings import Templates
from nnc.symbolic.sharing.program_disk import MODULES

if TYPE_CHECKING:
    import onnx
    from nnc.onnx import file as parsing
    from nnc.onnx import subgraphs
    from nnc.onnx.drafts import DraftTemplate, GraphDraft
    from nnc.onnx.file import GraphPart, OnnxFile
    from nnc.onnx.made import declared_inputs, making
    from nnc.symbolic import Compiled, Symbol, SymbolicGraph
    from nnc.symbolic.passes import Pass
    from nnc.symbolic.quantization_report import QuantizationReport
else:
    # What makes programs is imported where one is made: those from the disk need none of it, nor the package `onnx`.
    making, declared_inputs = LateModule("nnc.onnx.made.making"), LateModule("nnc.onnx.made.declared_inputs")
    parsing, subgraphs = LateModule("nnc.onnx.file"), LateModule("nnc.onnx.subgraphs")

# Above this module: what opens a file makes models.
_LOADING: Any = LateModule("nnc.onnx.file_loading")

MOST_STAGES = 64
# What reading and importing leave behind, whatever the file; as `benchmarks/onnx_models.py --memory` finds it.
IMPORTER = 3 << 20
# Sequences, and optional inputs that are not given.
NO_TENSORS = (list, type(None))


def _no_programs() -> RecentlyUsed[Hashable, AnyProgram]:
    return RecentlyUsed(lambda entry: entry.nbytes)


@dataclass(slots=True, weakref_slot=True, eq=False)
class OnnxModel:
    """The graph of a file with its weights. `sizes` fixes open dimensions by name for `plan`.

    `run({"x": array})` gives `{"y": array}`. Open dimensions are bound by the arrays; inputs whose elements act as a
    shape or an option are bound by value, which `by_value` lists after the first run. Without `passes` they are those
    of files.
    """

    source: ModelFile
    sizes: Mapping[str, int] = field(default_factory=dict)
    backend: str = ""
    passes: tuple[Pass, ...] | None = None
    quantize: QuantizationMode | None = None
    by_value: set[str] = field(default_factory=set)
    device: Device = CPU
    arena: Arena | None = None
    _programs: RecentlyUsed[Hashable, AnyProgram] = field(default_factory=_no_programs)
    _stages: dict[int, OnnxStages] = field(default_factory=dict)
    _depth: int = 0
    _arena: Arena = field(default_factory=Arena)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _outputs: tuple[str, ...] = ()
    _templates: Templates[GraphDraft] = field(default_factory=Templates)
    _sources: CachedSources = field(default_factory=CachedSources)

    def __post_init__(self) -> None:
        self._outputs = self.source.output_names
        if self.arena is not None:
            self._arena = self.arena

    def __deepcopy__(self, memo: dict[int, object]) -> OnnxModel:
        """The same file and options, with programs of its own."""
        known = set(self.by_value)
        options = (self.backend, self.passes, self.quantize, known, self.device, self.arena)
        return OnnxModel(self.source, dict(self.sizes), *options)

    def __copy__(self) -> OnnxModel:
        return self.__deepcopy__({})

    def __reduce__(self) -> tuple[object, ...]:
        """By the bytes of the graph; external data is not part of them."""
        if self.file.has_external_data:
            raise UsageError("pickle", got="a model with external data", need="its file", fix="hand over the path")
        content = self.file.message().SerializeToString()
        return _LOADING.load_again, (content, dict(self.sizes), self.backend, self.quantize, self.device, self.arena)

    def __repr__(self) -> str:
        return (
            f"OnnxModel({'; '.join(map(declared_inputs.declared, (*self.inputs.values(), *self.file.graph.output)))})"
        )

    @property
    def file(self) -> OnnxFile:
        """Its file, parsed."""
        return self.source.parsed()

    @property
    def inputs(self) -> dict[str, onnx.ValueInfoProto]:
        """The inputs without those that are initializers too (IR 3)."""
        initialized = {entry.name for entry in self.file.graph.initializer}
        return {entry.name: entry for entry in self.file.graph.input if entry.name not in initialized}

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return self._outputs

    # ---- use

    @explained
    def run(self, feeds: Mapping[str, ArrayLike]) -> dict[str, Result]:
        """The outputs by name; ShapeError or UsageError for inputs that are not as the file declares them."""
        arrays = {name: value if isinstance(value, NO_TENSORS) else as_array(value) for name, value in feeds.items()}
        program = self._kept(arrays)
        if program is None:
            program = self._program(arrays)
        return dict(zip(self._outputs, program.run(arrays), strict=True))  # type: ignore[arg-type]

    @explained
    def quantization_report(
        self, feeds: Mapping[str, ArrayLike], quantize: QuantizationMode = "dynamic"
    ) -> QuantizationReport:
        """What `load(quantize=...)` does to each product, and to the outputs of floats, on these inputs."""
        arrays = {name: as_array(value) for name, value in feeds.items()}
        declared_inputs.check_inputs(self.inputs, arrays)
        results: list[list[Array]] = []
        for mode in (None, quantize):
            twin = copy(self)
            twin.quantize = mode
            computed = twin.run(arrays).values()
            results.append([entry for entry in computed if isinstance(entry, np.ndarray) and entry.dtype.kind == "f"])
        known = frozenset(twin.by_value)
        return making.quantization_report(self._maker(), arrays, known, quantize, results)

    def memory(self, **sizes: int) -> MemoryStatement:
        """The bytes of a run with these open dimensions; no arena is allocated. UsageError names those still open.

        An input without axes that a branch or a shape asks for is given by its name too. Results whose size depends on
        data count with the largest that they can have.
        """
        programs = self._programs_of(sizes)
        largest = max(programs, key=_arena_of)
        statement = largest.memory()
        # Programs of other stages stay beside the largest, with what they hand to each other.
        others = [entry.memory() for entry in programs if entry is not largest]
        running = statement.process + sum(other.bound + other.program + other.outputs for other in others)
        running -= sum(entry.inside for entry in programs)
        beside = (
            IMPORTER + self.source.held_bytes + max(running, *(entry.making for entry in programs)) - statement.process
        )
        return replace(statement, beside=beside)

    def compiled(self, **sizes: int) -> Compiled:
        """The program of a run with these open dimensions, whose `plan()` and `page()` show its memory.

        Of a model in stages, which share one arena, the largest.
        """
        self._sources.used = False  # a program from the disk has no graph to look at
        program = max(self._programs_of(sizes), key=_arena_of)
        assert isinstance(program, OnnxProgram)
        assert program.compiled is not None
        return program.compiled

    def compiled_for(self, backend: str, **sizes: int) -> tuple[Compiled, dict[str, Symbol], dict[str, Symbol]]:
        """The program of these open dimensions by a backend, with its inputs and outputs by name, for a library.

        UsageError for a model in stages, or with an output that is a constant, a sequence or a map.
        """
        twin = copy(self)
        twin.backend = backend
        program = twin._program(twin._known_by_value(sizes), values=False)
        if not isinstance(program, OnnxProgram) or program.compiled is None:
            raise UsageError("library", got="a model whose sizes depend on data", need="one program for given sizes")
        outputs: dict[str, Symbol] = {}
        for name, value in zip(self.outputs, program.outputs, strict=True):
            if value.symbol is None or value.meaning is not None:
                raise UsageError("library", got=f"output {name}, which is no computed tensor", need="computed tensors")
            outputs[name] = value.symbol
        return program.compiled, dict(program.inputs), outputs

    def _known_by_value(self, sizes: Mapping[str, int]) -> dict[str, Array]:
        """Placeholders of these open dimensions, of which inputs without axes that have a size are known."""
        placeholders = self.placeholders(**sizes)
        self.by_value |= {name for name, entry in placeholders.items() if name in sizes and not entry.shape}
        return placeholders

    def _programs_of(self, sizes: Mapping[str, int]) -> list[OnnxProgram | CachedProgram]:
        programs, _ = self.planned(self._known_by_value(sizes))
        if not programs:
            raise UsageError("memory", got="a model whose outputs are constants", need="something to run")
        return programs

    def planned(self, arrays: Mapping[str, Result]) -> tuple[list[OnnxProgram | CachedProgram], dict[str, Array]]:
        """The programs of a run on arrays of these shapes, and what its outputs look like."""
        missing = ", ".join(name for name in self.inputs if name not in arrays)
        if missing:
            raise UsageError("plan", got=f"{missing}, which other stages make", need="a bound of it", fix="run() it")
        given = {name: arrays[name] for name in self.inputs}
        program = self._program(given, values=False)
        if isinstance(program, OnnxStages):
            return program.programs(given), {}
        if isinstance(program, CachedProgram):
            return [program], dict(zip(self.outputs, program.looks(), strict=True))
        looks = {name: look_of(value) for name, value in zip(self.outputs, program.outputs, strict=True)}
        return [] if program.compiled is None else [program], looks

    def run_subset(self, values: Mapping[str, Result]) -> dict[str, Result]:
        """The outputs for those of the values that are inputs."""
        given = {name: values[name] for name in self.inputs}
        return dict(zip(self.outputs, self._program(given).run(given), strict=True))  # type: ignore[arg-type]

    def by_elements(self, values: Mapping[str, Result]) -> dict[str, Result]:
        """The outputs, computed from elements without a program."""
        return self._maker().by_elements({name: values[name] for name in self.inputs}, self.outputs)

    def greatest(self, values: Mapping[str, Result]) -> dict[str, Array]:
        """Zeros, which take no memory, as large as the outputs of the last node can be; UsageError for no bound."""
        return making.greatest(self.file, values)

    def placeholders(self, **sizes: int) -> dict[str, Array]:
        """Zeros for every input, without memory, or the value of one without axes; UsageError names what is open."""
        declared_inputs.check_sizes(self.inputs, sizes)
        return {
            name: declared_inputs.placeholder(name, operand, {**self.sizes, **sizes})
            for name, operand in self.inputs.items()
        }

    def example_shape(self) -> tuple[int, ...]:
        """The shape of the first input without its first axis, the batch; UsageError names what else is open."""
        name, info = next(iter(self.inputs.items()))
        dims = info.type.tensor_type.shape.dim
        if not dims:
            raise UsageError("onnx", got=f"input {name} without axes", need="a batch of examples")
        batch = {dims[0].dim_param or f"{name}.0": 1}
        return declared_inputs.placeholder(name, info, {**self.sizes, **batch}).shape[1:]

    def graph(
        self, **sizes: int
    ) -> tuple[SymbolicGraph, dict[str, Symbol], dict[str, tuple[Symbol, Array]], tuple[Symbol, ...]]:
        """The symbolic graph for these open dimensions, before any pass: inputs, weights with their values, outputs."""
        return self._maker().graph(self.placeholders(**sizes))

    # ---- programs

    def _kept(self, arrays: Mapping[str, object]) -> AnyProgram | None:
        """The program that was made for inputs of these names, shapes and types, which fitted the file then.

        None where elements count too. Without this a call of LeNet takes half as long again (64 us, 38 with it).
        """
        if self.by_value:
            return None
        key = tuple([(name, signature(arrays[name], by_value=False)) for name in sorted(arrays)])
        return self._usable(self._programs.get(key))

    def _usable(self, program: AnyProgram | None) -> AnyProgram | None:
        """The program; none from the disk where somebody looks at commands, for which all are made anew."""
        if not isinstance(program, CachedProgram) or self._sources.are_used():
            return program
        self._programs = _no_programs()
        return None

    def _program(self, arrays: Mapping[str, object], *, values: bool = True) -> AnyProgram:
        """The program of a signature, made by one thread at a time."""
        with self._lock:
            return self._find_program(arrays, values=values)

    def _find_program(self, arrays: Mapping[str, object], *, values: bool) -> AnyProgram:
        for _ in range(len(arrays) + 1):
            known = frozenset(self.by_value) | {n for n, entry in arrays.items() if not isinstance(entry, np.ndarray)}
            known |= {n for n, entry in arrays.items() if isinstance(entry, np.ndarray) and entry.dtype not in TWINS}
            key = tuple((name, signature(arrays[name], by_value=name in known)) for name in sorted(arrays))
            ready = self._usable(self._programs.get(key))
            if ready is not None:
                return ready
            try:
                program = self._build(arrays, known, self._place(key))
            except Unknown as unknown:
                if self._depth < MOST_STAGES and is_cut(unknown, arrays):
                    return self._programs.put(key, self._staged(unknown))
                names = unknown.names - known
                if not values or not names:
                    on = ", ".join(sorted(unknown.names)) or "nothing"
                    got = f"{unknown.what}, which depends on the elements of {on}"
                    raise UsageError(
                        "plan", got=got, need="values that are known", fix="run() it, or give them"
                    ) from None
                self.by_value |= names
                continue
            self._programs.put(key, program)
            trim_after(program.making)
            entries = [entry for entry in self._programs.values() if not isinstance(entry, OnnxStages)]
            kept = [entry.resident for entry in entries]
            beside = 0 if self._depth else self.source.held_bytes + IMPORTER
            beside -= max((entry.inside for entry in entries), default=0)
            self._arena.fit(self, (entry for entry in kept if entry is not None), name=self.source.name, beside=beside)
            return program
        raise AssertionError("each turn binds an input more")

    def _staged(self, unknown: Unknown) -> OnnxStages:
        """The model cut at a node; the parts share an arena."""
        if unknown.place not in self._stages:
            arena = self._arena if self._depth or self.arena is not None else Arena()
            parts = subgraphs.split(self.file.graph, unknown.place, whole=unknown.whole)
            numbers = [f"{unknown.place}.{unknown.whole}.{number}" for number in range(len(parts))]
            models = [
                None if part is None else self._part(part, arena, number)
                for part, number in zip(parts, numbers, strict=True)
            ]
            before, node, behind = models
            assert before is not None
            assert behind is not None
            self._stages[unknown.place] = OnnxStages(before, node, behind, self.outputs)
        return self._stages[unknown.place]

    def _part(self, graph: GraphPart, arena: Arena, number: str) -> OnnxModel:
        """One part of the model in stages, with a number that no other part has."""
        digest = self.file.digest and f"{self.file.digest} {number}"
        # All that is read of a graph is in a part.
        file = replace(self.file, graph=cast("onnx.GraphProto", graph), digest=digest)
        options = (self.backend, self.passes, self.quantize, set[str](), self.device, self.arena)
        return OnnxModel(file, {}, *options, _arena=arena, _depth=self._depth + 1, _sources=self._sources)

    def _maker(self) -> making.ProgramMaker:
        """What makes programs of this file, with the options as they are."""
        passes = making.PASSES if self.passes is None else self.passes
        limit = None if self.arena is None else self.arena.limit
        return making.ProgramMaker(self.file, self.backend, passes, self.quantize, self.device, limit, self._arena)

    def _place(self, key: Hashable) -> ProgramPlace | None:
        """Where the disk may have the program of a signature."""
        if not self._sources.used or not self.device.is_host:
            return None
        limit = None if self.arena is None else self.arena.limit
        passes = None if self.passes is None else [entry.name for entry in self.passes]
        options = passes, self.quantize, limit, key
        return ProgramPlace.of(self.source, self.backend, options)

    @RareCollections()
    def _build(
        self, arrays: Mapping[str, object], known: frozenset[str], place: ProgramPlace | None
    ) -> OnnxProgram | CachedProgram:
        """From the disk, by a template, or of the file; what is made of the file is kept on the disk."""
        shapes = {n: entry.shape for n, entry in arrays.items() if n not in known and isinstance(entry, np.ndarray)}
        kind = tuple((name, kind_of(arrays[name], by_value=name in known)) for name in sorted(arrays))
        if place is not None and (kept := place.load(self._arena, arrays)) is not None:
            check_memory(kept.memory(), kept.held)
            self._templates.note(kind, shapes)
            return kept
        # What the disk has a program for fitted the file when that was made; parts of a model are given what fits.
        if not self._depth:
            declared_inputs.check_inputs(self.inputs, arrays)
        try:
            return self._made(arrays, known, place, kind, shapes)
        except ShapeError as error:
            # Files may call axes alike that need not be, so this is told where the sizes do not fit anyway.
            clash = None if self._depth else parsing.differing_axes(self.inputs, arrays)
            if clash is None:
                raise
            got, name = clash
            raise ShapeError("run", got=got, need=f"one size {name}, as the file names these axes") from error

    def _made(
        self,
        arrays: Mapping[str, object],
        known: frozenset[str],
        place: ProgramPlace | None,
        kind: tuple[object, ...],
        shapes: Mapping[str, Shape],
    ) -> OnnxProgram:
        """By a template, or of the file, to be kept on the disk behind its first run."""
        made: list[DraftTemplate] = []
        maker = self._maker()
        try:
            draft = self._templates.draft(kind, shapes, partial(maker.template, arrays, known, made))
            program = maker.finished(maker.laid(maker.drafted(arrays, known)) if draft is None else draft)
        except Unknown as unknown:
            if place is not None:
                place.keep_unknown(unknown)
            raise
        if place is not None and program.compiled is not None:
            program.behind.append(partial(_keep, place))
            # By a template it is made in not much more time than it is read: it is kept when such sizes come again.
            if draft is not None and not made:
                program.behind.append(_wait)
        return program


def _keep(place: ProgramPlace, program: OnnxProgram) -> None:
    """Keep a program that has run on the disk."""
    assert program.compiled is not None
    numbers = {"nbytes": program.nbytes, "making": program.making, "held": program.held}
    place.keep(program.compiled, program.inputs, program.wanted, program.outputs, numbers)


def _wait(program: OnnxProgram) -> None:
    """Behind the first run of a program that is kept behind the second."""


def _arena_of(program: OnnxProgram | CachedProgram) -> int:
    return program.memory().arena


MODULES.remember()
