"""Placement: on which device each exec runs, and the transfers between devices, explicit in the graph.

    asked      the device that the caller names for all execs, or for those whose names begin with a scope's
    else       the device of the exec's operands
    refused    no backend claims the exec there: it runs on the host
    transfer   one exec for each value and device; a value is read where it is made where that does

A loop or branch is placed as a whole, with its operands; what decides is read by the host. Wanted values stay where
they were, so that tensors of the caller's fit them, unless a device is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, is_dataclass, replace
from functools import partial
from types import MappingProxyType

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.precautions.origin import inherited_origin
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.device import CPU, AnyDevice, Device, device_of
from nnc.core.values.spec import TensorSpec, contiguous_strides
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.transfer import TO_DEVICE, TransferAttrs
from nnc.ops.rules import NoAttrs
from nnc.symbolic.bodies import Renamed, change_bodies, copy_body
from nnc.symbolic.control import CaseAttrs, WhileAttrs
from nnc.symbolic.ir import Body, Symbol, SymbolicGraph, bodies_of
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey, TensorSymbol
from nnc.symbolic.region import Region

_COPY = Command(contiguous, NoAttrs())
Scopes = Mapping[str, Device]


@checked
def is_on_host(graph: SymbolicGraph) -> bool:
    """Whether all values of the graph, bodies left out, are in memory of the host."""
    return all(record.spec.device.is_host for _, record in graph.tensors.items())


@checked
def place(
    graph: SymbolicGraph,
    device: AnyDevice | Mapping[str, AnyDevice],
    backend: str = "",
    *,
    inputs: Mapping[Symbol, AnyDevice] = MappingProxyType({}),
) -> Counter[str]:
    """Put execs on a device: all of them, or by the beginnings of their names, of which the longest counts.

    Returns how many execs went to a device (`placed`), how many stay on the host as no backend claims them there
    (`refused`), and how many transfers there are. Inputs stay where they are, but for those of `inputs`, which are on
    these devices from now on, as weights that are there already; what the execs write, wanted values too, is where they
    run.

    >>> from nnc.core.values.spec import spec
    >>> graph = SymbolicGraph()
    >>> x = graph.input(spec([2, 3]))
    >>> (y,) = graph.apply(_COPY, [x], name="encoder.copy")
    >>> dict(place(graph, {"encoder": "cpu"}))
    {'placed': 0, 'refused': 0, 'transfers': 0}
    """
    named: Mapping[str, AnyDevice] = device if isinstance(device, Mapping) else {"": device}
    placing = _Placing(graph, frozenset(), {name: device_of(value) for name, value in named.items()}, backend)
    for symbol, home in inputs.items():
        placing._move(graph.root(graph.own(symbol)), device_of(home))
    placing.run()
    return placing.counts()


def move_refused(graph: SymbolicGraph, wanted: Sequence[Symbol], backend: str) -> Counter[str]:
    """Let execs that no backend claims on their device run on the host."""
    if is_on_host(graph):
        return Counter()
    placing = _Placing(graph, frozenset(graph.root(graph.own(symbol)) for symbol in wanted), {}, backend)
    placing.run()
    return +placing.counts()


@dataclass(slots=True, eq=False)
class _Placing:
    """One walk over the execs, in order. The roots `pinned` stay where they are."""

    graph: SymbolicGraph
    pinned: Collection[TensorKey]
    scopes: Scopes
    backend: str
    placed: int = 0
    refused: int = 0
    _copies: dict[tuple[TensorKey, Region, Device], TensorKey] = field(default_factory=dict)
    _before: dict[TensorKey, Device] = field(default_factory=dict)
    _transfers: int = 0

    def counts(self) -> Counter[str]:
        """What was done."""
        return Counter(placed=self.placed, refused=self.refused, transfers=self._transfers)

    def run(self) -> None:
        """Place all execs."""
        graph = self.graph
        self._before = {key: record.spec.device for key, record in graph.tensors.items()}
        for key in graph.execs.toposort():
            record = graph.execs[key]
            if record.command.op is TO_DEVICE:
                self._read_at(key, record)
            elif bodies_of(record.command):
                self._place_bodies(key, record)
            elif record.optimize:
                self._place(key, record)
            else:
                self._read_at(key, record)

    def _asked(self, record: ExecSymbol) -> Device | None:
        """The device of the longest scope that the exec's name is in."""
        name = record.name
        fitting = [scope for scope in self.scopes if not scope or name == scope or name.startswith(f"{scope}.")]
        return self.scopes[max(fitting, key=len)] if fitting else None

    def _place(self, key: ExecKey, record: ExecSymbol) -> None:
        asked = self._asked(record)
        home = self._before[record.outputs[0]] if asked is None else asked
        if not home.is_host and not self._is_served(record, home):
            self.refused += 1
            home = CPU
        elif asked is not None and not home.is_host:
            self.placed += 1
        if all(self._device(tensor) == home for tensor in (*record.inputs, *record.outputs) if tensor is not None):
            return
        inputs = tuple([None if tensor is None else self._copy(tensor, home) for tensor in record.inputs])
        changed = replace(record, command=rehomed(record.command, home), inputs=inputs)
        kept = [output for output in record.outputs if self._stays(output) and self._device(output) != home]
        for output in record.outputs:
            if output not in kept:
                self._move(output, home)
        if kept:
            self._write_elsewhere(key, changed, kept, home)
        else:
            self.graph.replace_exec(key, changed)

    def _is_served(self, record: ExecSymbol, home: Device) -> bool:
        specs = self.graph.tensors
        inputs = tuple(None if tensor is None else specs[tensor].spec.on(home) for tensor in record.inputs)
        outputs = tuple(specs[tensor].spec.on(home) for tensor in record.outputs)
        return bool(DISPATCHER.server(rehomed(record.command, home), inputs, outputs, self.backend))

    def _device(self, key: TensorKey) -> Device:
        return self.graph.tensors[key].spec.device

    def _stays(self, output: TensorKey) -> bool:
        """Whether others say where a value is: a part of a root that several write, or what is wanted where it is."""
        root = self.graph.root(output)
        return root != output or root in self.pinned or len(self.graph.writers(root)) > 1

    def _move(self, output: TensorKey, home: Device) -> None:
        """Let a root, with its parts, be on a device."""
        tensors = self.graph.tensors
        parts = [key for key, record in tensors.items() if record.alias is not None and record.alias.root == output]
        for key in (output, *parts):
            tensors.replace(key, replace(tensors[key], spec=tensors[key].spec.on(home)))

    def _copy(self, key: TensorKey, home: Device) -> TensorKey:
        """The value on a device."""
        graph = self.graph
        if self._device(key) == home:
            return key
        region = graph.region(key)
        place = (graph.root(key), region, home)
        if place not in self._copies:
            source = graph.symbol(key)
            with inherited_origin(graph.tensors[key].origin):
                if region.strides != contiguous_strides(region.shape):
                    (source,) = graph.apply(_COPY, [source])
                (copied,) = graph.apply(Command(TO_DEVICE, TransferAttrs(home)), [source])
            self._copies[place] = copied.key
            self._transfers += 1
        return self._copies[place]

    def _write_elsewhere(self, key: ExecKey, record: ExecSymbol, kept: Sequence[TensorKey], home: Device) -> None:
        """The exec with outputs of its own for those `kept`, which get copies."""
        graph = self.graph
        execs = graph.execs
        edges = [execs.edge(edge) for edge in (*execs.in_edges(key), *execs.out_edges(key))]
        told = [(edge.source, edge.target) for edge in edges if edge.data.tensor is None]
        graph.remove_exec(key)
        made = {
            output: graph.add_tensor(TensorSymbol(graph.tensors[output].spec.on(home), "", None, record.origin))
            for output in kept
        }
        new = graph.add_exec(replace(record, outputs=tuple([made.get(output, output) for output in record.outputs])))
        for earlier, later in told:
            graph.connect(new if earlier == key else earlier, new if later == key else later)
        for output, own in made.items():
            self._copies[graph.root(output), graph.region(output), home] = own
            target = Command(TO_DEVICE, TransferAttrs(self._device(output)))
            graph.add_exec(ExecSymbol(target, (own,), (output,), "", record.origin))
            self._transfers += 1

    # ---- execs that say themselves where they read

    def _read_at(self, key: ExecKey, record: ExecSymbol) -> None:
        """Let an exec read its operands where they were."""
        homes = [None if tensor is None else self._before[tensor] for tensor in record.inputs]
        self._read(key, record, homes)

    def _read(self, key: ExecKey, record: ExecSymbol, homes: Sequence[Device | None]) -> None:
        """Let an exec read its operands on these devices."""
        pairs = zip(record.inputs, homes, strict=True)
        inputs = tuple(
            [tensor if tensor is None or home is None else self._copy(tensor, home) for tensor, home in pairs]
        )
        if inputs != record.inputs:
            self.graph.replace_exec(key, replace(record, inputs=inputs))

    def _place_bodies(self, key: ExecKey, record: ExecSymbol) -> None:
        """A loop or branch with all that it computes on one device."""
        asked = self._asked(record) if record.optimize else None
        if asked is None or asked.is_host:
            self._read_at(key, record)
            return
        command = change_bodies(record.command, partial(self._moved_body, record.command.attrs, asked))
        is_loop = isinstance(command.attrs, WhileAttrs)
        for output in record.outputs[is_loop:]:
            self._move(output, asked)
        # What a branch is chosen by is read by the host, wherever it lies.
        chosen = 0 if is_loop else command.attrs.chosen
        homes = [None if place < chosen else asked for place in range(len(record.inputs))]
        self._read(key, replace(record, command=command), homes)
        self.graph.execs.replace_node(key, replace(self.graph.execs[key], command=command))

    def _moved_body(
        self, attrs: WhileAttrs | CaseAttrs, asked: Device, body: Body, named: tuple[TensorKey, ...]
    ) -> tuple[Body, Renamed]:
        """A copy of a body on a device, with the symbols that its exec names: what is kept of a loop is there too."""
        copy, renamed = copy_body(body, body.graph.execs.toposort(), named)
        inner = _Placing(copy.graph, frozenset(), {"": asked}, self.backend)
        for parameter in copy.parameters:
            inner._move(parameter, asked)
        inner.run()
        kept = {row.symbol for row in attrs.kept} if isinstance(attrs, WhileAttrs) else set()
        names = {key: inner._copy(own, asked) if key in kept else own for key, own in renamed.items()}
        results = tuple([inner._copy(result, asked) for result in copy.results])
        self.placed, self.refused = self.placed + inner.placed, self.refused + inner.refused
        self._transfers += inner._transfers
        return replace(copy, results=results), names


def rehomed(command: AnyCommand, device: Device) -> AnyCommand:
    """The command where its attributes say a device: of results that have no operands."""
    attrs = command.attrs
    spec = getattr(attrs, "spec", None)
    if not is_dataclass(attrs) or not isinstance(spec, TensorSpec) or spec.device == device:
        return command
    return Command(command.op, replace(attrs, spec=spec.on(device)))  # type: ignore[type-var]  # of this field
