"""What may be read of a graph: the protocols that analyses and algorithms take.

`Topology` is nodes and neighbours; `GraphView` adds records. Neither has a way to change anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, NewType, Protocol, TypeVar

from nnc.classes import dataclass

EdgeKey = NewType("EdgeKey", int)

K = TypeVar("K", bound=int)
K_co = TypeVar("K_co", bound=int, covariant=True)
N_co = TypeVar("N_co", covariant=True)
E_co = TypeVar("E_co", covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class Edge(Generic[K_co, E_co]):
    """`source -> target` with data; parallel edges are different records."""

    source: K_co
    target: K_co
    data: E_co


class Versioned(Protocol):
    """Anything whose changes can be counted."""

    @property
    def version(self) -> int:
        """Grows with each change."""
        ...


class Keyed(Versioned, Protocol[K_co]):
    """Anything that has keys and counts its changes: an arena, a graph."""

    def __contains__(self, key: object, /) -> bool: ...
    def __iter__(self) -> Iterator[K_co]: ...


class Topology(Protocol[K]):
    """Nodes and who follows whom: all that the graph algorithms need."""

    def __contains__(self, key: object, /) -> bool: ...
    def nodes(self) -> tuple[K, ...]:
        """All live keys, ascending."""
        ...

    def predecessors(self, key: K, /) -> tuple[K, ...]:
        """The distinct sources of the edges that enter, in order of the first such edge."""
        ...

    def successors(self, key: K, /) -> tuple[K, ...]:
        """The distinct targets of the edges that leave, in order of the first such edge."""
        ...


class GraphView(Topology[K], Keyed[K], Protocol[N_co, E_co, K]):
    """The read-only half of a graph."""

    def __len__(self) -> int: ...
    def __getitem__(self, key: K, /) -> N_co: ...
    def items(self) -> Iterator[tuple[K, N_co]]:
        """Pairs of key and node record, by ascending key."""
        ...

    def edge(self, key: EdgeKey, /) -> Edge[K, E_co]:
        """The edge's record."""
        ...

    def edges(self) -> tuple[EdgeKey, ...]:
        """All live edge keys, ascending."""
        ...

    def in_edges(self, key: K, /) -> tuple[EdgeKey, ...]:
        """The edges that enter the node, in the order in which they were added."""
        ...

    def out_edges(self, key: K, /) -> tuple[EdgeKey, ...]:
        """The edges that leave the node, in the order in which they were added."""
        ...
