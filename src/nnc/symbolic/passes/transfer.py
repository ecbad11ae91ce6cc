"""Data transfer: a copy goes, where its reader may read the source, or the source's writer may write in its place.

So does a transfer to the device that the value is on, or has come from.
"""

from __future__ import annotations

from nnc.ops.composed.own_gradient import OWN_GRADIENT
from nnc.ops.movement.copy import contiguous, stop_gradient
from nnc.ops.movement.transfer import TO_DEVICE
from nnc.ops.rules import INPLACE
from nnc.symbolic.ir import bodies_of
from nnc.symbolic.rewrite import Match, Replacement, Rule, has_one_reader


def _source(match: Match) -> Replacement | None:
    """A copy is its source, as long as nobody needs it in memory of its own."""
    return (match.input(0),)


def _result(match: Match) -> Replacement | None:
    """Behind differentiation one result is the value that it was."""
    return (match.input(0),) if match.command.attrs.results == 1 else None


def _in_place_of_the_copy(match: Match) -> Replacement | None:
    """A value that is only copied is computed where its copy is wanted."""
    graph, (source,) = match.graph, match.record.inputs
    writers = () if source is None else graph.writers(source)
    if source is None or source in match.wanted or len(writers) != 1 or not has_one_reader(graph, source):
        return None
    record = graph.execs[writers[0]]
    alone = record.outputs == (source,) and record.optimize
    if not alone or bodies_of(record.command) or INPLACE[record.command.op](record.command.attrs).enforced:
        return None
    return graph.apply(record.command, [None if key is None else graph.symbol(key) for key in record.inputs])


def _where_it_is(match: Match) -> Replacement | None:
    """A value on its own device, or one that came from there."""
    x, device = match.input(0), match.command.attrs.device
    if x.spec.device == device:
        return (x,)
    before = match.producer(0, TO_DEVICE)
    source = None if before is None or before.inputs[0] is None else match.graph.symbol(before.inputs[0])
    return (source,) if source is not None and source.spec.device == device else None


TRANSFERS: tuple[Rule, ...] = (
    Rule("copy", contiguous, _source),
    Rule("copy of a result", contiguous, _in_place_of_the_copy),
    Rule("transfer there and back", TO_DEVICE, _where_it_is),
    # Passes run behind differentiation.
    Rule("stopped gradient", stop_gradient, _source),
    Rule("gradient of its own", OWN_GRADIENT, _result),
)
