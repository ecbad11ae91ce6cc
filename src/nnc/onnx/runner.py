"""A model of a file: run, plan, train. Each signature of inputs has a program of its own, kept up to a bound.

Programs of a model take turns in one arena.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import field, replace
from functools import partial
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

import onnx
from nnc.arguments import checked, explained
from nnc.classes import dataclass
from nnc.core.precautions.collection import RareCollections
from nnc.core.precautions.machine_memory import obtainable_memory
from nnc.core.precautions.recent import RecentlyUsed
from nnc.core.running.device_context import present
from nnc.core.values.device import CPU, AnyDevice, Device, current_device, device_of
from nnc.core.values.dtype import dtype_of
from nnc.core.values.spec import Shape, TensorSpec
from nnc.core.values.tensor import Tensor, as_array
from nnc.errors import BackendError, FormatError, MemoryLimitError, NncError, ShapeError, UsageError
from nnc.onnx.drafts import DraftTemplate, GraphDraft, KnownWishes, template_of
from nnc.onnx.file import (
    TWINS,
    GraphPart,
    OnnxFile,
    differing_axes,
    dtype_named,
    read,
    schema_of,
)
from nnc.onnx.importer import BUILTIN, OnnxImporter
from nnc.onnx.kept_programs import KeptProgram, KeptSources, ProgramPlace
from nnc.onnx.node import Array, Unknown, decode
from nnc.onnx.node_values import OnnxValue
from nnc.onnx.operators import ROWS, SPECIALS
from nnc.onnx.stored.external import MOST_BYTES
from nnc.onnx.subgraphs import split
from nnc.ops.quantization.quantization import DEQUANTIZE
from nnc.symbolic import Arena, Compiled, MemoryStatement, Symbol, SymbolicGraph, compile, give_back_after
from nnc.symbolic.compiler.shared_arena import Resident
from nnc.symbolic.passes import (
    DEFAULT,
    SUMS,
    Pass,
    QuantizationMode,
    assign_blocks,
    bytes_beforehand,
    part_batch,
    place,
    precompute,
    quantize_products,
    simplify,
    sum_integers,
)
from nnc.symbolic.quantization_report import QuantizationReport, measure_quantization, relative_error
from nnc.symbolic.sharing.openings import Opening, Templates

Result = Array | list[Array] | list[dict[object, float]] | None
# Inputs of at most this many elements are options, where a value of theirs is asked for; larger ones are data.
OPTION_ELEMENTS = 256
MOST_STAGES = 64
# Bytes that the work on a file's constants may write when a program is made, beside so many for each byte of them.
# More is done in each run, where `memory()` states it: 1 KB of nodes that double 512 MB took 46 s and 13 GB to plan.
MOST_BEFOREHAND, BEFOREHAND_PER_BYTE = 1 << 28, 32
# What reading and importing leave behind, whatever the file; as `benchmarks/onnx_models.py --memory` finds it.
IMPORTER = 3 << 20
# Sequences, and optional inputs that are not given.
NO_TENSORS = (list, type(None))
# Of these the first result has the element type of the first operand, and all other results are places.
KEEPS_TYPE = ("Compress", "Unique")
# Files have channels first, and so a conversion at each side of every convolution; their weights are fixed.
PASSES = (Pass.LAYOUT, Pass.FROZEN_BATCH_NORM, *DEFAULT)


def _no_programs() -> RecentlyUsed[Hashable, AnyProgram]:
    return RecentlyUsed(lambda entry: entry.nbytes)


@dataclass(frozen=True, slots=True, eq=False)
class OnnxProgram:
    """A graph for one signature: symbols of the inputs that it reads, and how to give each output.

    `nbytes` is about what its objects and the weights take that it has for itself, `making` what all of it took at the
    most until it was made; it is bound to `held` bytes of the file, of which `inside` lie where the file was read to.
    What comes `behind` its first runs is done once each, the last one first.
    """

    compiled: Compiled | None
    inputs: Mapping[str, Symbol]
    outputs: tuple[OnnxValue, ...]
    nbytes: int = 0
    making: int = 0
    wanted: tuple[Symbol, ...] = ()
    held: int = 0
    inside: int = 0
    behind: list[Callable[[OnnxProgram], None]] = field(default_factory=list)

    def memory(self) -> MemoryStatement:
        """The bytes of a run of this alone."""
        assert self.compiled is not None
        return self.compiled.memory()

    def run(self, feeds: Mapping[str, Array]) -> list[Result]:
        """The outputs, as arrays of their own."""
        computed: dict[int, Array] = {}
        if self.compiled is not None:
            values = [(symbol, feeds[name]) for name, symbol in self.inputs.items()]
            arrays = self.compiled.read(values, self.wanted)
            computed = {symbol.key: array for symbol, array in zip(self.wanted, arrays, strict=True)}
            if self.behind:
                self.behind.pop()(self)
        return [_result(value, computed) for value in self.outputs]


@dataclass(frozen=True, slots=True, eq=False)
class OnnxStages:
    """A model in two, with a node between that is computed from elements: its results may have any size.

    Without such a node the second part only has inputs that act as shapes, whose values the first gives.
    """

    before: OnnxModel
    node: OnnxModel | None
    behind: OnnxModel
    outputs: tuple[str, ...]
    nbytes: int = 0

    def run(self, feeds: Mapping[str, Array]) -> list[Result]:
        """The outputs, as arrays of their own."""
        values: dict[str, Result] = dict(feeds)
        values |= self.before.run_some(values)
        if self.node is not None:
            values |= self.node.by_elements(values)
        values |= self.behind.run_some(values)
        return [values[name] for name in self.outputs]

    def programs(self, arrays: Mapping[str, Result]) -> list[OnnxProgram | KeptProgram]:
        """What runs for arrays of these shapes, where the node's results are as large as they can be."""
        values = dict(arrays)
        first, made = self.before.planned(values)
        values |= made
        if self.node is not None:
            values |= self.node.greatest(values)
        return [*first, *self.behind.planned(values)[0]]


