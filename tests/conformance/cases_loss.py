"""Rows of the conformance table for losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from tests.conformance.case import Argument, Array, Case, Generator, apart, labels, special, uniform

from nnc.core.values.dtype import DTYPES, I32, I64, U8
from nnc.core.values.spec import Shape
from nnc.ops.loss.ctc import CTC_GRADIENT, CTC_LOSS, CtcAttrs
from nnc.ops.loss.loss import (
    BINARY_CROSS_ENTROPY,
    CATEGORICAL_CROSS_ENTROPY,
    LABEL_DISTRIBUTION,
    MEAN_SQUARED_ERROR,
    SIGMOID_BINARY_CROSS_ENTROPY,
    SMOOTH_L1,
    BinaryCrossEntropyAttrs,
    CategoricalCrossEntropyAttrs,
    LabelDistributionAttrs,
    LossAttrs,
    LossReduction,
    SmoothL1Attrs,
)


def probability(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Between 0.1 and 0.9."""
    return generator.uniform(0.1, 0.9, shape)


def extreme(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """0 and 1, in all pairs with what came before."""
    return np.resize(np.array([0.0, 0.0, 1.0, 1.0]) if earlier else np.array([0.0, 1.0]), shape)


def rows() -> Iterator[Case]:
    """All losses of two operands, then those of classes."""
    for shape in ((4,), (3, 5), (2, 3, 4), (0, 3), (2, 0), (3, 67)):
        pair = (Argument(shape), Argument(shape, apart))
        chances = (Argument(shape, probability), Argument(shape, probability))
        for reduction in LossReduction:
            note = reduction.value
            yield Case(MEAN_SQUARED_ERROR, LossAttrs(reduction), pair, note=note)
            for beta in (1.0, 0.3):
                yield Case(SMOOTH_L1, SmoothL1Attrs(beta, reduction), pair, note=f"{note}-{beta}")
            for weight in (1.0, 2.5):
                attrs = BinaryCrossEntropyAttrs(weight, reduction)
                yield Case(BINARY_CROSS_ENTROPY, attrs, chances, note=f"{note}-{weight}")
                yield Case(SIGMOID_BINARY_CROSS_ENTROPY, attrs, (pair[0], chances[1]), note=f"{note}-{weight}")
    certain = (Argument((2, 4), extreme), Argument((2, 4), extreme))
    yield Case(BINARY_CROSS_ENTROPY, BinaryCrossEntropyAttrs(), certain, note="certain", smooth=False)
    far = (Argument((12, 2), special), Argument((12, 2), probability))
    yield Case(SIGMOID_BINARY_CROSS_ENTROPY, BinaryCrossEntropyAttrs(), far, note="special", smooth=False)
    yield from _categorical()
    for steps, classes, count in ((1, 1, 0), (1, 3, 1), (6, 4, 2), (9, 5, 4)):
        given = (
            Argument((3, steps, classes)),
            Argument((3, count), labels(classes), I32),
            Argument((3,), labels(steps + 1), I64),
            Argument((3,), labels(count + 1), U8),
        )
        attrs, note = CtcAttrs(classes - 1, zero_infinity=True), f"{steps}-{classes}-{count}"
        yield Case(CTC_LOSS, attrs, given, note=note)
        yield Case(CTC_GRADIENT, attrs, given, note=note)


def _categorical() -> Iterator[Case]:
    for shape in ((4, 5), (3, 1), (6,), (2, 3, 4), (0, 3)):
        x = Argument(shape, probability)
        for smoothing in (0.0, 0.1):
            attrs, note = CategoricalCrossEntropyAttrs(smoothing), f"{smoothing:g}"
            yield Case(CATEGORICAL_CROSS_ENTROPY, attrs, (x, x), note=note)
            for kind in (I64, I32, U8):
                label = Argument(shape[:-1], labels(shape[-1]), kind)
                yield Case(CATEGORICAL_CROSS_ENTROPY, attrs, (x, label), note=f"{note}-{kind}")
    for dtype in (kind for kind in DTYPES if kind.is_float):
        for shape in ((5,), (2, 3), ()):
            attrs = LabelDistributionAttrs(4, 0.1, dtype)
            yield Case(LABEL_DISTRIBUTION, attrs, (Argument(shape, labels(6)),), (I64, I32, U8), f"{dtype}")
    certain = (Argument((2, 3), extreme), Argument((2,), labels(3), I32))
    yield Case(CATEGORICAL_CROSS_ENTROPY, CategoricalCrossEntropyAttrs(), certain, note="certain", smooth=False)
    outside = (Argument((2, 3), uniform), Argument((2,), labels(9), I32))
    yield Case(CATEGORICAL_CROSS_ENTROPY, CategoricalCrossEntropyAttrs(), outside, note="outside", smooth=False)
