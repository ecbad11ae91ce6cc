"""The programs of `nnc train`, one module each."""
