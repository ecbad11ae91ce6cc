"""The U-Net of denoising diffusion (Ho et al. 2020): a picture and the step of its noise to the noise in it."""

from __future__ import annotations

import math
from collections.abc import Callable

from nnc.classes import dataclass
from nnc.nn.layers import Convolution, Dense, Dropout, GroupNorm, SiLU, Upsample
from nnc.nn.layers.layer import Layer, MultiLayer, Scope, T
from nnc.ops import add, affine, broadcast_to, concatenate, cos, exp, multiply, reshape, sin
from nnc.ops import scaled_dot_product_attention as attention
from nnc.ops.movement.generate import arange_like

EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class DiffusionUNet(MultiLayer):
    """x[batch, height, width, channels], t[batch, 1] to noise of the shape of x; `factors` · `width` channels a level.

    Each level has `blocks` residual blocks down and one more up; levels of the size `attended` look at all places.
    """

    width: int = 128
    factors: tuple[int, ...] = (1, 2, 2, 2)
    blocks: int = 2
    attended: int = 16
    groups: int = 32
    dropout: float = 0.0

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to pictures and steps."""
        x, t = inputs
        time = Dense(4 * self.width).build(scope.inside("time0"), _frequencies(t, self.width))
        time = Dense(4 * self.width).build(scope.inside("time1"), SiLU().build(scope, time))
        block = self._blocks(scope, SiLU().build(scope, time))
        y = Convolution(self.width).build(scope.inside("stem"), x)
        skips = [y]
        for level, factor in enumerate(self.factors):
            for number in range(self.blocks):
                y = block(f"down{level}_{number}", y, factor * self.width, False)
                skips.append(y)
            if level + 1 < len(self.factors):
                y = Convolution(y.shape[-1], 3, 2, 1).build(scope.inside(f"halve{level}"), y)
                skips.append(y)
        y = block("middle0", y, y.shape[-1], True)
        y = block("middle1", y, y.shape[-1], None)
        for level, factor in reversed(list(enumerate(self.factors))):
            for number in range(self.blocks + 1):
                y = concatenate([y, skips.pop()], 3)
                y = block(f"up{level}_{number}", y, factor * self.width, False)
            if level:
                y = Convolution(y.shape[-1]).build(scope.inside(f"double{level}"), Upsample().build(scope, y))
        y = SiLU().build(scope, GroupNorm(self.groups, epsilon=EPSILON).build(scope.inside("norm"), y))
        return (Convolution(x.shape[-1]).build(scope.inside("noise"), y),)

    def _blocks(self, scope: Scope[T], time: T) -> Callable[[str, T, int, bool | None], T]:
        def block(name: str, y: T, channels: int, attend: bool | None) -> T:
            """A residual block; attention behind it if asked for, or by the size unless it is None."""
            inside = scope.inside(name)
            y = self._residual(inside, y, time, channels)
            if attend or (attend is not None and y.shape[1] == self.attended):
                return _Attention(self.groups).build(inside.inside("attention"), y)
            return y

        return block

    def _residual(self, scope: Scope[T], x: T, time: T, channels: int) -> T:
        y = SiLU().build(scope, GroupNorm(self.groups, epsilon=EPSILON).build(scope.inside("norm1"), x))
        y = Convolution(channels).build(scope.inside("convolution1"), y)
        shift = Dense(channels).build(scope.inside("time"), time)
        y = add(y, broadcast_to(reshape(shift, (x.shape[0], 1, 1, channels)), y.shape))
        y = SiLU().build(scope, GroupNorm(self.groups, epsilon=EPSILON).build(scope.inside("norm2"), y))
        y = Dropout(self.dropout).build(scope.inside("dropout"), y)
        y = Convolution(channels).build(scope.inside("convolution2"), y)
        return add(y, x if x.shape[-1] == channels else Dense(channels).build(scope.inside("shortcut"), x))


@dataclass(frozen=True, slots=True)
class _Attention(Layer):
    """x + output(attention over all places of norm(x)), with one head."""

    groups: int

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, height, width, channels]."""
        channels = x.shape[-1]
        y = GroupNorm(self.groups, epsilon=EPSILON).build(scope.inside("norm"), x)
        places = (x.shape[0], x.shape[1] * x.shape[2], 1, channels)
        q, k, v = (reshape(Dense(channels).build(scope.inside(name), y), places) for name in ("query", "key", "value"))
        return add(x, Dense(channels).build(scope.inside("output"), reshape(attention(q, k, v), x.shape)))


def _frequencies(t: T, width: int) -> T:
    """[sin(t · f), cos(t · f)], f = 10000^(-k / (width / 2 - 1)), [batch, width]."""
    half = width // 2
    rates = exp(affine(arange_like(t, half), -math.log(10_000.0) / (half - 1)))
    shape = (t.shape[0], half)
    angles = multiply(broadcast_to(t, shape), broadcast_to(reshape(rates, (1, half)), shape))
    return concatenate([sin(angles), cos(angles)], 1)
