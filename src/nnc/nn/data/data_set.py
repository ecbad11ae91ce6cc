"""Labelled examples in memory: what every loader returns and what batches are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nnc.errors import DataError


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
        if self.labels.size and not 0 <= self.labels.min() <= self.labels.max() < len(self.classes):
            raise DataError(
                f"data set {self.name}",
                got=f"labels from {self.labels.min()} to {self.labels.max()}",
                need=f"labels from 0 to {len(self.classes) - 1}, one for each of the {len(self.classes)} classes",
            )

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
