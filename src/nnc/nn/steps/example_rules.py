"""Examples as they enter a model, looked at before anything is computed: how many, of which shapes, which classes.

A look takes a few microseconds: shapes, and the least and the largest label. What `fit` has all of in memory is looked
at for numbers that are none, too.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.classes import dataclass
from nnc.core.values.dtype import dtype_of
from nnc.core.values.spec import Shape, TensorSpec
from nnc.core.values.tensor import as_array
from nnc.errors import ArgumentError, DTypeError, ShapeError
from nnc.nn.data.labels import check_labels, check_range
from nnc.nn.optimization.losses import Loss
from nnc.nn.steps.model_step import Values, each_of
from nnc.nn.steps.objective import Objective

Array = NDArray[np.generic]
# Types of numbers that most examples have.
USUAL = frozenset(map(np.dtype, ("float32", "float64", "int32", "int64", "uint8")))


@dataclass(frozen=True, slots=True)
class ExampleRules:
    """What a model takes: examples of these shapes, and targets by what is minimized, all without the batch."""

    inputs: tuple[Shape, ...]
    outputs: tuple[TensorSpec, ...]
    objective: Objective

    def checked_inputs(self, subject: str, values: Values) -> tuple[Array, ...]:
        """Each input[n, …] as an array."""
        arrays = [_rows(subject, "inputs", value) for value in each_of(subject, len(self.inputs), values)]
        for array, shape in zip(arrays, self.inputs, strict=True):
            _check_numbers(subject, "inputs", array)
            if array.shape[1:] != shape:
                got, need = f"inputs {list(array.shape)}", f"[n{''.join(f', {size}' for size in shape)}]"
                raise ShapeError(subject, got=got, need=need)
            if len(array) != len(arrays[0]):
                got = f"inputs of {len(arrays[0])} and of {len(array)} examples"
                raise ShapeError(subject, got=got, need="as many of each")
        return tuple(arrays)

    def checked_examples(self, subject: str, inputs: Values, targets: Values) -> tuple[tuple[Array, ...], ...]:
        """Inputs and targets of a whole training; DataError names the first row with a number that is none."""
        examples = self.checked_inputs(subject, inputs)
        for array in examples:
            check_range(subject, "inputs", array, (-inf, inf))
        return examples, self.checked_targets(subject, targets, len(examples[0]))

    def checked_targets(self, subject: str, values: Values | None, count: int) -> tuple[Array, ...]:
        """Each target as an array of the shape that its loss asks of `count` outputs, with labels inside the classes.

        Axes of size 1 at the end may be there or not: targets [n] fit outputs [n, 1].
        """
        if values is None:
            raise ArgumentError(subject, got="target=None", need="a target for each example")
        if self.objective.joint is not None:
            specs = self.target_specs(count)
            pairs = zip(each_of(subject, len(specs), values), specs, strict=True)
            return tuple([_checked_joint(subject, value, spec, count) for value, spec in pairs])
        arrays = each_of(subject, len(self.outputs), values)
        rows = zip(arrays, self.outputs, self.objective.losses, strict=True)
        return tuple([_checked_target(subject, value, (count, *spec.shape), loss) for value, spec, loss in rows])

    def target_specs(self, count: int) -> tuple[TensorSpec, ...]:
        """Of the targets of so many examples."""
        batched = [replace(spec, shape=(count, *spec.shape)) for spec in self.outputs]
        return self.objective.target_specs(batched, self.outputs[0].dtype)


def _checked_target(subject: str, value: ArrayLike, output: Shape, loss: Loss) -> Array:
    array = _target_rows(subject, value, output[0])
    wanted = loss.target_shape(output)
    classes = loss.classes(output)
    if classes:
        check_labels(subject, array, classes)
        array = array.astype(np.int32, copy=False)
    elif loss.target_range is not None:
        _check_numbers(subject, "targets", array)
        check_range(subject, "targets", array, loss.target_range)
    array = _shaped(subject, array, wanted, f" for outputs {list(output)}")
    loss.check_targets(subject, array, output)
    return array


def _checked_joint(subject: str, value: ArrayLike, spec: TensorSpec, count: int) -> Array:
    """A target of a loss of all outputs: numbers of this shape, whole ones where the loss takes whole ones."""
    array = _target_rows(subject, value, count)
    _check_numbers(subject, "targets", array)
    if spec.dtype.is_float:
        check_range(subject, "targets", array, (-inf, inf))
    elif array.dtype.kind not in "biu":
        raise DTypeError(f"{subject}, targets", got=str(array.dtype), need=f"whole numbers, as {spec.dtype}")
    return _shaped(subject, array.astype(spec.dtype.numpy, copy=False), spec.shape, "")


def _target_rows(subject: str, value: ArrayLike, count: int) -> Array:
    array = _rows(subject, "targets", value)
    if len(array) != count:
        got = f"{count} examples and {len(array)} targets"
        raise ShapeError(subject, got=got, need="as many targets as examples")
    return array


def _shaped(subject: str, array: Array, wanted: Shape, beside: str) -> Array:
    """The array in this shape; axes of size 1 at its end may be there or not."""
    if array.shape == wanted:
        return array
    if _without_ones(array.shape) != _without_ones(wanted):
        raise ShapeError(subject, got=f"targets {list(array.shape)}{beside}", need=f"targets {list(wanted)}")
    return array.reshape(wanted)


def _rows(subject: str, what: str, value: ArrayLike) -> Array:
    """`value` as an array of one entry per example."""
    array = as_array(value)
    if array.ndim == 0:
        raise ShapeError(subject, got=f"{what} that are a single value", need="one entry per example")
    return array


def _check_numbers(subject: str, what: str, array: Array) -> None:
    if array.dtype in USUAL:
        return
    if array.dtype.kind == "c":
        raise DTypeError(
            f"{subject}, {what}", got=str(array.dtype), need="real numbers", fix="take .real, or .imag too"
        )
    try:
        dtype_of(array.dtype)
    except DTypeError as error:
        error.subject = f"{subject}, {what}"
        raise


def _without_ones(shape: Shape) -> Shape:
    """The shape without the axes of size 1 at its end; the first axis stays.

    >>> _without_ones((1, 3, 1, 1)), _without_ones((1, 1))
    ((1, 3), (1,))
    """
    last = len(shape)
    while last > 1 and shape[last - 1] == 1:
        last -= 1
    return shape[:last]
