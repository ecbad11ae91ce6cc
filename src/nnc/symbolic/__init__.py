"""L3: graphs of tensor symbols without memory: build, differentiate, transform, plan, compile."""

from typing import TYPE_CHECKING

from nnc.faces import face, homes

if TYPE_CHECKING:
    from nnc.symbolic.compiler import (
        Arena,
        Budget,
        Compiled,
        LeastMemory,
        MemoryStatement,
        compile,
        least_memory,
        trim_after,
    )
    from nnc.symbolic.control import Loop, case_of, while_loop
    from nnc.symbolic.forward import hessian_vector_product, jvp
    from nnc.symbolic.gradient import Gradients, backward
    from nnc.symbolic.ir import Symbol, SymbolicGraph
    from nnc.symbolic.minimization import Minimized, Update, minimize
    from nnc.symbolic.passes import prune
    from nnc.symbolic.records import AliasOf, Dependency, ExecKey, ExecSymbol, TensorKey, TensorSymbol
    from nnc.symbolic.scopes import scope
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
    "LeastMemory",
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
    "trim_after",
    "faults",
    "hessian_vector_product",
    "jvp",
    "least_memory",
    "minimize",
    "prune",
    "scope",
    "verify",
    "while_loop",
]

# Modules are imported when a name of theirs is first used: a program from the disk needs few of them.
_HOMES = homes(
    {
        "nnc.symbolic.accumulate": "accumulate",
        "nnc.symbolic.auto": "auto",
        "nnc.symbolic.bodies": "bodies",
        "nnc.symbolic.compiler": "Arena Budget Compiled LeastMemory MemoryStatement compile least_memory trim_after "
        "compiler",
        "nnc.symbolic.control": "Loop case_of while_loop control",
        "nnc.symbolic.elements": "elements",
        "nnc.symbolic.formula": "formula",
        "nnc.symbolic.forward": "hessian_vector_product jvp forward",
        "nnc.symbolic.gradient": "Gradients backward gradient",
        "nnc.symbolic.ir": "Symbol SymbolicGraph ir",
        "nnc.symbolic.kept": "kept",
        "nnc.symbolic.minimization": "Minimized Update minimize minimization",
        "nnc.symbolic.passes": "prune passes",
        "nnc.symbolic.placement": "placement",
        "nnc.symbolic.quantization_report": "quantization_report",
        "nnc.symbolic.graph_records": "graph_records",
        "nnc.symbolic.records": "AliasOf Dependency ExecKey ExecSymbol TensorKey TensorSymbol records",
        "nnc.symbolic.region": "region",
        "nnc.symbolic.rewrite": "rewrite",
        "nnc.symbolic.scopes": "scope scopes",
        "nnc.symbolic.serialize": "serialize",
        "nnc.symbolic.sharing": "sharing",
        "nnc.symbolic.stages": "stages",
        "nnc.symbolic.text": "text",
        "nnc.symbolic.verification": "faults verify verification",
    }
)

if not TYPE_CHECKING:
    # A type checker reads the imports above instead.
    __getattr__, __dir__ = face(_HOMES, globals())
