"""Structures of Vulkan, as its headers have them: what is used here and no more.

Each begins with the number of its type, which a new one has, and the address of the next one of a chain.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char, c_char_p, c_float, c_int32, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, ClassVar

Handle = c_uint64
_HEAD: list[tuple[str, Any]] = [("type", c_uint32), ("next", c_void_p)]


class Chained(ctypes.Structure):
    """A structure with the number of its type in front."""

    NUMBER: ClassVar[int]

    def __init__(self, **fields: object) -> None:
        super().__init__(type=self.NUMBER, **fields)


class ApplicationInfo(Chained):
    """VkApplicationInfo"""

    NUMBER = 0
    _fields_ = [
        *_HEAD, ("application", c_char_p), ("version", c_uint32), ("engine", c_char_p), ("engine_version", c_uint32),
        ("api_version", c_uint32),
    ]  # fmt: skip


class InstanceCreateInfo(Chained):
    """VkInstanceCreateInfo"""

    NUMBER = 1
    _fields_ = [
        *_HEAD, ("flags", c_uint32), ("application", c_void_p), ("layer_count", c_uint32), ("layers", c_void_p),
        ("extension_count", c_uint32), ("extensions", c_void_p),
    ]  # fmt: skip


class LayerProperties(ctypes.Structure):
    """VkLayerProperties"""

    _fields_ = [
        ("name", c_char * 256), ("version", c_uint32), ("implementation", c_uint32), ("description", c_char * 256),
    ]  # fmt: skip


class DeviceQueueCreateInfo(Chained):
    """VkDeviceQueueCreateInfo"""

    NUMBER = 2
    _fields_ = [
        *_HEAD, ("flags", c_uint32), ("family", c_uint32), ("count", c_uint32), ("priorities", ctypes.POINTER(c_float)),
    ]  # fmt: skip


class DeviceCreateInfo(Chained):
    """VkDeviceCreateInfo"""

    NUMBER = 3
    _fields_ = [
        *_HEAD, ("flags", c_uint32), ("queue_count", c_uint32), ("queues", c_void_p), ("layer_count", c_uint32),
        ("layers", c_void_p), ("extension_count", c_uint32), ("extensions", c_void_p), ("features", c_void_p),
    ]  # fmt: skip


class SubmitInfo(Chained):
    """VkSubmitInfo"""

    NUMBER = 4
    _fields_ = [
        *_HEAD, ("wait_count", c_uint32), ("waits", c_void_p), ("wait_stages", c_void_p), ("buffer_count", c_uint32),
        ("buffers", c_void_p), ("signal_count", c_uint32), ("signals", c_void_p),
    ]  # fmt: skip


class MemoryAllocateInfo(Chained):
    """VkMemoryAllocateInfo"""

    NUMBER = 5
    _fields_ = [*_HEAD, ("size", c_uint64), ("kind", c_uint32)]


class MemoryAllocateFlagsInfo(Chained):
    """VkMemoryAllocateFlagsInfo"""

    NUMBER = 1000060000
    _fields_ = [*_HEAD, ("flags", c_uint32), ("mask", c_uint32)]


class SemaphoreCreateInfo(Chained):
    """VkSemaphoreCreateInfo"""

    NUMBER = 9
    _fields_ = [*_HEAD, ("flags", c_uint32)]


class SemaphoreTypeCreateInfo(Chained):
    """VkSemaphoreTypeCreateInfo"""

    NUMBER = 1000207002
    _fields_ = [*_HEAD, ("kind", c_uint32), ("initial", c_uint64)]


class TimelineSubmitInfo(Chained):
    """VkTimelineSemaphoreSubmitInfo"""

    NUMBER = 1000207003
    _fields_ = [
        *_HEAD, ("wait_count", c_uint32), ("waits", c_void_p), ("signal_count", c_uint32), ("signals", c_void_p),
    ]  # fmt: skip


class SemaphoreWaitInfo(Chained):
    """VkSemaphoreWaitInfo"""

    NUMBER = 1000207004
    _fields_ = [*_HEAD, ("flags", c_uint32), ("count", c_uint32), ("semaphores", c_void_p), ("values", c_void_p)]


class BufferCreateInfo(Chained):
    """VkBufferCreateInfo"""

    NUMBER = 12
    _fields_ = [
        *_HEAD, ("flags", c_uint32), ("size", c_uint64), ("usage", c_uint32), ("sharing", c_uint32),
        ("family_count", c_uint32), ("families", c_void_p),
    ]  # fmt: skip


class BufferDeviceAddressInfo(Chained):
    """VkBufferDeviceAddressInfo"""

    NUMBER = 1000244001
    _fields_ = [*_HEAD, ("buffer", Handle)]


class ShaderModuleCreateInfo(Chained):
    """VkShaderModuleCreateInfo"""

    NUMBER = 16
    _fields_ = [*_HEAD, ("flags", c_uint32), ("size", ctypes.c_size_t), ("code", c_void_p)]


class PipelineCacheCreateInfo(Chained):
    """VkPipelineCacheCreateInfo"""

    NUMBER = 17
    _fields_ = [*_HEAD, ("flags", c_uint32), ("size", ctypes.c_size_t), ("content", c_void_p)]


class ShaderStageCreateInfo(Chained):
    """VkPipelineShaderStageCreateInfo"""

    NUMBER = 18
    _fields_ = [
        *_HEAD, ("flags", c_uint32), ("stage", c_uint32), ("module", Handle), ("name", c_char_p),
        ("specialization", c_void_p),
    ]  # fmt: skip


class ComputePipelineCreateInfo(Chained):
    """VkComputePipelineCreateInfo"""

    NUMBER = 29
    _fields_ = [
        *_HEAD, ("flags", c_uint32), ("stage", ShaderStageCreateInfo), ("layout", Handle), ("base", Handle),
        ("base_index", c_int32),
    ]  # fmt: skip


class PushConstantRange(ctypes.Structure):
    """VkPushConstantRange"""

    _fields_ = [("stages", c_uint32), ("offset", c_uint32), ("size", c_uint32)]


class PipelineLayoutCreateInfo(Chained):
    """VkPipelineLayoutCreateInfo"""

    NUMBER = 30
    _fields_ = [
        *_HEAD, ("flags", c_uint32), ("set_count", c_uint32), ("sets", c_void_p), ("range_count", c_uint32),
        ("ranges", c_void_p),
    ]  # fmt: skip


class CommandPoolCreateInfo(Chained):
    """VkCommandPoolCreateInfo"""

    NUMBER = 39
    _fields_ = [*_HEAD, ("flags", c_uint32), ("family", c_uint32)]


class CommandBufferAllocateInfo(Chained):
    """VkCommandBufferAllocateInfo"""

    NUMBER = 40
    _fields_ = [*_HEAD, ("pool", Handle), ("level", c_uint32), ("count", c_uint32)]


class CommandBufferBeginInfo(Chained):
    """VkCommandBufferBeginInfo"""

    NUMBER = 42
    _fields_ = [*_HEAD, ("flags", c_uint32), ("inheritance", c_void_p)]


class MemoryBarrier(Chained):
    """VkMemoryBarrier"""

    NUMBER = 46
    _fields_ = [*_HEAD, ("source", c_uint32), ("target", c_uint32)]


class BufferCopy(ctypes.Structure):
    """VkBufferCopy"""

    _fields_ = [("source", c_uint64), ("target", c_uint64), ("size", c_uint64)]


class MemoryType(ctypes.Structure):
    """VkMemoryType"""

    _fields_ = [("flags", c_uint32), ("heap", c_uint32)]


class MemoryHeap(ctypes.Structure):
    """VkMemoryHeap"""

    _fields_ = [("size", c_uint64), ("flags", c_uint32)]


class MemoryProperties(ctypes.Structure):
    """VkPhysicalDeviceMemoryProperties"""

    _fields_ = [
        ("type_count", c_uint32), ("types", MemoryType * 32), ("heap_count", c_uint32), ("heaps", MemoryHeap * 16),
    ]  # fmt: skip


class QueueFamilyProperties(ctypes.Structure):
    """VkQueueFamilyProperties"""

    _fields_ = [("flags", c_uint32), ("count", c_uint32), ("timestamp_bits", c_uint32), ("granularity", c_uint32 * 3)]


class DeviceLimits(ctypes.Structure):
    """VkPhysicalDeviceLimits up to the sizes of groups."""

    _fields_ = [
        ("images", c_uint32 * 8), ("push_constant_bytes", c_uint32), ("allocations", c_uint32), ("samplers", c_uint32),
        ("granularity", c_uint64), ("sparse", c_uint64), ("graphics", c_uint32 * 38), ("group_bytes", c_uint32),
        ("group_counts", c_uint32 * 3), ("group_threads", c_uint32), ("group_sizes", c_uint32 * 3),
    ]  # fmt: skip


class DeviceProperties(Chained):
    """VkPhysicalDeviceProperties2, with room for all that stands behind what is read."""

    NUMBER = 1000059001
    _fields_ = [
        *_HEAD, ("api_version", c_uint32), ("driver_version", c_uint32), ("vendor", c_uint32), ("device", c_uint32),
        ("kind", c_uint32), ("name", c_char * 256), ("cache_uuid", c_uint8 * 16), ("limits", DeviceLimits),
        ("rest", c_uint8 * 1024),
    ]  # fmt: skip


class Vulkan11Properties(Chained):
    """VkPhysicalDeviceVulkan11Properties"""

    NUMBER = 50
    _fields_ = [
        *_HEAD, ("device_uuid", c_uint8 * 16), ("driver_uuid", c_uint8 * 16), ("luid", c_uint8 * 8),
        ("node_mask", c_uint32), ("luid_valid", c_uint32), ("subgroup", c_uint32), ("stages", c_uint32),
        ("operations", c_uint32), ("quads", c_uint32), ("clipping", c_uint32), ("views", c_uint32),
        ("instances", c_uint32), ("no_fault", c_uint32), ("descriptors", c_uint32), ("allocation_bytes", c_uint64),
    ]  # fmt: skip


class FloatControls(Chained):
    """VkPhysicalDeviceFloatControlsProperties: `special` says of 16, 32 and 64 bits whether signs of zeros, infinities
    and NaN can be kept.
    """

    NUMBER = 1000197000
    _fields_ = [*_HEAD, ("independence", c_uint32 * 2), ("special", c_uint32 * 3), ("rest", c_uint32 * 12)]


class DeviceFeatures(Chained):
    """VkPhysicalDeviceFeatures2: truth values in the order of the header."""

    NUMBER = 1000059000
    _fields_ = [*_HEAD, ("values", c_uint32 * 55)]


class Vulkan11Features(Chained):
    """VkPhysicalDeviceVulkan11Features"""

    NUMBER = 49
    _fields_ = [*_HEAD, ("values", c_uint32 * 12)]


class Vulkan12Features(Chained):
    """VkPhysicalDeviceVulkan12Features"""

    NUMBER = 51
    _fields_ = [*_HEAD, ("values", c_uint32 * 47)]
