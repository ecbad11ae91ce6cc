"""Devices that Vulkan reaches, by its loader alone."""
