"""Weights in blocks of a few bits, as GGUF files hold them: integers of one block share scales and minima.

    x[i] = d · q[i]                        q4_0 q5_0 q8_0: 32 elements, one f16 scale
    x[i] = d · q[i] + m                    q4_1 q5_1:      32 elements, an f16 scale and an f16 minimum
    x[i] = d · s[g] · q[i]                 q3_k q6_k:      256 elements, groups g of 16, integer scales s
    x[i] = d · s[g] · q[i] - e · m[g]      q2_k q4_k q5_k: 256 elements, groups g of 16 or 32, integer scales and minima

A row of n elements is n / size blocks, one behind the other; a matrix of such rows is a u8 array [..., row bytes].
`dequantize` computes in f32, each product and sum rounded, and is exact but for that rounding: d · s · q has at most
24 bits except in q6_k. `quantize` writes what ggml's reference writes for q4_0, q4_1, q5_0, q5_1 and q8_0, and
searches scales as it does for the others (`block_scales`); with `importance`, weights of the squared error per element,
all but q8_0 search.

Layouts: ggml/src/ggml-common.h, in words. Bits of fields lie in planes: byte j of a run has in its lowest bits the
field j, in the next bits the field j + run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.values.block_scales import Floats, extreme, inverse, quotient, scales_and_minima, signed_scales
from nnc.errors import DataError, DTypeError, ShapeError, UnknownNameError

Bytes = NDArray[np.uint8]
# Elements that are computed with at a time: temporaries stay small beside a matrix of weights.
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """`size` elements in `bytes` bytes."""

    name: str
    size: int
    bytes: int

    def row_bytes(self, elements: int) -> int:
        """Bytes of a row; ShapeError where blocks do not fill it."""
        if elements % self.size:
            need = f"a multiple of {self.size}, a block"
            raise ShapeError(self.name, got=f"rows of {elements} elements", need=need, fix="take a format of 32")
        return elements // self.size * self.bytes

    def row_elements(self, row_bytes: int) -> int:
        """Elements of a row of bytes; ShapeError where these are no whole blocks."""
        if row_bytes % self.bytes:
            raise ShapeError(self.name, got=f"rows of {row_bytes} bytes", need=f"a multiple of {self.bytes}, a block")
        return row_bytes // self.bytes * self.size


def _fields(*fields: tuple[str, str] | tuple[str, str, int]) -> np.dtype[np.void]:
    return np.dtype(list(fields))


_QUARTER = _fields(("d", "<f2"), ("q", "u1", 16))
_QUARTER_MINIMUM = _fields(("d", "<f2"), ("m", "<f2"), ("q", "u1", 16))
_FIVE = _fields(("d", "<f2"), ("high", "u1", 4), ("q", "u1", 16))
_FIVE_MINIMUM = _fields(("d", "<f2"), ("m", "<f2"), ("high", "u1", 4), ("q", "u1", 16))
_BYTE = _fields(("d", "<f2"), ("q", "i1", 32))
_K2 = _fields(("scales", "u1", 16), ("q", "u1", 64), ("d", "<f2"), ("e", "<f2"))
_K3 = _fields(("high", "u1", 32), ("q", "u1", 64), ("scales", "u1", 12), ("d", "<f2"))
_K4 = _fields(("d", "<f2"), ("e", "<f2"), ("scales", "u1", 12), ("q", "u1", 128))
_K5 = _fields(("d", "<f2"), ("e", "<f2"), ("scales", "u1", 12), ("high", "u1", 32), ("q", "u1", 128))
_K6 = _fields(("q", "u1", 128), ("high", "u1", 64), ("scales", "i1", 16), ("d", "<f2"))

Records = NDArray[np.void]


def _unpacked(packed: Bytes, run: int, bits: int) -> Bytes:
    """[b, groups · run] as [b, groups · planes · run]: the fields of `bits` bits of each byte."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    planes = packed.reshape(len(packed), -1, 1, run) >> shifts
    return (planes & np.uint8((1 << bits) - 1)).reshape(len(packed), -1)


