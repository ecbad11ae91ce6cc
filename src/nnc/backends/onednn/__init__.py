"""The oneDNN backend: matrix products by Intel's library, through the C interface of its wheel for processors alone.

It is absent where the wheel `onednn-cpu-gomp` is (`pip install nnc[onednn]`). It stands behind the reference in the
order of preference: only a measurement (`ConcreteGraph.autotune`) or a caller who names it chooses it.

library.py   the C interface
backend.py   what dispatch sees
"""
