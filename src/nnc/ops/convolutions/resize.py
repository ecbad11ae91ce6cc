"""Resampling of positions: padding, flipping, upsampling, regions of interest. All linear; each has its adjoint.

    pad:        y = x with `before`, `after` more positions per axis: a constant, the edge repeated, or mirrored
    flip:       y[…, k, …] = x[…, size - 1 - k, …]
    upsample:   y[n, i, j, c] from x[n, height, width, c]: the nearest position, or bilinear in between
    roi_align:  y[r, i, j, c] = mean of bilinear samples of x[n] in cell (i, j) of box r (He et al. 2017)

Where position i of `target` lies among `source` positions, for each of the two axes:

    nearest                  floor(i · source / target)                   as PyTorch's "nearest"
    nearest, align_corners   i · (source - 1) / (target - 1), rounded, halves up
    bilinear                 (i + ½) · source / target - ½, not below 0 nor above source - 1 (pixel centres)
    bilinear, align_corners  i · (source - 1) / (target - 1); 0 when target is 1

A box has the edges top, left, bottom, right in pixels, pixel k reaching from k to k + 1 (torchvision's aligned=True).
Sample s of a cell lies in the middle of the s-th of `samples` equal parts, per axis; its position among pixel centres
is its coordinate - ½. It counts as 0 when that is below -1 or above the size, else it is moved between 0 and size - 1.
No gradient flows to the boxes.
"""

from __future__ import annotations

from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.spec import OptionalSpecs, Shape, TensorSpec, spec
from nnc.errors import AttributeValueError, ShapeError
from nnc.ops.batching import batched_behind, batched_within
from nnc.ops.convolutions.window import check_layout
from nnc.ops.examples import BOXES, HALF_IMAGE, IMAGE, MATRIX, Example
from nnc.ops.movement.broadcast import normalize_axes
from nnc.ops.movement.fill import integer_range
from nnc.ops.movement.movement import slice_axis
from nnc.ops.operand import T, apply
from nnc.ops.permutation import Permutation, Permuted, fits, permuted_axes
from nnc.ops.precision import FOLLOW
from nnc.ops.rules import ARITHMETIC, FLOATS, Applied, Gradients, Pattern, Specs, check_kinds, operator, single

__all__ = ["flip", "pad", "roi_align", "upsample"]

PAD_MODES = ("constant", "edge", "reflect")
UPSAMPLE_MODES = ("nearest", "bilinear")
# Of a box along an axis, and samples of a cell: their product is counted in 64 bits, without boxes too.
MOST_CELLS = 1 << 24


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
    _check_borders(attrs, x)
    low, high = integer_range(x.dtype)
    if not (x.dtype.is_float or (attrs.value.is_integer() and low <= attrs.value <= high)):
        raise AttributeValueError("pad", got=f"a value that {x.dtype} cannot hold", need=f"an integer {low}..{high}")
    for size, edge in zip(x.shape * 2, (*attrs.before, *attrs.after), strict=True):
        most = size - 1 if attrs.mode == "reflect" else size * edge
        if attrs.mode != "constant" and edge > most:
            raise ShapeError(
                "pad", got=f"{edge} positions beside {size} ({attrs.mode})", need="that many to mirror or repeat"
            )


def _check_borders(attrs: PadAttrs, x: TensorSpec) -> None:
    borders = (*attrs.before, *attrs.after)
    if len(attrs.before) != x.rank or len(attrs.after) != x.rank or min(borders, default=0) < 0:
        raise AttributeValueError(
            "pad", got=f"before {attrs.before}, after {attrs.after} for {x}", need="a size ≥ 0 per axis"
        )
    if attrs.mode not in PAD_MODES:
        raise AttributeValueError("pad", got=f"mode {attrs.mode!r}", need=" or ".join(PAD_MODES))


def _infer_pad_gradient(attrs: PadAttrs, specs: Specs) -> Specs:
    (g,) = specs
    check_kinds(ARITHMETIC, g)
    _check_borders(attrs, g)
    x = replace(g, shape=tuple(size - a - b for size, a, b in zip(g.shape, attrs.before, attrs.after, strict=True)))
    _check_pad(attrs, x)
    return (x,)


