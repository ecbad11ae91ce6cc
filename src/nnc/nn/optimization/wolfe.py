"""A search along a line by Wolfe's strong conditions: first an interval that holds a place, then ever smaller ones.

    f(t) ≤ f(0) + c1 · t · f'(0)        |f'(t)| ≤ c2 · |f'(0)|

(Nocedal & Wright 2006, algorithms 3.5 and 3.6, with the safeguards of PyTorch's and minFunc's.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

DECREASE, CURVATURE = 1e-4, 0.9
MOST_STEPS, LEAST_CHANGE = 25, 1e-9


@dataclass(frozen=True, slots=True)
class Point:
    """The loss and its gradient at a length along the line."""

    length: float
    loss: float
    gradient: NDArray[Any]

    def slope(self, direction: NDArray[Any]) -> float:
        """f'(t)"""
        return float(self.gradient @ direction)


def search(
    at: Callable[[float], Point], length: float, direction: NDArray[Any], start: Point, slope: float
) -> tuple[Point, int]:
    """A place that fulfils both, or the lowest that was seen, and how many were looked at."""
    line = _Line(at, direction, Point(0.0, start.loss, start.gradient), slope)
    low, high = line.enclose(length)
    return (low if high is None else line.narrow(low, high)), line.seen


class _Line:
    """The line from a start, and how often it was looked at."""

    def __init__(self, at: Callable[[float], Point], direction: NDArray[Any], start: Point, slope: float) -> None:
        self.at, self.direction, self.start, self.slope = at, direction, start, slope
        self.seen = 0

    def look(self, length: float) -> Point:
        self.seen += 1
        return self.at(length)

    def rises(self, point: Point) -> bool:
        """Whether it lies above what the slope at the start promises."""
        return point.loss > self.start.loss + DECREASE * point.length * self.slope

    def is_level(self, point: Point) -> bool:
        return abs(point.slope(self.direction)) <= -CURVATURE * self.slope

    def enclose(self, length: float) -> tuple[Point, Point | None]:
        """Two places with a good one between them, or one that is good itself."""
        before, point = self.start, self.look(length)
        for step in range(MOST_STEPS):
            if self.rises(point) or (step > 1 and point.loss >= before.loss):
                return before, point
            if self.is_level(point):
                return point, None
            if point.slope(self.direction) >= 0.0:
                return before, point
            bounds = point.length + 0.01 * (point.length - before.length), point.length * 10.0
            longer = _lowest(before, point, self.direction, bounds)
            before, point = point, self.look(longer)
        return self.start, point

    def narrow(self, first: Point, second: Point) -> Point:
        """A good place between two."""
        low, high = (first, second) if first.loss <= second.loss else (second, first)
        width, stuck = float(np.abs(self.direction).max(initial=0.0)), False
        while self.seen <= MOST_STEPS and abs(high.length - low.length) * width >= LEAST_CHANGE:
            length, stuck = self._inside(first, second, stuck=stuck)
            point = self.look(length)
            if self.rises(point) or point.loss >= low.loss:
                first, second = (point, second) if high is first else (first, point)
                low, high = (first, second) if first.loss <= second.loss else (second, first)
                continue
            if self.is_level(point):
                return point
            if point.slope(self.direction) * (high.length - low.length) >= 0.0:
                first, second, high = (low, second, low) if high is first else (first, low, low)
            first, second = (point, second) if low is first else (first, point)
            low = point
        return low

    def _inside(self, first: Point, second: Point, *, stuck: bool) -> tuple[float, bool]:
        """Where the cubic through both is lowest, moved off their ends where it is there for the second time."""
        begin, end = sorted((first.length, second.length))
        length = _lowest(first, second, self.direction, (begin, end))
        edge = 0.1 * (end - begin)
        if min(end - length, length - begin) >= edge:
            return length, False
        if not stuck and begin < length < end:
            return length, True
        return (end - edge if abs(length - end) < abs(length - begin) else begin + edge), False


def _lowest(first: Point, second: Point, direction: NDArray[Any], bounds: tuple[float, float]) -> float:
    """Where the cubic of two values and slopes is lowest, within bounds; their middle where it is nowhere."""
    a, b = (first, second) if first.length <= second.length else (second, first)
    at_a, at_b, apart = a.slope(direction), b.slope(direction), b.length - a.length
    if apart == 0.0:
        return sum(bounds) / 2.0
    bend = at_a + at_b + 3.0 * (a.loss - b.loss) / apart
    square = bend * bend - at_a * at_b
    if not square >= 0.0:
        return sum(bounds) / 2.0
    root = math.sqrt(square)
    below = at_b - at_a + 2.0 * root
    place = b.length - apart * ((at_b + root - bend) / below) if below else math.nan
    return min(max(place, bounds[0]), bounds[1]) if math.isfinite(place) else sum(bounds) / 2.0
