"""L3: graphs of tensor symbols without memory: build, differentiate, transform, plan, compile."""

from nnc.symbolic.compiler import Arena, Budget, Compiled, MemoryStatement, compile, give_back_after
from nnc.symbolic.control import Loop, case_of, while_loop
from nnc.symbolic.forward import hessian_vector_product, jvp
from nnc.symbolic.gradient import Gradients, backward
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.minimization import Minimized, Update, minimize
from nnc.symbolic.passes import prune
from nnc.symbolic.records import AliasOf, Dependency, ExecKey, ExecSymbol, TensorKey, TensorSymbol
from nnc.symbolic.scopes import scope
from nnc.symbolic.text import dump
from nnc.symbolic.verification import faults, verify

__all__ = [
    "Arena",
    "AliasOf",
    "Budget",
    "Compiled",
    "Dependency",
    "ExecKey",
    "ExecSymbol",
    "Gradients",
    "Loop",
    "MemoryStatement",
    "Minimized",
    "Symbol",
    "SymbolicGraph",
    "TensorKey",
    "TensorSymbol",
    "Update",
    "backward",
    "case_of",
    "compile",
    "give_back_after",
    "faults",
    "hessian_vector_product",
    "jvp",
    "minimize",
    "prune",
    "scope",
    "verify",
    "while_loop",
]

SymbolicGraph.written = dump
