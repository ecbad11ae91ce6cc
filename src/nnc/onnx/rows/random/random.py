"""Random numbers. Each node has numbers of its own, by its `seed` or its name: the same in each run."""

from __future__ import annotations

import struct
from dataclasses import replace
from zlib import crc32

import numpy as np

from nnc import ops
from nnc.core.values.dtype import F32, DType
from nnc.core.values.spec import TensorSpec
from nnc.onnx.file import dtype_named
from nnc.onnx.node import NodeCall, OnnxRow, Operand, Results


def _counter(call: NodeCall) -> tuple[Operand, int]:
    """What our generators count by, and the seed."""
    number = struct.pack("<f", call.real("seed")) if call.has("seed") else call.node.label.encode()
    return ops.reshape(call.constant(np.zeros(1, np.int64)), ()), crc32(number)


def _kind(call: NodeCall, like: DType) -> DType:
    return dtype_named(call.integer("dtype"), call.node.label) if call.has("dtype") else like


def uniform(call: NodeCall, spec: TensorSpec, low: float = 0.0, high: float = 1.0) -> Operand:
    """Numbers in [low, high) of this shape, by the node's seed."""
    counter, seed = _counter(call)
    return ops.random_uniform(counter, replace(spec, dtype=F32), low, high, seed=seed)


def _drawn(call: NodeCall, spec: TensorSpec, *, normal: bool) -> Results:
    if not normal:
        return ops.cast(uniform(call, spec, call.real("low", 0.0), call.real("high", 1.0)), spec.dtype)
    counter, seed = _counter(call)
    mean, scale = call.real("mean", 0.0), call.real("scale", 1.0)
    return ops.cast(ops.random_normal(counter, replace(spec, dtype=F32), mean, scale, seed=seed), spec.dtype)


def _by_shape(*, normal: bool) -> OnnxRow:
    return OnnxRow(lambda call: _drawn(call, TensorSpec(call.integers("shape"), _kind(call, F32)), normal=normal))


def _like(*, normal: bool) -> OnnxRow:
    def build(call: NodeCall) -> Results:
        x = call[0].spec
        return _drawn(call, TensorSpec(x.shape, _kind(call, x.dtype)), normal=normal)

    return OnnxRow(build)


def _bernoulli(call: NodeCall) -> Results:
    """1 with the probability x"""
    x = call[0]
    drawn = uniform(call, x.spec) < ops.cast(x, F32)
    return ops.cast(drawn, _kind(call, x.spec.dtype))


def _dropout(call: NodeCall) -> Results:
    """As in prediction the data itself and a mask of ones; in training mode x / (1 - rate) where the mask is true."""
    x = call[0]
    training = call.static(2) if len(call) > 2 else None
    given = call.static(1) if len(call) > 1 and training is not None else None
    rate = 0.5 if given is None else float(given.reshape(-1)[0])
    if training is None or not training.any() or rate == 0.0:
        return (x, ops.equal(x, x)) if call.wants(1) else x
    mask = uniform(call, x.spec) >= rate
    scale = 0.0 if rate >= 1.0 else 1.0 / (1.0 - rate)
    return ops.where(mask, x * scale, ops.fill_like(x, 0.0)), mask


ROWS = {
    "RandomUniform": _by_shape(normal=False),
    "RandomNormal": _by_shape(normal=True),
    "RandomUniformLike": _like(normal=False),
    "RandomNormalLike": _like(normal=True),
    "Bernoulli": OnnxRow(_bernoulli),
    "Dropout": OnnxRow(_dropout),
}
