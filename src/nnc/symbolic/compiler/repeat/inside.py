"""What runs again inside of branches and loops: copies of a graph whose bodies compute values again.

    level   bytes;  each body runs as the least work says that keeps its own peak at the level, or as low as it can

The points of a body are those of any graph; nothing depends on a limit. The levels are the peaks of all points.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.symbolic.bodies import Renamed, change_bodies
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.compiler.repeat.budget import Compilation, Option, options
from nnc.symbolic.compiler.repeat.program import work_of
from nnc.symbolic.ir import Body, Duplicate, SymbolicGraph, bodies_of
from nnc.symbolic.records import TensorKey

# At most this many levels of nested bodies are tried: each is a plan of the whole graph and a search in it.
LEVELS = 12
# Bodies of less than this share of the arena are left alone.
SMALLEST_SHARE = 1 / 8


@dataclass(frozen=True, slots=True, eq=False)
class InnerCopy:
    """A copy of a graph in whose bodies so many execs run `again`, the `extra` work of that, and bytes `offloaded`.

    To the host or a file and back these take `offload_seconds`.
    """

    copy: Duplicate
    again: int
    extra: int
    offloaded: int = 0
    offload_seconds: float = 0.0


def recomputed_inside(planned: PlannedGraph) -> Iterator[InnerCopy]:
    """Copies whose bodies take ever less memory and ever more work."""
    bodies = [body for body in _bodies_of(planned) if body.arena > SMALLEST_SHARE * planned.arena]
    trails = {id(body.graph): _trail(body) for body in bodies}
    peaks = sorted({option.peak for trail in trails.values() for option in trail[1:]}, reverse=True)
    step = -(-len(peaks) // LEVELS)
    for level in reversed(peaks[::-1][:: step or 1]):
        work = _InnerWriter(trails, level)
        copy = planned.graph.duplicate()
        work.rewrite(copy.graph)
        pairs = ((planned.graph.execs[key], copy.graph.execs[copy.execs[key]]) for key in planned.order)
        extra = sum(work_of(copy.graph, new) - work_of(planned.graph, old) for old, new in pairs)
        yield InnerCopy(copy, work.again, extra)


def _bodies_of(planned: PlannedGraph) -> Iterator[PlannedGraph]:
    waiting = [planned]
    while waiting:
        inner = [body for bodies in waiting.pop().inner.values() for body in bodies]
        waiting.extend(inner)
        yield from inner


def _trail(body: PlannedGraph) -> Sequence[Option]:
    return options([Compilation(body.graph, body.order, body.uses, {}, 0, body.arena, body.order[: body.tested])])


class _InnerWriter:
    """Writes into a graph what the trails of its bodies, by the identity of their graphs, say for a level."""

    def __init__(self, trails: Mapping[int, Sequence[Option]], level: int) -> None:
        self.trails = trails
        self.level = level
        self.again = 0

    def rewrite(self, graph: SymbolicGraph) -> None:
        """Change all bodies of a graph that may be changed."""
        for key in graph.execs.toposort():
            record = graph.execs[key]
            if bodies_of(record.command):
                graph.replace_exec(key, replace(record, command=change_bodies(record.command, self._changed)))

    def _changed(self, body: Body, named: tuple[TensorKey, ...]) -> tuple[Body, Renamed]:
        trail = self.trails.get(id(body.graph), ())
        chosen = next((option for option in trail if option.peak <= self.level), trail[-1] if trail else None)
        if chosen is None or chosen is trail[0]:
            copy = body.graph.duplicate()
        else:
            copy = chosen.written()
            self.again += chosen.budget(0).repeated
        self.rewrite(copy.graph)
        parameters, results = (tuple(copy.tensors[key] for key in keys) for keys in (body.parameters, body.results))
        return Body(copy.graph, parameters, results), copy.tensors
