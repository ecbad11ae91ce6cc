"""Vulkan's loader through ctypes: functions that are called here, and results that are errors."""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, c_int32, c_uint32, c_uint64, c_void_p
from typing import Any

from nnc.backends.gpu.signatures import declare
from nnc.backends.gpu.vulkan.structures import Handle
from nnc.errors import DeviceError

NAMES = {
    "linux": ("libvulkan.so.1", "libvulkan.so"),
    "darwin": ("libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"),
    "win32": ("vulkan-1.dll",),
}
OUT_OF_MEMORY = frozenset({-1, -2, -10})
LOST = -4
TIMEOUT = 2
RESULTS = {
    -1: "out of host memory", -2: "out of device memory", -3: "initialization failed", LOST: "device lost",
    -5: "mapping failed", -6: "layer not present", -7: "extension not present", -8: "feature not present",
    -9: "incompatible driver", -10: "too many objects", -13: "unknown error", -1000012000: "invalid shader",
}  # fmt: skip

_VOID = None
# The result, or nothing, and the arguments. `Any`: types of ctypes have no common name.
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "vkEnumerateInstanceVersion": (c_int32, (c_void_p,)),
    "vkEnumerateInstanceLayerProperties": (c_int32, (c_void_p, c_void_p)),
    "vkCreateInstance": (c_int32, (c_void_p, c_void_p, c_void_p)),
    "vkEnumeratePhysicalDevices": (c_int32, (c_void_p, c_void_p, c_void_p)),
    "vkGetPhysicalDeviceProperties2": (_VOID, (c_void_p, c_void_p)),
    "vkGetPhysicalDeviceFeatures2": (_VOID, (c_void_p, c_void_p)),
    "vkGetPhysicalDeviceMemoryProperties": (_VOID, (c_void_p, c_void_p)),
    "vkGetPhysicalDeviceQueueFamilyProperties": (_VOID, (c_void_p, c_void_p, c_void_p)),
    "vkCreateDevice": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "vkDestroyInstance": (_VOID, (c_void_p, c_void_p)),
    "vkDestroyDevice": (_VOID, (c_void_p, c_void_p)),
    "vkGetDeviceQueue": (_VOID, (c_void_p, c_uint32, c_uint32, c_void_p)),
    "vkDeviceWaitIdle": (c_int32, (c_void_p,)),
    "vkCreateBuffer": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "vkDestroyBuffer": (_VOID, (c_void_p, Handle, c_void_p)),
    "vkGetBufferMemoryRequirements": (_VOID, (c_void_p, Handle, c_void_p)),
    "vkGetBufferDeviceAddress": (c_uint64, (c_void_p, c_void_p)),
    "vkAllocateMemory": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "vkFreeMemory": (_VOID, (c_void_p, Handle, c_void_p)),
    "vkBindBufferMemory": (c_int32, (c_void_p, Handle, Handle, c_uint64)),
    "vkMapMemory": (c_int32, (c_void_p, Handle, c_uint64, c_uint64, c_uint32, c_void_p)),
    "vkCreateShaderModule": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "vkDestroyShaderModule": (_VOID, (c_void_p, Handle, c_void_p)),
    "vkCreatePipelineCache": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "vkGetPipelineCacheData": (c_int32, (c_void_p, Handle, c_void_p, c_void_p)),
    "vkDestroyPipelineCache": (_VOID, (c_void_p, Handle, c_void_p)),
    "vkDestroyPipelineLayout": (_VOID, (c_void_p, Handle, c_void_p)),
    "vkCreatePipelineLayout": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "vkCreateComputePipelines": (c_int32, (c_void_p, Handle, c_uint32, c_void_p, c_void_p, c_void_p)),
    "vkDestroyPipeline": (_VOID, (c_void_p, Handle, c_void_p)),
    "vkCreateCommandPool": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "vkDestroyCommandPool": (_VOID, (c_void_p, Handle, c_void_p)),
    "vkAllocateCommandBuffers": (c_int32, (c_void_p, c_void_p, c_void_p)),
    "vkFreeCommandBuffers": (_VOID, (c_void_p, Handle, c_uint32, c_void_p)),
    "vkBeginCommandBuffer": (c_int32, (c_void_p, c_void_p)),
    "vkEndCommandBuffer": (c_int32, (c_void_p,)),
    "vkCmdBindPipeline": (_VOID, (c_void_p, c_uint32, Handle)),
    "vkCmdPushConstants": (_VOID, (c_void_p, Handle, c_uint32, c_uint32, c_uint32, c_void_p)),
    "vkCmdDispatch": (_VOID, (c_void_p, c_uint32, c_uint32, c_uint32)),
    "vkCmdPipelineBarrier": (
        _VOID,
        (c_void_p, c_uint32, c_uint32, c_uint32, c_uint32, c_void_p, c_uint32, c_void_p, c_uint32, c_void_p),
    ),
    "vkCmdCopyBuffer": (_VOID, (c_void_p, Handle, Handle, c_uint32, c_void_p)),
    "vkCmdFillBuffer": (_VOID, (c_void_p, Handle, c_uint64, c_uint64, c_uint32)),
    "vkCmdUpdateBuffer": (_VOID, (c_void_p, Handle, c_uint64, c_uint64, c_void_p)),
    "vkCreateSemaphore": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "vkDestroySemaphore": (_VOID, (c_void_p, Handle, c_void_p)),
    "vkQueueSubmit": (c_int32, (c_void_p, c_uint32, c_void_p, Handle)),
    "vkWaitSemaphores": (c_int32, (c_void_p, c_void_p, c_uint64)),
    "vkGetSemaphoreCounterValue": (c_int32, (c_void_p, Handle, POINTER(c_uint64))),
}


def load_vulkan() -> object:
    """The loader; OSError where there is none, or one that is older than Vulkan 1.2."""
    library = _opened()
    declare(library, _SIGNATURES, "the loader is older than Vulkan 1.2")
    return library


def _opened() -> ctypes.CDLL:
    names = NAMES.get(sys.platform, ("libvulkan.so.1",))
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError(f"there is no {names[0]}: Vulkan's loader is not installed")


class VulkanLibrary:
    """Calls whose result is looked at."""

    def __init__(self, library: object) -> None:
        self.functions = library

    def result(self, name: str, *arguments: object) -> int:
        """What the function returns; 0 for nothing."""
        return int(getattr(self.functions, name)(*arguments) or 0)

    def call(self, name: str, *arguments: object) -> None:
        """Call it; DeviceError where it fails."""
        if (result := self.result(name, *arguments)) < 0:
            raise self.error(name, result)

    def error(self, name: str, result: int) -> DeviceError:
        """The error that a result stands for."""
        fix = "the device is lost to this process: keep what the host has, and start again" if result == LOST else ""
        got = f"{RESULTS.get(result, 'an error')} ({result})"
        return DeviceError(name, got=got, need="a call that succeeds", fix=fix)

    def handle(self, name: str, *arguments: object) -> int:
        """What a function makes, which it writes through its last argument, which is not given."""
        made = c_uint64()
        self.call(name, *arguments, ctypes.byref(made))
        return int(made.value)
