"""What a variance is divided by: n as NumPy, JAX and MLX have it, n - 1 for who asks in PyTorch's words.

    x.std(axis=1)       n               x.std(dim=1), x.var(dim=1, keepdim=True), x.var(unbiased=True)       n - 1

`correction=` and `unbiased=` say it in any case.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def by_words(function: Callable[P, R]) -> Callable[P, R]:
    """The function in front of f(x, axis, *, correction, keepdims), whose words decide the divisor."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if not kwargs or ("unbiased" not in kwargs and "dim" not in kwargs and "keepdim" not in kwargs):
            return function(*args, **kwargs)
        options: dict[str, Any] = dict(kwargs)
        unbiased = options.pop("unbiased", True)
        if "correction" not in options and "ddof" not in options:
            options["correction"] = float(bool(unbiased))
        return function(*args, **options)

    return wrapper
