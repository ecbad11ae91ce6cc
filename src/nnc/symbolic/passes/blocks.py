"""Blocks: what stays the same from run to run is kept as the kernels that read it want it.

    y = f(x, w)        becomes        v = convert_layout(w, L);  y = f(x, v)

for a `fixed` w whose readers all have kernels that would arrange w themselves in each run (`Dispatcher.preferences`),
and say that this is a share of their time worth saving. `precompute` then takes the conversion out of the graph, and w
with it: nobody reads it any more. Values keep their bits, as kernels add in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from nnc.arguments import checked
from nnc.concrete import TuneOptions, is_faster
from nnc.core.precautions.origin import inherited_origin
from nnc.core.running.dispatch import DISPATCHER, LayoutPreference
from nnc.core.values.spec import Blocked
from nnc.ops.movement.layout import convert_layout
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey

# A conversion has to save this share of a command's time.
LEAST_SHARE = 0.005
# Blocks of what one tensor holds take at most this many times its bytes: they are never there beside it.
MOST_BYTES = 1.25

# Where a tensor is read: an exec, and the place among its operands.
Reading = tuple[ExecKey, int]
# What each exec, as it was then, wishes of its operands: asked once, not for each fixed operand of a fused product.
Asked = dict[ExecKey, tuple[ExecSymbol, Mapping[int, Blocked]]]
# What an exec wishes for; None where that is to be asked.
Known = Callable[[ExecKey], tuple[LayoutPreference, ...] | None]


@checked
def assign_blocks(
    graph: SymbolicGraph,
    wanted: Sequence[Symbol],
    fixed: Iterable[Symbol],
    backend: str = "",
    tuning: TuneOptions | None = None,
    known: Known | None = None,
) -> Counter[str]:
    """Convert `fixed` symbols for the kernels of the backends in order of preference, the caller's `backend` first.

    How many are `blocked`, and the `readings` of them. A symbol that somebody wants, or reads in order, stays. With a
    `tuning` a conversion has to make its command faster by the clock, the fastest kernels for both layouts compared.
    What is `known` of an exec's wishes is not asked.
    """
    kept = {graph.root(graph.own(symbol)) for symbol in wanted}
    fired: Counter[str] = Counter()
    asked: Asked = {}
    for root in dict.fromkeys(graph.root(graph.own(symbol)) for symbol in fixed):
        preferences = {} if root in kept else _preferences(graph, root, backend, tuning, asked, known)
        if preferences:
            _convert(graph, preferences)
            fired += Counter(blocked=1, readings=len(preferences))
    return fired


@checked
def wished_blocks(
    graph: SymbolicGraph, wanted: Sequence[Symbol], fixed: Iterable[Symbol], backend: str = ""
) -> dict[Symbol, Blocked]:
    """The `fixed` symbols that `assign_blocks` would convert as a whole, and the one layout that all readers want."""
    kept = {graph.root(graph.own(symbol)) for symbol in wanted}
    blocked: dict[Symbol, Blocked] = {}
    asked: Asked = {}
    for symbol in fixed:
        root = graph.own(symbol)
        readings = {} if root in kept else _preferences(graph, root, backend, None, asked)
        preferences = set(readings.values())
        if len(preferences) == 1 and (wish := preferences.pop())[0] == root:
            blocked[symbol] = wish[1]
    return blocked


def takes_blocks(graph: SymbolicGraph, symbol: Symbol, layout: Blocked, backend: str = "") -> bool:
    """Whether every command that reads the symbol has the backend that it has now for these blocks, too."""
    root = graph.own(symbol)
    for key in graph.readers(root):
        record = graph.execs[key]
        inputs, outputs = graph.specs(record.inputs), graph.specs(record.outputs)
        laid = tuple(
            spec.laid(layout) if value == root and spec is not None else spec
            for value, spec in zip(record.inputs, inputs, strict=True)
        )
        now, then = (DISPATCHER.server(record.command, value, outputs, backend) for value in (inputs, laid))
        if now != then or any(
            operand != root and operand is not None and graph.root(operand) == root for operand in record.inputs
        ):
            return False
    return True


def put_in_blocks(graph: SymbolicGraph, layouts: Mapping[Symbol, Blocked]) -> Counter[str]:
    """Convert whole symbols for all that read them; what `assign_blocks` counts."""
    fired: Counter[str] = Counter()
    for symbol, layout in layouts.items():
        wish = (graph.own(symbol), layout)
        readings = [
            (key, place)
            for key in graph.readers(wish[0])
            for place, value in enumerate(graph.execs[key].inputs)
            if value == wish[0]
        ]
        _convert(graph, dict.fromkeys(readings, wish))
        fired += Counter(blocked=1, readings=len(readings))
    return fired


def _preferences(
    graph: SymbolicGraph,
    root: TensorKey,
    backend: str,
    tuning: TuneOptions | None,
    asked: Asked,
    known: Known | None = None,
) -> Mapping[Reading, tuple[TensorKey, Blocked]]:
    """What each reading of a root is to become; nothing unless that serves them all, in about as many bytes."""
    wished: dict[Reading, tuple[TensorKey, Blocked]] = {}
    for key in graph.readers(root):
        record = graph.execs[key]
        if key not in asked or asked[key][0] is not record:
            asked[key] = record, _layouts(graph, key, backend, tuning, known)
        layouts = asked[key][1]
        for place, tensor in enumerate(record.inputs):
            if tensor is not None and graph.root(tensor) == root:
                if place not in layouts:
                    return {}
                wished[key, place] = (tensor, layouts[place])
    nbytes = sum(graph.tensors[key].spec.laid(layout).nbytes for key, layout in dict.fromkeys(wished.values()))
    return wished if nbytes <= MOST_BYTES * graph.tensors[root].spec.nbytes else {}


def _layouts(
    graph: SymbolicGraph, key: ExecKey, backend: str, tuning: TuneOptions | None, known: Known | None
) -> Mapping[int, Blocked]:
    """The layouts of operands that an exec wishes for, by place; none where the clock says otherwise."""
    record = graph.execs[key]
    if not record.optimize:
        return {}
    inputs, outputs = graph.specs(record.inputs), graph.specs(record.outputs)
    preferences = None if known is None else known(key)
    if preferences is None:
        preferences = DISPATCHER.preferences(record.command, inputs, outputs, backend)
    layouts = wished_layouts(preferences)
    if tuning is None or not layouts:
        return layouts
    others = tuple(
        spec if spec is None or place not in layouts else spec.laid(layouts[place]) for place, spec in enumerate(inputs)
    )
    return layouts if is_faster(record.command, others, inputs, outputs, DISPATCHER, backend, tuning) else {}


def wished_layouts(preferences: Iterable[LayoutPreference]) -> dict[int, Blocked]:
    """The layouts that are worth a conversion, by the place of the operand."""
    return {value.place: value.layout for value in preferences if value.share >= LEAST_SHARE}


def _convert(graph: SymbolicGraph, preferences: Mapping[Reading, tuple[TensorKey, Blocked]]) -> None:
    """Each tensor once for each layout."""
    made: dict[tuple[TensorKey, Blocked], TensorKey] = {}
    for (key, place), wish in preferences.items():
        record = graph.execs[key]
        if wish not in made:
            with inherited_origin(record.origin):
                made[wish] = convert_layout(graph.symbol(wish[0]), wish[1]).key
        inputs = (*record.inputs[:place], made[wish], *record.inputs[place + 1 :])
        graph.replace_exec(key, replace(record, inputs=inputs))
