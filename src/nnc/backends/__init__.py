"""The implementations of the operators: reference (NumPy, the oracle) and llvm (native code, the default)."""