def _packed(fields: NDArray[np.generic], run: int, bits: int) -> Bytes:
    """The inverse of `_unpacked`; only the lowest bits of fields are taken."""
    planes = fields.astype(np.uint8).reshape(len(fields), -1, 8 // bits, run) & np.uint8((1 << bits) - 1)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    packed: Bytes = np.bitwise_or.reduce(planes << shifts, 2).reshape(len(fields), -1)
    return packed


def _wide(x: NDArray[np.generic]) -> Floats:
    """A field as f32, [b, 1]."""
    return x.astype(np.float32).reshape(len(x), -1)


def _in_groups(x: NDArray[np.generic], groups: int) -> Floats:
    return x.astype(np.float32).reshape(len(x), groups, -1)


def _read_quarter(b: Records) -> Floats:
    return _wide(b["d"]) * (_wide(_unpacked(b["q"], 16, 4)) - 8)


def _read_quarter_minimum(b: Records) -> Floats:
    return _wide(b["d"]) * _wide(_unpacked(b["q"], 16, 4)) + _wide(b["m"])


def _five(b: Records) -> Floats:
    return _wide(_unpacked(b["q"], 16, 4) | _unpacked(b["high"], 1, 1) << 4)


def _read_five(b: Records) -> Floats:
    return _wide(b["d"]) * (_five(b) - 16)


def _read_five_minimum(b: Records) -> Floats:
    return _wide(b["d"]) * _five(b) + _wide(b["m"])


def _read_byte(b: Records) -> Floats:
    return _wide(b["d"]) * _wide(b["q"])


def _scaled(d: NDArray[np.generic], scales: NDArray[np.generic], q: NDArray[np.generic]) -> Floats:
    """d · s[g] · q as [b, groups, elements]."""
    factor = _wide(d) * _wide(scales)
    return factor[:, :, None] * _in_groups(q, factor.shape[1])


def _read_k2(b: Records) -> Floats:
    minima = _wide(b["e"]) * _wide(b["scales"] >> 4)
    return _scaled(b["d"], b["scales"] & 15, _unpacked(b["q"], 32, 2)) - minima[:, :, None]


def _read_k3(b: Records) -> Floats:
    low, high = _unpacked(b["scales"][:, :8], 8, 4), _unpacked(b["scales"][:, 8:], 4, 2)
    scales = (low | high << 4).astype(np.int8) - np.int8(32)
    q = (_unpacked(b["q"], 32, 2) | _unpacked(b["high"], 32, 1) << 2).astype(np.int8) - np.int8(4)
    return _scaled(b["d"], scales, q)


def _six_bits(scales: Bytes) -> tuple[Bytes, Bytes]:
    """Eight scales and eight minima of six bits from twelve bytes."""
    first, second, third = scales[:, :4], scales[:, 4:8], scales[:, 8:]
    s = np.concatenate([first & 63, (third & 15) | (first >> 2 & 0x30)], 1)
    return s, np.concatenate([second & 63, third >> 4 | (second >> 2 & 0x30)], 1)


def _read_k4(b: Records) -> Floats:
    s, m = _six_bits(b["scales"])
    return _scaled(b["d"], s, _unpacked(b["q"], 32, 4)) - (_wide(b["e"]) * _wide(m))[:, :, None]


def _read_k5(b: Records) -> Floats:
    s, m = _six_bits(b["scales"])
    q = _unpacked(b["q"], 32, 4) | _unpacked(b["high"], 32, 1) << 4
    return _scaled(b["d"], s, q) - (_wide(b["e"]) * _wide(m))[:, :, None]


def _read_k6(b: Records) -> Floats:
    q = (_unpacked(b["q"], 64, 4) | _unpacked(b["high"], 32, 2) << 4).astype(np.int8) - np.int8(32)
    return _scaled(b["d"], b["scales"], q)


def _rounded_down(x: Floats, factor: Floats, offset: float, limit: int) -> NDArray[np.uint8]:
    """trunc(x · factor + offset), in f64 as the product of two f32 is exact there."""
    y = np.trunc(x.astype(np.float64) * factor.astype(np.float64) + offset)
    return np.clip(y, 0, limit).astype(np.uint8)


def _signed(x: Floats, weights: Floats | None, limit: int) -> tuple[Floats, NDArray[np.uint8]]:
    """(d, q + limit): without weights the extreme element becomes -limit."""
    if weights is None:
        d = extreme(x) / np.float32(-limit)
        return d, _rounded_down(x, inverse(d), limit + 0.5, 2 * limit - 1)
    d = signed_scales(x, weights, limit)
    q = np.rint(quotient(x, d.astype(np.float16).astype(np.float32)))
    return d, (np.clip(q, -limit, limit - 1) + limit).astype(np.uint8)


def _above_minimum(x: Floats, weights: Floats | None, limit: int) -> tuple[Floats, Floats, NDArray[np.uint8]]:
    """(d, m, q): without weights m is the least element, and the largest becomes the limit."""
    if weights is None:
        least = x.min(-1, keepdims=True)
        d = (x.max(-1, keepdims=True) - least) / np.float32(limit)
        return d, least, np.clip(np.trunc((x - least) * inverse(d) + np.float32(0.5)), 0, limit).astype(np.uint8)
    d, minimum = scales_and_minima(x, weights, limit, -0.9, 18)
    wide = d.astype(np.float16).astype(np.float32)
    q = np.rint(quotient(x + minimum.astype(np.float16).astype(np.float32), wide))
    return d, -minimum, np.clip(q, 0, limit).astype(np.uint8)


def _write_quarter(b: Records, x: Floats, weights: Floats | None) -> None:
    d, q = _signed(x, weights, 8)
    b["d"], b["q"] = d[:, 0], _packed(q, 16, 4)


def _write_quarter_minimum(b: Records, x: Floats, weights: Floats | None) -> None:
    d, m, q = _above_minimum(x, weights, 15)
    b["d"], b["m"], b["q"] = d[:, 0], m[:, 0], _packed(q, 16, 4)


def _write_five(b: Records, x: Floats, weights: Floats | None) -> None:
    d, q = _signed(x, weights, 16)
    b["d"], b["q"], b["high"] = d[:, 0], _packed(q, 16, 4), _packed(q >> 4, 1, 1)


def _write_five_minimum(b: Records, x: Floats, weights: Floats | None) -> None:
    d, m, q = _above_minimum(x, weights, 31)
    b["d"], b["m"], b["q"], b["high"] = d[:, 0], m[:, 0], _packed(q, 16, 4), _packed(q >> 4, 1, 1)


def _write_byte(b: Records, x: Floats, weights: Floats | None) -> None:
    """Rounds halves away from zero; with eight bits no importance moves the scale."""
    d = np.abs(x).max(-1, keepdims=True) / np.float32(127)
    scaled = x * inverse(d)
    b["d"], b["q"] = d[:, 0], np.trunc(scaled + np.copysign(np.float32(0.5), scaled)).astype(np.int8)


def _group_weights(x: Floats, weights: Floats | None, groups: int) -> Floats:
    """Large elements count more: root mean square + |x|; importance · root(mean square + x²) where it is given."""
    parts = x.reshape(-1, x.shape[1] // groups)
    mean: Floats = np.square(parts).mean(-1, keepdims=True)
    norm: Floats = np.sqrt(mean) + np.abs(parts)
    return norm if weights is None else weights.reshape(parts.shape) * np.sqrt(mean + np.square(parts))


def _with_minima(
    b: Records, x: Floats, weights: Floats | None, groups: int, limits: tuple[int, int], search: tuple[float, int]
) -> tuple[Bytes, Bytes, Bytes]:
    """(s, m, q) of groups, and d and e into the records; limits are those of q and of s and m."""
    limit, most = limits
    parts = x.reshape(len(x) * groups, -1)
    searched = scales_and_minima(parts, _group_weights(x, weights, groups), limit, *search)
    wholes, factors = [], []
    for name, values in zip("de", searched, strict=True):
        table = values.reshape(len(x), groups)
        largest = np.maximum(table.max(1, keepdims=True), 0)
        whole = np.clip(np.rint(np.float32(most) * inverse(largest) * table), 0, most)
        b[name] = (largest / np.float32(most))[:, 0]
        wholes.append(whole.astype(np.uint8))
        factors.append((_wide(b[name]) * whole).reshape(-1, 1))
    q = np.clip(np.rint(quotient(parts + factors[1], factors[0])), 0, limit).astype(np.uint8)
    return wholes[0], wholes[1], q.reshape(len(x), -1)


def _without_minima(
    b: Records, x: Floats, weights: Floats | None, limit: int, most: int
) -> tuple[NDArray[np.int8], Bytes]:
    """(s, q + limit) of sixteen groups, and d into the records; s in -most … most - 1."""
    parts = x.reshape(len(x) * 16, -1)
    importance = np.square(parts) if weights is None else _group_weights(x, weights, 16)
    table = signed_scales(parts, importance, limit).reshape(len(x), 16)
    d = extreme(table) / np.float32(-most)
    whole = np.clip(np.rint(inverse(d) * table), -most, most - 1)
    b["d"] = d[:, 0]
    factors = (_wide(b["d"]) * whole).reshape(-1, 1)
    q = np.clip(np.rint(quotient(parts, factors)), -limit, limit - 1) + limit
    return whole.astype(np.int8), q.astype(np.uint8).reshape(len(x), -1)


def _in_six_bits(s: Bytes, m: Bytes) -> Bytes:
    """The inverse of `_six_bits`."""
    first, second = s[:, :4] | (s[:, 4:] >> 4) << 6, m[:, :4] | (m[:, 4:] >> 4) << 6
    return np.concatenate([first, second, (s[:, 4:] & 15) | m[:, 4:] << 4], 1)


def _write_k2(b: Records, x: Floats, weights: Floats | None) -> None:
    s, m, q = _with_minima(b, x, weights, 16, (3, 15), (-0.5, 15))
    b["scales"], b["q"] = s | m << 4, _packed(q, 32, 2)


def _write_k3(b: Records, x: Floats, weights: Floats | None) -> None:
    s, q = _without_minima(b, x, weights, 4, 32)
    raised = (s + 32).astype(np.uint8)
    b["scales"] = np.concatenate([_packed(raised, 8, 4), _packed(raised >> 4, 4, 2)], 1)
    b["q"], b["high"] = _packed(q, 32, 2), _packed(q >> 2, 32, 1)


def _write_k4(b: Records, x: Floats, weights: Floats | None) -> None:
    s, m, q = _with_minima(b, x, weights, 8, (15, 63), (-1.0, 20))
    b["scales"], b["q"] = _in_six_bits(s, m), _packed(q, 32, 4)


def _write_k5(b: Records, x: Floats, weights: Floats | None) -> None:
    s, m, q = _with_minima(b, x, weights, 8, (31, 63), (-0.5, 15))
    b["scales"], b["q"], b["high"] = _in_six_bits(s, m), _packed(q, 32, 4), _packed(q >> 4, 32, 1)


def _write_k6(b: Records, x: Floats, weights: Floats | None) -> None:
    s, q = _without_minima(b, x, weights, 32, 128)
    b["scales"], b["q"], b["high"] = s, _packed(q, 64, 4), _packed(q >> 4, 32, 2)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The fields of a block; elements of blocks; blocks of elements and their weights."""

    size: int
    fields: np.dtype[np.void]
    read: Callable[[Records], Floats]
    write: Callable[[Records, Floats, Floats | None], None]


_LAYOUTS = {
    "q8_0": _Layout(32, _BYTE, _read_byte, _write_byte),
    "q4_0": _Layout(32, _QUARTER, _read_quarter, _write_quarter),
    "q4_1": _Layout(32, _QUARTER_MINIMUM, _read_quarter_minimum, _write_quarter_minimum),
    "q5_0": _Layout(32, _FIVE, _read_five, _write_five),
    "q5_1": _Layout(32, _FIVE_MINIMUM, _read_five_minimum, _write_five_minimum),
    "q2_k": _Layout(256, _K2, _read_k2, _write_k2),
    "q3_k": _Layout(256, _K3, _read_k3, _write_k3),
    "q4_k": _Layout(256, _K4, _read_k4, _write_k4),
    "q5_k": _Layout(256, _K5, _read_k5, _write_k5),
    "q6_k": _Layout(256, _K6, _read_k6, _write_k6),
}
FORMATS: Mapping[str, BlockFormat] = MappingProxyType(
    {name: BlockFormat(name, layout.size, layout.fields.itemsize) for name, layout in _LAYOUTS.items()}
)


def format_of(format: BlockFormat | str) -> BlockFormat:
    """The format of a name; UnknownNameError for others."""
    name = format if isinstance(format, str) else format.name
    if name not in FORMATS:
        raise UnknownNameError("block format", got=name, need="one of " + " ".join(FORMATS))
    return FORMATS[name]


def dequantize(rows: NDArray[np.generic], format: BlockFormat | str) -> Floats:
    """u8 [..., row bytes] as f32 [..., n].

    >>> rows = quantize(np.array([[0.0, 1.0, -8.0, 3.5] * 8], np.float32), "q4_0")
    >>> rows.shape, dequantize(rows, "q4_0")[0, :4].tolist()
    ((1, 18), [0.0, 1.0, -8.0, 4.0])
    """
    form = format_of(format)
    layout = _LAYOUTS[form.name]
    if rows.dtype != np.uint8 or not rows.ndim:
        raise DTypeError(form.name, got=f"{rows.dtype}{list(rows.shape)}", need="u8 [..., row bytes]")
    y = np.empty((*rows.shape[:-1], form.row_elements(rows.shape[-1])), np.float32)
    blocks = np.ascontiguousarray(rows).reshape(-1).view(layout.fields)
    out, step = y.reshape(-1, layout.size), _CHUNK // layout.size
    # Scales that are no numbers stay what they are.
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, len(blocks), step):
            part = layout.read(blocks[start : start + step])
            out[start : start + step] = part.reshape(-1, layout.size)
    return y


def quantize(
    values: NDArray[np.generic], format: BlockFormat | str, importance: NDArray[np.generic] | None = None
) -> Bytes:
    """Real numbers [..., n] as u8 [..., row bytes]; `importance`, [n] or of values' shape, weights squared errors."""
    form = format_of(format)
    layout = _LAYOUTS[form.name]
    if not values.ndim:
        raise ShapeError(form.name, got="a scalar", need="values [..., n]")
    rows = np.empty((*values.shape[:-1], form.row_bytes(values.shape[-1])), np.uint8)
    x = np.ascontiguousarray(values, np.float32).reshape(-1, layout.size)
    weights = None
    if importance is not None:
        weights = np.broadcast_to(np.asarray(importance, np.float32), values.shape).reshape(-1, layout.size)
    blocks, step = rows.reshape(-1).view(layout.fields), _CHUNK // layout.size
    for start in range(0, len(blocks), step):
        part = slice(start, start + step)
        _write(form, blocks[part], x[part], None if weights is None else weights[part])
    return rows


def _write(form: BlockFormat, blocks: Records, x: Floats, weights: Floats | None) -> None:
    """DataError where scales are beyond f16, and for numbers that are not finite."""
    try:
        with np.errstate(over="raise", invalid="raise"):
            if np.isfinite(x).all():
                return _LAYOUTS[form.name].write(blocks, x, weights)
    except FloatingPointError:
        pass
    raise DataError(form.name, got="numbers whose scales are not finite in f16", need="finite weights below 65504")
