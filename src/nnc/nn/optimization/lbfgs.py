"""L-BFGS (Liu & Nocedal 1989), with steps of one length or a search by Wolfe's strong conditions, as PyTorch has it.

    optimizer = optim.LBFGS(net.parameters(), line_search_fn="strong_wolfe")
    optimizer.step(closure)        closure: zero_grad(), the loss, backward(), and the loss given back

A direction is -H g: H is that of the last `history_size` pairs of steps s and changes of the gradient y, by two loops
over them, and s·y / y·y times the identity before. A search (Nocedal & Wright 2006, algorithms 3.5 and 3.6, with the
safeguards of PyTorch's) finds an interval that holds a good place, then ever smaller ones:

    f(t) ≤ f(0) + c1 · t · f'(0)        |f'(t)| ≤ c2 · |f'(0)|
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import Count, Rate, checked, shown
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic import eager
from nnc.dynamic.state import assign_all
from nnc.dynamic.traced import active_trace
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, FormatError, UsageError
from nnc.nn.optimization.optimizers import SGD
from nnc.nn.optimization.step_optimizer import ParameterSource, StepOptimizer, float_of
from nnc.nn.state.loading import host_array

Vector: TypeAlias = NDArray[Any]
Closure: TypeAlias = Callable[[], Any]
# Pairs whose s·y is less tell nothing of the curvature.
LEAST_CURVATURE = 1e-10
DECREASE, CURVATURE = 1e-4, 0.9
MOST_STEPS, LEAST_CHANGE = 25, 1e-9


@dataclass(frozen=True, slots=True)
class LinePoint:
    """The loss and its gradient at a length along the line."""

    length: float
    loss: float
    gradient: Vector

    def slope(self, direction: Vector) -> float:
        """f'(t)"""
        return float(self.gradient @ direction)


def search(
    at: Callable[[float], LinePoint], length: float, direction: Vector, start: LinePoint, slope: float
) -> tuple[LinePoint, int]:
    """A place that fulfils both, or the lowest that was seen, and how many were looked at."""
    line = _Line(at, direction, LinePoint(0.0, start.loss, start.gradient), slope)
    low, high = line.enclose(length)
    return (low if high is None else line.narrow(low, high)), line.seen


class _Line:
    """The line from a start, and how often it was looked at."""

    def __init__(self, at: Callable[[float], LinePoint], direction: Vector, start: LinePoint, slope: float) -> None:
        self.at, self.direction, self.start, self.slope = at, direction, start, slope
        self.seen = 0

    def look(self, length: float) -> LinePoint:
        self.seen += 1
        return self.at(length)

    def rises(self, point: LinePoint) -> bool:
        """Whether it lies above what the slope at the start promises."""
        return point.loss > self.start.loss + DECREASE * point.length * self.slope

    def is_level(self, point: LinePoint) -> bool:
        return abs(point.slope(self.direction)) <= -CURVATURE * self.slope

    def enclose(self, length: float) -> tuple[LinePoint, LinePoint | None]:
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

    def narrow(self, first: LinePoint, second: LinePoint) -> LinePoint:
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

    def _inside(self, first: LinePoint, second: LinePoint, *, stuck: bool) -> tuple[float, bool]:
        """Where the cubic through both is lowest, moved off their ends where it is there for the second time."""
        begin, end = sorted((first.length, second.length))
        length = _lowest(first, second, self.direction, (begin, end))
        edge = 0.1 * (end - begin)
        if min(end - length, length - begin) >= edge:
            return length, False
        if not stuck and begin < length < end:
            return length, True
        return (end - edge if abs(length - end) < abs(length - begin) else begin + edge), False


def _lowest(first: LinePoint, second: LinePoint, direction: Vector, bounds: tuple[float, float]) -> float:
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


