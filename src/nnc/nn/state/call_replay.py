"""Eager calls of layers that do the same each time: their commands, without the scopes and the code that made them.

    first call                 makes the tensors
    first one of a spec        as the code has it
    second one                 traced, and replayed
    further ones               the commands, on the values that the layer's variables hold then

A layer says by `replays` that its commands follow from its options, the specs of its inputs and how it is used; a layer
made of others is replayed where all of them say so. What is renewed or drawn, hooks and frozen layers go the long way.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

from nnc.classes import dataclass
from nnc.dynamic.graph import default_graph
from nnc.dynamic.replay import Replay, replay_of
from nnc.dynamic.state import has_stand_ins
from nnc.dynamic.traced import FunctionTrace, TracedValue, active_trace
from nnc.dynamic.variable import Variable
from nnc.errors import UsageError
from nnc.nn.state.frames import is_plain
from nnc.nn.state.layer_state import LayerState, OwnTensors

KEPT_CALLS = 64
# A spec that no call has had.
MISSING = object()
PACKAGE = __name__.partition(".")[0] + "."


@dataclass(frozen=True, slots=True, eq=False)
class CallReplay:
    """A call of a layer on values of some specs, as long as its layers are what they were.

    `layers` are tensors of each, whether it was in training, how many variables it had and how often attributes were
    set; `slots` where each variable was, by name, and whether it was trained; `options` those of a layer, asked anew.
    """

    replay: Replay
    variables: tuple[Variable, ...]
    layers: tuple[tuple[OwnTensors, bool, int, int], ...]
    slots: tuple[tuple[dict[str, Variable], str, Variable, bool], ...]
    options: tuple[tuple[Callable[[], tuple[object, ...]], tuple[object, ...]], ...]

    def fits(self) -> bool:
        """Whether a call would find the same now."""
        for own, training, count, changes in self.layers:
            if own.frozen or own.is_hooked or own.training is not training:
                return False
            if own.changes != changes or len(own.variables) != count:
                return False
        for group, name, variable, trained in self.slots:
            if group.get(name) is not variable or (variable.place is None) is trained:
                return False
        for ask, known in self.options:
            now = ask()
            if len(now) != len(known) or not all(map(is_, now, known)):
                return False
        return True


def replayed_call(layer: LayerState, values: tuple[Any, ...]) -> tuple[Variable, ...] | None:
    """The outputs of a call on eager values that has been traced, or None."""
    own: OwnTensors | None = getattr(layer, "_own", None)
    if own is None or not own.called or active_trace() is not None or has_stand_ins() or not is_plain():
        return None
    specs = []
    for value in values:
        if type(value) is not Variable:
            return None
        specs.append(value.tensor.spec)
    key = tuple(specs)
    calls = own.replays
    known = calls.get(key, MISSING)
    if known is MISSING:
        if len(calls) >= KEPT_CALLS:
            calls.clear()
        calls[key] = None
        return None
    if known is None:
        known = _traced(layer, values)
        calls[key] = known
    if not known:
        return None
    if not known.fits():
        # Traced again at the second call of what it is now.
        calls.pop(key, None)
        return None
    try:
        return default_graph().replay(known.replay, (*values, *known.variables))
    except UsageError:
        # The long way says where it is.
        return None


def _traced(layer: LayerState, values: tuple[Variable, ...]) -> CallReplay | bool | None:
    """The call traced; False where a layer may do something else the next time, None where one may now."""
    layers = layer.modules()
    if not all(each.replays and type(each).__module__.startswith(PACKAGE) for each in layers):
        return False
    if any(each.own.frozen or each.own.is_hooked for each in layers):
        return None
    in_use = [(each.own, each.own.training, len(each.own.variables), each.own.changes) for each in layers]
    slots = [
        (each.own.variables, name, variable, variable.place is not None)
        for each in layers
        for name, variable in each.own.variables.items()
    ]
    options = [(each.replay_options, known) for each in layers if (known := each.replay_options())]
    trace = FunctionTrace(type(layer).__name__)
    inputs = [trace.input(value.spec, "x") for value in values]
    try:
        with trace.active():
            made = layer(*inputs)  # type: ignore[operator]  # layers are called
    except UsageError:
        return False
    outputs = list(made) if isinstance(made, tuple) else [made]
    if not all(isinstance(value, TracedValue) for value in outputs):
        return False
    variables = tuple([variable for variable, _ in trace.captured.values()])
    places = {id(variable) for _, _, variable, _ in slots}
    if not all(id(variable) in places for variable in variables):
        return False
    given = [*inputs, *[value for _, value in trace.captured.values()]]
    replay = replay_of(default_graph().prepared, trace, given, outputs)
    return False if replay is None else CallReplay(replay, variables, tuple(in_use), tuple(slots), tuple(options))
