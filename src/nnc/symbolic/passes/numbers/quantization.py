"""Quantization of weights to 8 bits: products and convolutions of an activation in f32 with weights in f32.

    w ≈ q · s[n], q in i8, s[n] = max |w[…, n]| / 127              per output channel, symmetric: no zero

    weights     y = x @ (q · s) or (x @ q) · s                      the weights are 8 bits until they are read
    q4_k, …     y = x @ W, W near w in blocks of a few bits     those formats of `nnc.core.values.blocks`; tables too
    dynamic     y = (x_q @ q - x_zero · sum_k q[k, n]) · (x_s · s)  x_q, x_s, x_zero = dynamic_quantize(x), sums in i32

What depends on weights alone is for `precompute`. A convolution whose window reads beside the data is given x_zero,
unless x is never negative, where it is 0. Readers of y read y, so that bias and activation stay what they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.precautions.origin import inherited_origin
from nnc.core.quantization_modes import QuantizationMode
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.values.blocks import FORMATS, BlockFormat
from nnc.core.values.command import Command
from nnc.core.values.dtype import F32, I8, I32, U8, DType
from nnc.core.values.spec import OptionalSpecs, Shape, TensorSpec
from nnc.graph import Op
from nnc.ops.convolutions.convolutions import CONVOLUTION
from nnc.ops.convolutions.pooling import AVERAGE_POOL, MAX_POOL
from nnc.ops.elementwise.pointwise import (
    abs,
    add,
    cast,
    divide,
    equal,
    exp,
    maximum,
    minimum,
    multiply,
    relu,
    sigmoid,
    softplus,
    square,
    where,
)
from nnc.ops.indexing.indexing import INDEX_SELECT, index_select
from nnc.ops.movement.broadcast import BROADCAST_TO, REDUCE_SUM, reduce_sum
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.fill import FILL, FillAttrs, scalar_like
from nnc.ops.movement.movement import CONCATENATE, TRANSPOSE, transpose
from nnc.ops.normalization.softmaxes import softmax
from nnc.ops.products.products import GEMM
from nnc.ops.quantization.blocks import (
    BLOCK_PRODUCT,
    DEQUANTIZE_BLOCKS,
    BlockAttrs,
    BlockProductAttrs,
    quantize_blocks,
)
from nnc.ops.quantization.quantization import (
    DEQUANTIZE,
    DEQUANTIZED_PRODUCT,
    INTEGER_CONVOLUTION,
    INTEGER_PRODUCT,
    QUAD,
    IntegerConvolutionAttrs,
    IntegerProductAttrs,
    dequantize,
    dynamic_quantize,
    quads,
    quantize,
)
from nnc.ops.reduction.reduction import REDUCE_MAX, REDUCE_MEAN, reduce_max
from nnc.ops.rules import NoAttrs, infer
from nnc.symbolic.ir import Symbol, SymbolicGraph, bodies_of
from nnc.symbolic.passes.invariants import invariant_execs
from nnc.symbolic.passes.numbers.integer_products import UNSERVED
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey

# For rows that blocks of 256 do not fill: blocks of 32 with about as many bits.
SHORT_BLOCKS = {"q2_k": "q4_0", "q3_k": "q4_0", "q4_k": "q4_1", "q5_k": "q5_1", "q6_k": "q8_0"}

# The largest magnitude of symmetric weights: -128 is left out.
MOST = 127
# Never negative, whatever they read; where all that they read is never negative; where one operand is.
POSITIVE: frozenset[Op[Any]] = frozenset((relu, sigmoid, square, abs, exp, softplus, softmax))
KEEPING: frozenset[Op[Any]] = frozenset(
    (add, multiply, minimum, MAX_POOL, AVERAGE_POOL, REDUCE_MAX, REDUCE_MEAN, REDUCE_SUM)
) | {TRANSPOSE, CONCATENATE, contiguous, BROADCAST_TO}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedProduct:
    """A product of the graph: its weights by name, its result, bytes of weights before and after.

    `skipped` says why it stays as it is. `approximate` is its quantized result, beside the `exact` one where both are
    asked for.
    """

    name: str
    op: str
    shape: Shape
    bytes_before: int
    bytes_after: int
    skipped: str = ""
    exact: Symbol | None = None
    approximate: Symbol | None = None


@checked
def quantize_products(
    graph: SymbolicGraph,
    parameters: Iterable[Symbol],
    mode: QuantizationMode,
    backend: str = "",
    *,
    compare: bool = False,
) -> tuple[QuantizedProduct, ...]:
    """Quantize the products and convolutions whose weights depend on `parameters` alone; all products, in order.

    Those of loops and branches stay as they are, and come last.

    With `compare` nothing is replaced: each product has its quantized result beside its own.
    """
    work = _Quantization(graph, [graph.root(graph.own(symbol)) for symbol in parameters], mode, backend, compare)
    served = (GEMM, CONVOLUTION, INDEX_SELECT) if mode in FORMATS else (GEMM, CONVOLUTION)
    order = [key for key in graph.execs.toposort() if graph.execs[key].command.op in served]
    rows = [work.visit(key) for key in order if graph.execs[key].command.op is not INDEX_SELECT or work.is_table(key)]
    return (*rows, *_inside(graph))


def _inside(graph: SymbolicGraph) -> Iterator[QuantizedProduct]:
    """Products in bodies of loops and branches, which stay as they are."""
    waiting = [body for _, record in graph.execs.items() for _, body in bodies_of(record.command)]
    while waiting:
        body = waiting.pop(0)
        graph_inside = body.graph
        for record in (graph_inside.execs[key] for key in graph_inside.execs.toposort()):
            waiting.extend(inner for _, inner in bodies_of(record.command))
            if record.command.op in (GEMM, CONVOLUTION):
                weights, shape = _present(record.inputs[1]), graph_inside.tensors[record.outputs[0]].spec.shape
                name, nbytes = _name(graph_inside, body.parameters, weights), graph_inside.tensors[weights].spec.nbytes
                op = record.command.op.name
                yield QuantizedProduct(name, op, shape, nbytes, nbytes, "it is in a loop or a branch")


def _name(graph: SymbolicGraph, given: Collection[TensorKey], weights: TensorKey) -> str:
    """The name of the largest of the given tensors that the weights are made of."""
    waiting, seen = [graph.root(weights)], set[TensorKey]()
    while waiting:
        key = waiting.pop()
        if key not in seen:
            seen.add(key)
            waiting.extend(root for writer in graph.writers(key) for root in graph.roots(graph.execs[writer].inputs))
    sources = [graph.tensors[key] for key in sorted(seen & {*given})] or [graph.tensors[weights]]
    return max(sources, key=lambda value: value.spec.elements).name


class _Quantization:
    """`fixed` depends on parameters alone; activations are quantized once for all that read them."""

    def __init__(
        self, graph: SymbolicGraph, given: Sequence[TensorKey], mode: QuantizationMode, backend: str, compare: bool
    ) -> None:
        self.graph, self.mode, self.backend, self.compare = graph, mode, backend, compare
        self.given = frozenset(given)
        invariant = invariant_execs(graph, given)
        self.fixed = self.given | {tensor for key in invariant for tensor in graph.execs[key].outputs}
        self.never_negative = _never_negative(graph)
        self.activations: dict[TensorKey, tuple[Symbol, Symbol, Symbol]] = {}
        self.packed: dict[tuple[TensorKey, str], Symbol] = {}

    def visit(self, key: ExecKey) -> QuantizedProduct:
        """Quantize one product, or say why it stays."""
        graph, record = self.graph, self.graph.execs[key]
        weights = graph.symbol(_weights_of(record))
        (result,) = record.outputs
        skipped = self._obstacle(record)
        before = weights.spec.nbytes
        after = before if skipped else self._bytes_after(record, weights.spec)
        name, shape = _name(graph, self.given, weights.key), graph.tensors[result].spec.shape
        row = QuantizedProduct(name, record.command.op.name, shape, before, after, skipped)
        if skipped:
            return row
        with inherited_origin(record.origin):
            approximate = self._replaced(key, record)
        return QuantizedProduct(name, row.op, shape, before, after, "", graph.symbol(result), approximate)

    def _replaced(self, key: ExecKey, record: ExecSymbol) -> Symbol:
        graph = self.graph
        if not self.compare:
            graph.remove_exec(key)
        x, w = (graph.symbol(_present(operand)) for operand in record.inputs[:2])
        if self.mode in FORMATS:
            return self._in_blocks(record, x, w)
        bias = None if record.inputs[2] is None else graph.symbol(record.inputs[2])
        rows, scale = self._weights(record, w)
        if self.mode == "weights":
            command = self._product_of_few_rows(record, x.spec, rows.spec)
            if command is not None:
                return self._written(record, command, (x, rows, scale, bias))
            wide = dequantize(rows, scale, _zero(rows, I8))
            for writer in graph.writers(wide.key):
                graph.keep(writer)
            return self._written(record, _plain(record), (x, wide, bias))
        command = self._integer_command(record, x.spec, rows.spec)
        given = quads(rows) if command.attrs.quads else rows
        x_q, x_scale, x_zero = self._activation(x)
        needs_zero = graph.root(x.key) not in self.never_negative
        beside = needs_zero and record.command.op is CONVOLUTION and any(map(any, command.attrs.window.padding))
        sums = graph.apply(command, (x_q, given, x_zero if beside else None, None))[0]
        zero = _zero(sums, I32)
        if needs_zero and not beside:
            axes = tuple(range(rows.spec.rank - 1))
            zero = multiply(reduce_sum(cast(rows, I32), axes), cast(x_zero, I32))
        factor = multiply(scale, x_scale)
        if bias is None:
            return self._written(record, Command(DEQUANTIZE, NoAttrs()), (sums, factor, zero))
        return self._written(record, Command(add, NoAttrs()), (dequantize(sums, factor, zero), bias))

    def is_table(self, key: ExecKey) -> bool:
        """Whether these are rows of a matrix of weights."""
        record = self.graph.execs[key]
        table = self.graph.tensors[_weights_of(record)]
        of_rows = table.spec.rank == 2 and record.command.attrs.axis == 0 and table.spec.dtype is F32
        return of_rows and self.graph.root(_weights_of(record)) in self.fixed

    def _form(self, record: ExecSymbol, w: TensorSpec) -> BlockFormat | None:
        """The format asked for, or that of short blocks where a row is no multiple of it; None where neither fits."""
        elements = w.shape[0 if record.command.op is GEMM and not record.command.attrs.transpose_b else 1]
        names = (self.mode, SHORT_BLOCKS.get(self.mode, self.mode))
        return next((FORMATS[name] for name in names if elements % FORMATS[name].size == 0), None)

    def _bytes_after(self, record: ExecSymbol, w: TensorSpec) -> int:
        if self.mode in FORMATS:
            form = self._form(record, w)
            return w.elements // form.size * form.bytes if form else w.nbytes
        return w.elements + 4 * self.graph.tensors[record.outputs[0]].spec.shape[-1]

    def _in_blocks(self, record: ExecSymbol, x: Symbol, w: Symbol) -> Symbol:
        """The product with rows of bytes, or such rows of a table."""
        table = record.command.op is INDEX_SELECT
        rows, other = (x, w) if table else (w, x)
        form = self._form(record, rows.spec)
        assert form is not None
        if not table and not record.command.attrs.transpose_b:
            rows = transpose(rows, (1, 0))
        # A table that also gives the scores is packed once.
        packed = self.packed.get((rows.key, form.name))
        if packed is None:
            packed = self.packed[rows.key, form.name] = quantize_blocks(rows, format=form.name)
        if table:
            bytes_of = index_select(packed, other)
            return self._written(record, Command(DEQUANTIZE_BLOCKS, BlockAttrs(form.name)), (bytes_of,))
        bias = None if record.inputs[2] is None else self.graph.symbol(record.inputs[2])
        return self._written(record, Command(BLOCK_PRODUCT, BlockProductAttrs(form.name)), (other, packed, bias))

    def _product_of_few_rows(self, record: ExecSymbol, x: TensorSpec, rows: TensorSpec) -> Command[Any] | None:
        """The product that reads bytes, where it has a kernel: its weights take longer to be dequantized than read."""
        if record.command.op is not GEMM or record.command.attrs.transpose_a:
            return None
        command = Command(DEQUANTIZED_PRODUCT, NoAttrs())
        specs = (x, rows, TensorSpec(rows.shape[1:], F32, x.layout, x.device), None)
        return command if self._is_served(command, specs) else None

    def _written(self, record: ExecSymbol, command: Command[Any], inputs: Sequence[Symbol | None]) -> Symbol:
        """The command's result, in the place of the record's unless both are to be compared."""
        if self.compare:
            return self.graph.apply(command, inputs)[0]
        keys = tuple(None if operand is None else operand.key for operand in inputs)
        self.graph.add_exec(replace(record, command=command, inputs=keys))
        return self.graph.symbol(record.outputs[0])

    def _weights(self, record: ExecSymbol, w: Symbol) -> tuple[Symbol, Symbol]:
        """i8[…, n] and the scale of each column."""
        if record.command.op is GEMM and record.command.attrs.transpose_b:
            w = transpose(w, (1, 0))
        most = reduce_max(abs(w), tuple(range(w.spec.rank - 1)))
        scale = where(equal(most, scalar_like(most, 0)), scalar_like(most, 1), divide(most, scalar_like(most, MOST)))
        return quantize(w, scale, _zero(w, I8)), scale

    def _activation(self, x: Symbol) -> tuple[Symbol, Symbol, Symbol]:
        if x.key not in self.activations:
            self.activations[x.key] = dynamic_quantize(x)
        return self.activations[x.key]

    def _obstacle(self, record: ExecSymbol) -> str:
        graph, attrs = self.graph, record.command.attrs
        if record.command.op is INDEX_SELECT:
            whole = record.optimize and all(graph.root(output) == output for output in record.outputs)
            spec = graph.tensors[_weights_of(record)].spec
            return "" if whole and self._form(record, spec) else f"rows of {spec.shape[1]} fill no blocks"
        x, w, _ = record.inputs
        given = graph.tensors[_present(w)].spec
        if not record.optimize or any(graph.root(output) != output for output in record.outputs):
            return "it is to stay as it is, or writes a part of a tensor"
        if graph.root(_present(w)) not in self.fixed:
            return "its second operand is no weight"
        if graph.root(_present(x)) in self.fixed:
            return "it depends on weights alone"
        if given.dtype is not F32 or graph.tensors[_present(x)].spec.dtype is not F32:
            return f"it is of {given.dtype}"
        if record.command.op is GEMM and given.rank != 2:
            return "its weights are several matrices"
        if record.command.op is CONVOLUTION and attrs.groups > 1 and self.mode == "dynamic":
            return f"it has {attrs.groups} groups, of few products each"
        if given.elements == 0:
            return "it has no weights"
        if self.mode in FORMATS:
            return self._not_in_blocks(record, given)
        return self._unserved(record) if self.mode == "dynamic" else ""

    def _not_in_blocks(self, record: ExecSymbol, w: TensorSpec) -> str:
        if record.command.op is CONVOLUTION:
            return "it is a convolution"
        if record.command.attrs.transpose_a:
            return "its first operand is transposed"
        return "" if self._form(record, w) else "its sums fill no blocks"

    def _unserved(self, record: ExecSymbol) -> str:
        """Sums of bytes by the reference, where floats have a kernel, take longer."""
        graph = self.graph
        x, w = (graph.tensors[_present(operand)].spec for operand in record.inputs[:2])
        command = self._integer_command(record, x, _rows_of(record, w))
        specs = tuple(None if operand is None else graph.tensors[operand].spec for operand in record.inputs)
        outputs = tuple(graph.tensors[output].spec for output in record.outputs)
        native = DISPATCHER.server(record.command, specs, outputs, self.backend) not in UNSERVED
        served = self._sums_bytes(command, x, _rows_of(record, w))
        return "no backend but the reference sums such bytes" if native and not served else ""

    def _integer_command(self, record: ExecSymbol, x: TensorSpec, w: TensorSpec) -> Command[Any]:
        """The product of bytes: weights in quads, unless another order is served better."""
        attrs = record.command.attrs
        both: list[Command[Any]]
        if record.command.op is GEMM:
            both = [
                Command(INTEGER_PRODUCT, IntegerProductAttrs(attrs.transpose_a, quads=value)) for value in (True, False)
            ]
        else:
            both = [
                Command(INTEGER_CONVOLUTION, IntegerConvolutionAttrs(attrs.window, attrs.groups, value))
                for value in (True, False)
            ]
        return next((value for value in both if self._sums_bytes(value, x, w)), both[-1])

    def _sums_bytes(self, command: Command[Any], x: TensorSpec, w: TensorSpec) -> bool:
        *kernel, inner, columns = w.shape
        shape = (*kernel, -(-inner // QUAD), columns, QUAD) if command.attrs.quads else w.shape
        specs = (TensorSpec(x.shape, U8, x.layout, x.device), TensorSpec(shape, I8, w.layout, w.device), None, None)
        return self._is_served(command, specs)

    def _is_served(self, command: Command[Any], specs: OptionalSpecs) -> bool:
        server = DISPATCHER.server(command, specs, infer(command.op, command.attrs, specs), self.backend)
        return server not in UNSERVED


def _never_negative(graph: SymbolicGraph) -> Collection[TensorKey]:
    """Roots without an element below 0, by the operators that write them."""
    positive: set[TensorKey] = set()
    for key in graph.execs.toposort():
        record = graph.execs[key]
        op, roots = record.command.op, graph.roots(record.inputs)
        kept = op in KEEPING and all(root in positive for root in roots)
        one_of = op is maximum and any(root in positive for root in roots)
        filled = op is FILL and record.command.attrs.value >= 0
        if (op in POSITIVE or kept or one_of or filled) and all(
            graph.root(output) == output for output in record.outputs
        ):
            positive.update(record.outputs)
    return positive


def _rows_of(record: ExecSymbol, w: TensorSpec) -> TensorSpec:
    """The weights as the product of bytes reads them, [k, n]."""
    flipped = record.command.op is GEMM and record.command.attrs.transpose_b
    return TensorSpec(w.shape[::-1] if flipped else w.shape, w.dtype, w.layout, w.device)


def _plain(record: ExecSymbol) -> Command[Any]:
    """The same product on weights that are not transposed."""
    attrs = record.command.attrs
    return Command(GEMM, type(attrs)(attrs.transpose_a)) if record.command.op is GEMM else record.command


def _weights_of(record: ExecSymbol) -> TensorKey:
    """The weights of a product, or the table that rows are taken of."""
    return _present(record.inputs[0 if record.command.op is INDEX_SELECT else 1])


def _zero(beside: Symbol, dtype: DType) -> Symbol:
    """0 on the device of a value."""
    spec = TensorSpec((), dtype, device=beside.spec.device)
    return beside.graph.apply(Command(FILL, FillAttrs(0, spec)), ())[0]


def _present(key: TensorKey | None) -> TensorKey:
    assert key is not None
    return key
