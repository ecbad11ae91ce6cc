"""Positions of steps as MLX has them: queries and keys that are turned, and waves of sines.

self.rope = nn.RoPE(64); q = self.rope(q, offset=cache.offset)          x + nn.SinusoidalPositionalEncoding(16)(steps)

`nn.MultiHeadAttention(heads, rotary_base=10_000.0)` turns by itself, and `nn.PositionEmbedding(steps)` learns.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from nnc.arguments import Count, Finite, Positive, checked
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.errors import ArgumentError, ShapeError
from nnc.nn.modules.module import Module
from nnc.numerics import arange, concatenate, cos, sin
from nnc.ops import rotary_angles, rotary_embedding

__all__ = ["RoPE", "SinusoidalPositionalEncoding"]

# Features that are drawn as a table.
MOST_FEATURES = 1 << 24


@checked
class RoPE(Module):
    """x[…, steps, features] with pairs of its first `dims` features turned by their step's angles (Su et al. 2021).

    Pair k of step t is turned by scale · (t + offset) · base^(-2 k / dims): features k and k + dims / 2, or neighbours
    where `traditional`.

    >>> nn.RoPE(4)(nnc.ones((1, 2, 3, 4))).shape
    (1, 2, 3, 4)
    """

    branches_in_training: ClassVar[bool] = False

    def __init__(self, dims: Count, traditional: bool = False, base: Positive = 10000.0, scale: Finite = 1.0) -> None:
        super().__init__()
        if dims % 2:
            raise ArgumentError("RoPE", got=f"dims={dims}", need="an even number of features")
        self.dims, self.traditional, self.base, self.scale = dims, traditional, float(base), scale

    def forward(self, x: Any, offset: Any = 0) -> Any:  # noqa: ANN401  # arrays of either world
        """x, turned; the first step is the one at `offset`."""
        if x.ndim < 2 or x.shape[-1] < self.dims:
            raise ShapeError("RoPE", got=str(x.spec), need=f"[…, steps, {self.dims} features or more]")
        steps = (arange(x.shape[-2], dtype=x.dtype) + offset) * self.scale
        angles = rotary_angles(steps, self.dims // 2, base=self.base, dtype=x.dtype)
        rows = x.reshape(-1, x.shape[-2], 1, x.shape[-1])
        return rotary_embedding(rows, angles, interleaved=self.traditional).reshape(x.shape)

    def __repr__(self) -> str:
        return f"RoPE({self.dims}, traditional={self.traditional})"


@checked
class SinusoidalPositionalEncoding(Module):
    """y[…, dims] = scale · (sin(x f), cos(x f)) of positions x[…], with dims / 2 frequencies f from the highest down.

    The scale is √(2 / dims) unless given; with `full_turns` frequencies count turns, not radians.

    >>> nn.SinusoidalPositionalEncoding(8)(nnc.arange(5)).shape
    (5, 8)
    """

    branches_in_training: ClassVar[bool] = False

    def __init__(
        self,
        dims: Count,
        min_freq: Positive = 1e-4,
        max_freq: Positive = 1.0,
        scale: Finite | None = None,
        cos_first: bool = False,
        full_turns: bool = False,
    ) -> None:
        super().__init__()
        if dims % 2 or dims > MOST_FEATURES:
            need = f"an even number of features, at most {MOST_FEATURES}"
            raise ArgumentError("SinusoidalPositionalEncoding", got=f"dims={dims}", need=need)
        with np.errstate(over="ignore"):
            frequencies = np.geomspace(max_freq, min_freq, dims // 2) * (2 * math.pi if full_turns else 1.0)
            self.frequencies = frequencies.astype(np.float32)
        self.dims, self.cos_first = dims, cos_first
        self.scale = math.sqrt(2.0 / dims) if scale is None else float(scale)

    def forward(self, x: Any) -> ArrayOperand:  # noqa: ANN401  # an array of either world
        """Of positions."""
        turned = x.expand_dims(-1) * self.frequencies
        parts = (cos(turned), sin(turned)) if self.cos_first else (sin(turned), cos(turned))
        return concatenate(parts, -1) * self.scale

    def __repr__(self) -> str:
        return f"SinusoidalPositionalEncoding({self.dims})"
