"""Between two devices: to_device, y[i…] = x[i…], by the drivers; and commands that run programs wherever they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnc.classes import dataclass
from nnc.core.running.dispatch import Call, Kernel, Program, Specs, Tensors, WithoutWorkspace, one_by_one
from nnc.core.values.command import AnyCommand
from nnc.core.values.storage import memory_of
from nnc.core.values.tensor import Tensor
from nnc.ops.composed.custom import TENSOR_KERNEL
from nnc.ops.movement.transfer import TO_DEVICE


class TransferKernel(WithoutWorkspace):
    """One copy: uploads are queued, downloads wait for what was queued before."""

    def run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        """Copy the elements; to the host with no memory between, where both lie in one piece."""
        source, target = inputs[0], outputs[0]
        if source is None or target is None:
            return
        whole = source.is_contiguous and target.is_contiguous and source.dtype == target.dtype
        if whole and target.spec.device.is_host and not source.spec.device.is_host and source.spec.elements:
            device = source.spec.device
            memory_of(device).download(device, target.address, source.address, source.spec.nbytes)
        else:
            target.copy_from(source)


@dataclass(frozen=True, slots=True, eq=False)
class AnywhereKernel(WithoutWorkspace):
    """A command that runs programs of its own, on tensors of whatever devices."""

    command: AnyCommand

    def run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        """Compute `outputs`, all of them present, from `inputs`."""
        run = TENSOR_KERNEL[self.command.op]
        run(self.command.attrs, inputs, [tensor for tensor in outputs if tensor is not None])


@dataclass(frozen=True, slots=True)
class TransferBackend:
    """Copies from one device to another, and commands that run where their operands are."""

    name: str = "transfer"

    def absence(self) -> str:
        """Never: without devices nothing is asked of it."""
        return ""

    def refusal(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> str:
        """Why the command is no transfer; empty when it is one, or runs anywhere."""
        if command.op in TENSOR_KERNEL:
            return ""
        places = {spec.device for spec in (*inputs, *outputs) if spec is not None}
        return "" if command.op is TO_DEVICE and len(places) == 2 else "no transfer between two devices"

    def kernel(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Kernel:
        """The copy, or the program."""
        return AnywhereKernel(command) if command.op in TENSOR_KERNEL else TransferKernel()

    def variants(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Mapping[str, Kernel]:
        """None."""
        return {}

    def program(self, calls: Sequence[Call]) -> Program:
        """One copy after another."""
        return one_by_one(calls)
