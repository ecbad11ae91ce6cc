"""Resize: y = m_0 · x · m_1 …, a matrix of weights per axis; a choice of elements where each has one weight of 1."""

from __future__ import annotations

import math

import numpy as np

from nnc import ops
from nnc.classes import dataclass
from nnc.core.values.dtype import F32
from nnc.core.values.sizes import size_of
from nnc.core.values.spec import Shape
from nnc.errors import AttributeValueError, BackendError
from nnc.onnx.node import Array, NodeCall, OnnxRow, Operand, Results
from nnc.onnx.rows.convolutions.products import along

# Elements of the table that a Resize is, per axis.
MOST_WEIGHTS = 1 << 27
# Weights that are worked out at once.
PART = 1 << 16
# Integers up to here are numbers of f32 too.
EXACT_F32 = 1 << 24


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a node says of where elements of the result lie in x, and which elements around them count."""

    label: str
    mode: str
    coordinates: str
    nearest: str
    cubic: float
    antialias: bool
    exclude_outside: bool

    @classmethod
    def of(cls, call: NodeCall) -> Sampling:
        """The attributes of a node, as they are where it leaves them out."""
        old = call.node.opset < 11
        return cls(
            call.node.label,
            call.text("mode", "nearest"),
            call.text("coordinate_transformation_mode", "asymmetric" if old else "half_pixel"),
            call.text("nearest_mode", "floor" if old else "round_prefer_floor"),
            call.real("cubic_coeff_a", -0.75),
            bool(call.integer("antialias", 0)),
            bool(call.integer("exclude_outside", 0)),
        )

    def positions(self, size: int, target: int, scale: float, start: float, end: float) -> Array:
        """Where each output element lies in x."""
        if target * size > MOST_WEIGHTS:
            got = f"an axis of {size} elements to {target}"
            raise BackendError(self.label, got=got, need="what nnc.onnx supports", fix="see docs/onnx.md")
        # In f32, as onnxruntime has it: of 10 elements to 7 the fourth lies at 4.5 and not a little behind it.
        places, factor, half = np.arange(target, dtype=np.float32), np.float32(scale), np.float32(0.5)
        if self.coordinates == "asymmetric":
            return np.asarray(places / factor)
        if self.coordinates == "align_corners":
            return places * ((size - 1) / (factor * size - 1)) if target > 1 else np.zeros(target)
        if self.coordinates == "pytorch_half_pixel" and target <= 1:
            return np.zeros(target) - 0.0
        if self.coordinates == "tf_crop_and_resize":
            if target > 1:
                return start * (size - 1) + places * (end - start) * (size - 1) / (target - 1)
            return np.array([0.5 * (start + end) * (size - 1)])
        if self.coordinates == "half_pixel_symmetric":
            offset = np.float32(size / 2) * (1 - np.float32(target) / (factor * np.float32(size)))
            # onnxruntime adds in f64 and rounds once, in this mode alone: of 7 by 1.7 the sixth lies at 3.
            exact = offset + (places.astype(np.float64) + 0.5) / np.float64(factor) - 0.5
            return np.asarray(exact, np.float32)
        return (places + half) / factor - half

    def places(self, size: int, target: int, scale: float, start: float, end: float) -> Array:
        """The element of x that each output element is."""
        positions = np.asarray(self.positions(size, target, scale, start, end), np.float64)
        if self.mode == "nearest":
            return np.clip(self._nearest(positions), 0, size - 1).astype(np.int64)
        return np.asarray(self._weights(size, positions, scale).argmax(1), np.int64)

    def weights(self, size: int, target: int, scale: float, start: float, end: float) -> Array:
        """weights[i, o]: what element i of x contributes to element o."""
        positions = np.asarray(self.positions(size, target, scale, start, end), np.float64)
        return np.ascontiguousarray(self._weights(size, positions, scale).T)

    def chooses(self, size: int, target: int, scale: float, start: float, end: float) -> Array:
        """Whether each output element is one of x, without arithmetic."""
        if self.mode == "nearest":
            return np.asarray(True)
        weights = self.weights(size, target, scale, start, end)
        single = ((weights == 1.0).sum(0) == 1).all() and (weights.sum(0) == 1.0).all()
        return np.asarray(single and ((weights == 0) | (weights == 1)).all())

    def _weights(self, size: int, positions: Array, scale: float) -> Array:
        """weights[o, i], of all modes but the nearest element."""
        is_cubic = self.mode == "cubic"
        stretch = 1.0 / scale if self.antialias and scale < 1.0 else 1.0
        reach = math.ceil((2 if is_cubic else 1) * stretch)
        around = np.arange(1 - reach, reach + 1)
        result = np.zeros((len(positions), size))
        rows = max(1, PART // len(around))
        for first in range(0, len(positions), rows):
            position = positions[first : first + rows, None]
            places = np.floor(position).astype(np.int64) + around
            distance = np.abs(position - places) / stretch
            weights = _cubic(distance, self.cubic) if is_cubic else np.maximum(1.0 - distance, 0.0)
            if self.exclude_outside:
                weights = np.where((places >= 0) & (places < size), weights, 0.0)
            if self.exclude_outside or stretch > 1.0:
                weights = weights / weights.sum(1, keepdims=True)
            elements = (np.arange(len(position)) * size)[:, None] + np.clip(places, 0, size - 1)
            np.add.at(result[first : first + rows].reshape(-1), elements.ravel(), weights.ravel())
        return result

    def _nearest(self, positions: Array) -> Array:
        if self.nearest == "floor":
            return np.asarray(np.floor(positions))
        if self.nearest == "ceil":
            return np.asarray(np.ceil(positions))
        return np.asarray(
            np.ceil(positions - 0.5) if self.nearest == "round_prefer_floor" else np.floor(positions + 0.5)
        )


def _cubic(distance: Array, a: float) -> Array:
    d = np.asarray(distance, np.float64)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * a - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _resize(call: NodeCall) -> Results:
    x = call[0]
    axes = tuple(call.axis(axis, x.spec.rank) for axis in call.integers("axes", tuple(range(x.spec.rank))))
    if len(set(axes)) != len(axes):
        raise AttributeValueError(call.node.label, got=f"axes {list(axes)}", need="each axis once")
    sizes, scales = _targets(call, axes)
    sampling = Sampling.of(call)
    roi = call.static(1) if call.node.opset >= 11 and len(call) > 2 else None
    kind, y = x.spec.dtype, x
    if not kind.is_float:
        y = ops.cast(y, F32)
    crops, outside = sampling.coordinates == "tf_crop_and_resize", None
    for place, axis in enumerate(axes):
        size, target, scale = x.shape[axis], sizes[place], scales[place]
        if (size, scale) == (target, 1.0) and not crops:
            continue
        region = (0.0, 1.0)
        if roi is not None and roi.size:
            half = roi.size // 2
            region = (float(roi[place]), float(roi[half + place]))
        y = _resampled(call, sampling, y, axis, target, (scale, *region))
        if crops:
            outside = _beyond(sampling.positions(size, target, scale, *region), size, axis, x.spec.rank, outside)
    if outside is not None:
        filled = ops.fill_like(y, call.real("extrapolation_value", 0.0))
        y = ops.where(call.constant(np.broadcast_to(outside, y.shape)), filled, y)
    return y if kind.is_float else ops.cast(ops.round(y) if sampling.mode != "nearest" else y, kind)


def _beyond(positions: Array, size: int, axis: int, rank: int, outside: Array | None) -> Array | None:
    """Which elements of the result lie beyond x, along this axis or another one."""
    beyond = (positions < 0) | (positions > size - 1)
    if not beyond.any():
        return outside
    mask = beyond.reshape([-1 if operand == axis else 1 for operand in range(rank)])
    return mask if outside is None else outside | mask


def _targets(call: NodeCall, axes: Shape) -> tuple[list[int], list[float]]:
    """Sizes and scales per axis, one of which the node gives."""
    x = call[0]
    first = 1 if call.node.op == "Upsample" or call.node.opset < 11 else 2
    given = call.node.attributes.get("scales") if call.node.op == "Upsample" and call.node.opset < 9 else None
    scales = np.asarray(given) if given is not None else call.static(first)
    before = [x.shape[axis] for axis in axes]
    if scales is not None and scales.size:
        if scales.size != len(axes) or not (np.isfinite(scales).all() and (scales > 0).all()):
            got = f"scales {np.asarray(scales).tolist()} for {len(axes)} axes"
            raise AttributeValueError(call.node.label, got=got, need="a number above 0 for each axis")
        sizes = [_scaled(size, factor) for size, factor in zip(before, scales.ravel(), strict=True)]
        return sizes, [float(operand) for operand in scales.ravel()]
    wanted = call.integers_at(3)
    assert wanted is not None
    if len(wanted) != len(axes) or any(target < 0 for target in wanted):
        got = f"sizes {list(wanted)} for {len(axes)} axes"
        raise AttributeValueError(call.node.label, got=got, need="a size of 0 or more for each axis")
    factors = [target / size for target, size in zip(wanted, before, strict=True)]
    policy = call.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return list(wanted), factors
    factor = min(factors) if policy == "not_larger" else max(factors)
    return [math.floor(size * factor + 0.5) for size in before], [factor] * len(before)


def _scaled(size: int, factor: float) -> int:
    """⌊size · factor⌋"""
    if size_of(size) is not None and float(factor).is_integer() and size * int(factor) <= EXACT_F32:
        return size * int(factor)
    # The product in f32, as scales are: 10 rows times 0.7 are 7, where 10 * f64(f32(0.7)) is a little less.
    return math.floor(float(np.float32(size) * factor))


def _resampled(
    call: NodeCall, sampling: Sampling, x: Operand, axis: int, target: int, rest: tuple[float, ...]
) -> Operand:
    """Rows of weights times x along the axis, or a choice of its elements."""
    size = x.shape[axis]
    if call.decided(sampling.chooses, size, target, *rest):
        return ops.index_select(x, call.computed(sampling.places, size, target, *rest, shape=(target,)), axis)
    weights = call.computed(sampling.weights, size, target, *rest, shape=(size, target), like=x.spec)
    return along(x, axis, weights)


ROWS = {"Resize": OnnxRow(_resize, sizes=(3,)), "Upsample": OnnxRow(_resize)}
