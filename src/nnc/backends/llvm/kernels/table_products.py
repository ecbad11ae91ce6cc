"""Rows of the catalog for matrix products and convolutions, with their variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nnc.backends.llvm.frame.access import broadcast, collapse
from nnc.backends.llvm.frame.kernel import Generator
from nnc.backends.llvm.frame.row import KernelRow, Specs, View, Views, filled, floating
from nnc.backends.llvm.frame.widened import in_f32, with_wide_results
from nnc.backends.llvm.ir.target import TargetDescription
from nnc.backends.llvm.kernels.alternatives import of_product, of_ways, of_weight_gradient
from nnc.backends.llvm.kernels.convolution import Convolution, Ways, data_gradient, forward, weight_gradient
from nnc.backends.llvm.kernels.gemm import Gemm
from nnc.backends.llvm.kernels.gemv import matrix_times_vector
from nnc.backends.llvm.kernels.weight_gradient import WeightGradient
from nnc.graph import Op
from nnc.ops.convolutions import (
    CONVOLUTION,
    CONVOLUTION_DATA_GRADIENT,
    CONVOLUTION_WEIGHT_GRADIENT,
    ConvolutionAttrs,
    ConvolutionGradientAttrs,
)
from nnc.ops.products import GEMM, GemmAttrs
from nnc.ops.window import Window

Others = Mapping[str, Generator]


def _planar(attrs: object, inputs: Specs, outputs: Specs) -> str:
    rank = inputs[0].rank - 2
    return f"{rank} spatial axes" if rank not in (1, 2) else filled(attrs, inputs, outputs)


def _product(attrs: GemmAttrs, inputs: Views, outputs: Views) -> Gemm:
    a, b, *bias = inputs
    (c,) = outputs
    rank = len(c.shape)
    a_steps, b_steps = (broadcast(view.shape[:-2], view.strides[:-2], rank - 2) for view in (a, b))
    a_rows, a_inner = reversed(a.strides[-2:]) if attrs.transpose_a else a.strides[-2:]
    b_inner, b_columns = reversed(b.strides[-2:]) if attrs.transpose_b else b.strides[-2:]
    inner = a.shape[-2] if attrs.transpose_a else a.shape[-1]
    # Batch axes that b ignores are more rows of a, where a's rows follow each other.
    sizes, (a_all, b_all, c_all) = collapse(c.shape[:-1], [(*a_steps, a_rows), (*b_steps, 0), (*c.strides[:-1],)])
    rows_merged = bool(sizes) and not b_all[-1]
    if not rows_merged:
        sizes, a_all, b_all, c_all = (*sizes, 1), (*a_all, a_rows), (*b_all, 0), (*c_all, c.shape[-1])
    return Gemm(
        c.scalar, sizes[:-1], sizes[-1], c.shape[-1], inner, a_all[:-1], a_all[-1], a_inner,
        b_all[:-1], b_inner, b_columns, c_all[:-1], c_all[-1], bool(bias),
    )  # fmt: skip


def _gemm(attrs: GemmAttrs, inputs: Views, outputs: Views) -> Generator:
    product = _product(attrs, inputs, outputs)
    return matrix_times_vector(product) or product


def _other_gemms(attrs: GemmAttrs, inputs: Views, outputs: Views, target: TargetDescription) -> Others:
    return of_product(_product(attrs, inputs, outputs), target)


def _lift(values: Sequence[int], filler: int) -> tuple[int, int]:
    """Sizes of one or two spatial axes as two."""
    first, second = values if len(values) == 2 else (filler, values[0])
    return first, second


def _problem(window: Window, groups: int, x: View, w: View, y: View) -> Convolution:
    return Convolution(
        scalar=x.scalar,
        batch=x.shape[0],
        sizes=_lift(x.shape[1:-1], 1),
        channels=x.shape[-1],
        kernel=_lift(w.shape[:-2], 1),
        filters=w.shape[-1],
        outputs=_lift(y.shape[1:-1], 1),
        strides=_lift(window.strides, 1),
        before=_lift([before for before, _ in window.padding], 0),
        dilations=_lift(window.dilations, 1),
        groups=groups,
    )


def _forward(attrs: ConvolutionAttrs, inputs: Views, outputs: Views) -> Ways:
    return forward(_problem(attrs.window, attrs.groups, inputs[0], inputs[1], outputs[0]), len(inputs) == 3)


def _convolution(attrs: ConvolutionAttrs, inputs: Views, outputs: Views) -> Generator:
    return _forward(attrs, inputs, outputs).best


def _other_convolutions(attrs: ConvolutionAttrs, inputs: Views, outputs: Views, target: TargetDescription) -> Others:
    return of_ways(_forward(attrs, inputs, outputs), target)


def _backward(attrs: ConvolutionGradientAttrs, inputs: Views, outputs: Views) -> Ways:
    return data_gradient(_problem(attrs.window, attrs.groups, outputs[0], inputs[1], inputs[0]))


def _data_gradient(attrs: ConvolutionGradientAttrs, inputs: Views, outputs: Views) -> Generator:
    return _backward(attrs, inputs, outputs).best


def _other_data_gradients(
    attrs: ConvolutionGradientAttrs, inputs: Views, outputs: Views, target: TargetDescription
) -> Others:
    return of_ways(_backward(attrs, inputs, outputs), target)


def _weight_gradient(attrs: ConvolutionGradientAttrs, inputs: Views, outputs: Views) -> Generator:
    return weight_gradient(_problem(attrs.window, attrs.groups, inputs[0], outputs[0], inputs[1]))


def _other_weight_gradients(
    attrs: ConvolutionGradientAttrs, inputs: Views, outputs: Views, target: TargetDescription
) -> Others:
    return of_weight_gradient(_weight_gradient(attrs, inputs, outputs), target)


_WIDENED = in_f32(KernelRow(_weight_gradient, _planar, variants=_other_weight_gradients))


def _any_weight_gradient(attrs: ConvolutionGradientAttrs, inputs: Views, outputs: Views) -> Generator:
    """Products sum 16 bits in f32 by themselves; sums over pixels need f32 in the place of the result alone."""
    generator = _weight_gradient(attrs, inputs, outputs)
    match generator:
        case Gemm():
            return generator
        case WeightGradient():
            return with_wide_results(generator, inputs, outputs)
        case _:
            return _WIDENED.generate(attrs, inputs, outputs)


PRODUCT_ROWS: dict[Op[Any], KernelRow] = {
    GEMM: KernelRow(_gemm, floating, strided=True, dense=(2,), variants=_other_gemms),
    CONVOLUTION: KernelRow(_convolution, _planar, variants=_other_convolutions),
    CONVOLUTION_DATA_GRADIENT: KernelRow(_data_gradient, _planar, variants=_other_data_gradients),
    CONVOLUTION_WEIGHT_GRADIENT: replace(_WIDENED, generate=_any_weight_gradient),
}
