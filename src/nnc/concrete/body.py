"""What a concrete graph is made of: nodes, edges, and how it loops when it is the body of a `while`.

    Exec         a command on places
    Noop         no command: a point to break at, to begin or end with, or to call a function at
    WhileExec    a body that runs again and again
    CaseOfExec   one of several bodies, or none

A body belongs to at most one node. `nnc.concrete.graph.ConcreteGraph` edits and runs it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import ClassVar, NewType, TypeAlias, assert_never

from nnc.classes import dataclass
from nnc.concrete.control import Choice, Test
from nnc.concrete.counter import Counter
from nnc.concrete.multiview import Carry, Place
from nnc.concrete.tape import Node
from nnc.core.precautions.shield import Shield
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.running.dispatch import Claim
from nnc.core.running.stream import Stream, Task
from nnc.core.values.command import AnyCommand
from nnc.core.values.tensor import Tensor
from nnc.graph import Graph

ExecKey = NewType("ExecKey", int)
Places: TypeAlias = tuple[Place | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Exec:
    """A command with what it reads and writes, the claim that runs it, and scratch memory if it was given any."""

    command: AnyCommand
    inputs: Places
    outputs: Places
    claim: Claim
    workspace: Tensor | None = None
    name: str = ""
    origin: str = ""

    @property
    def is_fixed(self) -> bool:
        """True when every place is a tensor, so that a program can be made once and for all."""
        return all(place is None or isinstance(place, Tensor) for place in (*self.inputs, *self.outputs))


@dataclass(frozen=True, slots=True, eq=False)
class Noop:
    """A node without a command; its `action`, if it has one, is called each time that the node runs."""

    name: str = ""
    origin: str = ""
    action: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class WhileExec:
    """Runs `body` until its test fails; with `forward`, as many times as that loop ran, backwards."""

    body: ConcreteBody
    forward: Node | None = None
    name: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class CaseOfExec:
    """Runs the branch that `choice` + `offset` names, if there is one, and sets the phis among `outputs`."""

    choice: Choice
    outputs: tuple[Place, ...]
    offset: int = 0
    branches: Mapping[int, ConcreteBody] = field(default_factory=dict)
    name: str = ""
    origin: str = ""


Record: TypeAlias = Exec | Noop | WhileExec | CaseOfExec


@dataclass(frozen=True, slots=True)
class ExecDependency:
    """Why one exec follows another: `data` read after write, or `memory` that both use."""

    reason: str = "data"


class StreamPool(Uncopied):
    """The streams that a body runs on beside the one that it is run on. Threads start with their first work."""

    instead: ClassVar[str] = "build the graph again"

    def __init__(self, name: str) -> None:
        self.name = name
        self._streams: list[Stream] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    def take(self, count: int) -> tuple[Stream, ...]:
        """The first `count` streams, the same ones each time (fresh ones in a forked child)."""
        if self._process != os.getpid():
            self._streams, self._lock, self._process = [], threading.Lock(), os.getpid()
        with self._lock:
            for number in range(len(self._streams), count):
                self._streams.append(Stream(f"{self.name or 'graph'}-{number + 1}"))
            return tuple(self._streams[:count])

    def submit(self, tasks: Sequence[Task]) -> None:
        """One task to each of the first streams, all at once: two runs can never wait for each other crosswise."""
        streams = self.take(len(tasks))
        with Shield(), self._lock:
            for stream, task in zip(streams, tasks, strict=True):
                stream.submit(task)


@dataclass(slots=True, eq=False)
class ConcreteBody(Uncopied):
    """The structure of a graph. `edits` counts changes that `execs` does not see."""

    instead: ClassVar[str] = "build the graph again, on tensors of its own"

    name: str = ""
    execs: Graph[Record, ExecDependency, ExecKey] = field(default_factory=lambda: Graph(ExecKey))
    counter: Counter = field(default_factory=Counter)
    sources: tuple[ExecKey, ...] | None = None
    destinations: tuple[ExecKey, ...] | None = None
    test: Test | None = None
    breakpoints: tuple[ExecKey, ...] = ()
    carry_overs: tuple[tuple[Place, Carry], ...] = ()
    streams: StreamPool = field(default_factory=lambda: StreamPool("graph"))
    edits: int = 0

    @property
    def version(self) -> int:
        """Grows with each change."""
        return self.execs.version + self.edits

    def span(self, sources: Iterable[ExecKey] | None, destinations: Iterable[ExecKey] | None) -> tuple[ExecKey, ...]:
        """All nodes on the way from the sources to the destinations, both included, in topological order."""
        chosen: frozenset[ExecKey] | None = None
        if sources is not None:
            chosen = self.execs.reachable(sources)
        if destinations is not None:
            before = self.execs.reachable(destinations, reverse=True)
            chosen = before if chosen is None else chosen & before
        return self.execs.toposort(chosen)

    def split(self) -> tuple[tuple[ExecKey, ...], tuple[ExecKey, ...]]:
        """The nodes of an iteration up to and including the breakpoints, and all others."""
        span = self.span(self.sources, self.destinations)
        upto = self.execs.reachable(self.breakpoints, reverse=True)
        return tuple(key for key in span if key in upto), tuple(key for key in span if key not in upto)


def bodies_of(record: Record) -> tuple[tuple[str, ConcreteBody], ...]:
    """The bodies inside a node, each with what it is there."""
    match record:
        case Exec() | Noop():
            return ()
        case WhileExec():
            return (("body", record.body),)
        case CaseOfExec():
            return tuple((f"case {index}", body) for index, body in sorted(record.branches.items()))
        case _:
            assert_never(record)


def all_bodies(root: ConcreteBody) -> tuple[ConcreteBody, ...]:
    """The body and all inside it, a body before those within."""
    bodies = [root]
    for body in bodies:
        bodies.extend(inner for _, record in body.execs.items() for _, inner in bodies_of(record))
    return tuple(bodies)
