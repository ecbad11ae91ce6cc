"""Rows of the conformance table for attention and rotary embedding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from tests.conformance.case import FLOATS, Argument, Array, Case, Generator, Values, labels, small, uniform

from nnc.core.values.dtype import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, DType
from nnc.core.values.spec import Shape, spec
from nnc.ops.sequence.attention import ATTENTION, ATTENTION_GRADIENT, CAUSAL_BIAS, AttentionAttrs, CausalBiasAttrs
from nnc.ops.sequence.cached_attention import CACHED_ATTENTION, CachedAttentionAttrs
from nnc.ops.sequence.rotary import ROTARY, ROTARY_ANGLES, RotaryAnglesAttrs, RotaryAttrs

# Element types of the operands, and of the row sums where they are not the same.
KINDS: tuple[tuple[tuple[DType, ...], DType | None], ...] = (((F64, F32), None), ((F16, BF16), F32))

# Shapes of q, k and v.
HEADS: tuple[tuple[Shape, Shape, Shape], ...] = (
    ((2, 3, 2, 4), (2, 5, 2, 4), (2, 5, 2, 4)),
    ((1, 4, 4, 3), (1, 4, 2, 3), (1, 4, 2, 5)),
    ((2, 3, 3, 2), (2, 2, 1, 2), (2, 2, 1, 2)),
    ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1)),
    ((0, 2, 1, 3), (0, 2, 1, 3), (0, 2, 1, 3)),
    ((1, 20, 2, 16), (1, 33, 1, 16), (1, 33, 1, 16)),
)


def hiding(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """0 or -inf, and one row that sees nothing."""
    values = np.where(generator.integers(0, 2, shape) > 0, 0.0, -np.inf)
    values[..., 0, :] = -np.inf
    return values


def seeing(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """True or False, and the first column True, so that every row sees something."""
    values = generator.integers(0, 2, shape)
    values[..., :1] = 1
    return values


def rows() -> Iterator[Case]:
    """Attention, then rotary embedding."""
    yield from _attentions()
    yield from _cached()
    yield from _rotaries()


def _attentions() -> Iterator[Case]:
    """Attention and its gradient: grouped heads, causal or not, with the kinds of masks.

    The gradient has its rows with every second pair of mask and causality, the other ones for the next heads: kernels
    of it take half a second each to compile.
    """
    for number, (q, k, v) in enumerate(HEADS):
        scores = (q[0], q[2], q[1], k[1])
        masks = (
            ("", None),
            ("bool", Argument(scores[2:], seeing, BOOL)),
            ("added", Argument(scores)),
            ("shared", Argument((scores[0], 1, 1, scores[3]))),
        )
        for place, (note, mask) in enumerate(masks):
            for causal in (False, True):
                attrs, note_ = AttentionAttrs(0.7, causal), "-".join(filter(None, (note, "causal" * causal)))
                yield _attention(attrs, (q, k, v), mask, note_)
                if (number + place + causal) % 2:
                    yield from _attention_gradients(attrs, (q, k, v), mask, note_)
    q, k, v = HEADS[0]
    hidden = Argument((2, 1, 3, 5), hiding)
    yield Case(ATTENTION, AttentionAttrs(0.5), (*map(Argument, (q, k, v)), hidden), note="hidden", smooth=False)
    for dtype in FLOATS:
        for shape in ((3, 5), (5, 3), (0, 2)):
            yield Case(CAUSAL_BIAS, CausalBiasAttrs(spec(shape, dtype)), (), (dtype,), f"{dtype}{list(shape)}")


def within(columns: int) -> Values:
    """Positions from before the first column to behind the last one."""
    return lambda generator, shape, earlier: generator.integers(-1, columns + 1, shape)


def stored(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Small integers."""
    return generator.integers(-127, 128, shape)


