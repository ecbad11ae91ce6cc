"""The LLVM backend: what `nnc.codegen` writes becomes native programs. Imports point down this list:

backend.py   what dispatch sees
measure.py   times of kernels in their place
run/         this processor, object code and its cache on disk, programs and their interpreter, workers and branches
library.py   llvmlite, or why it is absent
"""
