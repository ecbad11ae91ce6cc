"""The transposed derivative of a function, as JAX and MLX ask for it.

value, pullback = vjp(f, x, y)                      pullback(u) = (uᵀ ∂f/∂x, uᵀ ∂f/∂y)
values, slopes = vjp(f, [x, y], [u])                the same at once, as in MLX: f takes its arguments one by one
"""

from __future__ import annotations

import inspect
from typing import Any

from nnc.arguments import checked
from nnc.dynamic.transforms.differentiation import world_of
from nnc.dynamic.transforms.leaves import flatten_arrays
from nnc.dynamic.transforms.transformed import Function
from nnc.dynamic.tree import Tree, map_leaves


@checked
def vjp(function: Function, *primals: Tree) -> tuple[Any, Any]:
    """(function(*primals), the pullback); `pullback(u)` gives uᵀ J by each of the primals.

    As in MLX, of a list of primals and one of cotangents the lists of results and of their products with J, where the
    function takes as many arguments as the first has and not two.

    >>> value, pullback = nnc.vjp(nnc.sin, 0.0)
    >>> [slope.item() for slope in pullback(2.0)]
    [2.0]
    >>> values, slopes = nnc.vjp(nnc.sin, [nnc.tensor(0.0)], [nnc.tensor(2.0)])
    >>> slopes[0].item()
    2.0
    """
    if _are_lists(function, primals):
        value, pullback = vjp(function, *primals[0])
        several = isinstance(value, tuple | list)
        slopes = pullback(type(value)(primals[1]) if several else primals[1][0])
        return list(value) if several else [value], list(slopes)
    world = world_of("vjp", primals)
    with world.entered():
        leaves, structure, given = world.leaves(primals, range(len(primals)))
        result = function(*given)
    outputs, shape = flatten_arrays("vjp", result)

    def pullback_of(cotangents: Tree) -> Tree:
        with world.entered():
            seeds = world.alike(cotangents, shape, outputs)
            products = [(output * seed).sum() for output, seed in zip(outputs, seeds, strict=True)]
            return map_leaves(world.settled, structure.unflatten(world.backward(products, leaves)))

    return map_leaves(world.settled, result), pullback_of


def _are_lists(function: Function, primals: tuple[Tree, ...]) -> bool:
    """Whether these are MLX's two lists: the function could not be called with both."""
    if len(primals) != 2 or not all(isinstance(each, list) and each for each in primals):
        return False
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    return _takes(signature, len(primals[0])) and not _takes(signature, 2)


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*(None,) * count)
    except TypeError:
        return False
    return True