AnyProgram: TypeAlias = OnnxProgram | KeptProgram | OnnxStages


@dataclass(slots=True, weakref_slot=True, eq=False)
class OnnxModel:
    """The graph of a file with its weights. `sizes` fixes open dimensions by name for `plan`.

    `run({"x": array})` gives `{"y": array}`. Open dimensions are bound by the arrays; inputs whose elements act as a
    shape or an option are bound by value, which `by_value` lists after the first run.
    """

    file: OnnxFile
    sizes: Mapping[str, int] = field(default_factory=dict)
    backend: str = ""
    passes: tuple[Pass, ...] = PASSES
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
    _sources: KeptSources = field(default_factory=KeptSources)

    def __post_init__(self) -> None:
        self._outputs = tuple(entry.name for entry in self.file.graph.output)
        if self.arena is not None:
            self._arena = self.arena

    def __deepcopy__(self, memo: dict[int, object]) -> OnnxModel:
        """The same file and options, with programs of its own."""
        known = set(self.by_value)
        options = (self.backend, self.passes, self.quantize, known, self.device, self.arena)
        return OnnxModel(self.file, dict(self.sizes), *options)

    def __copy__(self) -> OnnxModel:
        return self.__deepcopy__({})

    def __reduce__(self) -> tuple[object, ...]:
        """By the bytes of the graph; external data is not part of them."""
        if any(entry.data_location == onnx.TensorProto.EXTERNAL for entry in self.file.graph.initializer):
            raise UsageError("pickle", got="a model with external data", need="its file", fix="hand over the path")
        content = self.file.message().SerializeToString()
        return _again, (content, dict(self.sizes), self.backend, self.quantize, self.device, self.arena)

    # ---- what it reads and writes

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
            self._check(arrays)
            try:
                program = self._program(arrays)
            except ShapeError as error:
                # Files may call axes alike that need not be, so this is told where the sizes do not fit anyway.
                if (clash := differing_axes(self.inputs, arrays)) is None:
                    raise
                got, name = clash
                raise ShapeError("run", got=got, need=f"one size {name}, as the file names these axes") from error
        return dict(zip(self._outputs, program.run(arrays), strict=True))  # type: ignore[arg-type]

    @explained
    def quantization_report(
        self, feeds: Mapping[str, ArrayLike], quantize: QuantizationMode = "dynamic"
    ) -> QuantizationReport:
        """What `load(quantize=...)` does to each product, and to the outputs of floats, on these inputs."""
        arrays = {name: as_array(value) for name, value in feeds.items()}
        self._check(arrays)
        results: list[list[Array]] = []
        for mode in (None, quantize):
            twin = copy(self)
            twin.quantize = mode
            computed = twin.run(arrays).values()
            results.append([entry for entry in computed if isinstance(entry, np.ndarray) and entry.dtype.kind == "f"])
        importer, inputs, outputs = self._import(arrays, frozenset(twin.by_value))
        graph, bound = importer.graph, importer.bound()
        wanted = tuple(dict.fromkeys(_symbols(outputs)))
        simplify(graph, wanted, tuple(entry for entry in self.passes if entry is not Pass.GROUPS), backend=self.backend)
        weights = {symbol: Tensor.from_numpy(array) for symbol, array in bound.items()}
        given = {symbol: arrays[name] for name, symbol in inputs.items()}
        layers = measure_quantization(graph, weights, given, quantize, self.backend)
        return QuantizationReport(quantize, layers, relative_error(*results))

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
        beside = IMPORTER + self.file.nbytes + max(running, *(entry.making for entry in programs)) - statement.process
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

    def _programs_of(self, sizes: Mapping[str, int]) -> list[OnnxProgram | KeptProgram]:
        programs, _ = self.planned(self._known_by_value(sizes))
        if not programs:
            raise UsageError("memory", got="a model whose outputs are constants", need="something to run")
        return programs

    def planned(self, arrays: Mapping[str, Result]) -> tuple[list[OnnxProgram | KeptProgram], dict[str, Array]]:
        """The programs of a run on arrays of these shapes, and what its outputs look like."""
        missing = ", ".join(name for name in self.inputs if name not in arrays)
        if missing:
            raise UsageError("plan", got=f"{missing}, which other stages make", need="a bound of it", fix="run() it")
        given = {name: arrays[name] for name in self.inputs}
        program = self._program(given, values=False)
        if isinstance(program, OnnxStages):
            return program.programs(given), {}
        if isinstance(program, KeptProgram):
            return [program], dict(zip(self.outputs, program.looks(), strict=True))
        looks = {name: _look(value) for name, value in zip(self.outputs, program.outputs, strict=True)}
        return [] if program.compiled is None else [program], looks

    def run_some(self, values: Mapping[str, Result]) -> dict[str, Result]:
        """The outputs for those of the values that are inputs."""
        given = {name: values[name] for name in self.inputs}
        return dict(zip(self.outputs, self._program(given).run(given), strict=True))  # type: ignore[arg-type]

    def by_elements(self, values: Mapping[str, Result]) -> dict[str, Result]:
        """The outputs, computed from elements without a program."""
        given = {name: values[name] for name in self.inputs}
        try:
            _, _, outputs = self._import(given, frozenset(given))
        except Unknown as unknown:
            # All inputs are known: what it asks for is a list or text in place of a tensor, which no value answers.
            raise FormatError("onnx", got=unknown.what, need="operands as ONNX defines them") from None
        return {name: _result(value, {}) for name, value in zip(self.outputs, outputs, strict=True)}

    def greatest(self, values: Mapping[str, Result]) -> dict[str, Array]:
        """Zeros, which take no memory, as large as the outputs of the last node can be; UsageError for no bound."""
        node = decode(self.file.graph.node[-1], self.file.opsets)
        row = ROWS.get(node.op if not node.domain else f"{node.domain}.{node.op}")
        scope = {entry.name: self.file.array(entry) for entry in self.file.graph.initializer} | dict(values)
        if row is None or row.most is None or not all(name in scope for name in node.inputs if name):
            raise UsageError(
                "plan", got=f"{node.label}, whose result depends on values", need="a bound", fix="run() it"
            )
        try:
            shapes = row.most(node, *(scope[name] if name else None for name in node.inputs))
        except BUILTIN as error:
            need = "operands as ONNX defines them"
            raise FormatError(node.label, got=f"{type(error).__name__}: {error}", need=need) from error
        kind = np.asarray(scope[node.inputs[0]]).dtype if node.op in KEEPS_TYPE else np.dtype(np.int64)
        kinds = [kind, *[np.dtype(np.int64)] * (len(shapes) - 1)]
        return {name: _zeros(shape, kind) for name, shape, kind in zip(node.outputs, shapes, kinds) if name}

    def placeholders(self, **sizes: int) -> dict[str, Array]:
        """Zeros for every input, which take no memory; UsageError names a dimension that is open still.

        An input without axes has the value that is given by its name.
        """
        return {name: _placeholder(name, operand, {**self.sizes, **sizes}) for name, operand in self.inputs.items()}

    def example_shape(self) -> tuple[int, ...]:
        """The shape of the first input without its first axis, the batch; UsageError names what else is open."""
        name, info = next(iter(self.inputs.items()))
        dims = info.type.tensor_type.shape.dim
        if not dims:
            raise UsageError("onnx", got=f"input {name} without axes", need="a batch of examples")
        batch = {dims[0].dim_param or f"{name}.0": 1}
        return _placeholder(name, info, {**self.sizes, **batch}).shape[1:]

    def graph(
        self, **sizes: int
    ) -> tuple[SymbolicGraph, dict[str, Symbol], dict[str, tuple[Symbol, Array]], tuple[Symbol, ...]]:
        """The symbolic graph for these open dimensions, before any pass: inputs, weights with their values, outputs."""
        try:
            importer, inputs, outputs = self._import(self.placeholders(**sizes), frozenset())
        except Unknown as unknown:
            raise UsageError("graph", got=unknown.what, need="options that do not depend on data") from None
        results = tuple(importer.operand(output) for output in outputs)
        constants = {f"constant_{place}": pair for place, pair in enumerate(importer.constants.items())}
        return importer.graph, inputs, {**importer.weights, **constants}, results

    def _check(self, arrays: Mapping[str, object]) -> None:
        inputs = self.inputs
        unknown, missing = sorted(arrays.keys() - inputs.keys()), sorted(inputs.keys() - arrays.keys())
        if unknown or missing:
            got = "; ".join(
                f"{kind}: {', '.join(names)}" for kind, names in (("unknown", unknown), ("missing", missing)) if names
            )
            raise UsageError("run", got=got, need=f"the inputs {', '.join(inputs)}")
        for name, operand in inputs.items():
            value = arrays[name]
            if not isinstance(value, np.ndarray) or not operand.type.HasField("tensor_type"):
                continue
            tensor = operand.type.tensor_type
            want = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            if tensor.elem_type and value.dtype != want and value.dtype.kind not in "OSU":
                raise UsageError(f"input {name}", got=str(value.dtype), need=str(want), fix="astype() it")
            if tensor.HasField("shape"):
                dims = [dim.dim_value if _is_fixed(dim) else None for dim in tensor.shape.dim]
                fits = len(dims) == value.ndim and all(a in (None, b) for a, b in zip(dims, value.shape, strict=True))
                if not fits:
                    raise ShapeError(f"input {name}", got=str(list(value.shape)), need=str(dims).replace("None", "any"))

    # ---- programs

    def _kept(self, arrays: Mapping[str, object]) -> AnyProgram | None:
        """The program that was made for inputs of these names, shapes and types, which fitted the file then.

        None where elements count too. Without this a call of LeNet takes half as long again (64 us, 38 with it).
        """
        if self.by_value:
            return None
        key = tuple([(name, _signature(arrays[name], by_value=False)) for name in sorted(arrays)])
        return self._usable(self._programs.get(key))

    def _usable(self, program: AnyProgram | None) -> AnyProgram | None:
        """The program; none from the disk where somebody looks at commands, for which all are made anew."""
        if not isinstance(program, KeptProgram) or self._sources.are_used():
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
            key = tuple((name, _signature(arrays[name], by_value=name in known)) for name in sorted(arrays))
            ready = self._usable(self._programs.get(key))
            if ready is not None:
                return ready
            try:
                program = self._build(arrays, known, self._place(key))
            except Unknown as unknown:
                if self._is_cut(unknown, arrays):
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
            give_back_after(program.making)
            entries = [entry for entry in self._programs.values() if not isinstance(entry, OnnxStages)]
            kept = [_resident(entry) for entry in entries]
            beside = 0 if self._depth else self.file.nbytes + IMPORTER
            beside -= max((entry.inside for entry in entries), default=0)
            self._arena.fit(
                self, (entry for entry in kept if entry is not None), name=self.file.graph.name, beside=beside
            )
            return program
        raise AssertionError("each turn binds an input more")

    def _is_cut(self, unknown: Unknown, arrays: Mapping[str, object]) -> bool:
        """Whether the model runs in stages: the elements that are wanted are made of data, and not of options."""
        sources = [arrays[name] for name in unknown.names]
        data = [entry for entry in sources if isinstance(entry, np.ndarray) and entry.dtype in TWINS]
        if self._depth >= MOST_STAGES or not data:
            return False
        if unknown.whole:
            return any(entry.dtype.kind not in "biu" or entry.size > OPTION_ELEMENTS for entry in data)
        return unknown.place > 0 and any(entry.size > OPTION_ELEMENTS for entry in data)

    def _staged(self, unknown: Unknown) -> OnnxStages:
        """The model cut at a node; the parts share an arena."""
        if unknown.place not in self._stages:
            arena = self._arena if self._depth or self.arena is not None else Arena()
            parts = split(self.file.graph, unknown.place, whole=unknown.whole)
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
        file = replace(self.file, graph=cast(onnx.GraphProto, graph), digest=digest)
        options = (self.backend, self.passes, self.quantize, set[str](), self.device, self.arena)
        return OnnxModel(file, {}, *options, _arena=arena, _depth=self._depth + 1, _sources=self._sources)

    def _import(
        self, arrays: Mapping[str, object], known: frozenset[str], shapes: Mapping[str, Shape] | None = None
    ) -> tuple[OnnxImporter, dict[str, Symbol], list[OnnxValue]]:
        """The graph for inputs like these, of other `shapes` where some are given."""
        importer = OnnxImporter(self.file, ROWS, SPECIALS)
        scope: dict[str, OnnxValue] = {}
        inputs: dict[str, Symbol] = {}
        for name, given in arrays.items():
            sources = frozenset((name,))
            if name in known:
                scope[name] = _known(given, sources)
            else:
                assert isinstance(given, np.ndarray)
                spec = TensorSpec(given.shape if shapes is None else shapes[name], dtype_of(given.dtype))
                inputs[name] = importer.graph.input(spec, name)
                scope[name] = OnnxValue(symbol=inputs[name], sources=sources)
        return importer, inputs, importer.run(self.file.graph, scope)

    def _place(self, key: Hashable) -> ProgramPlace | None:
        """Where the disk may have the program of a signature."""
        if not self._sources.used or not self.device.is_host:
            return None
        limit = None if self.arena is None else self.arena.limit
        options = [entry.name for entry in self.passes], self.quantize, limit, key
        return ProgramPlace.of(self.file, self.backend, options)

    @RareCollections()
    def _build(
        self, arrays: Mapping[str, object], known: frozenset[str], place: ProgramPlace | None
    ) -> OnnxProgram | KeptProgram:
        """From the disk, by a template, or of the file; what is made of the file is kept on the disk."""
        shapes = {n: entry.shape for n, entry in arrays.items() if n not in known and isinstance(entry, np.ndarray)}
        kind = tuple((name, _kind(arrays[name], by_value=name in known)) for name in sorted(arrays))
        if place is not None and (kept := place.load(self._arena, arrays)) is not None:
            _check_memory(kept.memory(), kept.held)
            self._templates.note(kind, shapes)
            return kept
        made: list[DraftTemplate] = []
        try:
            draft = self._templates.draft(kind, shapes, partial(self._template, arrays, known, made))
            program = self._finished(self._laid(self._drafted(arrays, known)) if draft is None else draft)
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

    def _template(
        self, arrays: Mapping[str, object], known: frozenset[str], made: list[DraftTemplate], opening: Opening
    ) -> DraftTemplate | None:
        """The draft for open axes, which is `made`; None where these sizes are refused."""
        try:
            template = template_of(opening, self._drafted(arrays, known, opening.shapes), self.backend, self._laid)
        except (NncError, Unknown):
            return None
        made.append(template)
        return template

    def _drafted(
        self, arrays: Mapping[str, object], known: frozenset[str], shapes: Mapping[str, Shape] | None = None
    ) -> GraphDraft:
        """Import and passes."""
        importer, inputs, outputs = self._import(arrays, known, shapes)
        wanted = tuple(dict.fromkeys(_symbols(outputs)))
        graph, bound = importer.graph, importer.bound()
        if self.passes and (self.quantize or _has_integers(graph)):
            ungrouped = tuple(entry for entry in self.passes if entry is not Pass.GROUPS)
            simplify(graph, wanted, ungrouped, backend=self.backend)
            sum_integers(graph, bound, wanted, self.backend)
            if self.quantize:
                quantize_products(graph, bound, self.quantize, self.backend)
        else:
            simplify(graph, wanted, self.passes)
        is_early = _is_done_beforehand(graph, bound)
        before = precompute(graph, bound if is_early else {}, wanted)
        simplify(graph, wanted, self.passes)
        return GraphDraft.of(importer, bound, inputs, tuple(outputs), wanted, before, is_early=is_early)

    def _laid(self, draft: GraphDraft, wishes: KnownWishes | None = None) -> GraphDraft:
        """With what sizes decide: parts of a batch, and blocks of weights, for which `wishes` are known."""
        graph, wanted = draft.graph, draft.wanted
        if not wanted:
            return draft
        if self.passes:
            part_batch(graph, wanted, draft.inputs.values())
        fixed = (*draft.early, *draft.before.results)
        if self.device.is_host:
            assign_blocks(graph, wanted, fixed, self.backend, known=wishes)
        return replace(draft, before=draft.before.followed_by(precompute(graph, fixed, wanted)), work={})

    def _finished(self, draft: GraphDraft) -> OnnxProgram:
        """The program of what was laid."""
        graph, wanted, inputs, before = draft.graph, draft.wanted, draft.inputs, draft.before
        if not wanted:
            return OnnxProgram(None, {}, draft.outputs)
        roots = {graph.root(symbol.key) for symbol in wanted}

        def is_used(symbol: Symbol) -> bool:
            return _is_read(graph, symbol) or symbol.key in roots

        held = making = draft.nbytes
        own, made = dict[Symbol, Tensor](), [entry for entry in before.results if is_used(entry)]
        if made:
            own, anew = self.file.weights.made(before, draft.tensors, draft.name, made, draft.work)
            making += anew - draft.own_nbytes
        bound = (Symbol(graph, key) for key in draft.bound)
        reads = draft.tensors([symbol for symbol in bound if is_used(symbol)])
        draft.importer = None  # what is not read by now goes before code is made
        given = {**reads, **own}
        if not self.device.is_host:
            given = {symbol: tensor.to(self.device) for symbol, tensor in given.items()}
            place(graph, self.device, self.backend, inputs=dict.fromkeys(given, self.device))
        claims = {} if draft.sized is None else draft.sized.of_execs()
        limit, orders = None if self.arena is None else self.arena.limit, draft.orders
        compiled = compile(
            graph, wanted, given=given, backend=self.backend, memory_limit=limit, orders=orders, claims=claims
        )
        compiled = compiled.in_arena_of(self._arena)
        _check_memory(compiled.memory(), held)
        used = {name: operand for name, operand in inputs.items() if is_used(operand)}
        inside = self.file.own_bytes(given.values()) if self.device.is_host else 0
        nbytes = compiled.memory().program + sum(entry.spec.nbytes for entry in own.values())
        making += compiled.memory().making
        return OnnxProgram(compiled, used, draft.outputs, nbytes, making, wanted, held, inside)


