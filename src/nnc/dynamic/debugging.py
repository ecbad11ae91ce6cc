"""Looking at commands as they run: the one that makes a NaN is named with its line, shapes are printed as they flow.

with nnc.debug():             compiled functions run as they are written, so breakpoint() sees values
    loss = step(x, y)         NotFiniteError: log: got nan in 2 of 6 elements of f32[2, 3] … (train.py:12)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOBase

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.running.dispatch import Tensors
from nnc.core.running.inspectors import INSPECTORS
from nnc.core.values.device import CPU
from nnc.core.values.recorder import Labelled
from nnc.core.values.tensor import Tensor
from nnc.errors import NotFiniteError


@dataclass(slots=True, eq=False)
class DebugReport:
    """What has been looked at: so many commands, and what they printed."""

    nan: bool
    inf: bool
    shapes: bool
    write: Callable[[str], object]
    commands: int = 0

    def __call__(self, source: Labelled, inputs: Tensors, outputs: Tensors) -> None:
        """Look at a command that has run."""
        self.commands += 1
        if self.shapes:
            self.write(f"{_line(source, inputs, outputs)}\n")
        for output in outputs:
            if output is not None:
                self._refuse(source, inputs, output)

    def _refuse(self, source: Labelled, inputs: Tensors, output: Tensor) -> None:
        """NotFiniteError for elements that nobody wants."""
        wrong = self._wrong(output)
        if wrong is None or not wrong.any():
            return
        values = _numbers(output)
        first = tuple(int(place) for place in np.argwhere(wrong)[0])
        told = f"{values[first]} in {int(wrong.sum())} of {wrong.size} elements of {output.spec}, first at {[*first]}"
        given = [f"input {place}: {self._told(each, output)}" for place, each in enumerate(inputs) if each is not None]
        error = NotFiniteError(source.command.op.name, got="; ".join((told, *given)), need="finite numbers")
        error.origin, error.place = source.origin, source.name
        raise error

    def _wrong(self, tensor: Tensor) -> NDArray[np.bool_] | None:
        """Which elements are not wanted; None where all that there can be are."""
        if not tensor.dtype.is_continuous or not tensor.spec.elements:
            return None
        values = _numbers(tensor)
        wrong = np.isnan(values) if self.nan else np.zeros(values.shape, np.bool_)
        return wrong | np.isinf(values) if self.inf else wrong

    def _told(self, given: Tensor, output: Tensor) -> str:
        """What an input holds, as far as it is still there."""
        if given.overlaps(output):
            return f"{given.spec}, written over"
        wrong = self._wrong(given)
        if wrong is not None and wrong.any():
            return f"{given.spec} with {int(wrong.sum())} such elements itself"
        return f"{given.spec} {_range(given)}".rstrip()


@checked
@contextmanager
def debug(
    *, nan: bool = True, inf: bool = False, shapes: bool = False, eager: bool = True, file: TextIOBase | None = None
) -> Iterator[DebugReport]:
    """Inside, each command of the process is looked at when it has run, on whatever thread, with the same results.

    `nan`, `inf`: the first command that writes such an element is a NotFiniteError with the operator, its layer, the
    user's line, where the element is, and the ranges of the inputs. `shapes`: a line for each command goes to `file`,
    the standard output if there is none: line, operator, specs, smallest and largest element. `eager`: compiled
    functions run as they are written, command by command, so that lines are exact and `breakpoint()` sees values;
    models run the programs that they have, kernel by kernel.

    >>> try:
    ...     with nnc.debug():
    ...         nnc.log(nnc.tensor([1.0, -1.0]))
    ... except nnc.errors.NotFiniteError as error:
    ...     print(error.subject, "got", error.got)
    log got nan in 1 of 2 elements of f32[2], first at [1]; input 0: f32[2] from -1 to 1
    """
    report = DebugReport(nan, inf, shapes, (file or sys.stdout).write)
    with INSPECTORS.looking(report, eager=eager):
        yield report


def _numbers(tensor: Tensor) -> NDArray[np.generic]:
    """The elements in a type that NumPy computes with; those of a device in a copy."""
    values = tensor.to(CPU).numpy()
    return values.astype(np.float32) if tensor.dtype.is_float and tensor.dtype.itemsize == 2 else values


def _range(tensor: Tensor) -> str:
    """`from -1 to 1`; empty where there is nothing to compare."""
    if tensor.dtype.kind == "complex" or not tensor.spec.elements:
        return ""
    values = _numbers(tensor)
    return f"from {values.min():.4g} to {values.max():.4g}"


def _line(source: Labelled, inputs: Tensors, outputs: Tensors) -> str:
    given, made = (
        ", ".join("–" if each is None else str(each.spec) for each in tensors) or "()" for tensors in (inputs, outputs)
    )
    ranges = "  ".join(_range(each) for each in outputs if each is not None)
    where = " ".join(part for part in (source.origin, source.name) if part) or "(no line)"
    return f"{where:24} {source.command.op.name:16} {given} → {made}  {ranges}".rstrip()
