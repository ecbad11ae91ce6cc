"""The LLVM backend: target → typed IR builder → one generator per operator family → JIT → native programs.

target.py      what the processor can do
builder.py     the typed IR builder: values, loops, vectors, masks
mathematics.py exp, log, tanh, erf ... on vectors
kernel.py      phases and the kernels made of them
jit.py         object code, the cache on disk, the loaded functions
runtime.py     native programs, their workers and barriers
<family>.py    one generator per operator family
backend.py     which operator is served by which generator
"""