@checked
def load(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    sizes: Mapping[str, int] | None = None,
    *,
    backend: str = "",
    quantize: QuantizationMode | None = None,
    device: AnyDevice | None = None,
    arena: Arena | None = None,
    mapped: bool = False,
) -> OnnxModel:
    """The model in an ONNX file; FormatError for a file that is none, BackendError that lists what is not supported.

    With `quantize` the f32 weights of products and convolutions are 8-bit integers, as `nnc.nn.Model.freeze` has them.
    Weights and programs are on the `device`, or where arrays are made (`nnc.device`): arrays go there, results come
    back. What its programs compute lies in the `arena`, where one is shared (`nnc.arena`).

    External data is read at the first run, unless it is to be `mapped`: then pages of its files are read when they are
    touched. Nobody may change these meanwhile; where one was shortened, a run is a FormatError. Weights that are folded
    or laid in blocks are copies.

    >>> nnc.onnx.save(nn.Model(nn.Dense(2), (3,)), "net.onnx")
    >>> model = nnc.onnx.load("net.onnx")
    >>> model.run({"x": np.ones((5, 3), np.float32)})["y"].shape
    (5, 2)
    """
    file = read(source, mapped=mapped)
    check_supported(file)
    home = current_device() if device is None else present(device_of(device))
    return OnnxModel(file, dict(sizes or {}), backend, quantize=quantize, device=home, arena=arena)


