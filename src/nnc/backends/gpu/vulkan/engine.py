"""One device that Vulkan reaches: one queue, a timeline that counts submissions, buffers with addresses, pipelines.

    open batch: command buffer that is being written      flush: submit it, the timeline reaches the next number

What is asked is written into the open batch, which goes to the queue when it is full, when a program is run, or when
somebody waits. Each batch and program begins with a barrier, so all is in order; inside a program there is one where a
launch touches what an earlier one wrote. A queue's order is the order of its submissions.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from ctypes import byref, c_float, c_uint64, c_void_p

from nnc.backends.gpu.engine import PhaseLaunch, conflicts
from nnc.backends.gpu.vulkan import structures as vk
from nnc.backends.gpu.vulkan.library import OUT_OF_MEMORY, VulkanLibrary
from nnc.backends.gpu.vulkan.physical import DEVICE_LOCAL, HOST_CACHED, HOST_COHERENT, HOST_VISIBLE, PhysicalDevice
from nnc.backends.gpu.vulkan.pipelines import PUSH_BYTES, Pipelines, VulkanCode, VulkanFunction
from nnc.classes import dataclass
from nnc.codegen.device.launch import DeviceKernel
from nnc.codegen.device.spirv.module import spirv_module
from nnc.codegen.ir.native_kernel import AddressRange
from nnc.codegen.ir.target import TargetDescription
from nnc.errors import DeviceError

# Storage, copies from and to, addresses; stages and accesses of the header.
BUFFER_USAGE = 0x20 | 0x1 | 0x2 | 0x20000
ADDRESS_FLAG, TIMELINE, COMPUTE_POINT, COMPUTE_STAGE, TRANSFER_STAGE, HOST_STAGE = 2, 1, 1, 0x800, 0x1000, 0x4000
SHADER_READ, SHADER_WRITE, TRANSFER_READ, TRANSFER_WRITE, HOST_READ = 0x20, 0x40, 0x800, 0x1000, 0x2000
RESETTABLE, ONE_TIME, SIMULTANEOUS = 2, 1, 4
BATCH, STAGING_BYTES, INLINE_BYTES = 64, 1 << 23, 1 << 15
FOR_EVER = (1 << 64) - 1
MOST_GROUPS = 65535


@dataclass(frozen=True, slots=True, eq=False)
class DeviceBuffer:
    """Memory of a device: `mapped` is where the process sees it, 0 where it does not."""

    address: int
    nbytes: int
    handle: int
    memory: int
    mapped: int


class Submission:
    """What is given for each submission: made once, as it takes longer than to submit."""

    def __init__(self, timeline: int) -> None:
        self.value, self._timeline, self.handles = c_uint64(), c_uint64(timeline), (c_void_p * 2)()
        self._signals = vk.TimelineSubmitInfo(signal_count=1, signals=ctypes.addressof(self.value))
        self.info = vk.SubmitInfo(
            next=ctypes.addressof(self._signals), buffers=ctypes.addressof(self.handles), signal_count=1,
            signals=ctypes.addressof(self._timeline),
        )  # fmt: skip
        self.place = byref(self.info)


@dataclass(frozen=True, slots=True, eq=False)
class VulkanLaunches:
    """Launches that go into the open batch."""

    engine: VulkanEngine
    launches: Sequence[PhaseLaunch]

    def submit(self) -> None:
        """Write them there."""
        self.engine.launch(self.launches)


@dataclass(slots=True, eq=False)
class VulkanProgram:
    """A command buffer that was written once."""

    engine: VulkanEngine
    handle: int
    kept: object

    def submit(self) -> None:
        """Queue it."""
        self.engine.flush(self.handle)

    def __del__(self) -> None:
        self.engine.dropped.append(("commands", self.handle))


class VulkanEngine:
    """An open device."""

    def __init__(
        self, library: VulkanLibrary, physical: PhysicalDevice, target: TargetDescription, instance: object
    ) -> None:
        self.vk, self.physical, self.target, self.instance = library, physical, target, instance
        self.facts = physical.facts
        self._device = _device(library, physical)
        queue = c_void_p()
        library.call("vkGetDeviceQueue", self._device, physical.family, 0, byref(queue))
        self._queue = queue.value or 0
        pool = vk.CommandPoolCreateInfo(flags=RESETTABLE, family=physical.family)
        self._commands = library.handle("vkCreateCommandPool", self._device, byref(pool), None)
        kind = vk.SemaphoreTypeCreateInfo(kind=TIMELINE)
        timeline = vk.SemaphoreCreateInfo(next=ctypes.addressof(kind))
        self._timeline = library.handle("vkCreateSemaphore", self._device, byref(timeline), None)
        self.pipelines = Pipelines(library, self._device, physical)
        self._submitted, self._completed = 0, 0
        self._submission = Submission(self._timeline)
        self._open, self._count = 0, 0
        self._free: deque[tuple[int, int]] = deque()
        self._buffers: dict[int, DeviceBuffer] = {}
        self._begins: list[int] = []
        self._staging: DeviceBuffer | None = None
        # What nobody in Python holds any more, and what waits for the queue before it is freed.
        self.dropped: deque[tuple[str, int]] = self.pipelines.dropped
        self._doomed: deque[tuple[int, str, int]] = deque()

    # -- order

    def enter(self) -> None:
        """Free what was dropped and what the queue is done with."""
        while self.dropped:
            kind, handle = self.dropped.popleft()
            self._doomed.append((self._submitted + 1, kind, handle))
        if self._doomed:
            self._completed = self._reached()
            if len(self._doomed) > BATCH and self._doomed[0][0] > self._completed:
                self.synchronize()
        while self._doomed and self._doomed[0][0] <= self._completed:
            _, kind, handle = self._doomed.popleft()
            if kind == "commands":
                self.vk.call("vkFreeCommandBuffers", self._device, self._commands, 1, byref(c_void_p(handle)))
            else:
                self.pipelines.destroy(handle)

    def flush(self, program: int = 0) -> None:
        """Queue the open batch, and a program behind it."""
        buffers = [each for each in (self._open, program) if each]
        if self._open:
            self.vk.call("vkEndCommandBuffer", self._open)
        if not buffers:
            return
        submission = self._submission
        submission.value.value = self._submitted + 1
        for place, buffer in enumerate(buffers):
            submission.handles[place] = buffer
        submission.info.buffer_count = len(buffers)
        opened, self._open, self._count = self._open, 0, 0
        self.vk.call("vkQueueSubmit", self._queue, 1, submission.place, 0)
        self._submitted += 1
        if opened:
            self._free.append((self._submitted, opened))

    def synchronize(self) -> None:
        """Wait for all that was queued."""
        self.flush()
        if self._completed == self._submitted:
            return
        value, timeline = c_uint64(self._submitted), c_uint64(self._timeline)
        wait = vk.SemaphoreWaitInfo(count=1, semaphores=ctypes.addressof(timeline), values=ctypes.addressof(value))
        self.vk.call("vkWaitSemaphores", self._device, byref(wait), FOR_EVER)
        self._completed = self._submitted

    def close(self) -> None:
        """Free all that was made; of a device that is lost nothing is waited for."""
        with suppress(DeviceError):
            self.synchronize()
        self.pipelines.close()
        self.vk.call("vkDestroyCommandPool", self._device, self._commands, None)
        for buffer in (*self._buffers.values(), *([self._staging] if self._staging else [])):
            self._free_buffer(buffer)
        self.vk.call("vkDestroySemaphore", self._device, self._timeline, None)
        self.vk.call("vkDestroyDevice", self._device, None)

    def _reached(self) -> int:
        value = c_uint64()
        self.vk.call("vkGetSemaphoreCounterValue", self._device, self._timeline, byref(value))
        return int(value.value)

    def _batch(self) -> int:
        """The open command buffer, behind a barrier."""
        if not self._open:
            self._open = self._buffer_to_write()
            begin = vk.CommandBufferBeginInfo(flags=ONE_TIME)
            self.vk.call("vkBeginCommandBuffer", self._open, byref(begin))
        self._barrier(self._open)
        self._count += 1
        return self._open

    def _written(self) -> None:
        if self._count >= BATCH:
            self.flush()

    def _buffer_to_write(self) -> int:
        if self._free and self._free[0][0] > self._completed:
            self._completed = self._reached()
        if self._free and self._free[0][0] <= self._completed:
            return self._free.popleft()[1]
        return self._new_buffer()

    def _new_buffer(self) -> int:
        info, made = vk.CommandBufferAllocateInfo(pool=self._commands, level=0, count=1), c_void_p()
        self.vk.call("vkAllocateCommandBuffers", self._device, byref(info), byref(made))
        return made.value or 0

    def _barrier(self, commands: int, *, host: bool = False) -> None:
        """What follows sees all that was written before."""
        touched = SHADER_READ | SHADER_WRITE | TRANSFER_READ | TRANSFER_WRITE
        barrier = vk.MemoryBarrier(source=SHADER_WRITE | TRANSFER_WRITE, target=HOST_READ if host else touched)
        stages = COMPUTE_STAGE | TRANSFER_STAGE
        behind = HOST_STAGE if host else stages
        self.vk.call("vkCmdPipelineBarrier", commands, stages, behind, 0, 1, byref(barrier), 0, None, 0, None)

    # -- memory

    def reserve(self, nbytes: int) -> int:
        """Memory with an address; 0 where there is none."""
        used = sum(buffer.nbytes for buffer in self._buffers.values())
        if used + nbytes > self.facts.memory_bytes:
            return 0
        flags = HOST_VISIBLE | HOST_COHERENT if self.facts.unified else 0
        buffer = self._made(nbytes, DEVICE_LOCAL | flags, HOST_CACHED if flags else 0)
        if buffer is None:
            return 0
        self._buffers[buffer.address] = buffer
        insort(self._begins, buffer.address)
        return buffer.address

    def _made(self, nbytes: int, wanted: int, liked: int) -> DeviceBuffer | None:
        size = -(-max(nbytes, 4) // 4) * 4
        info = vk.BufferCreateInfo(size=size, usage=BUFFER_USAGE)
        handle = self.vk.handle("vkCreateBuffer", self._device, byref(info), None)
        needs = (c_uint64 * 3)()
        self.vk.call("vkGetBufferMemoryRequirements", self._device, handle, byref(needs))
        allowed = needs[2] & 0xFFFFFFFF
        kind = self.physical.memory_type(allowed, wanted, liked)
        if kind < 0:
            kind = self.physical.memory_type(allowed, 0, wanted | liked)
        extra = vk.MemoryAllocateFlagsInfo(flags=ADDRESS_FLAG)
        allocation = vk.MemoryAllocateInfo(next=ctypes.addressof(extra), size=needs[0], kind=kind)
        memory = c_uint64()
        result = self.vk.result("vkAllocateMemory", self._device, byref(allocation), None, byref(memory))
        if result:
            self.vk.call("vkDestroyBuffer", self._device, handle, None)
            if result in OUT_OF_MEMORY:
                return None
            raise self.vk.error("vkAllocateMemory", result)
        self.vk.call("vkBindBufferMemory", self._device, handle, memory.value, 0)
        mapped = c_void_p()
        if self.physical.flags_of(kind) & HOST_COHERENT and wanted & HOST_VISIBLE:
            self.vk.call("vkMapMemory", self._device, memory.value, 0, FOR_EVER, 0, byref(mapped))
        asked = vk.BufferDeviceAddressInfo(buffer=handle)
        address = self.vk.result("vkGetBufferDeviceAddress", self._device, byref(asked))
        return DeviceBuffer(address, size, handle, memory.value, mapped.value or 0)

    def release(self, address: int) -> None:
        """Behind all that is queued."""
        self.synchronize()
        self._free_buffer(self._buffers.pop(address))
        self._begins.remove(address)

    def _free_buffer(self, buffer: DeviceBuffer) -> None:
        self.vk.call("vkDestroyBuffer", self._device, buffer.handle, None)
        self.vk.call("vkFreeMemory", self._device, buffer.memory, None)

    def _place(self, address: int) -> tuple[DeviceBuffer, int]:
        """The buffer that an address is in, and how far."""
        buffer = self._buffers[self._begins[bisect_right(self._begins, address) - 1]]
        return buffer, address - buffer.address

    def _stage(self) -> DeviceBuffer:
        if self._staging is None:
            self._staging = self._made(STAGING_BYTES, HOST_VISIBLE | HOST_COHERENT, HOST_CACHED)
        assert self._staging is not None
        assert self._staging.mapped
        return self._staging

    # -- copies

    def upload(self, target: int, source: int, nbytes: int) -> None:
        """In the batch where it is little; else at once, or through a buffer that the host sees."""
        buffer, offset = self._place(target)
        if nbytes <= INLINE_BYTES and not (nbytes | offset) % 4:
            self.vk.call("vkCmdUpdateBuffer", self._batch(), buffer.handle, offset, nbytes, source)
            self._written()
        elif buffer.mapped:
            self.synchronize()
            ctypes.memmove(buffer.mapped + offset, source, nbytes)
        else:
            staging = self._stage()
            for first in range(0, nbytes, STAGING_BYTES):
                size = min(STAGING_BYTES, nbytes - first)
                self.synchronize()
                ctypes.memmove(staging.mapped, source + first, size)
                self._copied(staging.handle, 0, buffer.handle, offset + first, size)

    def download(self, target: int, source: int, nbytes: int) -> None:
        """Waits for what was queued."""
        buffer, offset = self._place(source)
        if buffer.mapped:
            self._barrier(self._batch(), host=True)
            self.synchronize()
            ctypes.memmove(target, buffer.mapped + offset, nbytes)
            return
        staging = self._stage()
        for first in range(0, nbytes, STAGING_BYTES):
            size = min(STAGING_BYTES, nbytes - first)
            self._copied(buffer.handle, offset + first, staging.handle, 0, size)
            self._barrier(self._batch(), host=True)
            self.synchronize()
            ctypes.memmove(target + first, staging.mapped, size)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """In the batch."""
        (read, begin), (written, offset) = self._place(source), self._place(target)
        self._copied(read.handle, begin, written.handle, offset, nbytes)

    def _copied(self, source: int, begin: int, target: int, offset: int, nbytes: int) -> None:
        region = vk.BufferCopy(begin, offset, nbytes)
        self.vk.call("vkCmdCopyBuffer", self._batch(), source, target, 1, byref(region))
        self._written()

    def fill(self, target: int, nbytes: int, byte: int) -> None:
        """In the batch; the ends that are no whole words are written by themselves."""
        buffer, offset = self._place(target)
        head = min(-offset % 4, nbytes)
        tail = (nbytes - head) % 4
        middle = nbytes - head - tail
        if middle:
            word = byte * 0x01010101
            self.vk.call("vkCmdFillBuffer", self._batch(), buffer.handle, offset + head, middle, word)
            self._written()
        for begin, size in ((target, head), (target + nbytes - tail, tail)):
            if size:
                self._write_few(begin, bytes([byte]) * size)

    def _write_few(self, target: int, content: bytes) -> None:
        """Bytes of one word: read, changed, written."""
        begin = target - target % 4
        word = (ctypes.c_uint8 * 4)()
        self.download(ctypes.addressof(word), begin, 4)
        word[target - begin : target - begin + len(content)] = list(content)
        self.upload(begin, ctypes.addressof(word), 4)

    # -- kernels

    def load(self, kernels: Sequence[DeviceKernel]) -> list[VulkanCode]:
        """A pipeline for each entry."""
        modules = [spirv_module(kernel, self.physical.float_controls) for kernel in kernels]
        entries = [[phase.entry for phase in kernel.phases] for kernel in kernels]
        return self.pipelines.load(modules, entries)

    def launch(self, launches: Sequence[PhaseLaunch]) -> None:
        """In the batch, one after another."""
        for launch in launches:
            self._dispatch(self._batch(), launch)
        self._written()

    def _dispatch(self, commands: int, launch: PhaseLaunch) -> None:
        function = launch.function
        assert isinstance(function, VulkanFunction)
        words = (ctypes.c_int64 * 6)(*launch.words)
        layout = self.pipelines.layout
        self.vk.call("vkCmdBindPipeline", commands, COMPUTE_POINT, function.pipeline)
        self.vk.call("vkCmdPushConstants", commands, layout, 0x20, 0, PUSH_BYTES, byref(words))
        self.vk.call("vkCmdDispatch", commands, min(launch.groups, MOST_GROUPS), 1, 1)

    def prepare(self, launches: Sequence[PhaseLaunch]) -> VulkanLaunches:
        """Ready for the batch."""
        return VulkanLaunches(self, launches)

    def record(self, launches: Sequence[PhaseLaunch]) -> VulkanProgram:
        """A command buffer of its own, with barriers where they are needed."""
        commands = self._new_buffer()
        begin = vk.CommandBufferBeginInfo(flags=SIMULTANEOUS)
        self.vk.call("vkBeginCommandBuffer", commands, byref(begin))
        self._barrier(commands)
        reads: list[AddressRange] = []
        writes: list[AddressRange] = []
        for launch in launches:
            if conflicts(launch, reads, writes):
                self._barrier(commands)
                reads, writes = [], []
            self._dispatch(commands, launch)
            reads += launch.reads
            writes += launch.writes
        self.vk.call("vkEndCommandBuffer", commands)
        return VulkanProgram(self, commands, [launch.function for launch in launches])


def _device(library: VulkanLibrary, physical: PhysicalDevice) -> int:
    """The device with one queue and the features that are used."""
    priority = c_float(1.0)
    queue = vk.DeviceQueueCreateInfo(family=physical.family, count=1, priorities=ctypes.pointer(priority))
    features = physical.wanted_features()
    info = vk.DeviceCreateInfo(next=ctypes.addressof(features[0]), queue_count=1, queues=ctypes.addressof(queue))
    return library.handle("vkCreateDevice", physical.handle, byref(info), None)
