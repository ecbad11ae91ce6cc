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
    arguments
    errors

Each layer is public and usable without the ones above it. Only this module knows the backends: it hands them to
`nnc.core.dispatch` in order of preference. `nnc.graph` and `nnc.planning` need the standard library alone, so where
NumPy is not installed nothing is wired and those two still work.
"""

from importlib import import_module
from importlib.util import find_spec

__version__ = "0.1.0"

if find_spec("numpy") is not None:
    from nnc.core.dispatch import DISPATCHER, Backend, DeferredBackend
    from nnc.planning.native import Loop, use_compiler

    def _make(module: str, name: str) -> Backend:
        """A backend, imported when a command first asks for it, so that importing the package stays quick."""
        backend: Backend = getattr(import_module(module), name)()
        return backend

    def _translate(loop: Loop) -> Loop:
        """A loop of a solver as native code."""
        native: Loop = import_module("nnc.backends.llvm.run.translate").translate(loop)
        return native

    DISPATCHER.add(DeferredBackend("llvm", lambda: _make("nnc.backends.llvm.backend", "LlvmBackend")))
    _reference = DeferredBackend("reference", lambda: _make("nnc.backends.reference.backend", "ReferenceBackend"))
    DISPATCHER.add(_reference, measured=False)
    DISPATCHER.add(DeferredBackend("blas", lambda: _make("nnc.backends.blas.backend", "BlasBackend")))
    DISPATCHER.add(DeferredBackend("onednn", lambda: _make("nnc.backends.onednn.backend", "OnednnBackend")))
    use_compiler(_translate)

__all__ = ["__version__"]