def _infer_flip(attrs: FlipAttrs, specs: Specs) -> Specs:
    if normalize_axes("flip", attrs.axes, specs[0].rank) != attrs.axes:
        raise AttributeValueError("flip", got=f"axes {list(attrs.axes)}", need="ascending axes ≥ 0")
    return specs


def _infer_upsample(attrs: UpsampleAttrs, specs: Specs) -> Specs:
    return (_resized("upsample", attrs, specs[0], attrs.source, attrs.target),)


def _infer_upsample_gradient(attrs: UpsampleAttrs, specs: Specs) -> Specs:
    check_kinds(ARITHMETIC, specs[0])
    return (_resized("upsample_gradient", attrs, specs[0], attrs.target, attrs.source),)


def _resized(
    subject: str, attrs: UpsampleAttrs, x: TensorSpec, old: tuple[int, int], new: tuple[int, int]
) -> TensorSpec:
    if attrs.mode not in UPSAMPLE_MODES:
        raise AttributeValueError(subject, got=f"mode {attrs.mode!r}", need=" or ".join(UPSAMPLE_MODES))
    if attrs.mode == "bilinear":
        check_kinds(FLOATS, x)
    check_layout(subject, x)
    if x.rank != 4 or x.shape[1:3] != old or len(new) != 2 or min(*old, *new) < 1:
        raise ShapeError(subject, got=f"{x} to {list(new)}", need=f"[batch, {old[0]}, {old[1]}, channels], sizes ≥ 1")
    return replace(x, shape=(x.shape[0], *new, x.shape[3]))


def _infer_roi(attrs: RoiAttrs, specs: Specs) -> Specs:
    x, boxes = specs
    check_kinds(FLOATS, x, boxes)
    check_layout("roi_align", x)
    if x.rank != 4 or x.shape[:3] != attrs.source or boxes.rank != 2 or boxes.shape[1] != 5:
        raise ShapeError(
            "roi_align", got=f"x={x}, boxes={boxes}", need="x[batch, height, width, channels], boxes[count, 5]"
        )
    if min(x.shape[1:3]) < 1:
        raise ShapeError("roi_align", got=f"x={x}", need="at least one pixel")
    counts = (*attrs.cells, attrs.samples)
    if len(counts) != 3 or not 1 <= min(counts) <= max(counts) <= MOST_CELLS:
        got = f"cells {attrs.cells}, samples {attrs.samples}"
        raise AttributeValueError("roi_align", got=got, need=f"each in 1..{MOST_CELLS:,}")
    return (replace(x, shape=(boxes.shape[0], *attrs.cells, x.shape[3])),)


def _infer_roi_gradient(attrs: RoiAttrs, specs: Specs) -> Specs:
    g, boxes = specs
    if g.rank != 4:
        raise ShapeError("roi_align_gradient", got=f"g={g}", need="g[boxes, height, width, channels]")
    x = replace(g, shape=(*attrs.source, g.shape[-1]))
    if _infer_roi(attrs, (x, boxes))[0].shape != g.shape:
        raise ShapeError(
            "roi_align_gradient", got=f"g={g}, boxes={boxes}", need=f"g[boxes, {list(attrs.cells)}, channels]"
        )
    return (x,)


