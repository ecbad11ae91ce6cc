"""Compute pipelines: SPIR-V by the entry, with a cache of the driver's that is kept on disk."""

from __future__ import annotations

import ctypes
import hashlib
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_size_t, c_uint64

from nnc.backends.gpu.vulkan import structures as vk
from nnc.backends.gpu.vulkan.library import VulkanLibrary
from nnc.backends.gpu.vulkan.physical import PhysicalDevice
from nnc.classes import dataclass
from nnc.codegen.device.spirv.module import SpirvCode
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.precautions.forking import FORK_GUARD
from nnc.core.precautions.shield import Shield
from nnc.core.settings import SETTINGS

COMPUTE = 0x20
PUSH_BYTES = 48
# After this many new pipelines the driver's cache is written again.
WRITTEN_EVERY = 32


@dataclass(slots=True, eq=False)
class VulkanFunction:
    """A pipeline; freed when nobody holds it and the queue is done with it."""

    pipeline: int
    dropped: deque[tuple[str, int]]

    def __del__(self) -> None:
        self.dropped.append(("pipeline", self.pipeline))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class VulkanCode:
    """The pipelines of a kernel."""

    functions: tuple[object, ...]
    constants: bytes


class Pipelines:
    """All pipelines of a device have one layout: constants that are pushed, and no bindings."""

    def __init__(self, library: VulkanLibrary, device: int, physical: PhysicalDevice) -> None:
        self._vk, self._device = library, device
        self.dropped: deque[tuple[str, int]] = deque()
        constants = vk.PushConstantRange(COMPUTE, 0, PUSH_BYTES)
        layout = vk.PipelineLayoutCreateInfo(range_count=1, ranges=ctypes.addressof(constants))
        self.layout = library.handle("vkCreatePipelineLayout", device, byref(layout), None)
        properties = physical.properties
        identity = (
            f"{properties.vendor} {properties.device} {properties.driver_version} {bytes(properties.cache_uuid)!r}"
        )
        self._key = hashlib.sha256(identity.encode()).hexdigest()
        self._disk = DiskCache(SETTINGS.cache_folder, "pipeline", ".bin", SETTINGS.cached_code_bytes)
        content = self._disk.load(self._key) or b""
        kept = ctypes.create_string_buffer(content, len(content))
        cache = vk.PipelineCacheCreateInfo(size=len(content), content=ctypes.addressof(kept))
        self._cache = library.handle("vkCreatePipelineCache", device, byref(cache), None)
        self._new = 0
        self._live: set[int] = set()

    def load(self, modules: Sequence[SpirvCode], entries: Sequence[Sequence[str]]) -> list[VulkanCode]:
        """A pipeline for each of these entry points of a module; drivers make them on as many threads as may be."""
        workers = min(SETTINGS.worker_count(), len(modules))
        if workers == 1:
            made = [self._loaded(module, names) for module, names in zip(modules, entries, strict=True)]
        else:
            with Shield(), FORK_GUARD, ThreadPoolExecutor(workers) as crew:
                made = list(crew.map(self._loaded, modules, entries))
        self._new += sum(len(code.functions) for code in made)
        if self._new >= WRITTEN_EVERY:
            self.keep()
        return made

    def _loaded(self, module: SpirvCode, entries: Sequence[str]) -> VulkanCode:
        words = ctypes.create_string_buffer(module.code, len(module.code))
        info = vk.ShaderModuleCreateInfo(size=len(module.code), code=ctypes.addressof(words))
        shader = self._vk.handle("vkCreateShaderModule", self._device, byref(info), None)
        try:
            return VulkanCode(tuple(self._pipeline(shader, entry) for entry in entries), module.tables)
        finally:
            self._vk.call("vkDestroyShaderModule", self._device, shader, None)

    def _pipeline(self, module: int, entry: str) -> VulkanFunction:
        # The name lives until the call is over: ctypes would let a temporary one go.
        name = entry.encode()
        stage = vk.ShaderStageCreateInfo(stage=COMPUTE, module=module, name=name)
        info = vk.ComputePipelineCreateInfo(stage=stage, layout=self.layout, base_index=-1)
        made = c_uint64()
        self._vk.call("vkCreateComputePipelines", self._device, self._cache, 1, byref(info), None, byref(made))
        self._live.add(made.value)
        return VulkanFunction(made.value, self.dropped)

    def destroy(self, pipeline: int) -> None:
        """Free one that the queue is done with."""
        self._live.remove(pipeline)
        self._vk.call("vkDestroyPipeline", self._device, pipeline, None)

    def close(self) -> None:
        """Free all, and what was made for them."""
        for pipeline in list(self._live):
            self.destroy(pipeline)
        self._vk.call("vkDestroyPipelineCache", self._device, self._cache, None)
        self._vk.call("vkDestroyPipelineLayout", self._device, self.layout, None)

    def keep(self) -> None:
        """Write the driver's cache to disk where it is new."""
        if not self._new:
            return
        size = c_size_t()
        self._vk.call("vkGetPipelineCacheData", self._device, self._cache, byref(size), None)
        content = ctypes.create_string_buffer(size.value)
        self._vk.call("vkGetPipelineCacheData", self._device, self._cache, byref(size), content)
        self._disk.store(self._key, content.raw[: size.value])
        self._new = 0
