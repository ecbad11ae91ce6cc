"""Calls on both sides: NumPy's, and ours eagerly, in one compiled function, and their gradients against differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import nnc

# A function of the namespace and of arrays.
Call = Callable[..., Any]


def leaves(value: Any) -> list[np.ndarray]:
    """The arrays of a result, which may be a tuple or list of them."""
    parts = value if isinstance(value, tuple | list) else [value]
    return [np.asarray(part) for part in parts]


def same(found: Any, want: Any, tolerance: float, name: object) -> None:
    """Equal shapes, kinds of element types and, nearly, numbers; where NumPy has f64 of integers we have f32."""
    ours, theirs = leaves(found), leaves(want)
    assert len(ours) == len(theirs), name
    for one, other in zip(ours, theirs, strict=True):
        assert (one.shape, one.dtype.kind) == (other.shape, other.dtype.kind), name
        near = max(tolerance, 1e-5 if one.dtype in (np.float32, np.complex64) else 0.0)
        np.testing.assert_allclose(one, other, rtol=near, atol=near, err_msg=str(name))


def agree(calls: Sequence[Call], *arrays: Any, tolerance: float = 1e-10) -> None:
    """Each call gives what NumPy gives."""
    for place, call in enumerate(calls):
        with np.errstate(all="ignore"):
            want = call(np, *arrays)
        same(call(nnc, *map(nnc.array, arrays)), want, tolerance, place)


def agree_compiled(calls: Sequence[Call], *arrays: Any, tolerance: float = 1e-10) -> None:
    """All in one compiled function give what they give eagerly."""

    def run(*values: Any) -> list[Any]:
        found = [call(nnc, *values) for call in calls]
        return [tuple(one) if isinstance(one, list) else one for one in found]

    compiled = nnc.compile(run)(*arrays)
    for place, call in enumerate(calls):
        same(compiled[place], call(nnc, *map(nnc.array, arrays)), tolerance, place)


def slopes_agree(calls: Sequence[Call], *arrays: Any) -> None:
    """The derivative of each along a direction is that of central differences."""
    for place, call in enumerate(calls):
        random = np.random.default_rng(place)
        loss = _weighted(call, random, *arrays)
        ways = [random.standard_normal(np.shape(one)) for one in arrays]
        step = 1e-6
        up, down = (
            loss(*(one + sign * step * way for one, way in zip(arrays, ways, strict=True))).item() for sign in (1, -1)
        )
        slopes = nnc.grad(loss, argnums=tuple(range(len(arrays))))(*arrays)
        along = sum(float((np.asarray(slope) * way).sum()) for slope, way in zip(slopes, ways, strict=True))
        np.testing.assert_allclose(along, (up - down) / (2 * step), rtol=1e-5, atol=1e-7, err_msg=str(place))


def _weighted(call: Call, random: np.random.Generator, *arrays: Any) -> Callable[..., Any]:
    def first(*values: Any) -> Any:
        found = call(nnc, *values)
        return found[0] if isinstance(found, tuple | list) else found

    weights = random.standard_normal(first(*map(nnc.array, arrays)).shape)
    return lambda *values: (first(*values) * weights).sum()
