"""Convolutions and their gradients: which generator serves one, and its variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnc.codegen.frame.kernel import Generator
from nnc.codegen.frame.row import KernelRow, Rows, Specs, Variations, View, Views, Wishes, filled, preferences_of
from nnc.codegen.frame.widened import in_f32, with_wide_results
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.convolutions.convolution_algorithms import (
    Algorithms,
    Convolution,
    data_gradient,
    forward,
    weight_gradient,
)
from nnc.ops.convolutions import convolutions as ops
from nnc.ops.convolutions.convolutions import ConvolutionAttrs, ConvolutionGradientAttrs
from nnc.ops.convolutions.window import Window


def _planar(attrs: object, inputs: Specs, outputs: Specs) -> str:
    rank = inputs[0].rank - 2
    return f"{rank} spatial axes" if rank not in (1, 2) else filled(attrs, inputs, outputs)


def lift(values: Sequence[int], filler: int) -> tuple[int, int]:
    """Sizes of one or two spatial axes as two."""
    first, second = values if len(values) == 2 else (filler, values[0])
    return first, second


def _problem(window: Window, groups: int, x: View, weights: View, y: View) -> Convolution:
    w = weights.plain
    return Convolution(
        scalar=x.scalar,
        batch=x.shape[0],
        sizes=lift(x.shape[1:-1], 1),
        channels=x.shape[-1],
        kernel=lift(w.shape[:-2], 1),
        filters=w.shape[-1],
        outputs=lift(y.shape[1:-1], 1),
        strides=lift(window.strides, 1),
        before=lift([before for before, _ in window.padding], 0),
        dilations=lift(window.dilations, 1),
        groups=groups,
    )


def _forward(attrs: ConvolutionAttrs, inputs: Views, outputs: Views) -> Algorithms:
    made = forward(_problem(attrs.window, attrs.groups, inputs[0], inputs[1], outputs[0]), len(inputs) == 3)
    return made.in_blocks(inputs[1].blocked)


def _convolution(attrs: ConvolutionAttrs, inputs: Views, outputs: Views) -> Generator:
    return _forward(attrs, inputs, outputs).best


def _other_convolutions(
    attrs: ConvolutionAttrs, inputs: Views, outputs: Views, target: TargetDescription
) -> Variations:
    return _forward(attrs, inputs, outputs).alternatives(target)


def _backward(attrs: ConvolutionGradientAttrs, inputs: Views, outputs: Views) -> Algorithms:
    made = data_gradient(_problem(attrs.window, attrs.groups, outputs[0], inputs[1], inputs[0]))
    return made.in_blocks(inputs[1].blocked)


def _data_gradient(attrs: ConvolutionGradientAttrs, inputs: Views, outputs: Views) -> Generator:
    return _backward(attrs, inputs, outputs).best


def _other_data_gradients(
    attrs: ConvolutionGradientAttrs, inputs: Views, outputs: Views, target: TargetDescription
) -> Variations:
    return _backward(attrs, inputs, outputs).alternatives(target)


def _preferences_of(algorithms: Algorithms, weights: View, axis: int, target: TargetDescription) -> Wishes:
    """The blocks of an axis of the weights, counted from the last, in which the generator reads them unpacked."""
    rank, groups = len(weights.shape), algorithms.problem.groups
    return preferences_of(algorithms.best.packing(target), weights.shape, rank + axis, groups)


def _preferences(attrs: ConvolutionAttrs, inputs: Views, outputs: Views, target: TargetDescription) -> Wishes:
    return _preferences_of(_forward(attrs, inputs, outputs), inputs[1], -1, target)


def _gradient_preferences(
    attrs: ConvolutionGradientAttrs, inputs: Views, outputs: Views, target: TargetDescription
) -> Wishes:
    """Groups divide the sum, not the axis of the blocks."""
    return _preferences_of(_backward(attrs, inputs, outputs), inputs[1], -2, target) if attrs.groups == 1 else {}


def _gradient_problem(attrs: ConvolutionGradientAttrs, inputs: Views, outputs: Views) -> Convolution:
    return _problem(attrs.window, attrs.groups, inputs[0], outputs[0], inputs[1])


def _weight_gradient(attrs: ConvolutionGradientAttrs, inputs: Views, outputs: Views) -> Generator:
    return weight_gradient(_gradient_problem(attrs, inputs, outputs))


def _other_weight_gradients(
    attrs: ConvolutionGradientAttrs, inputs: Views, outputs: Views, target: TargetDescription
) -> Variations:
    return weight_gradient(_gradient_problem(attrs, inputs, outputs)).alternatives(target)


_WIDENED = in_f32(KernelRow(_weight_gradient, _planar, variants=_other_weight_gradients))


def _any_weight_gradient(attrs: ConvolutionGradientAttrs, inputs: Views, outputs: Views) -> Generator:
    """Products sum 16 bits in f32 by themselves; sums over pixels need f32 in the place of the result alone."""
    problem = _gradient_problem(attrs, inputs, outputs)
    if problem.is_depthwise:
        return _WIDENED.generate(attrs, inputs, outputs)
    generator = weight_gradient(problem)
    return generator if problem.is_product else with_wide_results(generator, inputs, outputs)


ROWS: Rows = {
    ops.CONVOLUTION: KernelRow(_convolution, _planar, variants=_other_convolutions, preferences=_preferences),
    ops.CONVOLUTION_DATA_GRADIENT: KernelRow(
        _data_gradient, _planar, variants=_other_data_gradients, preferences=_gradient_preferences
    ),
    ops.CONVOLUTION_WEIGHT_GRADIENT: replace(_WIDENED, generate=_any_weight_gradient),
}
