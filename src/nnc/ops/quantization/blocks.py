"""Weights in blocks of a few bits (`nnc.core.values.blocks`), as rows of bytes: products with them, and their values.

    W[n, k] = the values of packed[n, row bytes] in a format
    block_product:      y[…, m, n] = sum_k x[…, m, k] · W[n, k] + bias[n]      with transpose_b, as weights lie
                        y[…, m, k] = sum_n x[…, m, n] · W[n, k] + bias[k]      without: the gradient of the other
    dequantize_blocks:  y[…, n] = the values of packed[…, row bytes], f32
    quantize_blocks:    packed[…, row bytes] near x[…, n], errors weighted by importance[n]

The format is an attribute and bytes are u8, so that graphs, plans and files see plain bytes. Weights are computed with
in f32, each exactly what `dequantize` says, and sums are those of other products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.blocks import FORMATS, BlockFormat, format_of
from nnc.core.values.dtype import F32, U8
from nnc.core.values.spec import OptionalSpecs, TensorSpec, spec
from nnc.errors import DTypeError, ShapeError
from nnc.ops.batching import BatchedCall, batched_behind
from nnc.ops.elementwise.pointwise import add, cast
from nnc.ops.examples import Example
from nnc.ops.indexing.indexing import index_select
from nnc.ops.movement.broadcast import reduce_sum
from nnc.ops.operand import Operand, T, apply
from nnc.ops.products.products import gemm
from nnc.ops.rules import FLOATS, Applied, Gradients, NotDifferentiable, Specs, check_kinds, operator, single
from nnc.ops.work import per_element, present

__all__ = ["block_product", "block_rows", "dequantize_blocks", "quantize_blocks"]


@dataclass(frozen=True, slots=True)
class BlockAttrs:
    """The format of the bytes, by its name."""

    format: str

    @property
    def form(self) -> BlockFormat:
        """The format."""
        return format_of(self.format)


@dataclass(frozen=True, slots=True)
class BlockProductAttrs:
    """The format of the weights, and whether x is multiplied with their rows, as they lie."""

    format: str
    transpose_b: bool = True

    @property
    def form(self) -> BlockFormat:
        """The format."""
        return format_of(self.format)


def _infer_values(attrs: BlockAttrs, specs: Specs) -> Specs:
    (packed,) = specs
    _check_packed("dequantize_blocks", packed, 1)
    elements = attrs.form.row_elements(packed.shape[-1])
    return (replace(packed, shape=(*packed.shape[:-1], elements), dtype=F32),)


def _infer_packed(attrs: BlockAttrs, specs: tuple[TensorSpec | None, ...]) -> Specs:
    x, importance = present(specs[0]), specs[1]
    check_kinds(FLOATS, x)
    if not x.rank:
        raise ShapeError("quantize_blocks", got=f"x={x}", need="x[…, n]")
    if importance is not None and (importance.shape != x.shape[-1:] or not importance.dtype.is_float):
        need = f"importance of floats [{x.shape[-1]}]"
        raise ShapeError("quantize_blocks", got=f"x={x}, importance={importance}", need=need)
    return (replace(x, shape=(*x.shape[:-1], attrs.form.row_bytes(x.shape[-1])), dtype=U8),)


def _check_packed(subject: str, packed: TensorSpec, rank: int) -> None:
    if packed.dtype is not U8:
        raise DTypeError(subject, got=f"packed={packed}", need="packed of u8", fix="pack weights by blocks.quantize")
    if packed.rank < rank:
        raise ShapeError(subject, got=f"packed={packed}", need="packed[n, row bytes]" if rank > 1 else "a row of bytes")


def _infer_product(attrs: BlockProductAttrs, specs: tuple[TensorSpec | None, ...]) -> Specs:
    x, packed, bias = present(specs[0]), present(specs[1]), specs[2]
    check_kinds(FLOATS, x)
    _check_packed("block_product", packed, 2)
    shape = packed.shape[0], attrs.form.row_elements(packed.shape[1])
    columns, inner = shape if attrs.transpose_b else reversed(shape)
    shown = f"x={x}, packed={packed} of {attrs.format}" + (f", bias={bias}" if bias else "")
    if x.rank < 2 or packed.rank != 2 or x.shape[-1] != inner:
        weights = f"weights [{shape[0]}, {shape[1]}]"
        raise ShapeError("block_product", got=f"{shown}: {weights}", need=f"x[…, m, {inner}]")
    if bias is not None and bias.dtype is not x.dtype:
        raise DTypeError("block_product", got=shown, need="bias of x's element type", fix="cast() it")
    if bias is not None and bias.shape != (columns,):
        raise ShapeError("block_product", got=shown, need=f"bias of shape [{columns}]")
    return (replace(x, shape=(*x.shape[:-1], columns)),)


def _product_gradient(call: Applied[BlockProductAttrs], gradients: Gradients) -> Gradients:
    """Of x and bias; weights are integers in blocks."""
    g, packed, attrs = single(gradients), call.inputs[1], call.attrs
    left = None
    if call.needed[0]:
        left = block_product(g, packed, format=attrs.format, transpose_b=not attrs.transpose_b)
    axes = tuple(range(g.spec.rank - 1))
    return (left, None, reduce_sum(g, axes) if call.needed[2:] == (True,) else None)


def _product_work(attrs: BlockProductAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    """2 · |y| · k"""
    return 2 * outputs[0].elements * present(inputs[0]).shape[-1]


def _batched_product(call: BatchedCall[BlockProductAttrs]) -> tuple[Operand, ...]:
    """One product over the rows of all examples where these share all but x, else one of floats for each."""
    if not any(call.batched[1:]):
        return call.apply([call.spread(0), call.plain(1), call.plain(2)])

    def wide(operands: Sequence[Operand]) -> Sequence[Operand]:
        x, packed, *bias = operands
        weights = cast(dequantize_blocks(packed, format=call.attrs.format), x.spec.dtype)
        y = gemm(x, weights, transpose_b=call.attrs.transpose_b)
        return [add(y, bias[0]) if bias else y]

    return call.composed(wide)


def _batched_packed(call: BatchedCall[BlockAttrs]) -> tuple[Operand, ...]:
    """All rows of all examples, by the importance that they share."""
    return call.apply([call.spread(0), call.plain(1)])


_ROWS = spec((4, FORMATS["q4_0"].bytes), U8)

DEQUANTIZE_BLOCKS = operator(
    "dequantize_blocks",
    BlockAttrs,
    ("packed",),
    infer=_infer_values,
    gradient=NotDifferentiable("integers in blocks do not change smoothly"),
    work=per_element(2),
    batched=batched_behind(lambda attrs: attrs),
    example=Example(BlockAttrs("q4_0"), (_ROWS,)),
    doc="y[…, n] = the values of rows of bytes in blocks, f32",
)
QUANTIZE_BLOCKS = operator(
    "quantize_blocks",
    BlockAttrs,
    ("x", "importance"),
    ("packed",),
    infer=_infer_packed,
    gradient=NotDifferentiable("integers in blocks do not change smoothly"),
    optional=(1,),
    work=per_element(100),
    batched=_batched_packed,
    example=Example(BlockAttrs("q4_0"), (spec((4, 32)), None)),
    doc="packed = rows of bytes in blocks whose values are near x, squared errors weighted by importance",
)
BLOCK_PRODUCT = operator(
    "block_product",
    BlockProductAttrs,
    ("x", "packed", "bias"),
    infer=_infer_product,
    gradient=_product_gradient,
    optional=(2,),
    work=_product_work,
    batched=_batched_product,
    example=Example(BlockProductAttrs("q4_0"), (spec((4, 32)), _ROWS, None)),
    doc="y[…, m, n] = sum_k x[…, m, k] · W[n, k] + bias[n], W the values of packed, rows of bytes in blocks",
)


def dequantize_blocks(packed: T, *, format: str) -> T:
    """The values of u8 rows [..., row bytes] in a block format as f32 [..., n]."""
    return apply(DEQUANTIZE_BLOCKS, BlockAttrs(format), packed)


def quantize_blocks(x: T, importance: T | None = None, *, format: str) -> T:
    """Floats [..., n] as u8 rows [..., row bytes] in a block format; `importance[n]` weights squared errors."""
    return apply(QUANTIZE_BLOCKS, BlockAttrs(format), x, importance)


def block_rows(packed: T, indices: T, *, format: str) -> T:
    """Rows of a table in blocks, f32: what an embedding reads. Indices as in `index_select`."""
    return dequantize_blocks(index_select(packed, indices), format=format)


def block_product(x: T, packed: T, bias: T | None = None, *, format: str, transpose_b: bool = True) -> T:
    """y = x @ Wᵀ + bias (x @ W without `transpose_b`), W the values of u8 rows in a block format.

    Weights are never written out: a few rows of x read their bytes, many rows dequantize panels that stay in the cache.
    """
    return apply(BLOCK_PRODUCT, BlockProductAttrs(format, transpose_b), x, packed, bias)
