"""Resampling of positions: padding, flipping, upsampling, regions of interest. All linear; each has its adjoint.

pad:        y = x with `before`, `after` more positions per axis: a constant, the edge repeated, or mirrored
flip:       y[…, k, …] = x[…, size - 1 - k, …]
upsample:   y[n, i, j, c] from x[n, height, width, c]: the nearest position, or bilinear in between
roi_align:  y[r, i, j, c] = mean of bilinear samples of x[n] in cell (i, j) of box r (He et al. 2017)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnc.core.spec import Shape, TensorSpec
from nnc.errors import AttributeValueError, ShapeError
from nnc.ops.broadcast import normalize_axes
from nnc.ops.operand import T, apply
from nnc.ops.rules import Applied, Gradients, Pattern, Specs, operator

PAD_MODES = ("constant", "edge", "reflect")
UPSAMPLE_MODES = ("nearest", "bilinear")


@dataclass(frozen=True, slots=True)
class PadAttrs:
    """Positions added before and after, per axis; how they are filled; the constant."""

    before: Shape
    after: Shape
    mode: str = "constant"
    value: float = 0.0


@dataclass(frozen=True, slots=True)
class FlipAttrs:
    """Axes to reverse."""

    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class UpsampleAttrs:
    """Sizes [height, width] before and after; `align_corners` maps corner centres onto each other."""

    source: tuple[int, int]
    target: tuple[int, int]
    mode: str = "nearest"
    align_corners: bool = False


@dataclass(frozen=True, slots=True)
class RoiAttrs:
    """Cells [height, width] per box, samples per cell and axis, and the batch shape of x."""

    cells: tuple[int, int]
    samples: int
    source: tuple[int, int, int]


def _infer_pad(attrs: PadAttrs, specs: Specs) -> Specs:
    (x,) = specs
    _check_pad(attrs, x)
    shape = tuple(size + a + b for size, a, b in zip(x.shape, attrs.before, attrs.after, strict=True))
    return (replace(x, shape=shape),)


def _check_pad(attrs: PadAttrs, x: TensorSpec) -> None:
    borders = (*attrs.before, *attrs.after)
    if len(attrs.before) != x.rank or len(attrs.after) != x.rank or min(borders, default=0) < 0:
        raise AttributeValueError(
            "pad", got=f"before {attrs.before}, after {attrs.after} for {x}", need="a size ≥ 0 per axis"
        )
    if attrs.mode not in PAD_MODES:
        raise AttributeValueError("pad", got=f"mode {attrs.mode!r}", need=" or ".join(PAD_MODES))
    room = 1 if attrs.mode == "reflect" else 0
    for size, edge in zip(x.shape * 2, borders, strict=True):
        if attrs.mode != "constant" and edge and (size == 0 or (room and edge > size - 1)):
            raise ShapeError(
                "pad", got=f"{edge} positions beside {size} ({attrs.mode})", need="that many to mirror or repeat"
            )


def _infer_pad_gradient(attrs: PadAttrs, specs: Specs) -> Specs:
    (g,) = specs
    shape = tuple(size - a - b for size, a, b in zip(g.shape, attrs.before, attrs.after, strict=True))
    return (replace(g, shape=shape),)


def _infer_flip(attrs: FlipAttrs, specs: Specs) -> Specs:
    normalize_axes("flip", attrs.axes, specs[0].rank)
    return specs


def _infer_upsample(attrs: UpsampleAttrs, specs: Specs) -> Specs:
    return (_resized("upsample", attrs, specs[0], attrs.source, attrs.target),)


def _infer_upsample_gradient(attrs: UpsampleAttrs, specs: Specs) -> Specs:
    return (_resized("upsample_gradient", attrs, specs[0], attrs.target, attrs.source),)


def _resized(
    subject: str, attrs: UpsampleAttrs, x: TensorSpec, old: tuple[int, int], new: tuple[int, int]
) -> TensorSpec:
    if attrs.mode not in UPSAMPLE_MODES:
        raise AttributeValueError(subject, got=f"mode {attrs.mode!r}", need=" or ".join(UPSAMPLE_MODES))
    if x.rank != 4 or x.shape[1:3] != old or min(*old, *new) < 1:
        raise ShapeError(subject, got=f"{x} to {list(new)}", need=f"[batch, {old[0]}, {old[1]}, channels], sizes ≥ 1")
    return replace(x, shape=(x.shape[0], *new, x.shape[3]))


def _infer_roi(attrs: RoiAttrs, specs: Specs) -> Specs:
    x, boxes = specs
    if x.rank != 4 or x.shape[:3] != attrs.source or boxes.rank != 2 or boxes.shape[1] != 5:
        raise ShapeError(
            "roi_align", got=f"x={x}, boxes={boxes}", need="x[batch, height, width, channels], boxes[count, 5]"
        )
    if min(*attrs.cells, attrs.samples) < 1:
        raise AttributeValueError("roi_align", got=f"cells {attrs.cells}, samples {attrs.samples}", need="all ≥ 1")
    return (replace(x, shape=(boxes.shape[0], *attrs.cells, x.shape[3])),)


def _infer_roi_gradient(attrs: RoiAttrs, specs: Specs) -> Specs:
    g, boxes = specs
    x = replace(g, shape=(*attrs.source, g.shape[-1]))
    if _infer_roi(attrs, (x, boxes))[0].shape != g.shape:
        raise ShapeError(
            "roi_align_gradient", got=f"g={g}, boxes={boxes}", need=f"g[boxes, {list(attrs.cells)}, channels]"
        )
    return (x,)


def _pad_gradient(call: Applied[PadAttrs], gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    return (apply(PAD_GRADIENT, replace(call.attrs, value=0.0), g),)


def _pad_gradient_gradient(call: Applied[PadAttrs], gradients: Gradients) -> Gradients:
    (h,) = gradients
    assert h is not None
    return (apply(PAD, call.attrs, h),)


def _flip_gradient(call: Applied[FlipAttrs], gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    return (apply(FLIP, call.attrs, g),)


def _upsample_gradient(call: Applied[UpsampleAttrs], gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    return (apply(UPSAMPLE_GRADIENT, call.attrs, g),)


def _upsample_gradient_gradient(call: Applied[UpsampleAttrs], gradients: Gradients) -> Gradients:
    (h,) = gradients
    assert h is not None
    return (apply(UPSAMPLE, call.attrs, h),)


def _roi_gradient(call: Applied[RoiAttrs], gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    return (apply(ROI_ALIGN_GRADIENT, call.attrs, g, call.inputs[1]), None)


def _roi_gradient_gradient(call: Applied[RoiAttrs], gradients: Gradients) -> Gradients:
    (h,) = gradients
    assert h is not None
    return (apply(ROI_ALIGN, call.attrs, h, call.inputs[1]), None)


PAD = operator(
    "pad", PadAttrs, ("x",), infer=_infer_pad, gradient=_pad_gradient, pattern=Pattern.INJECTIVE, doc="x with a border"
)
PAD_GRADIENT = operator(
    "pad_gradient",
    PadAttrs,
    ("g",),
    infer=_infer_pad_gradient,
    gradient=_pad_gradient_gradient,
    doc="the adjoint of pad",
)
FLIP = operator(
    "flip",
    FlipAttrs,
    ("x",),
    infer=_infer_flip,
    gradient=_flip_gradient,
    pattern=Pattern.INJECTIVE,
    doc="axes reversed",
)
UPSAMPLE = operator(
    "upsample",
    UpsampleAttrs,
    ("x",),
    infer=_infer_upsample,
    gradient=_upsample_gradient,
    doc="x at another height and width",
)
UPSAMPLE_GRADIENT = operator(
    "upsample_gradient",
    UpsampleAttrs,
    ("g",),
    infer=_infer_upsample_gradient,
    gradient=_upsample_gradient_gradient,
    doc="the adjoint of upsample",
)
ROI_ALIGN = operator(
    "roi_align",
    RoiAttrs,
    ("x", "boxes"),
    infer=_infer_roi,
    gradient=_roi_gradient,
    doc="mean samples in the cells of boxes",
)
ROI_ALIGN_GRADIENT = operator(
    "roi_align_gradient",
    RoiAttrs,
    ("g", "boxes"),
    infer=_infer_roi_gradient,
    gradient=_roi_gradient_gradient,
    doc="the adjoint of roi_align by x",
)


def pad(x: T, before: Shape, after: Shape, mode: str = "constant", value: float = 0.0) -> T:
    """`x` with a border: "constant" (`value`), "edge" (repeated) or "reflect" (mirrored without the edge)."""
    return apply(PAD, PadAttrs(tuple(before), tuple(after), mode, float(value)), x)


def flip(x: T, axes: int | tuple[int, ...]) -> T:
    """`x` with the order along `axes` reversed."""
    return apply(FLIP, FlipAttrs(normalize_axes("flip", axes, x.spec.rank)), x)


def upsample(x: T, target: tuple[int, int], mode: str = "nearest", *, align_corners: bool = False) -> T:
    """x[batch, height, width, channels] at height and width `target`."""
    if x.spec.rank != 4:
        raise ShapeError("upsample", got=str(x.spec), need="[batch, height, width, channels]")
    return apply(UPSAMPLE, UpsampleAttrs((x.shape[1], x.shape[2]), target, mode, align_corners), x)


def roi_align(x: T, boxes: T, cells: tuple[int, int], samples: int = 2) -> T:
    """Features of boxes [batch index, top, left, bottom, right] (in pixels of x) on a grid of `cells`."""
    if x.spec.rank != 4:
        raise ShapeError("roi_align", got=str(x.spec), need="[batch, height, width, channels]")
    return apply(ROI_ALIGN, RoiAttrs(cells, samples, (x.shape[0], x.shape[1], x.shape[2])), x, boxes)
