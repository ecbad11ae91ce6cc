"""The backend of a kind of devices: it claims commands whose operands lie on one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from nnc.backends.gpu.assembly import GpuKernel, assemble
from nnc.backends.gpu.device import OpenDevice
from nnc.backends.gpu.driver import GpuDriver
from nnc.classes import dataclass
from nnc.codegen.device.groups.device_rows import group_kernel, tile_variants
from nnc.codegen.program.claims import TableClaims
from nnc.core.running.devices import DEVICES
from nnc.core.running.dispatch import Call, Kernel, Program, Specs
from nnc.core.values.command import AnyCommand
from nnc.core.values.device import Device
from nnc.errors import DeviceError


@dataclass(slots=True)
class GpuBackend:
    """Kernels generated for devices of one kind, by whose name it goes."""

    name: str

    def absence(self) -> str:
        """Why there is no such device."""
        try:
            self._driver(Device(self.name))
        except DeviceError as error:
            return error.fix or str(error)
        return ""

    def refusal(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> str:
        """Why the command is not claimed on these specs; empty when it is."""
        places = {spec.device for spec in (*inputs, *outputs) if spec is not None}
        if len(places) != 1 or (device := next(iter(places))).kind != self.name:
            return f"tensors outside one device of {self.name}"
        return self._claims(device).refusal(command, inputs, outputs)

    def kernel(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Kernel:
        """The kernel of a command that `refusal` did not refuse."""
        return self._claims(_place(outputs)).kernel(command, inputs, outputs)

    def variants(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Mapping[str, Kernel]:
        """The kernels of the row's other generators, and those of groups in other tiles.

        Tiles of a processor's registers are nothing to kernels of groups: such variants would be the same code.
        """
        claims = self._claims(_place(outputs))
        usual = claims.kernel(command, inputs, outputs)
        generator, target = usual.generator, usual.target
        group, tiles = group_kernel(generator, target), tile_variants(generator, target)
        others = {
            name: kernel
            for name, kernel in claims.variants(command, inputs, outputs).items()
            if group is None or type(group_kernel(kernel.generator, target)) is not type(group)
        }
        return {**others, **{name: replace(usual, generator=generator) for name, generator in tiles.items()}}

    def program(self, calls: Sequence[Call]) -> Program:
        """The calls as one program that was recorded once; of another device's, one program each."""
        kernel = calls[0].kernel if calls else None
        if not isinstance(kernel, GpuKernel) or kernel.device is None:
            return _nothing
        return assemble(kernel.device, calls)

    def _claims(self, device: Device) -> TableClaims[GpuKernel]:
        return _claims_on(self._driver(device).opened(device), self.name)

    def _driver(self, device: Device) -> GpuDriver:
        driver = DEVICES.driver(device)
        assert isinstance(driver, GpuDriver)
        return driver


def _claims_on(device: OpenDevice, kind: str) -> TableClaims[GpuKernel]:
    return TableClaims(device.target, partial(GpuKernel, device=device), kind)


def _place(outputs: Specs) -> Device:
    return next(spec.device for spec in outputs if spec is not None)


def _nothing() -> None:
    """A program without calls."""
