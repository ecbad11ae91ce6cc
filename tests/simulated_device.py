"""Devices for tests of any machine: memory that the host's addresses do not reach, and kernels of the reference.

    with simulated(count=2) as machine:
        x = nnc.tensor([1.0]).to("cuda:1")

Memory is poison when it is given, lies beyond all addresses of the process, and is looked at by driver and kernels of
its own device alone, inside of its bounds. `machine.refused` are operators that the devices have no kernel for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import c_uint8
from dataclasses import dataclass, field

import numpy as np

from nnc.core.running.devices import DEVICES, DeviceFacts
from nnc.core.running.dispatch import (
    DISPATCHER,
    Backend,
    Call,
    Kernel,
    Program,
    Specs,
    Tensors,
    one_by_one,
)
from nnc.core.values.command import AnyCommand
from nnc.core.values.device import CPU, Device
from nnc.core.values.storage import DeviceStorage, Storage
from nnc.core.values.tensor import Tensor
from nnc.dynamic.graph import DynamicGraph, default_graph
from nnc.errors import OutOfMemoryError
from nnc.graph import Op
from nnc.ops.composed.custom import TENSOR_KERNEL
from nnc.ops.movement.transfer import TO_DEVICE

POISON = 0xCB
# Far beyond what a process has: whoever reads there by mistake ends at once.
FIRST = 1 << 52
ROOM = 1 << 44


@dataclass
class _Owner:
    """What holds memory of a device; with it the memory goes back."""

    driver: SimulatedDriver
    address: int

    def __del__(self) -> None:
        self.driver.memory.pop(self.address, None)


@dataclass
class SimulatedDriver:
    """`numbers` devices of a kind, with so many bytes each; `counts` is what was asked of them."""

    kind: str
    numbers: int = 1
    memory_bytes: int = 1 << 30
    memory: dict[int, np.ndarray] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    _next: Counter[int] = field(default_factory=Counter)

    def absence(self) -> str:
        return ""

    def count(self) -> int:
        return self.numbers

    def facts(self, device: Device) -> DeviceFacts:
        return DeviceFacts(f"simulated {device}", self.memory_bytes, 32, 1024, 48 << 10)

    def used(self, device: Device) -> int:
        """Bytes that are given and not back."""
        return sum(buffer.nbytes for address, buffer in self.memory.items() if self._owns(device, address))

    def allocate(self, device: Device, nbytes: int, label: str = "") -> Storage:
        if self.used(device) + nbytes > self.memory_bytes:
            raise OutOfMemoryError("storage", got=f"{nbytes} bytes", need=f"bytes that {device} has")
        address = self._begin(device) + self._next[device.index]
        self._next[device.index] += -(-max(nbytes, 1) // 256) * 256 + 256
        self.memory[address] = np.full(nbytes, POISON, np.uint8)
        self.counts["allocate"] += 1
        return DeviceStorage(device, _Owner(self, address), address, nbytes, label)

    def view(self, device: Device, address: int, nbytes: int) -> np.ndarray:
        """The bytes at an address of this device, of one piece of memory."""
        assert self._owns(device, address), f"{address:#x} is no address of {device}"
        for begin, buffer in self.memory.items():
            if begin <= address and address + nbytes <= begin + buffer.nbytes:
                return buffer[address - begin : address - begin + nbytes]
        raise AssertionError(f"{nbytes} bytes at {address:#x} of {device} are nobody's")

    def upload(self, device: Device, target: int, source: int, nbytes: int) -> None:
        self.counts["upload"] += 1
        self.view(device, target, nbytes)[:] = np.frombuffer((c_uint8 * nbytes).from_address(source), np.uint8)

    def download(self, device: Device, target: int, source: int, nbytes: int) -> None:
        self.counts["download"] += 1
        np.frombuffer((c_uint8 * nbytes).from_address(target), np.uint8)[:] = self.view(device, source, nbytes)

    def copy(self, device: Device, target: int, source: int, nbytes: int) -> None:
        self.counts["copy"] += 1
        self.view(device, target, nbytes)[:] = self.view(device, source, nbytes).copy()

    def fill(self, device: Device, target: int, nbytes: int, byte: int) -> None:
        self.counts["fill"] += 1
        self.view(device, target, nbytes)[:] = byte

    def synchronize(self, device: Device) -> None:
        self.counts["synchronize"] += 1

    def _begin(self, device: Device) -> int:
        return FIRST + device.index * ROOM

    def _owns(self, device: Device, address: int) -> bool:
        return self._begin(device) <= address < self._begin(device) + ROOM


@dataclass(eq=False)
class SimulatedKernel:
    """A kernel of the reference on memory of a device."""

    machine: SimulatedMachine
    kernel: Kernel

    @property
    def breaks_off(self) -> bool:
        return self.kernel.breaks_off

    @property
    def workspace_bytes(self) -> int:
        return self.kernel.workspace_bytes

    @property
    def worker_bytes(self) -> int:
        return self.kernel.worker_bytes

    def copied_bytes(self, inputs: Collection[int], outputs: Collection[int]) -> int:
        return self.kernel.copied_bytes(inputs, outputs)

    def run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        self.machine.driver.counts["kernel"] += 1
        see = self.machine.seen
        self.kernel.run(tuple(map(see, inputs)), tuple(map(see, outputs)), see(workspace))


@dataclass(eq=False)
class SimulatedMachine:
    """The backend of a kind of devices: what the `server` claims on the host is claimed there, but for `refused`."""

    driver: SimulatedDriver
    server: Backend
    refused: set[Op] = field(default_factory=set)

    @property
    def serves(self) -> str:
        return self.driver.kind

    @property
    def name(self) -> str:
        return f"simulated {self.driver.kind}"

    def absence(self) -> str:
        return ""

    def seen(self, tensor: Tensor | None) -> Tensor | None:
        """The memory of a device as a tensor of the host."""
        if tensor is None or not tensor.spec.nbytes:
            return None if tensor is None else Tensor.empty(tensor.spec.on(CPU))
        begin, end = tensor.extent
        storage = Storage(self.driver.view(tensor.spec.device, begin, end - begin))
        return Tensor(tensor.spec.on(CPU), storage, tensor.address - begin, tensor.strides)

    def refusal(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> str:
        specs = [spec for spec in (*inputs, *outputs) if spec is not None]
        if command.op is TO_DEVICE or any(spec.device.kind != self.driver.kind for spec in specs) or not specs:
            return f"operands elsewhere than on {self.driver.kind}"
        if len({spec.device for spec in specs}) > 1:
            return "operands of several devices"
        if command.op in self.refused or command.op in TENSOR_KERNEL:
            return "no kernel in this test"
        return self.server.refusal(command, _on_host(inputs), _on_host(outputs))

    def kernel(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Kernel:
        return SimulatedKernel(self, self.server.kernel(command, _on_host(inputs), _on_host(outputs)))

    def variants(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Mapping[str, Kernel]:
        return {}

    def program(self, calls: Sequence[Call]) -> Program:
        self.driver.counts["program"] += 1
        return one_by_one(calls)


def _on_host(specs: Specs) -> Specs:
    return tuple(None if spec is None else spec.on(CPU) for spec in specs)


@contextmanager
def simulated(
    kind: str = "cuda", count: int = 1, memory_bytes: int = 1 << 30, server: str = "reference"
) -> Iterator[SimulatedMachine]:
    """Such devices in the tables of the process, for a while; no real ones of their kind meanwhile."""
    machine = SimulatedMachine(SimulatedDriver(kind, count, memory_bytes), DISPATCHER.backend(server))
    makers, drivers, backends = dict(DEVICES._makers), dict(DEVICES._drivers), dict(DISPATCHER.backends)
    DEVICES.add(kind, lambda: machine.driver)
    others = {name: backend for name, backend in backends.items() if name != kind}
    DISPATCHER.backends.clear()
    DISPATCHER.backends.update({**others, machine.name: machine})
    try:
        _forget()
        yield machine
    finally:
        _forget()
        DEVICES._makers.clear()
        DEVICES._makers.update(makers)
        DEVICES._drivers.clear()
        DEVICES._drivers.update(drivers)
        DISPATCHER.backends.clear()
        DISPATCHER.backends.update(backends)


def _forget() -> None:
    """Kernels, programs and memory of machines that are gone, or that claim something else now."""
    graph, fresh = default_graph(), DynamicGraph()
    DISPATCHER._claims.clear()
    graph._ready.clear()
    graph._programs, graph._arena, graph._lazy = fresh._programs, fresh._arena, fresh._lazy
