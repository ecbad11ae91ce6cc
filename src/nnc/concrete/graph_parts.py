"""Parts of a concrete graph, from some nodes to others: their schedules, and what runs of them were prepared."""

from __future__ import annotations

from typing import TypeAlias

from nnc.classes import dataclass
from nnc.concrete.body import ConcreteBody, ExecKey
from nnc.concrete.prepare import Prepared, prepare
from nnc.concrete.schedule import Schedule
from nnc.errors import StaleError

Keys: TypeAlias = tuple[ExecKey, ...]


@dataclass(frozen=True, slots=True)
class GraphSchedule:
    """A static schedule of a graph, or of the part from `sources` to `destinations`, as of one version of the graph."""

    table: Schedule[ExecKey]
    streams: int
    sources: Keys | None
    destinations: Keys | None
    version: int

    def __str__(self) -> str:
        return str(self.table)

    def part(self, version: int) -> tuple[Keys | None, Keys | None]:
        """From where to where; StaleError where the graph has another version now."""
        if self.version != version:
            raise StaleError(
                "run",
                got=f"a schedule of version {self.version}; the graph is at version {version}",
                need="a schedule of the graph as it is",
                fix="schedule() again",
            )
        return self.sources, self.destinations


class PreparedParts:
    """What runs of parts of a body were prepared, with the nodes of each; what a change made stale is forgotten."""

    def __init__(self, body: ConcreteBody) -> None:
        self._body = body
        self._kept: dict[tuple[Keys | None, Keys | None, int], tuple[Prepared, frozenset[ExecKey]]] = {}

    def get(self, sources: Keys | None, destinations: Keys | None, streams: int) -> tuple[Prepared, frozenset[ExecKey]]:
        """The plan of a part on at most so many streams."""
        key = (sources, destinations, streams)
        prepared = self._kept.get(key)
        if prepared is None or not prepared[0].is_current:
            keys = self._body.span(sources, destinations)
            prepared = prepare(self._body, keys, streams), frozenset(keys)
            self._kept = {other: kept for other, kept in self._kept.items() if kept[0].is_current}
            self._kept[key] = prepared
        return prepared
