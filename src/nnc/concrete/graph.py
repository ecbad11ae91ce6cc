"""The concrete graph: commands on real tensors, in an order that data and shared memory force.

Nodes hold a command with its tensors; edges say what must come first. `run` is one call: consecutive nodes of one
backend become one program, so a native backend pays one call for all of them.

    body.set_while(CountBelow(5), breakpoints=[start]);  graph.while_loop(body)
    graph.case_of(choose, inputs=[x], outputs=[phi]);    graph.set_case(node, 0, branch)
    graph.run(stream, schedule=graph.schedule(streams=2), tape=tape)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, TypeVar

from nnc.arguments import explained
from nnc.concrete.autotune import TuneOptions, tune_bodies
from nnc.concrete.body import (
    CaseOfExec,
    ConcreteBody,
    Exec,
    ExecDependency,
    ExecKey,
    Noop,
    Record,
    StreamPool,
    WhileExec,
    bodies_of,
)
from nnc.concrete.check import check_memory, check_optional, check_outputs, check_places, specs_of
from nnc.concrete.control import Choice, PythonChoice, PythonTest, Test
from nnc.concrete.counter import Counter
from nnc.concrete.graph_parts import GraphSchedule, Keys, PreparedParts
from nnc.concrete.multiview import Carry, Multiview, MultiviewKind, Place
from nnc.concrete.pending import PendingRuns
from nnc.concrete.prepare import make_body_schedule, workspace_spec
from nnc.concrete.report import Served, report
from nnc.concrete.run import Action, Context, Fixed, fixed_parts, never
from nnc.concrete.tape import Node, Tape, TapeAccess
from nnc.concrete.text import dump, to_dot
from nnc.core.precautions.origin import caller_origin
from nnc.core.precautions.shield import Shield
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.running.dispatch import DISPATCHER, Claim, Dispatcher
from nnc.core.running.stream import Signal, Stream
from nnc.core.settings import SETTINGS
from nnc.core.values.command import AnyCommand
from nnc.core.values.recorder import PROFILER, RunTime, now
from nnc.core.values.tensor import Tensor
from nnc.errors import GraphError, ShapeError, UsageError
from nnc.graph import Graph
from nnc.graph.screen import preformatted

__all__ = ["ConcreteGraph", "Exec", "ExecDependency", "ExecKey", "GraphSchedule", "workspace_spec"]

R = TypeVar("R", Exec, WhileExec, CaseOfExec)


@explained
class ConcreteGraph(Uncopied):
    """Commands on tensors: a handle on a `ConcreteBody`. `add` appends a node, `connect` an edge; `run` goes in order.

    Two handles on one body are equal. The claims of a `deterministic` graph are never measured: they are the first
    choices of the first backends, so that equal machines give equal bits.

    Any thread may run it; runs that touch the same nodes take turns. Graphs over one memory have `runs` in common.
    """

    instead: ClassVar[str] = "build the graph again, on tensors of its own"

    def __init__(
        self,
        dispatcher: Dispatcher = DISPATCHER,
        backend: str = "",
        name: str = "",
        *,
        body: ConcreteBody | None = None,
        deterministic: bool = False,
        runs: PendingRuns | None = None,
    ) -> None:
        self.body = body or ConcreteBody(name, counter=Counter(name), streams=StreamPool(name))
        self._dispatcher = dispatcher
        self._backend = backend
        self._deterministic = deterministic
        self._streams = 1
        self._prepared = PreparedParts(self.body)
        self._runs = PendingRuns() if runs is None else runs

    @property
    def execs(self) -> Graph[Record, ExecDependency, ExecKey]:
        """The nodes and edges."""
        return self.body.execs

    @property
    def count(self) -> Tensor:
        """The loop count while this graph runs as the body of a `while`: i64[], the same memory for ever."""
        return self.body.counter.tensor

    def __len__(self) -> int:
        return len(self.body.execs)

    def __contains__(self, key: object) -> bool:
        return key in self.body.execs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConcreteGraph) and self.body is other.body

    def __hash__(self) -> int:
        return hash(self.body)

    # ---- nodes and edges

    def add(
        self,
        command: AnyCommand,
        inputs: Sequence[Place | None],
        outputs: Sequence[Place | None],
        *,
        after: Iterable[ExecKey] = (),
        workspace: Tensor | None = None,
        name: str = "",
        claim: Claim | None = None,
    ) -> ExecKey:
        """Append an exec behind the execs in `after`. Specs are checked by the operator's rule, or a `claim` was."""
        return self._append(self._exec(command, inputs, outputs, workspace, name, claim), after)

    def add_noop(
        self, action: Callable[[], None] | None = None, *, after: Iterable[ExecKey] = (), name: str = ""
    ) -> ExecKey:
        """Append a node without a command: a point to break at, to begin or to end with, or to call `action` at."""
        return self._append(Noop(name, caller_origin(), action), after)

    def set_command(self, key: ExecKey, command: AnyCommand) -> None:
        """Give an exec another command (or the same with other attributes), checked as in `add`."""
        old = self._record(key, Exec)
        self.execs.replace_node(key, self._exec(command, old.inputs, old.outputs, old.workspace, old.name))

    def set_io(self, key: ExecKey, inputs: Sequence[Place | None], outputs: Sequence[Place | None]) -> None:
        """Give an exec other tensors, checked as in `add`."""
        old = self._record(key, Exec)
        self.execs.replace_node(key, self._exec(old.command, inputs, outputs, old.workspace, old.name))

    def connect(self, earlier: ExecKey, later: ExecKey, reason: str = "data") -> None:
        """`later` runs after `earlier`."""
        self.execs.add_edge(earlier, later, ExecDependency(reason))

    def disconnect(self, earlier: ExecKey, later: ExecKey) -> None:
        """Take out all edges from `earlier` to `later`. GraphError when there is none."""
        edges = [edge for edge in self.execs.out_edges(earlier) if self.execs.edge(edge).target == later]
        if not edges:
            raise GraphError("disconnect", got=f"%{earlier} and %{later} without an edge", need="nodes with an edge")
        for edge in edges:
            self.execs.remove_edge(edge)

    def remove(self, key: ExecKey) -> None:
        """Take out a node with its edges; the graphs inside it are free to be used again."""
        for _, inner in bodies_of(self.execs.remove_node(key)):
            inner.counter.parent = None
        body = self.body
        body.breakpoints = tuple(other for other in body.breakpoints if other != key)
        body.sources = None if body.sources is None else tuple(other for other in body.sources if other != key)
        body.destinations = (
            None if body.destinations is None else tuple(other for other in body.destinations if other != key)
        )

    def sources(self) -> Keys:
        """Where a run begins: as set, else the nodes that no edge enters."""
        return self.execs.sources() if self.body.sources is None else self.body.sources

    def destinations(self) -> Keys:
        """Where a run ends: as set, else the nodes that no edge leaves."""
        return self.execs.sinks() if self.body.destinations is None else self.body.destinations

    def set_sources(self, keys: Iterable[ExecKey] | None) -> None:
        """Begin runs at these nodes; None for all that no edge enters."""
        self.body.sources = None if keys is None else self._known(keys)
        self.body.edits += 1

    def set_destinations(self, keys: Iterable[ExecKey] | None) -> None:
        """End runs at these nodes; None for all that no edge leaves."""
        self.body.destinations = None if keys is None else self._known(keys)
        self.body.edits += 1

    def reaches(self, sources: Iterable[ExecKey], destinations: Iterable[ExecKey]) -> tuple[bool, ...]:
        """For each source whether a path leads from it to any of the destinations (a node reaches itself)."""
        upstream = self.execs.reachable(destinations, reverse=True)
        return tuple(key in upstream for key in self._known(sources))

    # ---- loops

    def while_loop(
        self,
        body: ConcreteGraph,
        test: Test | Callable[..., object] | None = None,
        *,
        inputs: Sequence[Place] = (),
        breakpoints: Iterable[ExecKey] = (),
        forward: Node | None = None,
        after: Iterable[ExecKey] = (),
        name: str = "",
    ) -> ExecKey:
        """Append a node that runs `body` again and again, until the test fails at its breakpoints.

        The test may also be set on the body (`set_while`). With `forward` (`node()` of a loop that ran along the same
        tape) the body runs as often as that loop did, with the counts going down.
        """
        if test is not None:
            body.set_while(test, inputs=inputs, breakpoints=breakpoints)
        origin = caller_origin()
        with Shield():
            body.body.counter.enter(self.body.counter, is_loop=True)
            return self._append(WhileExec(body.body, forward, name, origin), after)

    def set_while(
        self,
        test: Test | Callable[..., object] | None,
        *,
        inputs: Sequence[Place] = (),
        breakpoints: Iterable[ExecKey] = (),
    ) -> None:
        """How this graph loops: each iteration runs up to and including the breakpoints, then asks the test.

        A function is called with the tensors of `inputs`. Without breakpoints the test comes first. A backward loop
        has no test (None): its breakpoints are the nodes that mirror those of the forward loop.
        """
        if callable(test):
            test = PythonTest(test, check_places("while", inputs))
        self.body.breakpoints = self._known(breakpoints)
        self.body.test = test
        self.body.edits += 1

    def multiview(self, views: Sequence[Place], kind: MultiviewKind = MultiviewKind.K0N, name: str = "") -> Multiview:
        """A place that is one of `views` by the turn of this graph's loop."""
        return Multiview(check_places("multiview", views), kind, self.body.counter, name)

    def carry_over(self, source: Place, target: Carry) -> None:
        """At the end of each iteration of this graph's loop `target` becomes what `source` is. No bytes move."""
        check_places("carry_over", (source,))
        if source.spec != target.spec:
            raise ShapeError("carry_over", got=f"{source.spec} into {target.spec}", need="one spec")
        if any(target is other for _, other in self.body.carry_overs):
            raise GraphError("carry_over", got="a second source for one carry", need="one source each")
        self.body.carry_overs = (*self.body.carry_overs, (source, target))
        self.body.edits += 1

    # ---- branches

    def case_of(
        self,
        choice: Choice | Callable[..., object],
        *,
        inputs: Sequence[Place] = (),
        outputs: Sequence[Place] = (),
        offset: int = 0,
        after: Iterable[ExecKey] = (),
        name: str = "",
    ) -> ExecKey:
        """Append a node that runs branch number choice + `offset`; without such a branch everything passes through.

        A function is called with the tensors of `inputs`. The phis among `outputs` become what the branch wrote, or
        what passed.
        """
        if callable(choice):
            choice = PythonChoice(choice, check_places("case..of", inputs))
        record = CaseOfExec(choice, check_places("case..of", outputs), offset, {}, name, caller_origin())
        return self._append(record, after)

    def set_case(self, key: ExecKey, index: int, branch: ConcreteGraph) -> None:
        """Make `branch` what a case..of runs for `index`."""
        record = self._record(key, CaseOfExec)
        if index < 0 or index in record.branches:
            raise GraphError("case..of", got=f"branch {index}", need="an index ≥ 0 that has no branch yet")
        with Shield():
            branch.body.counter.enter(self.body.counter, is_loop=False)
            self.execs.replace_node(key, replace(record, branches={**record.branches, index: branch.body}))

    def subgraphs(self, key: ExecKey) -> tuple[ConcreteGraph, ...]:
        """The graphs inside a node: the body of a loop, or the branches by index."""
        made = partial(ConcreteGraph, self._dispatcher, self._backend, deterministic=self._deterministic)
        inner = bodies_of(self.execs[key])
        return tuple(made(body=body) for _, body in inner)

    def node(self, key: ExecKey) -> Node:
        """The name of a node on tapes, for the backward loop or case..of that mirrors it."""
        self._known((key,))
        return (self.body.counter, key)

    # ---- running

    def run(
        self,
        stream: Stream | None = None,
        *,
        sources: Iterable[ExecKey] | None = None,
        destinations: Iterable[ExecKey] | None = None,
        schedule: GraphSchedule | None = None,
        tape: Tape | None = None,
    ) -> Signal | None:
        """Execute everything once, or what lies between `sources` and `destinations`.

        With a stream return at once with the signal that fires at the end; runs that touch the same nodes wait for
        each other. With a schedule use its streams as well, and its part of the graph.
        """
        part = self._part(sources, destinations, schedule)
        prepared, keys = self._prepared.get(*part, self._streams if schedule is None else schedule.streams)
        context = Context(TapeAccess() if tape is None else tape.begin())
        if stream is not None:
            return self._runs.submit(self.body, keys, prepared.plan, context, stream)
        if PROFILER.recorders:
            begin = now()
            self._runs.run(self.body, keys, prepared.plan, context)
            PROFILER.note(RunTime(self.body.name, threading.get_ident(), begin, now()))
        else:
            self._runs.run(self.body, keys, prepared.plan, context)
        return None

    def fixed_steps(self, is_cut: Callable[[Action], bool] = never) -> tuple[tuple[Fixed, ...], ...] | None:
        """The programs of a run of everything, in parts between actions that are cuts; None where it is more."""
        return fixed_parts(self._prepared.get(*self._part(None, None, None), self._streams)[0].plan, is_cut)

    def prepare(self) -> None:
        """Do what the first run of everything would begin with: load the kernels and lay out the programs."""
        self._prepared.get(*self._part(None, None, None), self._streams)

    def cancel(self) -> None:
        """Ask all runs of this graph to stop before their next step; they end with CancelledError."""
        self._runs.cancel(self.body)

    def schedule(
        self,
        streams: int = 0,
        *,
        sources: Iterable[ExecKey] | None = None,
        destinations: Iterable[ExecKey] | None = None,
    ) -> GraphSchedule:
        """A static schedule on at most `streams` streams (0: one per worker of this process), for `run`.

        Schedules of parts of the graph use the same streams, so parts on different streams can run side by side.
        """
        first, last = self._part(sources, destinations, None)
        count = streams or SETTINGS.worker_count()
        table = make_body_schedule(self.body, self.body.span(first, last), count)
        return GraphSchedule(table, count, first, last, self.body.version)

    def set_default_streams(self, streams: int) -> None:
        """Schedule runs that name no schedule on at most so many streams (at first 1)."""
        if streams < 1:
            raise UsageError("schedule", got=f"{streams} streams", need="at least 1")
        self._streams = streams

    def autotune(self, options: TuneOptions | None = None) -> int:
        """Measure all claims of each command, here and in the graphs inside, and keep the fastest.

        Returns how many nodes changed their claim. Live tensors are not touched. UsageError for a deterministic graph.
        """
        if self._deterministic:
            raise UsageError("autotune", got="a deterministic graph", need="a graph whose claims may be measured")
        chosen = options or TuneOptions()
        return self._runs.exclusively(lambda: tune_bodies(self.body, self._dispatcher, self._backend, chosen))

    # ---- text

    def __str__(self) -> str:
        return dump(self.body)

    def __repr__(self) -> str:
        return f"ConcreteGraph({len(self)} nodes)"

    def _repr_html_(self) -> str:
        return preformatted(str(self))

    def to_text(self, details: bool = False) -> str:
        """One line per node, graphs inside indented; `details` adds tensors and addresses."""
        return dump(self.body, details)

    def to_dot(self, details: bool = False) -> str:
        """The Graphviz text, graphs inside as clusters."""
        return to_dot(self.body, details)

    def report(self) -> tuple[Served, ...]:
        """Who runs each command, graphs inside included, and why backends that come before him do not."""
        return report(self.body, self._dispatcher, self._backend)

    # ---- inside

    def _append(self, record: Record, after: Iterable[ExecKey]) -> ExecKey:
        earlier_keys = self._known(after)
        with Shield():
            key = self.execs.add_node(record)
            for earlier in earlier_keys:
                self.connect(earlier, key)
            return key

    def _known(self, keys: Iterable[ExecKey]) -> Keys:
        known = tuple(keys)
        for key in known:
            self.execs[key]
        return known

    def _record(self, key: ExecKey, kind: type[R]) -> R:
        record = self.execs[key]
        if not isinstance(record, kind):
            raise GraphError("graph", got=f"%{key}, a {type(record).__name__}", need=f"a node of kind {kind.__name__}")
        return record

    def _exec(
        self,
        command: AnyCommand,
        inputs: Sequence[Place | None],
        outputs: Sequence[Place | None],
        workspace: Tensor | None,
        name: str,
        claim: Claim | None = None,
    ) -> Exec:
        origin = caller_origin()
        try:
            read, written = check_optional(command.op.name, inputs), check_optional(command.op.name, outputs)
            claim = claim or self._claim(command, read, written)
            check_memory(command, read, written)
        except UsageError as error:
            error.origin = error.origin or origin
            raise
        if workspace is not None and workspace.spec.nbytes < claim.kernel.workspace_bytes:
            workspace = None
        return Exec(command, read, written, claim, workspace, name, origin)

    def _claim(self, command: AnyCommand, inputs: tuple[Place | None, ...], outputs: tuple[Place | None, ...]) -> Claim:
        specs, made = specs_of(inputs), specs_of(outputs)
        check_outputs(command, specs, made)
        return self._dispatcher.claim(command, specs, made, self._backend)

    def _part(
        self,
        sources: Iterable[ExecKey] | None,
        destinations: Iterable[ExecKey] | None,
        schedule: GraphSchedule | None,
    ) -> tuple[Keys | None, Keys | None]:
        if schedule is None:
            first = self.body.sources if sources is None else self._known(sources)
            last = self.body.destinations if destinations is None else self._known(destinations)
            return first, last
        if sources is not None or destinations is not None:
            raise UsageError("run", got="a schedule with sources or destinations", need="one of them")
        return schedule.part(self.body.version)
