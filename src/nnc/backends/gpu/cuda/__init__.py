"""NVIDIA's devices by their driver's library, without a toolkit."""
