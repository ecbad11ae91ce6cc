"""Sizes of batches and of open axes: the program that serves them, and examples padded for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.precautions.forking import fork_safe_rlock
from nnc.core.precautions.recent import RecentlyUsed
from nnc.core.values.spec import Shape, TensorSpec
from nnc.core.values.tensor import as_array
from nnc.errors import ShapeError, UsageError
from nnc.nn.data.data_set import Columns
from nnc.nn.steps.example_rules import ExampleRules
from nnc.nn.steps.generation_caches import pages_of_rows
from nnc.nn.steps.generation_steps import trace_generation
from nnc.nn.steps.keys import StepKey, StepKind
from nnc.nn.steps.model_step import Values, each_of
from nnc.nn.steps.padding import LARGE, MOST_STEPS, SMALL, Built, obstacle, padded_size
from nnc.nn.steps.step_builder import StepBuilder
from nnc.nn.steps.step_graph import trace
from nnc.ops.sequence.cached_attention import PAGE
from nnc.symbolic.sharing.openings import Opening, OpenShapes, Shapes, Templates
from nnc.symbolic.sharing.templates import GraphRenewal

Arrays: TypeAlias = tuple[NDArray[np.generic], ...]
# What the size of open axes is called among shapes.
LENGTH = "length"


@dataclass(frozen=True, slots=True, eq=False)
class OutputTemplate:
    """What comes out for all lengths that meet the guards of `shapes`."""

    shapes: OpenShapes
    outputs: tuple[TensorSpec, ...]

    def at(self, shapes: Shapes) -> tuple[TensorSpec, ...] | None:
        """The specs for this length; None where layers take another way."""
        numbers = self.shapes.numbers(shapes)
        return None if numbers is None else GraphRenewal(numbers).of(self.outputs)


class OpenSizes:
    """What a model takes at each size; `explore(length)` gives the specs of its outputs, `build` a builder of steps."""

    def __init__(self, explore: Callable[[int], tuple[TensorSpec, ...]], builder: Callable[[], StepBuilder]) -> None:
        self._explore, self._builder = explore, builder
        options = builder().options
        self._inputs, self._open, self._shapes_at = options.inputs, options.open, options.shapes_at
        self._objective = options.objective
        self._outputs: Templates[tuple[TensorSpec, ...]] = Templates()
        self._rules: RecentlyUsed[int, ExampleRules] = RecentlyUsed(lambda rules: 0)
        self._obstacles: dict[int, str] = {}
        self._uncached: str | None = None
        self._tracing = fork_safe_rlock()
        self.most = options.longest

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
        rules = self._rules.get(length)
        if rules is not None:
            return rules
        with self._tracing:
            outputs = self._outputs.draft(LENGTH, {LENGTH: (length,)}, self._explored)
            outputs = self._explore(length) if outputs is None else outputs
            made = ExampleRules(self._shapes_at(length), outputs, self._objective)
            return self._rules.put(length, made)

    def _explored(self, opening: Opening) -> OutputTemplate | None:
        """The outputs at open axes; None where layers refuse them, whose code may be anybody's."""
        try:
            outputs = self._explore(opening.shapes[LENGTH][0])
        except Exception:  # what is wrong is told where sizes are plain
            return None
        return OutputTemplate(opening.close(), outputs)

    def obstacle(self, kind: StepKind, axis: int) -> str:
        """Why examples (axis 0) or steps (axis 1) of such a program cannot be padded; empty where they can."""
        if kind is not StepKind.TRAIN:
            return f"{kind.value} steps take sizes as they are"
        if self._objective.obstacle:
            return self._objective.obstacle
        if axis and self.most < LARGE:
            return f"there are at most {self.most} sizes"
        with self._tracing:
            if axis not in self._obstacles:
                self._obstacles[axis] = obstacle(lambda size: self._traced(axis, size), axis)
            return self._obstacles[axis]

    def cache_obstacle(self) -> str:
        """Why a token's scores cannot be had from it and what is kept of earlier ones; empty where they can."""
        with self._tracing:
            if self._uncached is None:
                try:
                    known = vars(type(self._builder().options.layer)).get("tokens_apart", False)
                    self._uncached = "" if known else obstacle(self._traced_generation, 1, apart=True)
                except UsageError as error:
                    self._uncached = str(error)
            return self._uncached

    def generation_key(
        self, batch: int, length: int = 0, steps: int = 0, *, each: bool = False, pages: int = 0
    ) -> StepKey:
        """The program that reads `steps` tokens in each row, which has room for `length`; as many as any step without.

        One that scores `each` of them reads exactly so many. With `pages` all rows share so many.
        """
        if self.cache_obstacle():
            got = f"a model that keeps nothing of earlier tokens: {self.cache_obstacle()}"
            raise UsageError("generate", got=got, need="a causal one, whose tokens read what was kept")
        most = self._inputs[0].shape[0]
        capacity = padded_size(length or most, most)
        rows = 1 << int(max(batch - 1, 0)).bit_length()
        if not each:
            steps = padded_size(steps, capacity) if steps > 1 else steps or min(capacity, MOST_STEPS)
        held = self._builder().options.cache_type
        return StepKey(StepKind.GENERATE, rows, steps, outputs=each, capacity=capacity, cache=held, pages=pages)

    def pages(self, batch: int, length: int, prefix: int) -> int:
        """Pages of so many rows of so many tokens with this prefix; 0 where each has columns of its own."""
        return pages_of_rows(batch, length or self._inputs[0].shape[0], prefix) if batch > 1 and prefix >= PAGE else 0

    def _traced(self, axis: int, size: int) -> Built:
        builder, (batch, length) = self._builder(), (2, size) if axis else (size, min(self.most, SMALL))
        return trace(builder.options, builder.specs, batch, length, training=True)

    def _traced_generation(self, steps: int) -> Built:
        builder = self._builder()
        return trace_generation(builder.options, builder.specs, steps)

    def padded_key(self, key: StepKey) -> StepKey:
        """The program that serves the one of this key: for so many examples and steps, padded where that can be."""
        kind, length = key.kind, key.length
        fixed, paced = bool(self.obstacle(kind, 0)), not length or bool(self.obstacle(kind, 1))
        if fixed and paced:
            return key
        batch = key.batch if fixed else padded_size(key.batch)
        steps = length if paced else padded_size(length, self.most)
        return replace(key, batch=batch, length=steps, padded=True)

    def padded(self, key: StepKey, examples: Arrays, count: int, length: int) -> Arrays:
        """Inputs of a step: the last row and the last step again and again, and which places are real."""
        if not key.padded:
            return examples
        batch, steps = key.batch, key.length
        pairs = zip(examples, self._shapes_at(steps), strict=True)
        arrays = tuple(_filled(example, (batch, *shape)) for example, shape in pairs)
        real = np.zeros((batch, steps) if steps else (batch,), bool)
        real[(slice(count), slice(length)) if steps else slice(count)] = True
        return (*arrays, real, np.array(1.0 / (count * (length or 1))))

    def padded_targets(self, key: StepKey, targets: Arrays) -> Arrays:
        """Targets of a step."""
        if not key.padded:
            return targets
        specs = self.rules_at(key.length).target_specs(key.batch)
        return tuple(_filled(target, spec.shape) for target, spec in zip(targets, specs, strict=True))


def _filled(array: NDArray[np.generic], shape: Shape) -> NDArray[np.generic]:
    """The array with its last rows, and last steps, again and again up to this shape."""
    widths = [(0, size - own) for size, own in zip(shape, array.shape, strict=True)]
    return np.pad(array, widths, mode="edge") if any(after for _, after in widths) else array


def one_or_all(arrays: Arrays) -> Columns:
    """One array as itself, several as a tuple: what callers give and get."""
    return arrays[0] if len(arrays) == 1 else arrays
