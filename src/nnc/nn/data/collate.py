"""Values of rows to one array per batch: of one shape, or filled up to the longest with a mask of what is real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc.errors import DataError, DTypeError

Values = NDArray[Any] | Sequence[Any]
# Numbers are one kind together; a text beside a number would make texts of all.
NUMBERS = "biufc"


def stacked(name: str, values: Values) -> NDArray[Any]:
    """y[b, …] = values[b]; DataError where they are of several shapes."""
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return values
    arrays = _arrays(name, values)
    shapes = sorted({array.shape for array in arrays})
    if len(shapes) > 1:
        got = f"rows of shapes {list(shapes[0])} and {list(shapes[-1])}"
        fix = f"batch(…, pad={{{name!r}: 0}}) fills them up"
        raise DataError(f"batch: column {name!r}", got=got, need="rows of one shape", fix=fix)
    return np.stack(arrays)


def concatenated(name: str, batches: Values) -> NDArray[Any]:
    """The rows of all batches; DataError where their shapes differ."""
    shapes = sorted({np.shape(batch)[1:] for batch in batches})
    if len(shapes) > 1:
        got = f"batches of rows {list(shapes[0])} and {list(shapes[-1])}"
        raise DataError(f"column {name!r}", got=got, need="rows of one shape")
    return np.concatenate([np.asarray(batch) for batch in batches])


def padded(name: str, values: Values, filling: object) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """y[b, t, …] = values[b][t] where t < length(b), else `filling`; mask[b, t] says which it is."""
    arrays = _arrays(name, values)
    lengths = lengths_of(name, arrays)
    rest = sorted({array.shape[1:] for array in arrays})
    if len(rest) > 1:
        got = f"steps of shapes {list(rest[0])} and {list(rest[-1])}"
        raise DataError(f"batch: column {name!r}", got=got, need="rows that differ in their first axis only")
    shape = (len(arrays), max(lengths), *rest[0])
    result = np.full(shape, filling, np.result_type(*arrays))
    for row, array in zip(result, arrays, strict=True):
        row[: len(array)] = array
    return result, np.arange(shape[1]) < np.array(lengths)[:, None]


def lengths_of(name: str, values: Values) -> list[int]:
    """The lengths of the rows; DataError where a row has none."""
    try:
        return [len(value) for value in values]
    except TypeError:
        raise DataError(f"batch: column {name!r}", got="rows without a length", need="sequences") from None


def _arrays(name: str, values: Values) -> list[NDArray[Any]]:
    """Each value as an array; DTypeError where they are neither numbers nor texts, or both."""
    try:
        arrays = [np.asarray(value) for value in values]
    except (ValueError, TypeError) as error:
        raise DataError(f"batch: column {name!r}", got=str(error), need="arrays") from None
    kinds = {"number" if array.dtype.kind in NUMBERS else array.dtype.kind for array in arrays if array.size}
    if "O" in kinds or len(kinds) > 1:
        types = ", ".join(sorted({type(value).__name__ for value in values}))
        fix = "map the column to arrays, or select others"
        raise DTypeError(f"batch: column {name!r}", got=f"values of types {types}", need="numbers or texts", fix=fix)
    return arrays
