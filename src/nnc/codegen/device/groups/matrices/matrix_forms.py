"""Which forms of tiles a device has for matrices of 16 bits, and which one a product takes.

Tiles are chosen by time: tiles of a processor, each of its slices' time and that of its beginning and end. Times are
those of an H200 in us: 4096 x 4096 x 4096, 1024 x 1024 x 1024, and 96 of 512 x 64 x 512, all of bf16.
"""

from __future__ import annotations

from collections.abc import Mapping

from nnc.classes import dataclass
from nnc.codegen.device.groups.matrices.matrix_sums import TileForm
from nnc.codegen.device.groups.matrices.slices import STEPS
from nnc.codegen.device.groups.tiles import PROCESSORS
from nnc.codegen.device.preamble import PTX_TRIPLE
from nnc.codegen.frame.kernel import ceiling
from nnc.codegen.ir.target import TargetDescription


@dataclass(frozen=True, slots=True)
class FormRow:
    """A form, and the time of a slice of it and of all else."""

    name: str
    form: TileForm
    slice: float
    rest: float


def by_warps(down: int, across: int, high: int, wide: int, stages: int, *, paired: bool) -> TileForm:
    """A form of warps."""
    return TileForm(False, down, across, high, wide, stages, 0, paired)


def by_warpgroups(wide: int, stages: int, unfinished: int, *, paired: bool) -> TileForm:
    """A form of two warpgroups, one below the other."""
    return TileForm(True, 2, 1, 64, wide, stages, unfinished, paired)


# In 164 KB of a group's memory, and in 99 KB.
LARGE_FORM = FormRow("warps 128x256", by_warps(2, 4, 64, 64, 3, paired=False), 1.34, 4.8)
WARP_FORMS = (
    FormRow("warps 128x128", by_warps(2, 4, 64, 32, 3, paired=True), 0.78, 2.0),
    FormRow("warps 64x128", by_warps(2, 4, 32, 32, 3, paired=True), 0.45, 1.2),
    FormRow("warps 64x64", by_warps(2, 4, 32, 16, 3, paired=True), 0.31, 0.6),
)
# A second product at work while the next slice is awaited: 222 us, 237 without, for the widest; 327 and 303 for the
# next one, which has another group beside it.
WARPGROUP_FORMS = (
    FormRow("warpgroups 128x256", by_warpgroups(256, 4, 1, paired=False), 0.84, 4.8),
    FormRow("warpgroups 128x128", by_warpgroups(128, 3, 0, paired=True), 0.59, 1.9),
    FormRow("warpgroups 128x64", by_warpgroups(64, 4, 0, paired=True), 0.38, 1.1),
)
# By code. What sm_90a has beyond sm_90, other capabilities do not run.
FORMS: Mapping[str, tuple[FormRow, ...]] = {
    "sm_80": (LARGE_FORM, *WARP_FORMS), "sm_86": WARP_FORMS, "sm_89": WARP_FORMS, "sm_90": WARP_FORMS,
    "sm_90a": WARPGROUP_FORMS,
}  # fmt: skip


def form_of(target: TargetDescription, matrices: int, rows: int, columns: int, inner: int) -> TileForm | None:
    """The form that takes the least time; None where the device has none."""
    if target.triple != PTX_TRIPLE or target.processor not in FORMS:
        return None

    def time(row: FormRow) -> float:
        tiles = matrices * ceiling(rows, row.form.height) * ceiling(columns, row.form.width)
        return ceiling(tiles, PROCESSORS) * (ceiling(inner, STEPS) * row.slice + row.rest)

    return min(FORMS[target.processor], key=time).form
