"""NNC: a layered neural network collection.

Imports only point down this list:

    cli
    onnx
    nn
    dynamic
    symbolic
    concrete
    backends
    ops
    planning
    core
    graph
    errors

Each layer is public and usable without the ones above it. Only this module knows the backends: it hands them to
`nnc.core.dispatch` in order of preference. `nnc.graph` and `nnc.planning` need the standard library alone, so where
NumPy is not installed nothing is wired and those two still work.
"""

from importlib.util import find_spec

__version__ = "0.1.0"

if find_spec("numpy") is not None:
    from nnc.backends.llvm.backend import LlvmBackend
    from nnc.backends.reference.backend import ReferenceBackend
    from nnc.core.dispatch import DISPATCHER

    DISPATCHER.add(LlvmBackend())
    DISPATCHER.add(ReferenceBackend())

__all__ = ["__version__"]
