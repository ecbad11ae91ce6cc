"""The passes by name, as transforms that need to know the wanted outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum

from nnc.core.values.dtype import BF16, F16
from nnc.graph import Changed, Transform
from nnc.ops.composed.fused import is_head, is_reduction
from nnc.symbolic.compiler.repeat.cheap import rematerialize
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.passes.algebra import ALGEBRA
from nnc.symbolic.passes.batch_norm import BATCH_NORM, FROZEN_BATCH_NORM
from nnc.symbolic.passes.branches import BRANCHES
from nnc.symbolic.passes.constants import CONSTANTS
from nnc.symbolic.passes.fusion import FUSION, LOGITS
from nnc.symbolic.passes.groups import fuse
from nnc.symbolic.passes.invariants import hoist
from nnc.symbolic.passes.layout import assign_layouts
from nnc.symbolic.passes.numbers.precision import lower_precision
from nnc.symbolic.passes.numbers.step_sums import sum_in_parts
from nnc.symbolic.passes.planes import split_planes
from nnc.symbolic.passes.pruning import prune
from nnc.symbolic.passes.subexpressions import eliminate_common
from nnc.symbolic.passes.transfer import TRANSFERS
from nnc.symbolic.placement import move_refused
from nnc.symbolic.records import TensorKey
from nnc.symbolic.rewrite import BACKEND, WANTED, Rule, rewrite

Wanted = tuple[Symbol, ...]


def counting(name: str, run: Callable[[SymbolicGraph, Wanted], Counter[str]]) -> Transform[SymbolicGraph]:
    """The pass of a function that tells how often each of its rules fired."""
    return serving(name, lambda graph, wanted, backend: run(graph, wanted))


def serving(name: str, run: Callable[[SymbolicGraph, Wanted, str], Counter[str]]) -> Transform[SymbolicGraph]:
    """The same of a function that asks whether the caller's backend claims what it makes."""

    def function(graph: SymbolicGraph, wanted: Wanted, backend: str) -> Changed:
        before = graph.version
        fired = run(graph, wanted, backend)
        return Changed(graph.version - before, +fired)

    return Transform(name, (WANTED, BACKEND), (WANTED, BACKEND), function)


def rewriting(name: str, rules: Sequence[Rule]) -> Transform[SymbolicGraph]:
    """The pass that applies rules until none fires, and prunes what they leave."""

    def run(graph: SymbolicGraph, wanted: Wanted, backend: str) -> Counter[str]:
        fired = rewrite(graph, rules, wanted, backend=backend)
        prune(graph, wanted)
        return fired

    return serving(name, run)


def _fuse(graph: SymbolicGraph, wanted: Wanted, backend: str) -> Counter[str]:
    dead = prune(graph, wanted)
    return Counter(removed=dead, fused=fuse(graph, wanted, backend))


def _fuse_exactly(graph: SymbolicGraph, wanted: Wanted, backend: str) -> Counter[str]:
    """Groups of pointwise execs that round as each of them does: to 16 bits, and in the order of a sum of its own."""
    dead = prune(graph, wanted)
    apart: list[TensorKey | None] = [key for key, record in graph.tensors.items() if record.spec.dtype in (F16, BF16)]
    for _, record in graph.execs.items():
        op = record.command.op
        apart += record.inputs if is_reduction(op) else record.outputs if is_head(op) else ()
    kept = [graph.symbol(key) for key in dict.fromkeys(apart) if key is not None]
    return Counter(removed=dead, fused=fuse(graph, (*wanted, *kept), backend))


def _split_planes(graph: SymbolicGraph, wanted: Wanted, backend: str) -> Counter[str]:
    fired = split_planes(graph, wanted, backend)
    if fired:
        prune(graph, wanted)
    return fired


class Pass(Enum):
    """The passes by name; the first four are NNC's."""

    COMMON_SUBEXPRESSIONS = counting(
        "common sub-expressions", lambda graph, wanted: Counter(removed=eliminate_common(graph, wanted))
    )
    DATA_TRANSFER = rewriting("data transfer", TRANSFERS)
    FUSION = rewriting("fusion", FUSION)
    PLANES = serving("planes", _split_planes)
    PRUNING = counting("pruning", lambda graph, wanted: Counter(removed=prune(graph, wanted)))
    ALGEBRA = rewriting("algebra", ALGEBRA)
    GROUPS = serving("fusion groups", _fuse)
    EXACT_GROUPS = serving("exact fusion groups", _fuse_exactly)
    CONSTANTS = rewriting("constants", CONSTANTS)
    BATCH_NORM = rewriting("batch norm", BATCH_NORM)
    FROZEN_BATCH_NORM = rewriting("frozen batch norm", FROZEN_BATCH_NORM)
    BRANCHES = rewriting("branches", BRANCHES)
    LAYOUT = counting("layout", assign_layouts)
    BFLOAT16 = counting("precision bf16", lambda graph, wanted: lower_precision(graph, wanted, BF16))
    FLOAT16 = counting("precision f16", lambda graph, wanted: lower_precision(graph, wanted, F16))
    REMATERIALIZATION = counting(
        "rematerialization", lambda graph, wanted: Counter(repeated=rematerialize(graph, wanted))
    )
    INVARIANTS = counting("loop invariants", lambda graph, wanted: Counter(hoisted=hoist(graph)))
    PLACEMENT = serving("placement", move_refused)
    LOGITS = rewriting("losses from logits", LOGITS)
    STEP_SUMS = counting("sums over steps", lambda graph, wanted: sum_in_parts(graph))

    def __reduce_ex__(self, protocol: object, /) -> tuple[Callable[[str], Pass], tuple[str]]:
        # By name: Python would pickle the value, which is a function.
        return pass_named, (self.name,)


def pass_named(name: str) -> Pass:
    """The pass of this name, such as `"FUSION"`."""
    return Pass[name]
