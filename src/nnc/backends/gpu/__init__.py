"""Devices beside the processor: drivers, memory, recorded programs, and the backends that run kernels on them."""
