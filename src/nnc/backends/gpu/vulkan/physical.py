"""What the loader tells of a device: properties, features, memory types and queues."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_uint32, c_void_p

from nnc.backends.gpu.vulkan import structures as vk
from nnc.backends.gpu.vulkan.library import VulkanLibrary
from nnc.classes import dataclass
from nnc.core.running.devices import DeviceFacts

# Places of the features that are used, in the order of the headers.
CORE = {"f64": 39, "i64": 40, "i16": 41}
STORAGE_16 = 0
VULKAN_12 = {
    "storage_8": 2,
    "f16": 7,
    "i8": 8,
    "scalar_layout": 31,
    "timeline": 37,
    "addresses": 38,
    "memory_model": 41,
}
NEEDED = ("i64", "timeline", "addresses")
DEVICE_LOCAL, HOST_VISIBLE, HOST_COHERENT, HOST_CACHED = 1, 2, 4, 8
COMPUTE = 2
VERSION_1_2 = (1 << 22) | (2 << 12)
# By the type that a device says it is: a card, a part of the processor, a virtual one, the processor, another.
ORDER = {2: 0, 1: 1, 3: 2, 4: 3, 0: 4}
SHARES_MEMORY = (1, 4)
# Operations between the threads of a subgroup.
SHUFFLES = 16


@dataclass(frozen=True, slots=True, eq=False)
class PhysicalDevice:
    """A device that is not opened."""

    handle: int
    properties: vk.DeviceProperties
    vulkan11: vk.Vulkan11Properties
    floats: vk.FloatControls
    core: vk.DeviceFeatures
    features11: vk.Vulkan11Features
    features12: vk.Vulkan12Features
    memory: vk.MemoryProperties
    family: int

    @classmethod
    def of(cls, library: VulkanLibrary, handle: int) -> PhysicalDevice:
        """All that is asked of it."""
        floats = vk.FloatControls()
        vulkan11 = vk.Vulkan11Properties(next=ctypes.addressof(floats))
        properties = vk.DeviceProperties(next=ctypes.addressof(vulkan11))
        library.call("vkGetPhysicalDeviceProperties2", handle, byref(properties))
        features12 = vk.Vulkan12Features()
        features11 = vk.Vulkan11Features(next=ctypes.addressof(features12))
        core = vk.DeviceFeatures(next=ctypes.addressof(features11))
        library.call("vkGetPhysicalDeviceFeatures2", handle, byref(core))
        memory = vk.MemoryProperties()
        library.call("vkGetPhysicalDeviceMemoryProperties", handle, byref(memory))
        return cls(handle, properties, vulkan11, floats, core, features11, features12, memory, _family(library, handle))

    @property
    def name(self) -> str:
        """As its driver names it."""
        return bytes(self.properties.name).decode(errors="replace")

    @property
    def rank(self) -> int:
        """Cards come before what shares the processor's memory."""
        return ORDER.get(self.properties.kind, len(ORDER))

    @property
    def float_controls(self) -> tuple[int, ...]:
        """The bits of floats whose signs of zeros, infinities and NaN are kept where that is asked."""
        return tuple(bits for bits, kept in zip((16, 32, 64), self.floats.special, strict=True) if kept)

    @property
    def shares_memory(self) -> bool:
        """Whether its memory is the host's too."""
        return self.properties.kind in SHARES_MEMORY

    @property
    def has(self) -> frozenset[str]:
        """Names of the features that it has."""
        names = {name for name, place in CORE.items() if self.core.values[place]}
        names |= {name for name, place in VULKAN_12.items() if self.features12.values[place]}
        return frozenset(names | ({"storage_16"} if self.features11.values[STORAGE_16] else set()))

    @property
    def lacks(self) -> str:
        """What it must have and has not; empty where nothing is missing."""
        if self.properties.api_version < VERSION_1_2:
            return "Vulkan 1.2"
        if self.family < 0:
            return "a queue for computing"
        return " ".join(name for name in NEEDED if name not in self.has)

    @property
    def facts(self) -> DeviceFacts:
        """In the words of the core."""
        limits, heaps = self.properties.limits, self.memory
        local = [
            heaps.heaps[place].size for place in range(heaps.heap_count) if heaps.heaps[place].flags & DEVICE_LOCAL
        ]
        threads = min(limits.group_threads, limits.group_sizes[0])
        features = self.has - {"timeline", "addresses", "scalar_layout"}
        if self.vulkan11.operations & SHUFFLES:
            features |= {"shuffles"}
        return DeviceFacts(
            self.name, max(local, default=0), self.vulkan11.subgroup, threads, limits.group_bytes, self.shares_memory,
            features,
        )  # fmt: skip

    def wanted_features(self) -> tuple[vk.DeviceFeatures, vk.Vulkan11Features, vk.Vulkan12Features]:
        """The chain that asks for what is used and there."""
        has = self.has
        features12 = vk.Vulkan12Features()
        for name, place in VULKAN_12.items():
            features12.values[place] = name in has
        features11 = vk.Vulkan11Features(next=ctypes.addressof(features12))
        features11.values[STORAGE_16] = "storage_16" in has
        core = vk.DeviceFeatures(next=ctypes.addressof(features11))
        for name, place in CORE.items():
            core.values[place] = name in has
        return core, features11, features12

    def memory_type(self, allowed: int, wanted: int, liked: int = 0) -> int:
        """A type among the allowed ones with all flags that are wanted, and most that are liked; -1 for none."""
        types = [self.memory.types[place].flags for place in range(self.memory.type_count)]
        fitting = [n for n, flags in enumerate(types) if allowed >> n & 1 and flags & wanted == wanted]
        return max(fitting, key=lambda n: ((types[n] & liked).bit_count(), -n), default=-1)

    def flags_of(self, kind: int) -> int:
        """The flags of a memory type."""
        return int(self.memory.types[kind].flags)


def _family(library: VulkanLibrary, handle: int) -> int:
    """The first family of queues that compute; -1 for none."""
    count = c_uint32()
    library.call("vkGetPhysicalDeviceQueueFamilyProperties", handle, byref(count), None)
    families = (vk.QueueFamilyProperties * count.value)()
    library.call("vkGetPhysicalDeviceQueueFamilyProperties", handle, byref(count), families)
    return next((number for number, family in enumerate(families) if family.flags & COMPUTE), -1)


def physical_devices(library: VulkanLibrary, instance: int) -> list[PhysicalDevice]:
    """Those that can be used, cards first."""
    count = c_uint32()
    library.call("vkEnumeratePhysicalDevices", instance, byref(count), None)
    handles = (c_void_p * count.value)()
    library.call("vkEnumeratePhysicalDevices", instance, byref(count), handles)
    devices = [PhysicalDevice.of(library, int(handle or 0)) for handle in handles[: count.value]]
    return sorted((device for device in devices if not device.lacks), key=lambda device: device.rank)
