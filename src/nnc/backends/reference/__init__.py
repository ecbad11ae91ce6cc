"""The reference backend: every operator in plain NumPy, the oracle that the other backends are checked against.

arrays      kernel signature, reading and writing elements
window      sliding windows over the spatial axes
catalog     KERNELS, one row per operator
backend     ReferenceBackend
the rest    one file per family of operators, named as in nnc.ops
"""
