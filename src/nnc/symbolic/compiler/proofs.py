"""What a compiled graph could take at the least: as it is ordered, in any order, and where execs run again."""

from __future__ import annotations

from dataclasses import replace

from nnc.arguments import Count, checked
from nnc.classes import dataclass
from nnc.core.values.storage import aligned
from nnc.errors import UsageError
from nnc.ops.movement.movement import CONCATENATE
from nnc.symbolic.compiler.compiled import Compiled
from nnc.symbolic.compiler.order.choose import predecessors
from nnc.symbolic.compiler.order.least import LeastPeak, OrdersAgain, OrdersOnce, least_peak, runs_of
from nnc.symbolic.compiler.order.uses import any_order_bytes

LOOKS = 100_000


@dataclass(frozen=True, slots=True)
class LeastMemory:
    """Bytes of a program's arena, and below which no plan of it can be.

    `this_order` is of the order that was chosen, `any_order` of all orders in which each exec runs once, and `again` of
    those in which execs run as often as that helps, whatever shares memory. Where a bound is `exact` there is an order
    of so many bytes, for which a plan may still need more.
    """

    arena: int
    this_order: int
    any_order: LeastPeak
    again: LeastPeak

    def __str__(self) -> str:
        def text(peak: LeastPeak) -> str:
            return f"{peak.nbytes} B" if peak.exact else f"{peak.nbytes} B, which may be too low"

        return (
            f"arena {self.arena} B; no plan of this order is below {self.this_order} B, none of any order below "
            f"{text(self.any_order)}, none that runs execs again below {text(self.again)}"
        )


@checked
def least_memory(compiled: Compiled, looks: Count = LOOKS) -> LeastMemory:
    """Search for the least bytes that a compiled graph needs: exact for some 30 execs, and bounds for larger ones.

    Each of some twenty searches looks at execs at most `looks` times, and gives what it knows where it is broken off.
    Bounds are not exact either where inputs of a concatenation, which may be computed in it, do not count, and with
    execs that run again where new values are written over old ones. Values in files take no memory. Raises
    `UsageError` for a graph with loops or branches, and for one on several devices.

    >>> from nnc import ops
    >>> from nnc.core.values.spec import spec
    >>> from nnc.symbolic import SymbolicGraph, compile
    >>> graph = SymbolicGraph()
    >>> wide = ops.broadcast_to(ops.exp(graph.input(spec((1, 16)))), (64, 16))
    >>> least = least_memory(compile(graph, [ops.reduce_sum(ops.sin(wide)), ops.reduce_sum(wide)]))
    >>> least.arena, least.any_order, least.again
    (4224, LeastPeak(nbytes=4224, exact=True), LeastPeak(nbytes=4224, exact=True))
    """
    planned, uses = compiled.planned, compiled.planned.uses
    graph = planned.graph
    if planned.inner or len(compiled.memory().arenas) > 1:
        got = "loops or branches" if planned.inner else "several kinds of memory"
        raise UsageError("least_memory", got=got, need="a graph without, in the memory of one device")
    before = predecessors(graph, planned.order, uses, compiled.bindings.carried)
    there = [root for root in planned.inputs() if root in uses.nbytes]
    # Blocks begin where memory is aligned.
    nbytes = {root: aligned(size) for root, size in uses.nbytes.items()}
    scratch = {key: aligned(size) for key, size in uses.scratch.items()}
    runs = runs_of(graph, replace(uses, nbytes=nbytes, scratch=scratch), before, there)
    low, high = max(any_order_bytes(graph, uses), runs.memory(runs.begin)), compiled.memory().lower_bound
    any_order = least_peak(OrdersOnce(runs, looks).enough, min(low, high), high)
    fits = any_order.nbytes if any_order.exact else high
    again = least_peak(OrdersAgain(runs, looks).enough, min(low, high), fits)
    counted = all(graph.execs[key].command.op is not CONCATENATE for key in planned.order)
    return LeastMemory(
        compiled.memory().arena,
        high,
        LeastPeak(max(any_order.nbytes, again.nbytes), any_order.exact and counted),
        LeastPeak(again.nbytes, again.exact and counted and not compiled.bindings.carried),
    )