@checked
class LBFGS(StepOptimizer):
    """w' = w - t · H g, up to `max_iter` times at each `step(closure)`; H of the last steps.

    >>> w = nnc.variable([1.0, 2.0])
    >>> optimizer = optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((w - 3.0) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item(), w.tolist()
    (5.0, [3.0, 3.0])
    """

    def __init__(
        self,
        params: ParameterSource,
        lr: Rate = 1.0,
        max_iter: Count = 20,
        max_eval: Count | None = None,
        tolerance_grad: Rate = 1e-7,
        tolerance_change: Rate = 1e-9,
        history_size: Count = 100,
        line_search_fn: Literal["strong_wolfe"] | None = None,
    ) -> None:
        super().__init__(params, SGD(lr))
        self.max_iter, self.history_size = max_iter, history_size
        self.max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        self.tolerance_grad: float = tolerance_grad
        self.tolerance_change: float = tolerance_change
        self.searches = line_search_fn is not None
        self._steps: list[Vector] = []
        self._changes: list[Vector] = []
        self._direction: Vector = np.zeros(0)
        self._gradient_before: Vector = np.zeros(0)
        self._scale, self._length, self._iterations = 1.0, 0.0, 0
        if len(self.param_groups) > 1:
            got = f"{len(self.param_groups)} groups of parameters"
            raise ArgumentError("LBFGS", got=got, need="one", origin=caller_origin())

    def step(self, closure: Closure | None = None) -> Any:  # noqa: ANN401  # what the closure gives
        """Up to `max_iter` iterations; the loss before the first of them."""
        if closure is None:
            fix = "optimizer.step(closure), which computes the loss, its gradients, and gives the loss back"
            raise ArgumentError("LBFGS.step", got="no closure", need="one: the loss is computed again", fix=fix)
        if active_trace() is not None:
            got, fix = "a function that is compiled", "compile the loss, and step outside"
            raise UsageError("LBFGS.step", got=got, need="eager values: how often it goes on depends on them", fix=fix)
        first = closure()
        point = LinePoint(0.0, float_of("LBFGS.step", first), self._gradient())
        evaluations = 1
        if self._is_flat(point.gradient):
            return first
        for iteration in range(1, self.max_iter + 1):
            before, slope = point.loss, self._turn(point.gradient)
            if slope > -self.tolerance_change:
                break
            last = iteration == self.max_iter
            point, count = self._advance(closure, point, slope, evaluate=self.searches or not last)
            evaluations += count
            moved = np.abs(self._direction * self._length).max()
            small = moved <= self.tolerance_change or abs(point.loss - before) < self.tolerance_change
            if evaluations >= self.max_eval or self._is_flat(point.gradient) or small:
                break
        return first

    def _turn(self, gradient: Vector) -> float:
        """A new direction and length of the next step, by the gradient here; the slope along it."""
        self._iterations += 1
        if self._iterations == 1:
            self._direction = -gradient
            self._length = min(1.0, 1.0 / float(np.abs(gradient).sum())) * self.lr
        else:
            self._remember(gradient - self._gradient_before, self._direction * self._length)
            self._direction, self._length = self._through(gradient), self.lr
        self._gradient_before = gradient
        return float(gradient @ self._direction)

    def _remember(self, change: Vector, step: Vector) -> None:
        curvature = float(change @ step)
        if curvature > LEAST_CURVATURE:
            self._steps, self._changes = [*self._steps, step], [*self._changes, change]
            del self._steps[: -self.history_size], self._changes[: -self.history_size]
            self._scale = curvature / float(change @ change)

    def _through(self, gradient: Vector) -> Vector:
        """-H g"""
        pairs = [(s, y, 1.0 / float(y @ s)) for s, y in zip(self._steps, self._changes, strict=True)]
        rest, shares = -gradient, list[float]()
        for s, y, inverse in reversed(pairs):
            shares.append(float(s @ rest) * inverse)
            rest = rest - shares[-1] * y
        rest = rest * self._scale
        for (s, y, inverse), share in zip(pairs, reversed(shares), strict=True):
            rest = rest + s * (share - float(y @ rest) * inverse)
        return rest.astype(gradient.dtype)

    def _advance(self, closure: Closure, point: LinePoint, slope: float, *, evaluate: bool) -> tuple[LinePoint, int]:
        """Go along the direction; loss and gradient there, and how often they were computed."""
        start = self._values()

        def at(length: float) -> LinePoint:
            self._assign(start + length * self._direction)
            return LinePoint(length, float_of("LBFGS.step", closure()), self._gradient())

        if self.searches:
            reached, count = search(at, self._length, self._direction, point, slope)
            self._length = reached.length
            self._assign(start + self._length * self._direction)
            return reached, count
        if evaluate:
            return at(self._length), 1
        self._assign(start + self._length * self._direction)
        return point, 0

    def _is_flat(self, gradient: Vector) -> bool:
        return float(np.abs(gradient).max(initial=0.0)) <= self.tolerance_grad

    # ---- all parameters in a row

    def _trained(self) -> list[Variable]:
        return list(self._held("step").trainable_parameters().values())

    def _values(self) -> Vector:
        return np.concatenate([variable.cpu().numpy().reshape(-1) for variable in self._trained()] or [np.zeros(0)])

    def _gradient(self) -> Vector:
        """Zeros where there is none."""
        parts = [
            np.zeros(variable.size, variable.dtype.numpy) if (slope := variable.grad) is None else slope.cpu().numpy()
            for variable in self._trained()
        ]
        return np.concatenate([part.reshape(-1) for part in parts] or [np.zeros(0)])

    def _assign(self, values: Vector) -> None:
        news, begin = list[tuple[Variable, Variable]](), 0
        for variable in self._trained():
            part = values[begin : begin + variable.size].reshape(variable.shape)
            news.append((variable, eager.tensor(part.copy(), variable.dtype, device=variable.device)))
            begin += variable.size
        assign_all(news)

    # ---- state

    def state_dict(self) -> dict[str, NDArray[np.generic]]:
        """What the next step goes on with: pairs, direction, last gradient, and numbers."""
        size = self._direction.size
        rows = {"steps": self._steps, "changes": self._changes}
        return {
            **{name: np.array(row).reshape(len(row), size) for name, row in rows.items()},
            "direction": self._direction.copy(),
            "gradient": self._gradient_before.copy(),
            "numbers": np.array([self._scale, self._length, self._iterations, self.lr]),
        }

    def load_state_dict(self, values: Mapping[str, ArrayLike]) -> None:
        """Go on with this state, which an optimizer of the same parameters had."""
        given = {name: host_array(value) for name, value in values.items()}
        lacking = [name for name in ("steps", "changes", "direction", "gradient", "numbers") if name not in given]
        if lacking:
            raise FormatError("state", got=f"no {lacking[0]}", need="the state of an LBFGS", origin=caller_origin())
        size, numbers = given["direction"].size, given["numbers"].reshape(-1)
        pairs = (given["steps"].shape, given["changes"].shape)
        whole = size in (0, self._values().size) and given["gradient"].size == size and numbers.size == 4
        if not whole or pairs[0] != pairs[1] or pairs[0][1:] != (size,) or not np.isfinite(numbers).all():
            got = f"a state of {size} numbers, {shown(pairs)}"
            raise FormatError("state", got=got, need=f"one of {self._values().size}", origin=caller_origin())
        self._steps, self._changes = list(given["steps"].copy()), list(given["changes"].copy())
        self._direction, self._gradient_before = given["direction"].copy(), given["gradient"].copy()
        self._scale, self._length, iterations, rate = map(float, numbers)
        self._iterations = max(int(iterations), 0)
        if not math.isclose(rate, self.lr):
            self.lr = rate