def bytes_of_two(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Any bytes."""
    return generator.integers(0, 256, shape)


def _cached() -> Iterator[Case]:
    """Over caches of each type, with windows and caps, of one part and of several."""
    shapes = (
        *HEADS[:3],
        ((1, 1, 6, 20), (1, 600, 2, 20), (1, 600, 2, 17)),
        ((2, 2, 2, 16), (2, 300, 1, 16), (2, 300, 1, 16)),
    )
    for q, k, v in shapes:
        places = Argument(q[:2], within(k[1]), I32)
        for attrs, note in (
            (CachedAttentionAttrs(0.7), ""),
            (CachedAttentionAttrs(0.7, window=3), "window"),
            (CachedAttentionAttrs(2.0, cap=1.5), "cap"),
        ):
            operands = tuple(map(Argument, (q, k, v)))
            yield Case(CACHED_ATTENTION, attrs, (*operands, places, None, None, None), (F64, F32), note, smooth=False)
        attrs = CachedAttentionAttrs(0.7)
        for held in (BF16, F16):
            operands = (Argument(q), Argument(k, uniform, held), Argument(v, uniform, held), places, None, None, None)
            yield Case(CACHED_ATTENTION, attrs, operands, (F32,), f"{held}", smooth=False)
        scales = (Argument(k[:3], small, F32),) * 2
        operands = (Argument(q), Argument(k, stored, I8), Argument(v, stored, I8), places, *scales, None)
        yield Case(CACHED_ATTENTION, attrs, operands, (F32,), "i8", smooth=False)
        if k[1] > 8:
            yield from _wrapped(operands, k[1])
        # Two numbers in a byte.
        halves = ((*each[:3], (each[3] + 1) // 2) for each in (k, v))
        even = (*q[:3], 2 * ((k[3] + 1) // 2))
        operands = (Argument(even), *(Argument(each, bytes_of_two, U8) for each in halves), places, *scales, None)
        for attrs, note in ((CachedAttentionAttrs(0.7), "u8"), (CachedAttentionAttrs(0.3, 3, 2.0), "u8-window-cap")):
            yield Case(CACHED_ATTENTION, attrs, operands, (F32,), note, smooth=False)
    yield from _paged()


def _paged() -> Iterator[Case]:
    """Columns in pages, some of several examples, some beyond what there is."""
    for q, k, pages in (((2, 1, 4, 16), (1, 600, 2, 16), 3), ((1, 2, 2, 18), (1, 257, 1, 18), 1)):
        places, starts = Argument(q[:2], within(256 * pages), I32), Argument((q[0], pages), within(k[1]), I32)
        for attrs, note in (
            (CachedAttentionAttrs(0.7), "pages"),
            (CachedAttentionAttrs(0.7, 9, 1.5, 5), "pages-sinks"),
        ):
            operands = (*map(Argument, (q, k, k)), places, None, None, starts)
            yield Case(CACHED_ATTENTION, attrs, operands, (F64, F32), note, smooth=False)
        scales, half = (Argument(k[:3], small, F32),) * 2, (*k[:3], k[3] // 2)
        for shape, values, held in ((k, uniform, BF16), (k, stored, I8), (half, bytes_of_two, U8)):
            both = (Argument(shape, values, held),) * 2
            operands = (Argument(q), *both, places, *((None, None) if held is BF16 else scales), starts)
            yield Case(CACHED_ATTENTION, CachedAttentionAttrs(0.7), operands, (F32,), f"pages-{held}", smooth=False)


def _wrapped(operands: tuple[Argument, ...], columns: int) -> Iterator[Case]:
    """Sinks beside a window, and columns that hold the latest positions."""
    q, k, v, places, *scales, _ = operands
    later = Argument(places.shape, within(3 * columns), I32)
    plain = (q, Argument(k.shape), Argument(v.shape))
    sinks = CachedAttentionAttrs(0.7, window=5, sinks=3)
    yield Case(CACHED_ATTENTION, sinks, (*plain, places, None, None, None), (F32,), "sinks", smooth=False)
    for attrs, note in (
        (CachedAttentionAttrs(0.7, window=7, wrapped=True), "wrapped"),
        (CachedAttentionAttrs(0.7, window=columns - 20, sinks=20, wrapped=True), "wrapped-sinks"),
    ):
        yield Case(CACHED_ATTENTION, attrs, (*plain, later, None, None, None), (F32,), note, smooth=False)
        yield Case(CACHED_ATTENTION, attrs, (q, k, v, later, *scales, None), (F32,), f"i8-{note}", smooth=False)


Heads = tuple[Shape, Shape, Shape]


def _attention(attrs: AttentionAttrs, shapes: Heads, mask: Argument | None, note: str) -> Case:
    q, k, _ = shapes
    # A row before the first column sees nothing: its lse is infinite.
    smooth = not attrs.causal or q[1] <= k[1]
    return Case(ATTENTION, attrs, (*map(Argument, shapes), mask), FLOATS, note, smooth)


def _attention_gradients(attrs: AttentionAttrs, shapes: Heads, mask: Argument | None, note: str) -> Iterator[Case]:
    q, _, v = shapes
    operands, y = tuple(map(Argument, shapes)), Argument((*q[:3], v[3]))
    for kinds, rows in KINDS:
        lse = Argument((q[0], q[2], q[1]), uniform, rows)
        yield Case(ATTENTION_GRADIENT, attrs, (y, *operands, y, lse, mask), kinds, note)


def _rotaries() -> Iterator[Case]:
    """Both ways to pair features, both senses, angles with and without a batch."""
    for interleaved in (False, True):
        for inverse in (False, True):
            attrs = RotaryAttrs(interleaved, inverse)
            note = "-".join(filter(None, ("interleaved" * interleaved, "inverse" * inverse)))
            for x, angles in (
                ((2, 3, 2, 4), (3, 2)),
                ((2, 3, 1, 7), (2, 3, 2)),
                ((1, 1, 1, 2), (1, 1)),
                ((0, 3, 2, 4), (3, 2)),
                ((2, 2, 2, 6), (2, 3)),
            ):
                yield Case(ROTARY, attrs, (Argument(x), Argument(angles)), FLOATS, note)
    for shape in ((5,), (2, 3), ()):
        for dtype in FLOATS:
            attrs_of = RotaryAnglesAttrs(3, 100.0, dtype)
            yield Case(ROTARY_ANGLES, attrs_of, (Argument(shape, labels(9)),), (I64, I32, F32), f"{dtype}")
