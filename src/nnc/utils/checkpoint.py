"""PyTorch's `torch.utils.checkpoint`: what a function computes is computed again on the way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnc.dynamic.transforms.recomputation import checkpoint as recomputed

__all__ = ["checkpoint"]


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: bool = False, **kwargs: Any) -> Any:  # noqa: ANN401  # as the function has it
    """function(*args), of which nothing but the arguments is kept for gradients: `nnc.checkpoint(function)(*args)`.

    >>> checkpoint(nnc.exp, nnc.tensor(0.0)).item()
    1.0
    """
    return recomputed(function)(*args, **kwargs)
