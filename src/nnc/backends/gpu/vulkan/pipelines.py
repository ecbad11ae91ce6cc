"""Compute pipelines: SPIR-V by the entry, with a cache of the driver's that is kept on disk."""

from __future__ import annotations

import ctypes
import hashlib
from collections import deque
from collections.abc import Sequence
from ctypes import byref, c_size_t, c_uint64

from nnc.backends.gpu.vulkan import structures as vk
from nnc.backends.gpu.vulkan.library import VulkanLibrary
from nnc.backends.gpu.vulkan.physical import PhysicalDevice
from nnc.classes import dataclass
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.settings import SETTINGS

COMPUTE = 0x20
PUSH_BYTES = 48
# So many new pipelines are worth writing the driver's cache again.
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

    def load(self, code: bytes, constants: bytes, entries: Sequence[str]) -> VulkanCode:
        """A pipeline for each of these entry points of a module."""
        words = ctypes.create_string_buffer(code, len(code))
        info = vk.ShaderModuleCreateInfo(size=len(code), code=ctypes.addressof(words))
        module = self._vk.handle("vkCreateShaderModule", self._device, byref(info), None)
        try:
            functions = [self._pipeline(module, entry) for entry in entries]
        finally:
            self._vk.call("vkDestroyShaderModule", self._device, module, None)
        self._new += len(functions)
        if self._new >= WRITTEN_EVERY:
            self.keep()
        return VulkanCode(tuple(functions), constants)

    def _pipeline(self, module: int, entry: str) -> VulkanFunction:
        # The name lives until the call is over: ctypes would let a temporary one go.
        name = entry.encode()
        stage = vk.ShaderStageCreateInfo(stage=COMPUTE, module=module, name=name)
        info = vk.ComputePipelineCreateInfo(stage=stage, layout=self.layout, base_index=-1)
        made = c_uint64()
        self._vk.call("vkCreateComputePipelines", self._device, self._cache, 1, byref(info), None, byref(made))
        return VulkanFunction(made.value, self.dropped)

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
