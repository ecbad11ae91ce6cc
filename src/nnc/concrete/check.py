"""What a node may be given: places only, outputs of the specs that its command makes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from nnc.arguments import checked
from nnc.concrete.multiview import Carry, Multiview, Phi, Place, Recalled, Reference, Taped
from nnc.core.running.dispatch import Specs
from nnc.core.running.late_names import LateModule
from nnc.core.values.command import AnyCommand
from nnc.core.values.tensor import Tensor
from nnc.errors import DeviceError, ShapeError, UsageError

if TYPE_CHECKING:
    from nnc.ops import rules
    from nnc.ops.movement import copy
else:
    # A program from the disk has no commands.
    rules, copy = LateModule("nnc.ops.rules"), LateModule("nnc.ops.movement.copy")

PLACES = (Tensor, Multiview, Phi, Carry, Reference, Taped, Recalled)


def check_places(subject: str, places: Sequence[Place]) -> tuple[Place, ...]:
    """The places; UsageError when something else is among them."""
    for place in places:
        if not isinstance(place, PLACES):
            raise UsageError(subject, got=type(place).__name__, need="tensors, multiviews or other places")
        if isinstance(place, Tensor) and place.storage.device.space != place.spec.device.space:
            raise DeviceError(
                subject, got=f"{place.spec} in memory of {place.storage.device}", need="memory that it names"
            )
    return tuple(places)


def check_optional(subject: str, places: Sequence[Place | None]) -> tuple[Place | None, ...]:
    """As `check_places`, where some may be absent."""
    check_places(subject, [place for place in places if place is not None])
    return tuple(places)


def specs_of(places: Iterable[Place | None]) -> Specs:
    """Their specs."""
    return tuple(None if place is None else place.spec for place in places)


@checked
def check_outputs(command: AnyCommand, inputs: Specs, outputs: Specs) -> None:
    """The outputs must be what the command makes of these inputs."""
    wanted, got = rules.infer(command.op, command.attrs, inputs), outputs
    fits = len(got) == len(wanted) and all(
        spec is None or spec.fits(need) for spec, need in zip(got, wanted, strict=True)
    )
    if not fits:
        shown = ", ".join("–" if spec is None else str(spec) for spec in got)
        raise ShapeError(command.op.name, got=f"outputs {shown}", need=", ".join(map(str, wanted)))


def check_memory(command: AnyCommand, inputs: Sequence[Place | None], outputs: Sequence[Place | None]) -> None:
    """An output may be written, and shares memory with an input only where the command can work in place on all of it.

    Places that move are not looked at.
    """
    if any(isinstance(place, Tensor) and place.storage.read_only for place in outputs):
        raise UsageError(command.op.name, got="an output in read-only memory", need="memory that may be written")
    rule = rules.INPLACE[command.op](command.attrs)
    pairs = {*rule.allowed, *rule.enforced}
    if command.op is copy.contiguous:
        # Where places move, a value may meet itself: a copy onto the same elements changes nothing.
        pairs.add((0, 0))
    for number, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            continue
        for place, given in enumerate(inputs):
            in_place = (place, number) in pairs and isinstance(given, Tensor) and output.is_same_memory(given)
            if isinstance(given, Tensor) and not in_place and output.overlaps(given):
                raise _shared(command, f"output {number} over a part of input {place}'s memory", output)
        for other in outputs[:number]:
            if isinstance(other, Tensor) and output.overlaps(other):
                raise _shared(command, f"output {number} over another output's memory", output)


def _shared(command: AnyCommand, got: str, output: Tensor) -> UsageError:
    need = "memory that it does not read or write otherwise, but for a whole operand that it works in place on"
    return UsageError(command.op.name, got=f"{got}, {output.spec}", need=need, fix="write to another tensor")