def _again(
    data: bytes,
    sizes: Mapping[str, int],
    backend: str,
    quantize: QuantizationMode | None,
    device: Device,
    arena: Arena | None,
) -> OnnxModel:
    return load(data, sizes, backend=backend, quantize=quantize, device=device, arena=arena)


def _is_done_beforehand(graph: SymbolicGraph, bound: Mapping[Symbol, Array]) -> bool:
    """Whether the work on constants is little enough to be done when a program is made."""
    most = MOST_BEFOREHAND + BEFOREHAND_PER_BYTE * sum(array.nbytes for array in bound.values())
    return bytes_beforehand(graph, bound) <= most


def _has_integers(graph: SymbolicGraph) -> bool:
    """Whether something is dequantized, or summed as integers."""
    return any(record.command.op in (DEQUANTIZE, *SUMS) for _, record in graph.execs.items())


def check_supported(file: OnnxFile) -> None:
    """BackendError with every operator of the file that has no row and no body, and its nodes."""
    missing = unsupported(file)
    if missing:
        got = "; ".join(
            f"{name} ({', '.join(nodes[:4])}{', …' if len(nodes) > 4 else ''})" for name, nodes in missing.items()
        )
        raise BackendError("onnx", got=got, need="operators of nnc.onnx.ROWS", fix="see docs/onnx.md")


