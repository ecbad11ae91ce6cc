"""The implementations of the operators: llvm (native code, the default), reference (NumPy, the oracle), vendors' own.

blas     matrix products by the library of NumPy
onednn   matrix products by oneDNN, where its wheel is installed
"""
