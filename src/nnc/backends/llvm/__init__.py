"""The LLVM backend: target → typed IR builder → generators → JIT → native programs. Imports point down this list:

backend.py   what dispatch sees
run/         object code and its cache on disk, programs and their interpreter, workers and branches on them
kernels/     one generator per operator family, named as the file in `nnc/ops`, with its rows of the table of operators
frame/       what kernels share: phases, strided operands, rows, tiles, packing, strips, epilogues, 16 bits widened
ir/          llvmlite or why it is absent, the processor, the typed builder, mathematics and expressions on vectors

`kernels` and `run` do not know each other.
"""
