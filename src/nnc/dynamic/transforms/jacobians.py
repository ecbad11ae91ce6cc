"""All derivatives of an array by an array: J[i…, j…] = dy[i…] / dx[j…].

jacfwd(f)(x)     a column a direction, all of them at once by vmap of jvp: for few elements of x
jacrev(f)(x)     a row an element of y, by vmap of vjp: for few elements of y; jacobian is that
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.arrays.promotion import continuous
from nnc.dynamic.eager import as_operand
from nnc.dynamic.transforms.batched import vmap
from nnc.dynamic.transforms.differentiation import jvp, vjp
from nnc.dynamic.transforms.transformed import transformation

Function = Callable[..., Any]


@transformation
def jacfwd(function: Function) -> Function:
    """The function that gives the derivatives of one array by its first argument, forwards: [*y.shape, *x.shape].

    >>> nnc.jacfwd(lambda x: x * x)(nnc.tensor([1.0, 3.0]))
    Variable(f32[2, 2], constant)
    [[2. 0.]
     [0. 6.]]
    """

    @wraps(function)
    def differentiated(x: Any, *others: Any) -> Any:  # noqa: ANN401  # arrays and operands of all kinds
        at = continuous(as_operand(x))

        def column(direction: ArrayOperand) -> Any:  # noqa: ANN401  # as above
            return jvp(lambda value: function(value, *others), (at,), (direction,))[1]

        columns = vmap(column, out_axes=-1)(_directions(at))
        return columns.reshape((*columns.shape[:-1], *at.shape))

    return differentiated


@transformation
def jacrev(function: Function) -> Function:
    """The function that gives the derivatives of one array by its first argument, backwards: [*y.shape, *x.shape].

    >>> nnc.jacrev(lambda x: x * x)(nnc.tensor([1.0, 3.0]))
    Variable(f32[2, 2], constant)
    [[2. 0.]
     [0. 6.]]
    """

    @wraps(function)
    def differentiated(x: Any, *others: Any) -> Any:  # noqa: ANN401  # as above
        at = continuous(as_operand(x))
        y = function(at, *others)

        def row(weights: ArrayOperand) -> Any:  # noqa: ANN401  # as above
            return vjp(lambda value: function(value, *others), at)[1](weights)[0]

        rows = vmap(row)(_directions(y))
        return rows.reshape((*y.shape, *at.shape))

    return differentiated


def _directions(like: ArrayOperand) -> np.ndarray:
    """Each element's own direction: [size, *shape]."""
    return np.eye(like.size, dtype=like.dtype.numpy).reshape((like.size, *like.shape))


jacobian = jacrev
