"""Counting and choosing for detection and statistics; none is differentiable.

histogram:                counts[k] = number of x in [edge_k, edge_{k+1}), edges even between low and high
non_maximum_suppression:  boxes in order of score, each kept unless it overlaps a kept one by more than a threshold
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnc.core.command import Command
from nnc.core.dtype import I64
from nnc.core.spec import TensorSpec
from nnc.errors import AttributeValueError, ShapeError
from nnc.ops.operand import T, apply
from nnc.ops.rules import NotDifferentiable, Specs, operator


@dataclass(frozen=True, slots=True)
class HistogramAttrs:
    """Number of bins and the range they divide; values outside are counted in the first or the last bin."""

    bins: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SuppressionAttrs:
    """Largest intersection over union that two kept boxes may have."""

    threshold: float = 0.5


def _infer_histogram(attrs: HistogramAttrs, specs: Specs) -> Specs:
    if attrs.bins < 1 or not attrs.low < attrs.high:
        raise AttributeValueError("histogram", got=f"{attrs.bins} bins", need="bins ≥ 1 and low < high")
    return (TensorSpec((attrs.bins,), I64),)


def _infer_suppression(attrs: SuppressionAttrs, specs: Specs) -> Specs:
    (boxes,) = specs
    if boxes.rank != 2 or boxes.shape[1] != 5:
        raise ShapeError(
            "non_maximum_suppression", got=str(boxes), need="boxes[count, 5]: score, top, left, bottom, right"
        )
    return (boxes, replace(boxes, shape=boxes.shape[:1], dtype=I64))


HISTOGRAM = operator(
    "histogram",
    HistogramAttrs,
    ("x",),
    ("counts",),
    infer=_infer_histogram,
    gradient=NotDifferentiable("a count does not change smoothly"),
    doc="counts[k] = number of x in bin k",
)
NON_MAXIMUM_SUPPRESSION = operator(
    "non_maximum_suppression",
    SuppressionAttrs,
    ("boxes",),
    ("kept", "index"),
    infer=_infer_suppression,
    gradient=NotDifferentiable("a choice does not change smoothly"),
    doc="kept boxes first, by score; the rest zeros with index -1",
)


def histogram(x: T, bins: int, low: float, high: float) -> T:
    """Counts of the elements of `x` in `bins` even bins of [low, high]."""
    return apply(HISTOGRAM, HistogramAttrs(bins, low, high), x)


def non_maximum_suppression(boxes: T, threshold: float = 0.5) -> tuple[T, T]:
    """(kept boxes by descending score then zeros, their positions in `boxes` then -1)."""
    kept, index = boxes.apply(Command(NON_MAXIMUM_SUPPRESSION, SuppressionAttrs(threshold)), (boxes,))
    return kept, index
