"""NNC: a layered neural network collection.

Imports only point down this list:

    cli
    onnx
    sklearn
    nn
    array_api
    dynamic
    symbolic
    concrete
    backends
    codegen
    ops
    planning
    core
    graph
    arguments
    classes
    vocabulary
    errors

The names that a user lives with stand here, and their modules are imported when one is first used:

    x = nnc.variable([1.0, 2.0])             tensor, variable, f32 …, ops, no_grad: eager values on one graph
    nnc.grad(lambda x: (x * x).sum())(x)     value_and_grad, vjp, jvp, hessian: derivatives of functions
    nnc.vmap(function)(batch)                one example's function for a batch, by the rules of operators
    nnc.compile(function)                    one native program per signature; cond, while_loop, scan inside
    nnc.nn.Model(nnc.nn.Dense(10), (64,))    layers, models, optimizers
    nnc.save("a.safetensors", {"x": x})      load
    with nnc.profile() as p: …               where the time goes

Each layer is public and usable without the ones above it. Only this module knows the backends: it hands them to
`nnc.core.running.dispatch` in order of preference. `nnc.graph` and `nnc.planning` need the standard library alone, so
where NumPy is not installed nothing is wired and those two still work.
"""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnc import array_api, concrete, core, dynamic, errors, graph, nn, ops, planning, symbolic
    from nnc import onnx as onnx
    from nnc import sklearn as sklearn
    from nnc.concrete.profiling import profile
    from nnc.core.values.dtype import BF16 as bf16
    from nnc.core.values.dtype import BOOL as bool_
    from nnc.core.values.dtype import F16 as f16
    from nnc.core.values.dtype import F32 as f32
    from nnc.core.values.dtype import F64 as f64
    from nnc.core.values.dtype import I8 as i8
    from nnc.core.values.dtype import I16 as i16
    from nnc.core.values.dtype import I32 as i32
    from nnc.core.values.dtype import I64 as i64
    from nnc.core.values.dtype import U8 as u8
    from nnc.core.values.spec import spec
    from nnc.dynamic.batched import vmap
    from nnc.dynamic.compilation import compile
    from nnc.dynamic.control_flow import cond, scan, while_loop
    from nnc.dynamic.differentiation import grad, hessian, jvp, value_and_grad, vjp
    from nnc.dynamic.eager import lazy, memoized, no_grad, tensor, variable
    from nnc.dynamic.randomness import dropout, normal, seed, uniform
    from nnc.dynamic.recomputation import checkpoint, iterate
    from nnc.dynamic.variable import Variable
    from nnc.nn.files.files import load, save

__version__ = "0.1.0"

# Where the names of the front door live, and what they are called there.
_LAYERS = (
    "array_api", "concrete", "core", "dynamic", "errors", "graph", "nn", "onnx", "ops", "planning", "sklearn",
    "symbolic",
)  # fmt: skip
_HOMES = {
    **dict.fromkeys(("tensor", "variable", "no_grad", "lazy", "memoized"), "nnc.dynamic.eager"),
    **dict.fromkeys(("grad", "value_and_grad", "vjp", "jvp", "hessian"), "nnc.dynamic.differentiation"),
    **dict.fromkeys(("cond", "while_loop", "scan"), "nnc.dynamic.control_flow"),
    **dict.fromkeys(("dropout", "normal", "seed", "uniform"), "nnc.dynamic.randomness"),
    **dict.fromkeys(("load", "save"), "nnc.nn.files"),
    **dict.fromkeys(("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool_"), "nnc.core.values.dtype"),
    **dict.fromkeys(("checkpoint", "iterate"), "nnc.dynamic.recomputation"),
    "compile": "nnc.dynamic.compilation",
    "profile": "nnc.concrete.profiling",
    "vmap": "nnc.dynamic.batched",
    "spec": "nnc.core.values.spec",
    "Variable": "nnc.dynamic.variable",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAYERS, *_HOMES})


if not TYPE_CHECKING:
    # A type checker reads the imports above instead, so that a name that is not there stays an error.
    def __getattr__(name: str) -> object:
        if name in _LAYERS:
            return import_module(f"nnc.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'nnc' has no attribute {name!r}")
        home = import_module(_HOMES[name])
        value = getattr(home, name.rstrip("_").upper() if _HOMES[name] == "nnc.core.values.dtype" else name)
        globals()[name] = value
        return value


if find_spec("numpy") is not None:
    from nnc.core.precautions.forking import FORK_GUARD
    from nnc.core.running.dispatch import DISPATCHER, Backend, DeferredBackend
    from nnc.core.running.namespace import use_namespace
    from nnc.planning.native import Loop, use_compiler

    def _make(module: str, name: str) -> Backend:
        """A backend, imported when a command first asks for it, so that importing the package stays quick."""
        with FORK_GUARD:
            backend: Backend = getattr(import_module(module), name)()
        return backend

    def _translate(loop: Loop) -> Loop:
        """A loop of a solver as native code."""
        with FORK_GUARD:
            native: Loop = import_module("nnc.backends.llvm.run.translate").translate(loop)
        return native

    _llvm = DeferredBackend("llvm", lambda: _make("nnc.backends.llvm.backend", "LlvmBackend"))
    DISPATCHER.add(_llvm, packages=("llvmlite",))
    _reference = DeferredBackend("reference", lambda: _make("nnc.backends.reference.backend", "ReferenceBackend"))
    DISPATCHER.add(_reference, measured=False)
    DISPATCHER.add(DeferredBackend("blas", lambda: _make("nnc.backends.blas.backend", "BlasBackend")))
    _onednn = DeferredBackend("onednn", lambda: _make("nnc.backends.onednn.backend", "OnednnBackend"))
    DISPATCHER.add(_onednn, packages=("onednn-cpu-gomp",))
    use_compiler(_translate)

    def _namespace(version: str | None) -> ModuleType:
        """The array API of that version of the standard."""
        namespace: ModuleType = import_module("nnc.array_api").namespace_of(version)
        return namespace

    use_namespace(_namespace)

# All that can be had without an extra: `onnx` and `sklearn` are asked for by their names.
__all__ = [
    "Variable",
    "__version__",
    "array_api",
    "bf16",
    "bool_",
    "checkpoint",
    "compile",
    "concrete",
    "cond",
    "core",
    "dropout",
    "dynamic",
    "errors",
    "f16",
    "f32",
    "f64",
    "grad",
    "graph",
    "hessian",
    "i16",
    "i32",
    "i64",
    "i8",
    "iterate",
    "jvp",
    "lazy",
    "load",
    "memoized",
    "nn",
    "no_grad",
    "normal",
    "ops",
    "planning",
    "profile",
    "save",
    "scan",
    "seed",
    "spec",
    "symbolic",
    "tensor",
    "u8",
    "uniform",
    "value_and_grad",
    "variable",
    "vjp",
    "vmap",
    "while_loop",
]
