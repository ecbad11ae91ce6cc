"""How a program is made of a file: import, passes, weights that follow from others, compilation.

A program from the disk needs none of this, and imports it for nothing (docs/design/0041-programs-on-disk.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

import onnx
from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.values.device import Device
from nnc.core.values.dtype import dtype_of
from nnc.core.values.spec import Shape, TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import BackendError, FormatError, NncError, UsageError
from nnc.onnx.drafts import DraftTemplate, GraphDraft, KnownWishes, template_of
from nnc.onnx.file import OnnxFile, schema_of
from nnc.onnx.importer import BUILTIN, OnnxImporter
from nnc.onnx.kept.asked_elements import Unknown
from nnc.onnx.made.computed_weights import computed_weights
from nnc.onnx.made.onnx_program import OnnxProgram, Result, check_memory, result_of, zeros
from nnc.onnx.node import Array, decode
from nnc.onnx.node_values import OnnxValue
from nnc.onnx.operators import ROWS, SPECIALS
from nnc.ops.quantization.quantization import DEQUANTIZE
from nnc.symbolic import Arena, Symbol, SymbolicGraph, compile
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
from nnc.symbolic.sharing.openings import Opening

# Bytes that the work on a file's constants may write when a program is made, beside so many for each byte of them.
# More is done in each run, where `memory()` states it: 1 KB of nodes that double 512 MB took 46 s and 13 GB to plan.
MOST_BEFOREHAND, BEFOREHAND_PER_BYTE = 1 << 28, 32
# Of these the first result has the element type of the first operand, and all other results are places.
KEEPS_TYPE = ("Compress", "Unique")
# Files have channels first, and so a conversion at each side of every convolution; their weights are fixed.
PASSES = (Pass.LAYOUT, Pass.FROZEN_BATCH_NORM, *DEFAULT)


@dataclass(frozen=True, slots=True, eq=False)
class ProgramMaker:
    """What decides on the programs of a file beside the inputs. `limit` is that of the `arena` in which they run."""

    file: OnnxFile
    backend: str
    passes: tuple[Pass, ...]
    quantize: QuantizationMode | None
    device: Device
    limit: int | None
    arena: Arena

    def imported(
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

    def by_elements(self, given: Mapping[str, object], names: Sequence[str]) -> dict[str, Result]:
        """The outputs of these names, computed from elements without a program."""
        try:
            _, _, outputs = self.imported(given, frozenset(given))
        except Unknown as unknown:
            # All inputs are known: what it asks for is a list or text in place of a tensor, which no value answers.
            raise FormatError("onnx", got=unknown.what, need="operands as ONNX defines them") from None
        return {name: result_of(value, {}) for name, value in zip(names, outputs, strict=True)}

    def graph(
        self, placeholders: Mapping[str, Array]
    ) -> tuple[SymbolicGraph, dict[str, Symbol], dict[str, tuple[Symbol, Array]], tuple[Symbol, ...]]:
        """As `OnnxModel.graph`."""
        try:
            importer, inputs, outputs = self.imported(placeholders, frozenset())
        except Unknown as unknown:
            raise UsageError("graph", got=unknown.what, need="options that do not depend on data") from None
        results = tuple(importer.operand(output) for output in outputs)
        constants = {f"constant_{place}": pair for place, pair in enumerate(importer.constants.items())}
        return importer.graph, inputs, {**importer.weights, **constants}, results

    def template(
        self, arrays: Mapping[str, object], known: frozenset[str], made: list[DraftTemplate], opening: Opening
    ) -> DraftTemplate | None:
        """The draft for open axes, which is `made`; None where these sizes are refused."""
        try:
            template = template_of(opening, self.drafted(arrays, known, opening.shapes), self.backend, self.laid)
        except (NncError, Unknown):
            return None
        made.append(template)
        return template

    def drafted(
        self, arrays: Mapping[str, object], known: frozenset[str], shapes: Mapping[str, Shape] | None = None
    ) -> GraphDraft:
        """Import and passes."""
        importer, inputs, outputs = self.imported(arrays, known, shapes)
        wanted = tuple(dict.fromkeys(symbols_of(outputs)))
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

    def laid(self, draft: GraphDraft, preferences: KnownWishes | None = None) -> GraphDraft:
        """With what sizes decide: parts of a batch, and blocks of weights, for which `preferences` are known."""
        graph, wanted = draft.graph, draft.wanted
        if not wanted:
            return draft
        if self.passes:
            part_batch(graph, wanted, draft.inputs.values())
        fixed = (*draft.early, *draft.before.results)
        if self.device.is_host:
            assign_blocks(graph, wanted, fixed, self.backend, known=preferences)
        return replace(draft, before=draft.before.followed_by(precompute(graph, fixed, wanted)), work={})

    def finished(self, draft: GraphDraft) -> OnnxProgram:
        """The program of what was laid."""
        graph, wanted, inputs, before = draft.graph, draft.wanted, draft.inputs, draft.before
        if not wanted:
            return OnnxProgram(None, {}, draft.outputs)
        roots = {graph.root(symbol.key) for symbol in wanted}

        def is_used(symbol: Symbol) -> bool:
            return _is_read(graph, symbol) or symbol.key in roots

        held = making = draft.nbytes
        making -= draft.own_nbytes if self.file.map is not None else 0
        own, made = dict[Symbol, Tensor](), [entry for entry in before.results if is_used(entry)]
        if made:
            own, anew = computed_weights(self.file.weights, before, draft.tensors, draft.name, made, draft.work)
            making += anew - (draft.own_nbytes if self.file.map is None else 0)
        bound = (Symbol(graph, key) for key in draft.bound)
        reads = draft.tensors([symbol for symbol in bound if is_used(symbol)])
        draft.importer = None  # what is not read by now goes before code is made
        given = {**reads, **own}
        if not self.device.is_host:
            given = {symbol: tensor.to(self.device) for symbol, tensor in given.items()}
            place(graph, self.device, self.backend, inputs=dict.fromkeys(given, self.device))
        claims = {} if draft.sized is None else draft.sized.of_execs()
        orders = draft.orders
        compiled = compile(
            graph, wanted, given=given, backend=self.backend, memory_limit=self.limit, orders=orders, claims=claims
        )
        compiled = compiled.in_arena_of(self.arena)
        check_memory(compiled.memory(), held)
        used = {name: operand for name, operand in inputs.items() if is_used(operand)}
        inside = self.file.own_bytes(given.values()) if self.device.is_host else 0
        anonymous = [entry for entry in own.values() if entry.storage.file is None]
        nbytes = compiled.memory().program + sum(entry.spec.nbytes for entry in anonymous)
        making += compiled.memory().making
        return OnnxProgram(compiled, used, draft.outputs, nbytes, making, wanted, held, inside)


def quantization_report(
    maker: ProgramMaker,
    arrays: Mapping[str, Array],
    known: frozenset[str],
    quantize: QuantizationMode,
    results: Sequence[Sequence[Array]],
) -> QuantizationReport:
    """What quantizing does to each product on these inputs, of which some are `known`, and to `results` without it."""
    importer, inputs, outputs = maker.imported(arrays, known)
    graph, bound = importer.graph, importer.bound()
    wanted = tuple(dict.fromkeys(symbols_of(outputs)))
    ungrouped = tuple(entry for entry in maker.passes if entry is not Pass.GROUPS)
    simplify(graph, wanted, ungrouped, backend=maker.backend)
    weights = {symbol: Tensor.from_numpy(array) for symbol, array in bound.items()}
    given = {symbol: arrays[name] for name, symbol in inputs.items()}
    layers = measure_quantization(graph, weights, given, quantize, maker.backend)
    return QuantizationReport(quantize, layers, relative_error(*results))


def greatest(file: OnnxFile, values: Mapping[str, object]) -> dict[str, Array]:
    """Zeros, which take no memory, as large as the outputs of the last node can be; UsageError for no bound."""
    node = decode(file.graph.node[-1], file.opsets)
    row = ROWS.get(node.op if not node.domain else f"{node.domain}.{node.op}")
    scope = {entry.name: file.array(entry) for entry in file.graph.initializer} | dict(values)
    if row is None or row.most is None or not all(name in scope for name in node.inputs if name):
        raise UsageError("plan", got=f"{node.label}, whose result depends on values", need="a bound", fix="run() it")
    try:
        shapes = row.most(node, *(scope[name] if name else None for name in node.inputs))
    except BUILTIN as error:
        need = "operands as ONNX defines them"
        raise FormatError(node.label, got=f"{type(error).__name__}: {error}", need=need) from error
    kind = np.asarray(scope[node.inputs[0]]).dtype if node.op in KEEPS_TYPE else np.dtype(np.int64)
    kinds = [kind, *[np.dtype(np.int64)] * (len(shapes) - 1)]
    return {name: zeros(shape, kind) for name, shape, kind in zip(node.outputs, shapes, kinds) if name}


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


def symbols_of(values: Sequence[OnnxValue]) -> list[Symbol]:
    """The symbols that have to be computed for these values."""
    result = []
    for value in values:
        if value.items is not None:
            result += symbols_of(value.items)
        elif value.symbol is not None:
            result.append(value.symbol)
    return result


def _is_read(graph: SymbolicGraph, symbol: Symbol) -> bool:
    return symbol.key in graph.tensors and bool(graph.readers(symbol.key))


def _known(given: object, sources: frozenset[str]) -> OnnxValue:
    if isinstance(given, list):
        return OnnxValue(items=tuple(OnnxValue(np.asarray(item), sources=sources) for item in given), sources=sources)
    return OnnxValue(None if given is None else np.asarray(given), sources=sources)
