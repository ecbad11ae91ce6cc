"""L1: element types, shapes, devices, tensors, commands, dispatch, streams, files.

values/       what a tensor is without its memory, memory and typed views of it, commands, safetensors files
running/      who runs a command on given specs; streams on threads, signals between them
precautions/  files replaced whole, caches with limits, work kept from Ctrl-C, forks
settings.py   what the environment and the caller ask of the process; byte_counts.py bytes as people write them
quantization_modes.py  the ways in which weights are fewer bits
"""

from time import time as _time

# When modules of this layer, and of those above it, began to be read.
LOADED = _time()
