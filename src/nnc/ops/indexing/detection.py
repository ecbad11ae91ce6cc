"""Counting and choosing for detection and statistics; none is differentiable.

histogram:                counts[k] = number of x with edge[k - 1] ≤ x < edge[k]; counts[0] below the first edge,
                          the last count at or above the last edge, nan in none
non_maximum_suppression:  boxes by falling score, each kept unless it overlaps a kept one by more than a threshold

The overlap of two boxes is the area of their intersection over that of their union, 0 when the union is empty.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.dtype import I64
from nnc.errors import AttributeValueError, ShapeError
from nnc.ops.examples import BOXES, MATRIX, Example
from nnc.ops.operand import T, apply
from nnc.ops.rules import FLOATS, NUMBERS, NotDifferentiable, Specs, check_kinds, operator

__all__ = ["even_edges", "histogram", "logarithmic_edges", "non_maximum_suppression"]


@dataclass(frozen=True, slots=True)
class HistogramAttrs:
    """Where a bin ends and the next begins, ascending."""

    edges: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SuppressionAttrs:
    """Largest intersection over union that two kept boxes may have."""

    threshold: float = 0.5


def _infer_histogram(attrs: HistogramAttrs, specs: Specs) -> Specs:
    check_kinds(NUMBERS, *specs)
    # As Python's floats: NumPy would round one edge to the other's narrower type to compare them.
    edges = (-math.inf, *map(float, attrs.edges), math.inf)
    if not attrs.edges or not all(low < high for low, high in pairwise(edges)):
        raise AttributeValueError("histogram", got=f"{len(attrs.edges)} edges", need="finite ascending edges")
    return (replace(specs[0], shape=(len(attrs.edges) + 1,), dtype=I64),)


def _infer_suppression(attrs: SuppressionAttrs, specs: Specs) -> Specs:
    (boxes,) = specs
    check_kinds(FLOATS, boxes)
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
    example=Example(HistogramAttrs((-1.0, 0.0, 1.0)), (MATRIX,)),
    doc="counts[k] = number of x with edge[k - 1] ≤ x < edge[k]",
)
NON_MAXIMUM_SUPPRESSION = operator(
    "non_maximum_suppression",
    SuppressionAttrs,
    ("boxes",),
    ("kept", "index"),
    infer=_infer_suppression,
    gradient=NotDifferentiable("a choice does not change smoothly"),
    example=Example(SuppressionAttrs(0.5), (BOXES,)),
    doc="kept boxes first, by score; the rest zeros with index -1",
)


# Edges are attributes, held one by one in Python.
MOST_BINS = 1 << 24


def even_edges(bins: int, low: float, high: float) -> tuple[float, ...]:
    """The edges of `bins` bins of equal width between `low` and `high`.

    >>> even_edges(4, 0.0, 1.0)
    (0.0, 0.25, 0.5, 0.75, 1.0)
    """
    low, high = float(low), float(high)
    if not (1 <= bins <= MOST_BINS and low < high and high - low < math.inf):
        need = f"1..{MOST_BINS} bins, low < high, a finite width"
        raise AttributeValueError("histogram", got=f"{bins} bins", need=need)
    return tuple(low + (high - low) * edge / bins for edge in range(bins + 1))


def logarithmic_edges(bins: int, low: float, high: float) -> tuple[float, ...]:
    """The edges of `bins` bins between `low` and `high`, each as many times wider than the one before.

    >>> logarithmic_edges(2, 1.0, 16.0)
    (1.0, 4.0, 16.0)
    """
    low, high = float(low), float(high)
    if not (1 <= bins <= MOST_BINS and 0.0 < low < high and high / low < math.inf):
        need = f"1..{MOST_BINS} bins, 0 < low < high, a finite ratio"
        raise AttributeValueError("histogram", got=f"{bins} bins", need=need)
    return tuple(low * (high / low) ** (edge / bins) for edge in range(bins + 1))


def histogram(x: T, edges: tuple[float, ...]) -> T:
    """How many elements of `x` are below the first edge, between each two edges, and at or above the last."""
    return apply(HISTOGRAM, HistogramAttrs(tuple(map(float, edges))), x)


def non_maximum_suppression(boxes: T, threshold: float = 0.5) -> tuple[T, T]:
    """(kept boxes by descending score then zeros, their positions in `boxes` then -1)."""
    kept, index = boxes.apply(Command(NON_MAXIMUM_SUPPRESSION, SuppressionAttrs(threshold)), (boxes,))
    return kept, index
