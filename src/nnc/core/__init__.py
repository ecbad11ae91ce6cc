"""L1: element types, shapes, devices, tensors, commands, dispatch, streams, files.

dtype  device  spec     what a tensor is, without memory
storage  tensor         memory and typed views of it
command  dispatch       an operator with its attributes, and who runs it
stream                  ordered execution on real threads, signals between streams
serialize               safetensors files, written whole or not at all
settings  origin        what the environment says; where the user's line is
"""

from time import time as _time

# When modules of this layer, and of those above it, began to be read.
LOADED = _time()
