"""Devices that Vulkan reaches, where its loader is; the instance lives as long as they do."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from ctypes import byref, c_char_p, c_uint32

from nnc.backends.gpu.driver import GpuDriver
from nnc.backends.gpu.vulkan import structures as vk
from nnc.backends.gpu.vulkan.engine import VulkanEngine
from nnc.backends.gpu.vulkan.library import VulkanLibrary, load_vulkan
from nnc.backends.gpu.vulkan.physical import VERSION_1_2, PhysicalDevice, physical_devices
from nnc.codegen.device.device_targets import vulkan_target
from nnc.core.settings import SETTINGS
from nnc.errors import DeviceError

KIND = "vulkan"
# In debugging it tells of calls that Vulkan does not allow, where it is installed.
VALIDATION = b"VK_LAYER_KHRONOS_validation"


class VulkanInstance:
    """What all begins with; it goes with its last holder."""

    def __init__(self, vulkan: VulkanLibrary) -> None:
        self.vulkan, self._process = vulkan, os.getpid()
        self.handle = _instance(vulkan)

    def __del__(
        self, is_finalizing: Callable[[], bool] = sys.is_finalizing, process: Callable[[], int] = os.getpid
    ) -> None:
        if not is_finalizing() and process() == self._process and hasattr(self, "handle"):
            self.vulkan.call("vkDestroyInstance", self.handle, None)


class VulkanDevices:
    """The devices of this machine that have what is needed."""

    def __init__(self) -> None:
        self.absence = ""
        self._devices: Sequence[PhysicalDevice] = ()
        self._instance: VulkanInstance | None = None
        try:
            self._instance = VulkanInstance(VulkanLibrary(load_vulkan()))
            self._devices = physical_devices(self._instance.vulkan, self._instance.handle)
            self.absence = (
                "" if self._devices else "no device with Vulkan 1.2, 64-bit integers and addresses of buffers"
            )
        except (OSError, DeviceError) as error:
            self.absence = str(error)

    @property
    def names(self) -> Sequence[str]:
        """Of the devices, cards first."""
        return tuple(device.name for device in self._devices)

    def open(self, number: int) -> VulkanEngine:
        """The device of a number."""
        instance, physical = self._instance, self._devices[number]
        assert instance is not None
        return VulkanEngine(instance.vulkan, physical, vulkan_target(physical.vulkan11.subgroup), instance)


def _instance(vulkan: VulkanLibrary) -> int:
    version = c_uint32()
    vulkan.call("vkEnumerateInstanceVersion", byref(version))
    if version.value < VERSION_1_2:
        raise DeviceError("vulkan", got="a loader of Vulkan 1.1", need="Vulkan 1.2")
    application = vk.ApplicationInfo(application=b"nnc", engine=b"nnc", api_version=VERSION_1_2)
    layers = (c_char_p * 1)(VALIDATION)
    info = vk.InstanceCreateInfo(application=ctypes.addressof(application))
    if SETTINGS.debug and VALIDATION in _layers(vulkan):
        info.layer_count, info.layers = 1, ctypes.addressof(layers)
    return vulkan.handle("vkCreateInstance", byref(info), None)


def _layers(vulkan: VulkanLibrary) -> set[bytes]:
    """The names of layers that are installed."""
    count = c_uint32()
    vulkan.call("vkEnumerateInstanceLayerProperties", byref(count), None)
    layers = (vk.LayerProperties * count.value)()
    vulkan.call("vkEnumerateInstanceLayerProperties", byref(count), layers)
    return {bytes(layer.name) for layer in layers}


def vulkan_driver() -> GpuDriver:
    """The driver of this machine."""
    return GpuDriver(KIND, VulkanDevices())
