"""The BLAS backend: matrix products by the library that NumPy was built with.

It stands behind the reference in the order of preference: only a measurement (`ConcreteGraph.autotune`) or a caller
who names it chooses it. Its threads are its own, so sums may have other bits from run to run.
"""