@checked
def unsupported(file: OnnxFile) -> dict[str, list[str]]:
    """The operators of a file that have no row and no body, with the names of their nodes.

    >>> nnc.onnx.save(nn.Model(nn.Dense(2), (3,)), "net.onnx")
    >>> nnc.onnx.unsupported(nnc.onnx.read("net.onnx"))
    {}
    """
    missing: dict[str, list[str]] = {}
    graphs: list[Sequence[onnx.NodeProto]] = [file.graph.node, *(function.node for function in file.functions.values())]
    while graphs:
        for node in graphs.pop():
            graphs.extend(entry.g.node for entry in node.attribute if entry.type == onnx.AttributeProto.GRAPH)
            if not _is_served(file, node):
                label = str(node.name or next(iter(node.output), ""))
                missing.setdefault(f"{node.domain or 'ai.onnx'}.{node.op_type}", []).append(label)
    return missing


def _is_served(file: OnnxFile, node: onnx.NodeProto) -> bool:
    domain = "" if node.domain == "ai.onnx" else node.domain
    if (domain, node.op_type) in file.functions:
        return True
    name = node.op_type if not domain else f"{domain}.{node.op_type}"
    if name in ROWS or name in SPECIALS:
        return True
    schema = schema_of(node.op_type, file.opsets.get(domain, 1), domain)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def _keep(place: ProgramPlace, program: OnnxProgram) -> None:
    """Keep a program that has run on the disk."""
    assert program.compiled is not None
    numbers = {"nbytes": program.nbytes, "making": program.making, "held": program.held}
    place.keep(program.compiled, program.inputs, program.wanted, program.outputs, numbers)


