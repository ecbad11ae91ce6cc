"""What a function gives, before anything is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnc.arguments import checked
from nnc.core.values.dtype import F32, DType
from nnc.core.values.spec import Shape, TensorSpec, spec
from nnc.dynamic.transforms.recording import record
from nnc.dynamic.transforms.signatures import names_of
from nnc.dynamic.tree import Tree, flatten
from nnc.symbolic import Symbol

__all__ = ["ShapeDtypeStruct", "eval_shape"]


@checked
def eval_shape(function: Callable[..., Any], *args: Tree, **kwargs: Tree) -> Any:  # noqa: ANN401  # what it gives
    """What the function gives for these arguments, with a `TensorSpec` for each array: nothing is computed, as in JAX.

    Specs may stand for arrays among the arguments, `nnc.spec((3, 4))` or `nnc.ShapeDtypeStruct((3, 4), nnc.float32)`.

    >>> made = nnc.eval_shape(lambda a, b: {"product": a @ b}, nnc.spec((3, 4)), nnc.spec((4, 2)))
    >>> made["product"].shape, made["product"].dtype
    ((3, 2), f32)
    """
    leaves, structure = flatten((args, kwargs))
    draft = record(function, leaves, structure, [*names_of(function, structure)])
    return draft.structure.unflatten([made.spec if isinstance(made, Symbol) else made for made in draft.results])


@checked
def ShapeDtypeStruct(shape: Shape, dtype: DType | str = F32) -> TensorSpec:  # noqa: N802  # as JAX calls it
    """`nnc.spec(shape, dtype)` under JAX's name.

    >>> nnc.ShapeDtypeStruct((2, 3), "i32").shape
    (2, 3)
    """
    return spec(shape, dtype)
