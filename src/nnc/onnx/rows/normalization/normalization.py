"""Normalization: batch, layer, instance, group, RMS, local response, Lp."""

from __future__ import annotations

from functools import reduce

from nnc import ops
from nnc.onnx.node import NodeCall, OnnxRow, Operand, Results
from nnc.onnx.rows.convolutions.window import channels_first, channels_last


def _per_channel(value: Operand, x: Operand) -> Operand:
    """[c] as [1, c, 1…]"""
    return ops.reshape(value, (1, value.spec.elements, *(1,) * (x.spec.rank - 2)))


def _batch_norm(call: NodeCall) -> Results:
    x, scale, bias, mean, variance = (call[position] for position in range(5))
    epsilon, training = call.real("epsilon", 1e-5), bool(call.integer("training_mode", 0))
    if not training:
        if x.spec.rank >= 3 and len({operand.spec.dtype.name for operand in (x, scale, bias, mean, variance)}) == 1:
            y = ops.batch_norm_inference(channels_last(x), scale, bias, mean, variance, epsilon=epsilon)
            return channels_first(y)
        wide = [ops.cast(operand, x.spec.dtype) for operand in (scale, bias, mean, variance)]
        s, b, m, v = (_per_channel(operand, x) if x.spec.rank > 2 else operand for operand in wide)
        return (x - m) / ops.sqrt(v + epsilon) * s + b
    axes = (0, *range(2, x.spec.rank))
    m = ops.reduce_mean(x, axes, keepdims=True)
    v = ops.reduce_mean(ops.square(x - m), axes, keepdims=True)
    y = (x - m) / ops.sqrt(v + epsilon) * _per_channel(scale, x) + _per_channel(bias, x)
    keep = call.real("momentum", 0.9)
    running = [old * keep + ops.reshape(new, old.shape) * (1.0 - keep) for old, new in ((mean, m), (variance, v))]
    return (y, *running)


def _layer_norm(call: NodeCall) -> Results:
    """Over all axes from `axis` on, in f32 for narrow types; the mean and 1 / deviation are outputs too."""
    x, scale, bias = call[0], call[1], call.maybe(2)
    axis = call.axis(call.integer("axis", -1), x.spec.rank)
    axes = tuple(range(axis, x.spec.rank))
    epsilon = call.real("epsilon", 1e-5)
    if (
        not (call.wants(1) or call.wants(2))
        and scale.shape == x.shape[axis:]
        and (bias is None or bias.shape == scale.shape)
    ) and bias is not None:
        return ops.layer_norm(x, scale, bias, axes=axes, epsilon=epsilon)
    mean = ops.reduce_mean(x, axes, keepdims=True)
    spread = x - mean
    inverse = ops.reciprocal(ops.sqrt(ops.reduce_mean(ops.square(spread), axes, keepdims=True) + epsilon))
    y = spread * inverse * scale
    return (y if bias is None else y + bias, mean, inverse)


def rms_norm(call: NodeCall) -> Results:
    """Over all axes from `axis` on."""
    x, scale = call[0], call[1]
    axis = call.axis(call.integer("axis", -1), x.spec.rank)
    axes = tuple(range(axis, x.spec.rank))
    if scale.shape == x.shape[axis:]:
        return ops.rms_norm(x, scale, axes=axes, epsilon=call.real("epsilon", 1e-5))
    mean = ops.reduce_mean(ops.square(x), axes, keepdims=True)
    return x / ops.sqrt(mean + call.real("epsilon", 1e-5)) * scale


def _spread(x: Operand, axes: tuple[int, ...], epsilon: float) -> Operand:
    centred = x - ops.reduce_mean(x, axes, keepdims=True)
    return centred / ops.sqrt(ops.reduce_mean(ops.square(centred), axes, keepdims=True) + epsilon)


def _instance_norm(call: NodeCall) -> Results:
    x = call[0]
    y = _spread(x, tuple(range(2, x.spec.rank)), call.real("epsilon", 1e-5))
    return y * _per_channel(call[1], x) + _per_channel(call[2], x)


def _group_norm(call: NodeCall) -> Results:
    x, groups = call[0], call.integer("num_groups")
    parts = ops.reshape(x, (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    y = _spread(parts, tuple(range(2, parts.spec.rank)), call.real("epsilon", 1e-5))
    if call.node.opset < 21:
        shape = (1, groups, *(1,) * (parts.spec.rank - 2))
        return ops.reshape(y * ops.reshape(call[1], shape) + ops.reshape(call[2], shape), x.shape)
    return ops.reshape(y, x.shape) * _per_channel(call[1], x) + _per_channel(call[2], x)


def _lrn(call: NodeCall) -> Results:
    """y = x / (bias + alpha / size · sum of squares over `size` neighbouring channels)^beta"""
    x, size = channels_last(call[0]), call.integer("size")
    axis, channels = x.spec.rank - 1, x.shape[-1]
    low, high = (min(operand, channels) for operand in ((size - 1) // 2, size // 2))
    padded = ops.pad(x, (*(0,) * axis, low), (*(0,) * axis, high))
    neighbours = [ops.slice_axis(padded, axis, start, start + channels) for start in range(low + high + 1)]
    scale = reduce(ops.add, map(ops.square, neighbours)) * (call.real("alpha", 1e-4) / size) + call.real("bias", 1.0)
    return channels_first(x / _power(scale, call.real("beta", 0.75)))


def _power(x: Operand, exponent: float) -> Operand:
    """x^exponent of x > 0, by square roots where a quarter divides the exponent: a tenth of the time of a power."""
    quarters = 4 * exponent
    if quarters not in range(1, 8):
        return x**exponent
    root = ops.sqrt(x)
    factors = {1: ops.sqrt(root), 2: root, 4: x}
    return reduce(ops.multiply, [factor for bit, factor in factors.items() if int(quarters) & bit])


def _lp_norm(call: NodeCall) -> Results:
    x, axis = call[0], (call.axis(call.integer("axis", -1), call[0].spec.rank),)
    if call.integer("p", 2) == 1:
        norm = ops.reduce_sum(abs(x), axis, keepdims=True)
    else:
        norm = ops.sqrt(ops.reduce_sum(ops.square(x), axis, keepdims=True))
    zero = ops.fill_like(norm, 0.0)
    safe = ops.where(ops.equal(norm, zero), ops.fill_like(norm, 1.0), norm)
    return x / safe


ROWS = {
    "BatchNormalization": OnnxRow(_batch_norm),
    "LayerNormalization": OnnxRow(_layer_norm),
    "RMSNormalization": OnnxRow(rms_norm),
    "InstanceNormalization": OnnxRow(_instance_norm),
    "GroupNormalization": OnnxRow(_group_norm),
    "LRN": OnnxRow(_lrn),
    "LpNormalization": OnnxRow(_lp_norm),
}