def _wait(program: OnnxProgram) -> None:
    """Behind the first run of a program that is kept behind the second."""


def _resident(entry: OnnxProgram | KeptProgram) -> Resident | None:
    """What has its values in the arena."""
    return entry.compiled if isinstance(entry, OnnxProgram) else entry.program


def _arena_of(program: OnnxProgram | KeptProgram) -> int:
    return program.memory().arena


def _check_memory(statement: MemoryStatement, weights: int) -> None:
    """MemoryLimitError before anything is allocated that this process cannot have."""
    elsewhere = sum(nbytes for memory, nbytes in statement.arenas.items() if not device_of(memory).is_host)
    need, have = statement.running - elsewhere + weights, obtainable_memory()
    if have is not None and need > have:
        got = f"{need:,} bytes for a run: arena {statement.arena:,}, results {statement.outputs:,}, weights {weights:,}"
        fix = "give smaller sizes: memory(...) says before a run what it takes"
        raise MemoryLimitError("onnx", got=got, need=f"at most the {have:,} that this process can have here", fix=fix)


def _known(given: object, sources: frozenset[str]) -> OnnxValue:
    if isinstance(given, list):
        return OnnxValue(items=tuple(OnnxValue(np.asarray(item), sources=sources) for item in given), sources=sources)
    return OnnxValue(None if given is None else np.asarray(given), sources=sources)


