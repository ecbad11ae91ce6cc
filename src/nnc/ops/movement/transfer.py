"""to_device: the same elements on another device. y[i…] = x[i…]."""

from __future__ import annotations

from collections.abc import Sequence

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.running.file_device import operations_per_byte
from nnc.core.values.command import Command
from nnc.core.values.device import AnyDevice, Device, device_of
from nnc.core.values.spec import OptionalSpecs, TensorSpec
from nnc.ops.batching import batched_alike
from nnc.ops.examples import MATRIX, Example
from nnc.ops.operand import T, apply_command
from nnc.ops.precision import FOLLOW
from nnc.ops.rules import MIXED_DEVICES, Applied, Gradients, Specs, operator, single

__all__ = ["to_device"]


@dataclass(frozen=True, slots=True)
class TransferAttrs:
    """Where the result lies."""

    device: Device = Device()


def _infer(attrs: TransferAttrs, specs: Specs) -> Specs:
    return (specs[0].on(attrs.device),)


def _gradient(call: Applied[TransferAttrs], gradients: Gradients) -> Gradients:
    return (to_device(single(gradients), call.inputs[0].spec.device),)


def _work(attrs: TransferAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    """What could be computed meanwhile."""
    source = attrs.device if inputs[0] is None else inputs[0].device
    return operations_between(source, attrs.device) * sum(spec.nbytes for spec in outputs)


def operations_between(source: Device, target: Device) -> int:
    """What could be computed while a byte goes from one device to another."""
    files = [device for device in (source, target) if device.is_file]
    return operations_per_byte(files[0]) if files else OPERATIONS_PER_BYTE


# An H200 copies 10 GB/s from the host and 8 to it, and multiplies some 10^12 numbers a second (f32, our kernels).
OPERATIONS_PER_BYTE = 100

TO_DEVICE = operator(
    "to_device",
    TransferAttrs,
    ("x",),
    infer=_infer,
    gradient=_gradient,
    precision=FOLLOW,
    batched=batched_alike,
    work=_work,
    example=Example(TransferAttrs(), (MATRIX,)),
    doc="y[i…] = x[i…] in row-major memory of a device",
)
MIXED_DEVICES.set(TO_DEVICE, True)


@checked
def to_device(x: T, device: AnyDevice) -> T:
    """y[i…] = x[i…] on that device, and x itself where it is there already; the gradient goes the way back."""
    target = device_of(device)
    return x if x.spec.device == target else apply_command(Command(TO_DEVICE, TransferAttrs(target)), x)
