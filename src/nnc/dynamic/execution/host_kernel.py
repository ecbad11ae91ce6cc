"""Commands whose device has no kernel for them run on the host: operands go there, and results come back.

Who does that is told once for each operator and kind of device, by a RuntimeWarning.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection

from nnc.classes import dataclass
from nnc.core.running.dispatch import DISPATCHER, Kernel, Specs, Tensors
from nnc.core.values.command import AnyCommand
from nnc.core.values.device import CPU
from nnc.core.values.dtype import U8
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor

_TOLD: set[tuple[str, str]] = set()


@dataclass(frozen=True, slots=True, eq=False)
class HostKernel:
    """A kernel of the host between copies of operands from their devices and of results to theirs."""

    kernel: Kernel

    @property
    def breaks_off(self) -> bool:
        """As the kernel inside."""
        return self.kernel.breaks_off

    @property
    def workspace_bytes(self) -> int:
        """None of the device's."""
        return 0

    @property
    def worker_bytes(self) -> int:
        """As the kernel inside."""
        return self.kernel.worker_bytes

    def copied_bytes(self, inputs: Collection[int], outputs: Collection[int]) -> int:
        """None: what comes from a device has no gaps."""
        return 0

    def run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        """Compute `outputs` from `inputs`."""
        given = tuple(None if tensor is None else tensor.to(CPU) for tensor in inputs)
        # A result that is written over an operand begins as that.
        made = tuple(None if tensor is None else self._room(tensor, inputs, given) for tensor in outputs)
        room = self.kernel.workspace_bytes
        self.kernel.run(given, made, Tensor.empty(TensorSpec((room,), U8)) if room else None)
        for tensor, result in zip(outputs, made, strict=True):
            if tensor is not None and result is not None:
                tensor.copy_from(result)

    @staticmethod
    def _room(output: Tensor, inputs: Tensors, given: Tensors) -> Tensor | None:
        for tensor, copy in zip(inputs, given, strict=True):
            if tensor is output:
                return copy
        return Tensor.empty(output.spec.on(CPU))


def kernel_for(command: AnyCommand, inputs: Specs, outputs: tuple[TensorSpec, ...], backend: str) -> Kernel:
    """The kernel of the backend that claims the command; of the host's, where the device has none."""
    devices = {spec.device for spec in (*inputs, *outputs) if spec is not None and not spec.device.is_host}
    if not devices or DISPATCHER.server(command, inputs, outputs, backend):
        return DISPATCHER.claim(command, inputs, outputs, backend).kernel
    given = tuple(None if spec is None else spec.on(CPU) for spec in inputs)
    claim = DISPATCHER.claim(command, given, tuple(spec.on(CPU) for spec in outputs), backend)
    for device in devices:
        tell_once(command.op.name, device.kind)
    return HostKernel(claim.kernel)


def tell_once(name: str, kind: str) -> None:
    """A warning that the operator has no kernel on this kind of device, the first time."""
    if (name, kind) not in _TOLD:
        _TOLD.add((name, kind))
        text = (
            f"nnc: {name} has no kernel on {kind} for these operands: it runs on the host, with copies there and back"
        )
        warnings.warn(text, RuntimeWarning, stacklevel=2)
