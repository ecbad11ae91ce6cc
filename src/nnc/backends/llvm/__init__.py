"""The LLVM backend: target → typed IR builder → generators → JIT → native programs.

library.py      llvmlite, or why it is absent
target.py       what the processor can do
builder.py      the typed IR builder: values, loops, vectors, masks
mathematics.py  exp, log, tanh, erf … on vectors
access.py       strided operands, axes merged
kernel.py       phases and the kernels made of them
tile.py packing.py block_product.py strip.py epilogue.py gemv.py correlation.py correlation_plan.py depthwise.py
weight_gradient.py winograd.py winograd_algorithm.py winograd_plan.py   parts of products and convolutions
recurrent_cells.py recurrent_place.py   what recurrent networks do at a step, after its product
transposition.py     movements between two contiguous axes
<family>.py     one generator per operator family, named as the file in `nnc/ops`
jit.py          object code, its cache on disk, the loaded functions
branches.py     steps side by side, each on one worker
interpreter.py  the native program interpreter, as IR
runtime.py      programs, workers, barriers
engine.py       what a process has once: target, JIT, workers
catalog.py      which operator is served by which generator; catalog_*.py has the rows of a family
alternatives.py other generators for products and convolutions, which autotune measures
backend.py      what dispatch sees
"""