def _result(value: OnnxValue, computed: Mapping[int, Array]) -> Result:
    if value.items is not None:
        return [np.asarray(_result(item, computed)) for item in value.items]
    array = None if value.array is None else np.array(value.array)
    if value.symbol is not None:
        array = computed[value.symbol.key]
    return array if value.meaning is None or array is None else value.meaning(array)


def _signature(value: object, *, by_value: bool) -> object:
    if not isinstance(value, np.ndarray):
        return (
            tuple(_signature(np.asarray(entry), by_value=True) for entry in value) if isinstance(value, list) else None
        )
    if not by_value:
        return value.shape, value.dtype
    content = tuple(value.reshape(-1).tolist()) if value.dtype.kind in "OSU" else value.tobytes()
    return value.shape, value.dtype, content


def _kind(value: object, *, by_value: bool) -> object:
    """What is the same at all sizes of an input: its type and how many axes it has; all of one that is an option."""
    if by_value or not isinstance(value, np.ndarray):
        return _signature(value, by_value=by_value)
    return value.ndim, value.dtype


def _symbols(values: Sequence[OnnxValue]) -> list[Symbol]:
    result = []
    for value in values:
        if value.items is not None:
            result += _symbols(value.items)
        elif value.symbol is not None:
            result.append(value.symbol)
    return result


