"""Rows of histograms and non-maximum suppression."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from tests.conformance.case import FLOATS, NUMBERS, SPECIAL_VALUES, Argument, Array, Case, Generator, special, ties

from nnc.core.values.spec import Shape
from nnc.ops.indexing.detection import (
    HISTOGRAM,
    NON_MAXIMUM_SUPPRESSION,
    HistogramAttrs,
    SuppressionAttrs,
    even_edges,
    logarithmic_edges,
)


def scored(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Rows [score, top, left, bottom, right] on a grid of quarters, so that narrow element types agree on overlaps."""
    low = generator.integers(0, 8, (shape[0], 2)) / 4
    high = low + generator.integers(0, 5, (shape[0], 2)) / 4
    return np.concatenate([generator.integers(0, 6, (shape[0], 1)) / 8, low, high], axis=1)


def rows() -> Iterator[Case]:
    """All rows of this file."""
    edges = {"even": even_edges(5, -1.0, 1.0), "one": (0.25,), "logarithmic": logarithmic_edges(3, 0.125, 8.0)}
    for note, ends in edges.items():
        attrs = HistogramAttrs(ends)
        for shape in ((40,), (3, 5, 7), (), (0, 3)):
            yield Case(HISTOGRAM, attrs, (Argument(shape, ties),), NUMBERS, note)
        yield Case(HISTOGRAM, attrs, (Argument((len(SPECIAL_VALUES),), special),), FLOATS, f"special-{note}")
    for count in (0, 1, 7, 30):
        for threshold in (0.0, 0.5, 1.0):
            boxes = Argument((count, 5), scored)
            yield Case(NON_MAXIMUM_SUPPRESSION, SuppressionAttrs(threshold), (boxes,), FLOATS, f"over{threshold}")
