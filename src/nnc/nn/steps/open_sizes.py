"""Sizes of batches and of open axes: the program that serves them, and examples padded for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from nnc.core.precautions.forking import fork_safe_rlock
from nnc.core.precautions.recent import RecentlyUsed
from nnc.core.values.spec import Shape, TensorSpec, check_shape
from nnc.core.values.tensor import as_array
from nnc.errors import ShapeError, UsageError
from nnc.nn.data.data_set import Columns
from nnc.nn.layers.layer import UpTo
from nnc.nn.optimization.losses import Loss, PointwiseLoss
from nnc.nn.steps.example_rules import ExampleRules
from nnc.nn.steps.padding import LARGE, SMALL, Built, obstacle, padded_size
from nnc.nn.steps.steps import GENERATE, PADDED, StepBuilder, Values, each_of, shapes_at

# A kind, how many examples, and the size of open axes.
StepKey: TypeAlias = tuple[str, int, int]
Arrays: TypeAlias = tuple[NDArray[np.generic], ...]


class OpenSizes:
    """What a model takes at each size; `explore(length)` gives the specs of its outputs, `build` a builder of steps."""

    def __init__(
        self,
        inputs: tuple[TensorSpec, ...],
        open: tuple[bool, ...],
        losses: tuple[Loss, ...],
        explore: Callable[[int], tuple[TensorSpec, ...]],
        builder: Callable[[], StepBuilder],
    ) -> None:
        self._inputs, self._open, self._losses, self._explore, self._builder = inputs, open, losses, explore, builder
        self._rules: RecentlyUsed[int, ExampleRules] = RecentlyUsed(lambda rules: 0)
        self._obstacles: dict[tuple[bool, int], str] = {}
        self._uncached: str | None = None
        self._tracing = fork_safe_rlock()
        self.most = min((spec.shape[0] for spec, is_open in zip(inputs, open, strict=True) if is_open), default=0)

    def rules_for(self, subject: str, inputs: Values) -> tuple[ExampleRules, int]:
        """What examples are to be, and the size of their open axes, which is that of the first of them."""
        length = 0
        if any(self._open):
            array = as_array(each_of(subject, len(self._inputs), inputs)[self._open.index(True)])
            length = array.shape[1] if array.ndim > 1 else 0
            if not 1 <= length <= self.most:
                raise ShapeError(subject, got=f"inputs {list(array.shape)}", need=f"[n, 1 to {self.most}, …]")
        return self.rules_at(length), length

    def rules_at(self, length: int) -> ExampleRules:
        """The same for open axes of this size."""
        found = self._rules.get(length)
        if found is None:
            made = ExampleRules(shapes_at(self._inputs, self._open, length), self._explore(length), self._losses)
            found = self._rules.put(length, made)
        return found

    def obstacle(self, kind: str, axis: int) -> str:
        """Why examples (axis 0) or steps (axis 1) of such a program cannot be padded; empty where they can."""
        if kind not in ("train", "evaluate", "predict"):
            return f"{kind} steps take sizes as they are"
        if kind != "predict" and not all(isinstance(loss, PointwiseLoss) for loss in self._losses):
            return "a loss is no PointwiseLoss"
        if axis and self.most < LARGE:
            return f"there are at most {self.most} sizes"
        place = (kind == "train", axis)
        with self._tracing:
            if place not in self._obstacles:
                self._obstacles[place] = obstacle(lambda size: self._traced(*place, size), axis)
            return self._obstacles[place]

    def cache_obstacle(self) -> str:
        """Why a token's scores cannot be had from it and what is kept of earlier ones; empty where they can."""
        with self._tracing:
            if self._uncached is None:
                try:
                    self._uncached = obstacle(lambda size: self._builder().trace_generation(size), 1, apart=True)
                except UsageError as error:
                    self._uncached = str(error)
            return self._uncached

    def generation_key(self, batch: int, length: int = 0, steps: int = 0) -> StepKey:
        """The program that reads `steps` tokens in each row, or as many as there is room for, which is for `length`."""
        if self.cache_obstacle():
            got = f"a model that keeps nothing of earlier tokens: {self.cache_obstacle()}"
            raise UsageError("generate", got=got, need="a causal one, whose tokens read what was kept")
        most = self._inputs[0].shape[0]
        capacity = padded_size(length or most, most)
        rows = 1 << max(batch - 1, 0).bit_length()
        return f"{GENERATE}+{capacity}", rows, padded_size(steps, capacity) if steps > 1 else steps or capacity

    def _traced(self, training: bool, axis: int, size: int) -> Built:
        return self._builder().trace(training, *((2, size) if axis else (size, min(self.most, SMALL))))

    def padded_key(self, kind: str, count: int, length: int) -> StepKey:
        """The program for so many examples and steps, padded where that can be."""
        fixed, paced = bool(self.obstacle(kind, 0)), not length or bool(self.obstacle(kind, 1))
        if fixed and paced:
            return kind, count, length
        batch, steps = count if fixed else padded_size(count), length if paced else padded_size(length, self.most)
        return "predict" if kind == "predict" else kind + PADDED, batch, steps

    def padded(self, key: StepKey, examples: Arrays, count: int, length: int) -> Arrays:
        """Inputs of a step: the last row and the last step again and again, and which places are real."""
        kind, batch, steps = key
        if PADDED not in kind and (batch, steps) == (count, length):
            return examples
        shapes = shapes_at(self._inputs, self._open, steps)
        arrays = tuple(_filled(one, (batch, *shape)) for one, shape in zip(examples, shapes, strict=True))
        if kind == "predict":
            return arrays
        real = np.zeros((batch, steps) if steps else (batch,), bool)
        real[(slice(count), slice(length)) if steps else slice(count)] = True
        return (*arrays, real, np.array(1.0 / (count * (length or 1))))

    def padded_targets(self, key: StepKey, targets: Arrays) -> Arrays:
        """Targets of a step."""
        kind, batch, steps = key
        if PADDED not in kind:
            return targets
        outputs = self.rules_at(steps).outputs
        shapes = (loss.target_shape((batch, *spec.shape)) for loss, spec in zip(self._losses, outputs, strict=True))
        return tuple(_filled(one, shape) for one, shape in zip(targets, shapes, strict=True))


def _filled(array: NDArray[np.generic], shape: Shape) -> NDArray[np.generic]:
    """The array with its last rows, and last steps, again and again up to this shape."""
    widths = [(0, size - own) for size, own in zip(shape, array.shape, strict=True)]
    return np.pad(array, widths, mode="edge") if any(after for _, after in widths) else array


def one_or_all(arrays: Arrays) -> Columns:
    """One array as itself, several as a tuple: what callers give and get."""
    return arrays[0] if len(arrays) == 1 else arrays


def largest(sizes: Iterable[int | UpTo], what: str) -> Shape:
    """The shape, open axes as large as they get."""
    first, *others = tuple(sizes) or (None,)
    if any(isinstance(size, UpTo) for size in others):
        raise ShapeError(what, got=f"{list(others)} behind the first axis", need="one open axis, the first")
    whole = () if first is None else (first.most if isinstance(first, UpTo) else first, *others)
    return check_shape(cast("tuple[int, ...]", whole), what)
