"""Matrix products: which generator serves one, and its variants."""

from __future__ import annotations

from nnc.codegen.frame.access import broadcast, collapse
from nnc.codegen.frame.kernel import Generator
from nnc.codegen.frame.row import KernelRow, Rows, Variations, Views, Wishes, floating, preferences_of
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.products.gemm import Gemm
from nnc.codegen.kernels.products.gemm_plan import MatrixProduct
from nnc.codegen.kernels.products.gemv import matrix_times_vector
from nnc.core.values.spec import Blocked
from nnc.ops.products.products import GEMM, GemmAttrs


def _product(attrs: GemmAttrs, inputs: Views, outputs: Views) -> Gemm:
    a, right, *bias = inputs
    (c,) = outputs
    rank, b = len(c.shape), right.plain
    a_steps, b_steps = (broadcast(view.shape[:-2], view.strides[:-2], rank - 2) for view in (a, b))
    a_rows, a_inner = reversed(a.strides[-2:]) if attrs.transpose_a else a.strides[-2:]
    b_inner, b_columns = reversed(b.strides[-2:]) if attrs.transpose_b else b.strides[-2:]
    inner = a.shape[-2] if attrs.transpose_a else a.shape[-1]
    # Batch axes that b ignores are more rows of a, where a's rows follow each other.
    sizes, (a_all, b_all, c_all) = collapse(c.shape[:-1], [(*a_steps, a_rows), (*b_steps, 0), (*c.strides[:-1],)])
    rows_merged = bool(sizes) and not b_all[-1]
    if not rows_merged:
        sizes, a_all, b_all, c_all = (*sizes, 1), (*a_all, a_rows), (*b_all, 0), (*c_all, c.shape[-1])
    problem = MatrixProduct(
        c.scalar, sizes[:-1], sizes[-1], c.shape[-1], inner, a_all[:-1], a_all[-1], a_inner,
        b_all[:-1], b_inner, b_columns, c_all[:-1], c_all[-1], bool(bias),
    )  # fmt: skip
    product = Gemm(problem)
    return product if right.blocked is None else product.in_blocks(right.blocked)


def _gemm(attrs: GemmAttrs, inputs: Views, outputs: Views) -> Generator:
    product = _product(attrs, inputs, outputs)
    return matrix_times_vector(product.problem) or product


def _other_gemms(attrs: GemmAttrs, inputs: Views, outputs: Views, target: TargetDescription) -> Variations:
    return _product(attrs, inputs, outputs).alternatives(target)


def _preferences(attrs: GemmAttrs, inputs: Views, outputs: Views, target: TargetDescription) -> Wishes:
    product, b = _product(attrs, inputs, outputs), inputs[1]
    if len(b.shape) != 2 or matrix_times_vector(product.problem) is not None:
        return {}
    return preferences_of(product.packing(target), b.shape, 0 if attrs.transpose_b else 1)


def _reads(
    attrs: GemmAttrs, inputs: Views, outputs: Views, place: int, layout: Blocked, target: TargetDescription
) -> bool:
    """Weights in the blocks of products with other numbers of rows, one row among them."""
    same = place == 1 and layout.sizes == inputs[1].shape and layout.axis == (0 if attrs.transpose_b else 1)
    return same and _product(attrs, inputs, outputs).reads(layout, target)


ROWS: Rows = {
    GEMM: KernelRow(
        _gemm,
        floating,
        strided=True,
        dense=(2,),
        variants=_other_gemms,
        preferences=_preferences,
        reads=_reads,
    )
}
