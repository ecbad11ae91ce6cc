"""Labelled examples in memory: what every loader returns and what batches are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Probability, Size, checked
from nnc.classes import dataclass
from nnc.errors import DataError
from nnc.nn.data.labels import check_labels

# One array, or a tuple of them.
Columns: TypeAlias = NDArray[np.generic] | tuple[NDArray[np.generic], ...]


@checked
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Examples:
    """`inputs[n, ...]`, each with its `labels[n, ...]`: what a loss compares outputs with, classes or numbers.

    A tuple of arrays stands for several inputs, or for labels of several outputs.
    """

    name: str
    inputs: Columns
    labels: Columns

    def __post_init__(self) -> None:
        arrays = [array for column in (self.inputs, self.labels) for array in _arrays(column)]
        if any(not array.ndim or array.shape[:1] != arrays[0].shape[:1] for array in arrays):
            raise DataError(
                f"examples {self.name}",
                got=f"inputs={_shapes(self.inputs)}, labels={_shapes(self.labels)}",
                need="inputs[n, ...] and labels[n, ...] of the same n",
            )

    def __len__(self) -> int:
        return len(_arrays(self.inputs)[0])

    @checked
    def split(self, share: Probability, *, seed: Size = 0, shuffle: bool = True) -> tuple[Examples, Examples]:
        """This share of the examples and the rest, drawn at random by `seed`, or the first and the last ones."""
        count = round(share * len(self))
        if not 0 < count < len(self):
            got = f"{count} of {len(self)} examples"
            raise DataError(f"split {self.name}", got=got, need="some on either side", fix="take another share")
        order = np.random.default_rng(seed).permutation(len(self)) if shuffle else np.arange(len(self))
        parts = ((order[:count], "first"), (order[count:], "rest"))
        first, rest = (
            Examples(f"{self.name}, {name}", rows_of(self.inputs, rows), rows_of(self.labels, rows))
            for rows, name in parts
        )
        return first, rest

    def __repr__(self) -> str:
        return f"Examples({self.name!r}, inputs={_shapes(self.inputs, True)}, labels={_shapes(self.labels, True)})"


@checked
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DataSet:
    """`inputs[n, ...]`, each with its class `labels[n]`, an index into `classes`."""

    name: str
    inputs: NDArray[np.float32]
    labels: NDArray[np.int32]
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.labels.ndim != 1 or self.inputs.shape[:1] != self.labels.shape:
            raise DataError(
                f"data set {self.name}",
                got=f"inputs={list(self.inputs.shape)}, labels={list(self.labels.shape)}",
                need="inputs[n, ...] and labels[n] of the same n",
            )
        check_labels(f"data set {self.name}", self.labels, len(self.classes))

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        inputs, labels = (f"{array.dtype}{list(array.shape)}" for array in (self.inputs, self.labels))
        return f"DataSet({self.name!r}, inputs={inputs}, labels={labels}, {len(self.classes)} classes)"

    def select(self, rows: NDArray[np.integer] | NDArray[np.bool_] | Sequence[int] | slice, name: str = "") -> DataSet:
        """The examples `rows`, in that order, under the same name unless another is given."""
        return replace(self, name=name or self.name, inputs=self.inputs[rows], labels=self.labels[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """The fixed parts of one data set: `train` to learn from, `test` to measure on."""

    train: DataSet
    test: DataSet


def rows_of(column: Columns, rows: NDArray[np.integer]) -> Columns:
    """These rows of each array."""
    return tuple(array[rows] for array in column) if isinstance(column, tuple) else column[rows]


def _arrays(column: Columns) -> tuple[NDArray[np.generic], ...]:
    return column if isinstance(column, tuple) else (column,)


def _shapes(column: Columns, types: bool = False) -> str:
    """`[3, 4]`, or `float32[3, 4]` with types; in parentheses where there are several."""
    shown = [f"{array.dtype if types else ''}{list(array.shape)}" for array in _arrays(column)]
    return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"
