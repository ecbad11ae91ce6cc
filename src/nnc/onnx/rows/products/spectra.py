"""Discrete Fourier transforms as products with cosines and sines; short-time ones; mel filters."""

from __future__ import annotations

import numpy as np

import onnx
from nnc import ops
from nnc.onnx.node import Array, NodeCall, OnnxNode, OnnxRow, Operand, Results
from nnc.onnx.rows.convolutions.products import along


def transform(call: NodeCall, x: Operand, axis: int, length: int, *, inverse: bool, one_sided: bool) -> Operand:
    """y = x · e^(∓2πi·k·n/N) along an axis; pairs (re, im), or re alone, on the last axis."""
    used, last = min(length, x.shape[axis]), x.spec.rank - 1
    x = ops.slice_axis(x, axis, 0, used)
    if inverse and one_sided:
        return _real(call, x, axis, length)
    results = length // 2 + 1 if one_sided else length
    angle = 2 * np.pi * np.outer(np.arange(used), np.arange(results)) / length
    scale = 1.0 / length if inverse else 1.0
    cosine, sine = np.cos(angle) * scale, np.sin(angle) * scale * (1.0 if inverse else -1.0)
    real = ops.slice_axis(x, last, 0, 1)
    cosines, sines = call.constant(cosine, x.spec), call.constant(sine, x.spec)
    parts = [along(real, axis, cosines), along(real, axis, sines)]
    if x.shape[last] == 2:
        imaginary = ops.slice_axis(x, last, 1, 2)
        parts[0] = parts[0] - along(imaginary, axis, sines)
        parts[1] = parts[1] + along(imaginary, axis, cosines)
    return ops.concatenate(parts, last)


def _real(call: NodeCall, x: Operand, axis: int, length: int) -> Operand:
    """The inverse of one side: the other is its conjugate, so each term but the first and the middle counts twice."""
    count, last = x.shape[axis], x.spec.rank - 1
    angle = 2 * np.pi * np.outer(np.arange(count), np.arange(length)) / length
    twice = np.where((np.arange(count) == 0) | (2 * np.arange(count) == length), 1.0, 2.0)[:, None] / length
    real, imaginary = (ops.slice_axis(x, last, place, place + 1) for place in (0, 1))
    cosines, sines = (call.constant(part * twice, x.spec) for part in (np.cos(angle), np.sin(angle)))
    return along(real, axis, cosines) - along(imaginary, axis, sines)


def _dft(call: NodeCall) -> Results:
    x = call[0]
    inverse, one_sided = bool(call.integer("inverse", 0)), bool(call.integer("onesided", 0))
    given = call.integers_at(1) if len(call) > 1 else None
    if call.node.opset < 20:
        axis = call.axis(call.integer("axis", 1), x.spec.rank)
    else:
        asked = call.integers_at(2) if len(call) > 2 else None
        axis = call.axis(asked[0] if asked else -2, x.spec.rank)
    natural = 2 * (x.shape[axis] - 1) if inverse and one_sided else x.shape[axis]
    return transform(call, x, axis, given[0] if given else natural, inverse=inverse, one_sided=one_sided)


def _stft(call: NodeCall) -> Results:
    """The transform of each frame of x[n, time, 1 or 2], times the window: [n, frames, frequencies, 2]."""
    x, window = call[0], call.maybe(2)
    (step,), given = call.integers_at(1) or (1,), call.integers_at(3)
    length = given[0] if given else window.shape[0] if window is not None else x.shape[1]
    starts = np.arange(0, x.shape[1] - length + 1, step)
    index = call.constant((starts[:, None] + np.arange(length)).astype(np.int64))
    frames = ops.index_select(x, index, 1)
    if window is not None:
        frames = frames * ops.reshape(window, (length, 1))
    return transform(call, frames, 2, length, inverse=False, one_sided=bool(call.integer("onesided", 1)))


def _mel(node: OnnxNode, bins: Array, length: Array, rate: Array, low: Array, high: Array) -> Array:
    """Triangles over frequencies, in steps of (high - low) / (bins + 2) mel from the lowest: [length / 2 + 1, bins]."""
    count, size = int(bins), int(length)
    first_mel, last_mel = (2595.0 * np.log10(1.0 + float(operand) / 700.0) for operand in (low, high))
    mels = first_mel + np.arange(count + 2) * (last_mel - first_mel) / (count + 2)
    edges = ((700.0 * (10.0 ** (mels / 2595.0) - 1.0)) * (size + 1) // float(rate)).astype(int)
    result = np.zeros((size // 2 + 1, count))
    for place in range(count):
        first, middle, end = edges[place : place + 3]
        rising = np.arange(first, middle + 1)
        result[rising, place] = (rising - first) / (middle - first) if middle > first else 1.0
        falling = np.arange(middle, end)
        if end > middle:
            result[falling, place] = (end - falling) / (end - middle)
    kind = node.attributes.get("output_datatype", onnx.TensorProto.FLOAT)
    return result.astype(onnx.helper.tensor_dtype_to_np_dtype(int(str(kind))))


ROWS = {
    "DFT": OnnxRow(_dft),
    "STFT": OnnxRow(_stft),
    "MelWeightMatrix": OnnxRow(None, _mel),
}