def _pad_gradient(call: Applied[PadAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    if call.attrs.mode != "constant":
        return (apply(PAD_GRADIENT, replace(call.attrs, value=0.0), g),)
    # What the constant filled does not depend on x: the gradient is a view of the inside.
    for axis, (before, size) in enumerate(zip(call.attrs.before, call.inputs[0].shape, strict=True)):
        g = slice_axis(g, axis, before, before + size)
    return (g,)


def _pad_gradient_gradient(call: Applied[PadAttrs], gradients: Gradients) -> Gradients:
    h = single(gradients)
    return (apply(PAD, replace(call.attrs, value=0.0), h),)


def _flip_gradient(call: Applied[FlipAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    return (apply(FLIP, call.attrs, g),)


def _upsample_gradient(call: Applied[UpsampleAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    return (apply(UPSAMPLE_GRADIENT, call.attrs, g),)


def _upsample_gradient_gradient(call: Applied[UpsampleAttrs], gradients: Gradients) -> Gradients:
    h = single(gradients)
    return (apply(UPSAMPLE, call.attrs, h),)


def _roi_gradient(call: Applied[RoiAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    return (apply(ROI_ALIGN_GRADIENT, call.attrs, g, call.inputs[1]), None)


def _roi_gradient_gradient(call: Applied[RoiAttrs], gradients: Gradients) -> Gradients:
    h = single(gradients)
    return (apply(ROI_ALIGN, call.attrs, h, call.inputs[1]), None)


def _permuted_pad(attrs: PadAttrs, specs: OptionalSpecs, p: Permutation) -> Permuted | None:
    before, after = (tuple(sizes[axis] for axis in p) for sizes in (attrs.before, attrs.after))
    return Permuted(replace(attrs, before=before, after=after), (p,), (p,)) if fits(specs, p) else None


def _permuted_flip(attrs: FlipAttrs, specs: OptionalSpecs, p: Permutation) -> Permuted | None:
    return Permuted(FlipAttrs(permuted_axes(attrs.axes, p)), (p,), (p,)) if fits(specs, p) else None


_EXAMPLE = RoiAttrs((2, 2), 2, (2, 8, 8))


def _behind(attrs: PadAttrs) -> PadAttrs:
    return replace(attrs, before=(0, *attrs.before), after=(0, *attrs.after))


PAD = operator(
    "pad",
    PadAttrs,
    ("x",),
    infer=_infer_pad,
    gradient=_pad_gradient,
    pattern=Pattern.INJECTIVE,
    precision=FOLLOW,
    permuted=_permuted_pad,
    batched=batched_behind(_behind),
    example=Example(PadAttrs((0, 2), (0, 2)), (MATRIX,)),
    doc="x with a border",
)
PAD_GRADIENT = operator(
    "pad_gradient",
    PadAttrs,
    ("g",),
    infer=_infer_pad_gradient,
    gradient=_pad_gradient_gradient,
    precision=FOLLOW,
    batched=batched_behind(_behind),
    example=Example(PadAttrs((0, 2), (0, 2)), (spec((4, 8)),)),
    doc="the adjoint of pad",
)
FLIP = operator(
    "flip",
    FlipAttrs,
    ("x",),
    infer=_infer_flip,
    gradient=_flip_gradient,
    pattern=Pattern.INJECTIVE,
    precision=FOLLOW,
    permuted=_permuted_flip,
    batched=batched_behind(lambda attrs: FlipAttrs(tuple(axis + 1 for axis in attrs.axes))),
    example=Example(FlipAttrs((1,)), (MATRIX,)),
    doc="axes reversed",
)
UPSAMPLE = operator(
    "upsample",
    UpsampleAttrs,
    ("x",),
    infer=_infer_upsample,
    gradient=_upsample_gradient,
    batched=batched_within(),
    example=Example(UpsampleAttrs((4, 4), (8, 8)), (HALF_IMAGE,)),
    doc="x at another height and width",
)
UPSAMPLE_GRADIENT = operator(
    "upsample_gradient",
    UpsampleAttrs,
    ("g",),
    infer=_infer_upsample_gradient,
    gradient=_upsample_gradient_gradient,
    batched=batched_within(),
    example=Example(UpsampleAttrs((4, 4), (8, 8)), (IMAGE,)),
    doc="the adjoint of upsample",
)
ROI_ALIGN = operator(
    "roi_align",
    RoiAttrs,
    ("x", "boxes"),
    infer=_infer_roi,
    gradient=_roi_gradient,
    example=Example(_EXAMPLE, (IMAGE, BOXES), fixed=(1,)),
    doc="mean samples in the cells of boxes",
)
ROI_ALIGN_GRADIENT = operator(
    "roi_align_gradient",
    RoiAttrs,
    ("g", "boxes"),
    infer=_infer_roi_gradient,
    gradient=_roi_gradient_gradient,
    example=Example(_EXAMPLE, (spec((4, 2, 2, 4)), BOXES), fixed=(1,)),
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
    """Features of boxes [batch index, top, left, bottom, right] (in pixels of x) on a grid of `cells`.

    A batch index outside x is an IndexRangeError when it is met.
    """
    if x.spec.rank != 4:
        raise ShapeError("roi_align", got=str(x.spec), need="[batch, height, width, channels]")
    return apply(ROI_ALIGN, RoiAttrs(cells, samples, (x.shape[0], x.shape[1], x.shape[2])), x, boxes)
