"""Products of dequantized bytes are products of bytes, and their constant weights lie as processors multiply them.

    ((a - p) · s) @ ((b - q) · t[n]) = ((a - p) @ (b - q)) · (s · t[n])             sums of integers, scaled once
    f32(sums) · s = (sums - 0) · s                                                  one operator instead of two
    quantize(moved((q - z) · s)) = moved(q), by the same s and z                     bytes stay bytes on the way
    ((a - p) @ b - z[n]) · s = (a @ b - (z[n] + p · sum_k b[k, n])) · s             the point is taken off behind

The first and the third are patterns of files with QuantizeLinear and DequantizeLinear around f32 operators, the second
that of files with DynamicQuantizeLinear. Nothing is changed that only the reference would compute then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.values.command import Command
from nnc.core.values.dtype import F32, F64, I8, I32, U8
from nnc.core.values.spec import TensorSpec, contiguous_strides
from nnc.ops.convolutions.convolutions import CONVOLUTION
from nnc.ops.elementwise.pointwise import CAST, add, cast, multiply
from nnc.ops.indexing.indexing import INDEX_SELECT
from nnc.ops.movement.broadcast import reduce_sum, reshape
from nnc.ops.movement.fill import FILL, FillAttrs, scalar_like
from nnc.ops.movement.movement import TRANSPOSE, transpose
from nnc.ops.products.products import GEMM
from nnc.ops.quantization.quantization import (
    DEQUANTIZE,
    INTEGER_CONVOLUTION,
    INTEGER_PRODUCT,
    QUANTIZE,
    IntegerConvolutionAttrs,
    IntegerProductAttrs,
    dequantize,
    quads,
)
from nnc.ops.rules import infer
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.passes.channels import as_row, is_row
from nnc.symbolic.passes.constants import uniform
from nnc.symbolic.passes.invariants import invariant_execs
from nnc.symbolic.passes.pruning import prune
from nnc.symbolic.records import ExecSymbol, TensorKey
from nnc.symbolic.region import Region
from nnc.symbolic.rewrite import Match, Replacement, Rule, has_one_reader, is_dense, producer, rewrite

SUMS = (INTEGER_PRODUCT, INTEGER_CONVOLUTION)
# Who serves a command that has no kernel: nobody on a device, the reference on the host.
UNSERVED = frozenset(("", "reference"))


@checked
def sum_integers(
    graph: SymbolicGraph, parameters: Iterable[Symbol], wanted: Sequence[Symbol], backend: str = ""
) -> Counter[str]:
    """Rewrite products of dequantized operands; how often each rule fired. `parameters` are the same in all runs."""
    given = [graph.root(graph.own(symbol)) for symbol in parameters]
    fired = rewrite(graph, _PRODUCTS, wanted, backend=backend)
    prune(graph, wanted)
    invariant = invariant_execs(graph, given)
    fixed = {*given, *(tensor for key in invariant for tensor in graph.execs[key].outputs)}
    fired += rewrite(graph, (Rule("weights in quads", DEQUANTIZE, partial(_packed, fixed)),), wanted, backend=backend)
    prune(graph, wanted)
    return fired


@dataclass(frozen=True, slots=True)
class _Bytes:
    """An operand as bytes, with its scale and its zero point, None for 0; both for all, or along the last axis."""

    values: Symbol
    scale: Symbol
    zero: Symbol | None


def _dequantized(match: Match, position: int) -> tuple[ExecSymbol | None, ExecSymbol | None]:
    """The transposition that makes an operand, and what dequantized that or the operand itself; None where not."""
    moved = match.producer(position, TRANSPOSE)
    key = match.record.inputs[position] if moved is None else moved.inputs[0]
    return moved, producer(match.graph, key, DEQUANTIZE)


def _bytes_of(match: Match, position: int, flipped: bool = False) -> _Bytes | None:
    """What an operand, or its transpose, was dequantized from, looked for behind a transposition too."""
    graph, (moved, record) = match.graph, _dequantized(match, position)
    if record is None:
        return None
    x, scale, zero = (graph.symbol(operand) for operand in record.inputs if operand is not None)
    if x.spec.dtype not in (I8, U8):
        return None
    columns = [entry for entry in (scale, zero) if entry.spec.elements > 1]
    if moved is not None or flipped:
        if any(column.spec.rank != x.spec.rank for column in columns):
            return None
        order = tuple(range(x.spec.rank)) if moved is None else moved.command.attrs.permutation
        order = (*order[:-2], order[-1], order[-2]) if flipped else order
        x = transpose(x, order)
        scale, zero = (transpose(entry, order) if entry.spec.elements > 1 else entry for entry in (scale, zero))
        columns = [entry for entry in (scale, zero) if entry.spec.elements > 1]
    if not all(is_row(column, x.shape[-1]) for column in columns):
        return None
    points = None if uniform(graph, zero.key) == 0 else zero
    return _Bytes(x, _row(scale), None if points is None else _row(points))


def _row(symbol: Symbol) -> Symbol:
    return reshape(symbol, ()) if symbol.spec.elements == 1 else as_row(symbol)


def _of_bytes(match: Match) -> Replacement | None:
    """A product of f32 operands that were dequantized; the weights have a scale for all, or one per column."""
    attrs: Any = match.command.attrs
    bias = match.inputs[2]
    # Scales of columns stand along the first axis of weights that are read transposed.
    by_row = match.command.op is GEMM and attrs.transpose_b and _has_scales(match)
    left, right = _bytes_of(match, 0), _bytes_of(match, 1, by_row)
    if left is None or right is None or left.scale.spec.rank or (left.zero is not None and left.zero.spec.rank):
        return None
    if match.command.op is GEMM:
        flips = IntegerProductAttrs(attrs.transpose_a, attrs.transpose_b and not by_row)
        command: Command[Any] = Command(INTEGER_PRODUCT, flips)
    else:
        command = Command(INTEGER_CONVOLUTION, IntegerConvolutionAttrs(attrs.window, attrs.groups))
    if not _pays(match, command, left.values.spec, right.values.spec):
        return None
    zeros = left.zero, right.zero
    if left.zero is None and right.zero is not None:
        zeros = scalar_like(left.values, 0), right.zero
    sums = match.graph.apply(command, (left.values, right.values, *zeros))[0]
    y = dequantize(sums, multiply(left.scale, right.scale), _nothing(sums))
    return (y if bias is None else add(y, bias),)


def _has_scales(match: Match) -> bool:
    """Whether the right operand was dequantized with more than one scale or zero."""
    _, record = _dequantized(match, 1)
    if record is None:
        return False
    return any(match.graph.tensors[key].spec.elements > 1 for key in record.inputs[1:] if key is not None)


def _pays(match: Match, command: Command[Any], x: TensorSpec, w: TensorSpec) -> bool:
    """Whether sums of bytes have a kernel, or floats have none either."""
    specs = tuple(None if operand is None else operand.spec for operand in match.inputs)
    return _served(match, command, (x, w)) or _server(match.backend, match.command, specs) in UNSERVED


def _served(match: Match, command: Command[Any], specs: tuple[TensorSpec, ...]) -> bool:
    return _server(match.backend, command, (*specs, None, None)) not in UNSERVED


def _server(backend: str, command: Command[Any], specs: tuple[TensorSpec | None, ...]) -> str:
    return DISPATCHER.server(command, specs, infer(command.op, command.attrs, specs), backend)


def _nothing(beside: Symbol) -> Symbol:
    """0 on the device of a value."""
    return beside.graph.apply(Command(FILL, FillAttrs(0, TensorSpec((), I32, device=beside.spec.device))), ())[0]


def _scaled(match: Match) -> Replacement | None:
    """Sums of integers as f32 times a scale."""
    for position in (0, 1):
        widened, scale = match.producer(position, CAST), match.input(1 - position)
        if widened is None or match.result.dtype is not F32 or match.result.shape != match.input(position).shape:
            continue
        if any(producer(match.graph, widened.inputs[0], op) is not None for op in SUMS):
            assert widened.inputs[0] is not None
            return (dequantize(match.graph.symbol(widened.inputs[0]), scale, _nothing(scale)),)
    return None


def _still_bytes(match: Match) -> Replacement | None:
    """What was dequantized, moved, and is quantized again by the same scale and zero: the same bytes, moved.

    Exact for scales whose products with whole numbers are normal: these are off by less than half a step.
    """
    graph, (key, *numbers) = match.graph, match.record.inputs
    if graph.tensors[_given(numbers[0])].spec.dtype not in (F32, F64):
        return None
    steps: list[tuple[ExecSymbol, Region]] = []
    while True:
        region, writers = graph.region(_given(key)), graph.writers(_given(key))
        record = graph.execs[writers[0]] if len(writers) == 1 else None
        if record is None or record.outputs != (graph.root(_given(key)),):
            return None
        steps.append((record, region))
        key = record.inputs[0]
        if record.command.op is DEQUANTIZE:
            break
        if record.command.op not in (TRANSPOSE, INDEX_SELECT):
            return None
    symbol = graph.symbol(_given(key))
    same = all(_is_same(graph, number, other) for number, other in zip(numbers, record.inputs[1:], strict=True))
    if not same or symbol.spec.dtype is not match.result.dtype or not is_dense(graph, symbol.key):
        return None
    for moved, region in reversed(steps):
        if moved is not record:
            others = (None if operand is None else graph.symbol(operand) for operand in moved.inputs[1:])
            (symbol,) = graph.apply(moved.command, (symbol, *others))
        if (region.shape, region.strides) != (symbol.shape, contiguous_strides(symbol.shape)):
            spec = replace(symbol.spec, shape=region.shape)
            symbol = symbol.alias(spec, symbol.offset + region.offset, region.strides)
    return (symbol,)


def _is_same(graph: SymbolicGraph, producer: TensorKey | None, other: TensorKey | None) -> bool:
    """Whether both are the same one value."""
    if any(graph.tensors[_given(key)].spec.elements != 1 for key in (producer, other)):
        return False
    value = uniform(graph, producer)
    return producer == other or (value is not None and value == uniform(graph, other))


def _given(key: TensorKey | None) -> TensorKey:
    assert key is not None
    return key


def _packed(fixed: Collection[TensorKey], match: Match) -> Replacement | None:
    """Weights that are the same in all runs, in quads; a point for all activations goes into the step behind."""
    graph = match.graph
    record = next((producer for op in SUMS if (producer := match.producer(0, op)) is not None), None)
    if record is None or not has_one_reader(graph, record.outputs[0]) or record.command.attrs.quads:
        return None
    x, w, x_zero, w_zero = (None if operand is None else graph.symbol(operand) for operand in record.inputs)
    if x is None or w is None or w_zero is not None or graph.root(w.key) not in fixed:
        return None
    flipped = record.command.op is INTEGER_PRODUCT and record.command.attrs.transpose_b
    if (record.command.op is INTEGER_PRODUCT and w.spec.rank != 2) or getattr(record.command.attrs, "groups", 1) > 1:
        return None
    rows = transpose(w, (1, 0)) if flipped else w
    given = quads(rows)
    command = Command(record.command.op, _in_quads(record))
    if not _served(match, command, (x.spec, given.spec)):
        return None
    behind = x_zero is not None and x_zero.spec.elements == 1 and _is_inside(record)
    sums = graph.apply(command, (x, given, None if behind else x_zero, None))[0]
    zero = match.input(2)
    if behind:
        assert x_zero is not None
        columns = reduce_sum(cast(rows, I32), tuple(range(rows.spec.rank - 1)))
        point = multiply(columns, cast(reshape(x_zero, ()), I32))
        zero = point if uniform(graph, zero.key) == 0 else add(zero, point)
    return (dequantize(sums, match.input(1), zero),)


def _in_quads(record: ExecSymbol) -> IntegerProductAttrs | IntegerConvolutionAttrs:
    attrs: IntegerProductAttrs | IntegerConvolutionAttrs = record.command.attrs
    if isinstance(attrs, IntegerProductAttrs):
        return IntegerProductAttrs(attrs.transpose_a, quads=True)
    return replace(attrs, quads=True)


def _is_inside(record: ExecSymbol) -> bool:
    """Whether every sum is over all weights: no window reads beside the data."""
    return record.command.op is INTEGER_PRODUCT or not any(map(any, record.command.attrs.window.padding))


_PRODUCTS: tuple[Rule, ...] = (
    Rule("bytes on the way", QUANTIZE, _still_bytes),
    Rule("product of bytes", GEMM, _of_bytes),
    Rule("convolution of bytes", CONVOLUTION, _of_bytes),
    Rule("scale of integers", multiply, _scaled),
)
