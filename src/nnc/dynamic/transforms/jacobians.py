"""All derivatives of an array by an array: J[i…, j…] = dy[i…] / dx[j…].

jacfwd(f)(x)     a column a direction, all of them at once by vmap of jvp: for few elements of x
jacrev(f)(x)     a row an element of y, by vmap of vjp: for few elements of y; jacobian is that
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.arrays.promotion import continuous
from nnc.dynamic.eager import as_operand
from nnc.dynamic.transforms.batched import vmap
from nnc.dynamic.transforms.differentiation import argument_place, jvp
from nnc.dynamic.transforms.pullback import vjp
from nnc.dynamic.transforms.transformed import transformation
from nnc.ops.number import INTEGERS

Function = Callable[..., Any]


@transformation
def jacfwd(function: Function, argnums: int | Sequence[int] = 0) -> Function:
    """The function that gives derivatives of an array by the argument at `argnums`, forwards: [*y.shape, *x.shape].

    Of several arguments a tuple.

    >>> nnc.jacfwd(lambda x: x * x)(nnc.tensor([1.0, 3.0]))
    Variable(f32[2, 2], constant)
    [[2. 0.]
     [0. 6.]]
    """
    return _by_arguments("jacfwd", function, argnums, _columns)


@transformation
def jacrev(function: Function, argnums: int | Sequence[int] = 0) -> Function:
    """The function that gives derivatives of an array by the argument at `argnums`, backwards: [*y.shape, *x.shape].

    Of several arguments a tuple.

    >>> nnc.jacrev(lambda x: x * x)(nnc.tensor([1.0, 3.0]))
    Variable(f32[2, 2], constant)
    [[2. 0.]
     [0. 6.]]
    """
    return _by_arguments("jacrev", function, argnums, _rows)


# `Any` below: arrays and operands of all kinds.
def _by_arguments(
    subject: str, function: Function, argnums: int | Sequence[int], derivatives: Callable[[Function, ArrayOperand], Any]
) -> Function:
    @wraps(function)
    def differentiated(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # as above
        def by(number: int) -> Any:  # noqa: ANN401  # as above
            place = argument_place(subject, number, len(args))

            def of_this(value: Any) -> Any:  # noqa: ANN401  # as above
                return function(*args[:place], value, *args[place + 1 :], **kwargs)

            return derivatives(of_this, continuous(as_operand(args[place])))

        return by(argnums) if isinstance(argnums, INTEGERS) else tuple(map(by, argnums))

    return differentiated


def _columns(function: Function, at: ArrayOperand) -> Any:  # noqa: ANN401  # as above
    def column(direction: ArrayOperand) -> Any:  # noqa: ANN401  # as above
        return jvp(function, (at,), (direction,))[1]

    columns = vmap(column, out_axes=-1)(_directions(at))
    return columns.reshape((*columns.shape[:-1], *at.shape))


def _rows(function: Function, at: ArrayOperand) -> Any:  # noqa: ANN401  # as above
    y = function(at)

    def row(weights: ArrayOperand) -> Any:  # noqa: ANN401  # as above
        return vjp(function, at)[1](weights)[0]

    rows = vmap(row)(_directions(y))
    return rows.reshape((*y.shape, *at.shape))


def _directions(like: ArrayOperand) -> np.ndarray:
    """Each element's own direction: [size, *shape]."""
    return np.eye(like.size, dtype=like.dtype.numpy).reshape((like.size, *like.shape))


jacobian = jacrev
