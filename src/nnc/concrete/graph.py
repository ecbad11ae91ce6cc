"""The concrete graph: commands on real tensors, in an order that data and shared memory force.

Nodes hold a command with its tensors; edges say what must come first. `run` is one call: consecutive nodes of one
backend become one program, so a native backend pays one call for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NewType

from nnc.core.command import AnyCommand
from nnc.core.dispatch import DISPATCHER, Call, Claim, Dispatcher, Program, Tensors
from nnc.core.dtype import U8
from nnc.core.origin import caller_origin
from nnc.core.spec import TensorSpec
from nnc.core.stream import Signal, Stream
from nnc.core.tensor import Tensor
from nnc.errors import ShapeError, UsageError
from nnc.graph import Graph
from nnc.ops.rules import infer

ExecKey = NewType("ExecKey", int)


@dataclass(frozen=True, slots=True, eq=False)
class Exec:
    """A command with the tensors it reads and writes, the claim that runs it, and scratch memory if it needs any."""

    command: AnyCommand
    inputs: Tensors
    outputs: Tensors
    claim: Claim
    workspace: Tensor | None = None
    name: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Dependency:
    """Why one exec follows another: `data` read after write, or `memory` that both use."""

    reason: str = "data"


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The programs of a run, valid for one version of the graph."""

    version: int
    programs: tuple[Program, ...]


class ConcreteGraph:
    """Commands on tensors. `add` appends a node, `connect` an edge; `run` executes in topological order."""

    def __init__(self, dispatcher: Dispatcher = DISPATCHER, backend: str = "") -> None:
        self.execs: Graph[Exec, Dependency, ExecKey] = Graph(ExecKey)
        self._dispatcher = dispatcher
        self._backend = backend
        self._prepared: _Prepared | None = None

    def add(
        self,
        command: AnyCommand,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor | None],
        *,
        after: Iterable[ExecKey] = (),
        workspace: Tensor | None = None,
        name: str = "",
    ) -> ExecKey:
        """Append an exec behind the execs in `after`. Specs are checked against the operator's rule."""
        origin = caller_origin()
        specs = tuple(None if tensor is None else tensor.spec for tensor in inputs)
        try:
            self._check_outputs(command, infer(command.op, command.attrs, specs), outputs)
            given = tuple(None if tensor is None else tensor.spec for tensor in outputs)
            claim = self._dispatcher.claim(command, specs, given, self._backend)
        except UsageError as error:
            error.origin = error.origin or origin
            raise
        earlier_keys = tuple(after)
        for earlier in earlier_keys:
            self.execs[earlier]
        if workspace is None and claim.kernel.workspace_bytes:
            workspace = Tensor.empty(workspace_spec(claim.kernel.workspace_bytes), "workspace")
        key = self.execs.add_node(Exec(command, tuple(inputs), tuple(outputs), claim, workspace, name, origin))
        for earlier in earlier_keys:
            self.connect(earlier, key)
        return key

    def connect(self, earlier: ExecKey, later: ExecKey, reason: str = "data") -> None:
        """`later` runs after `earlier`."""
        self.execs.add_edge(earlier, later, Dependency(reason))

    def run(self, stream: Stream | None = None) -> Signal | None:
        """Execute everything once; with a stream return at once with the signal that fires at the end."""
        programs = self._programs()
        if stream is None:
            for program in programs:
                program()
            return None
        for program in programs:
            stream.submit(program)
        return stream.emit(Signal("graph"))

    def __str__(self) -> str:
        return self.execs.dump(
            lambda record: f"{record.command} on {record.claim.backend.name}", lambda edge: edge.reason
        )

    def _check_outputs(
        self, command: AnyCommand, wanted: tuple[TensorSpec, ...], outputs: Sequence[Tensor | None]
    ) -> None:
        got = [None if tensor is None else tensor.spec for tensor in outputs]
        fits = len(got) == len(wanted) and all(
            spec is None or (spec.shape, spec.dtype) == (need.shape, need.dtype)
            for spec, need in zip(got, wanted, strict=True)
        )
        if not fits:
            shown = ", ".join("–" if spec is None else str(spec) for spec in got)
            raise ShapeError(command.op.name, got=f"outputs {shown}", need=", ".join(map(str, wanted)))
        if any(tensor is not None and tensor.storage.read_only for tensor in outputs):
            raise UsageError(command.op.name, got="an output in read-only memory", need="memory that may be written")

    def _programs(self) -> tuple[Program, ...]:
        if self._prepared is None or self._prepared.version != self.execs.version:
            records = [self.execs[key] for key in self.execs.toposort()]
            programs = []
            for backend, run in groupby(records, key=lambda record: record.claim.backend):
                calls = [Call(record.claim.kernel, record.inputs, record.outputs, record.workspace) for record in run]
                programs.append(backend.program(calls))
            self._prepared = _Prepared(self.execs.version, tuple(programs))
        return self._prepared.programs


def workspace_spec(nbytes: int) -> TensorSpec:
    """The spec of `nbytes` bytes of scratch memory."""
    return TensorSpec((nbytes,), U8)
