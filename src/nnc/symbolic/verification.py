"""What must hold in every symbolic graph, as a table of numbered rules; run at pass borders in debug mode.

S1  every key that an exec names is a live symbol, with a spec
S2  an alias lies inside its root, its root is no alias, and it has no fill of its own
S3  each place of a tensor is written at most once
S4  the stored specs of outputs are those that the operator infers
S5  edges are exactly writer → reader, beside those without a tensor, which were given
S6  the graph has no cycle
S7  loops and branches read whole tensors; their bodies obey these rules, with parameters that are roots which nobody
    writes, and results that are written there or parameters
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nnc.arguments import checked
from nnc.core.values.spec import TensorSpec
from nnc.errors import CycleError, UsageError, VerificationError
from nnc.ops.rules import infer
from nnc.symbolic.auto import AUTO
from nnc.symbolic.bodies import Renamed, change_bodies
from nnc.symbolic.ir import Body, SymbolicGraph, bodies_of
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey
from nnc.symbolic.region import overlaps

Faults = Iterator[str]


def _live_keys(graph: SymbolicGraph) -> Faults:
    for key, record in graph.execs.items():
        for tensor in (*record.inputs, *record.outputs):
            if tensor is not None and tensor not in graph.tensors:
                yield f"exec {key} names %{tensor}, which does not exist"
            elif tensor is not None and graph.tensors[tensor].spec is AUTO:
                yield f"exec {key} names %{tensor}, which has no spec yet"


def _aliases(graph: SymbolicGraph) -> Faults:
    for key, record in graph.tensors.items():
        if record.alias is None:
            continue
        if record.alias.root not in graph.tensors:
            yield f"%{key} is an alias of %{record.alias.root}, which does not exist"
            continue
        root = graph.tensors[record.alias.root]
        if root.alias is not None:
            yield f"%{key} is an alias of the alias %{record.alias.root}"
        elif record.fill is not None:
            yield f"%{key} is an alias with a fill; that of its root counts"
        elif not graph.region(key).inside(root.spec.elements) or root.spec.dtype is not record.spec.dtype:
            yield f"%{key} ({record.spec}) does not lie inside %{record.alias.root} ({root.spec})"


def _single_writes(graph: SymbolicGraph) -> Faults:
    written: dict[TensorKey, list[tuple[ExecKey, TensorKey]]] = {}
    for exec_key, record in graph.execs.items():
        for tensor in record.outputs:
            root = graph.root(tensor)
            if not graph.region(tensor).is_injective():
                yield f"%{root} is written by exec {exec_key} twice at one place"
            for other_exec, other in written.get(root, []):
                if overlaps(graph.region(tensor), graph.region(other)):
                    yield f"%{root} is written by exec {other_exec} and by exec {exec_key} at a common place"
            written.setdefault(root, []).append((exec_key, tensor))


def _inferred_specs(graph: SymbolicGraph) -> Faults:
    for key, record in graph.execs.items():
        stored = [graph.tensors[tensor].spec for tensor in record.outputs]
        try:
            inferred = _infer(graph, record)
        except UsageError as error:
            yield f"exec {key}: {error}"
            continue
        if len(stored) != len(inferred) or not all(map(TensorSpec.fits, stored, inferred)):
            shown, wanted = ", ".join(map(str, stored)), ", ".join(map(str, inferred))
            yield f"exec {key} ({record.command}) has outputs {shown}; inferred {wanted}"


def _infer(graph: SymbolicGraph, record: ExecSymbol) -> tuple[TensorSpec, ...]:
    return infer(record.command.op, record.command.attrs, graph.specs(record.inputs))


def _edges(graph: SymbolicGraph) -> Faults:
    written: dict[TensorKey, list[tuple[ExecKey, TensorKey]]] = {}
    for key, record in graph.execs.items():
        for tensor in record.outputs:
            written.setdefault(graph.root(tensor), []).append((key, tensor))
    for key, record in graph.execs.items():
        expected = {
            writer
            for tensor in record.inputs
            if tensor is not None
            for writer, place in written.get(graph.root(tensor), ())
            if place == graph.root(place) or overlaps(graph.region(place), graph.region(tensor))
        }
        edges = [graph.execs.edge(edge) for edge in graph.execs.in_edges(key)]
        followed = {edge.source for edge in edges if edge.data.tensor is not None}
        if followed != expected:
            yield f"exec {key} follows {sorted(followed)}, its reads follow {sorted(expected)}"


def _acyclic(graph: SymbolicGraph) -> Faults:
    try:
        graph.execs.toposort()
    except CycleError as error:
        yield str(error)


def _bodies(graph: SymbolicGraph) -> Faults:
    for key, record in graph.execs.items():
        bodies = bodies_of(record.command)
        if bodies and any(tensor is not None and graph.root(tensor) != tensor for tensor in record.inputs):
            yield f"exec {key} reads a part of a tensor into a body"
        yield from (f"exec {key} names %{tensor} of its body, which does not exist" for tensor in _missing(record))
        for name, body in bodies:
            yield from (f"exec {key}, {name}: {fault}" for fault in (*_ends(body), *faults(body.graph)))


def _missing(record: ExecSymbol) -> list[TensorKey]:
    """Symbols that the attributes name and that their bodies do not have."""
    missing: list[TensorKey] = []

    def note(body: Body, named: tuple[TensorKey, ...]) -> tuple[Body, Renamed]:
        missing.extend(tensor for tensor in named if tensor not in body.graph.tensors)
        return body, {tensor: tensor for tensor in named}

    change_bodies(record.command, note)
    return missing


def _ends(body: Body) -> Faults:
    graph = body.graph
    for key in (*body.parameters, *body.results):
        if key not in graph.tensors:
            yield f"%{key} does not exist"
            return
    for key in body.parameters:
        if graph.root(key) != key or graph.writers(key):
            yield f"the parameter %{key} is written or an alias"
    for key in body.results:
        if key not in body.parameters and not graph.writers(key):
            yield f"the result %{key} is never written"


RULES: tuple[tuple[str, Callable[[SymbolicGraph], Faults]], ...] = (
    ("S1", _live_keys),
    ("S2", _aliases),
    ("S3", _single_writes),
    ("S4", _inferred_specs),
    ("S5", _edges),
    ("S6", _acyclic),
    ("S7", _bodies),
)


@checked
def faults(graph: SymbolicGraph) -> tuple[str, ...]:
    """Every broken rule, as `S3: …`; empty for a valid graph."""
    broken: list[str] = []
    for name, rule in RULES:
        broken.extend(f"{name}: {fault}" for fault in rule(graph))
        if broken and name == "S1":
            break
    return tuple(broken)


@checked
def verify(graph: SymbolicGraph, after: str = "") -> None:
    """VerificationError with the broken rules and the pass that broke them."""
    if broken := faults(graph):
        raise VerificationError(f"symbolic graph{' after ' + after if after else ''}: " + "; ".join(broken))