def _is_read(graph: SymbolicGraph, symbol: Symbol) -> bool:
    return symbol.key in graph.tensors and bool(graph.readers(symbol.key))


def _is_fixed(dim: onnx.TensorShapeProto.Dimension) -> bool:
    """Whether the file gives the size; some exporters write -1 for an open one."""
    return dim.HasField("dim_value") and dim.dim_value >= 0


def _placeholder(name: str, info: onnx.ValueInfoProto, sizes: Mapping[str, int]) -> Array:
    """An array of the declared shape that takes no memory."""
    tensor = info.type.tensor_type
    shape = []
    for axis, dim in enumerate(tensor.shape.dim):
        label = dim.dim_param or f"{name}.{axis}"
        if _is_fixed(dim):
            shape.append(dim.dim_value)
        elif label in sizes:
            shape.append(sizes[label])
        else:
            raise UsageError(
                "plan", got=f"open dimension {label} of {name}", need="its size", fix=f"sizes={{'{label}': …}}"
            )
    if any(size < 0 for size in shape):
        raise FormatError(f"input {name}", got=f"shape {shape}", need="sizes ≥ 0")
    spec = TensorSpec(tuple(shape), dtype_named(tensor.elem_type))
    if spec.nbytes > MOST_BYTES:
        raise ShapeError(f"input {name}", got=str(spec), need=f"at most {MOST_BYTES} bytes")
    if not shape and name in sizes:
        return np.full((), sizes[name], spec.dtype.numpy)
    return _zeros(spec.shape, spec.dtype.numpy)


def _zeros(shape: tuple[int, ...], kind: np.dtype[np.generic]) -> Array:
    """Zeros that take no memory."""
    return np.broadcast_to(np.zeros((), kind), shape)


def _look(value: OnnxValue) -> Array:
    """An array like a value: itself where it is known."""
    if value.array is not None:
        return value.array
    spec = value.spec
    if spec is None:
        raise UsageError("plan", got="a sequence between stages", need="tensors", fix="run() it")
    return _zeros(spec.shape, spec.dtype.numpy)
