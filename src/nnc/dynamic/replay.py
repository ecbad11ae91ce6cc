"""Commands that ran once, to be run again on other values of their specs: an eager call without the code that made it.

    replay = replay_of(graph, trace, inputs, outputs)      what a function did to traced values
    graph.replay(replay, values)                           the same commands, recorded one by one as they would be

Kernels, bits and the record are those of the commands one by one, and so are their lines; what is saved is the Python
between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import TensorSpec
from nnc.dynamic.execution.prepared import PreparedCommand
from nnc.dynamic.traced import FunctionTrace, TracedValue
from nnc.symbolic.records import TensorKey

Prepare = Callable[[AnyCommand, tuple[TensorSpec | None, ...]], PreparedCommand]


@dataclass(frozen=True, slots=True, eq=False)
class ReplayedCommand:
    """A command on values by number, of which those in `last` are read no more behind it."""

    ready: PreparedCommand
    inputs: tuple[int, ...]
    origin: str
    last: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """Commands in their order, and the numbers of what they give.

    Value 0 is None, an absent input; then come the values that are given, and the outputs of each command.
    """

    commands: tuple[ReplayedCommand, ...]
    outputs: tuple[int, ...]


def replay_of(
    prepare: Prepare, trace: FunctionTrace, inputs: Sequence[TracedValue], outputs: Sequence[TracedValue]
) -> Replay | None:
    """What was traced, of these inputs; None where it is more than commands on roots that write nothing over."""
    graph = trace.graph
    if trace.counter is not None or trace.renewed or trace.constants:
        return None
    numbers: dict[TensorKey, int] = {value.symbol.key: at + 1 for at, value in enumerate(inputs)}
    rows: list[tuple[PreparedCommand, tuple[int, ...], str]] = []
    for _, command in graph.execs.items():
        read = [None if key is None else graph.tensors[key] for key in command.inputs]
        if any(symbol is not None and symbol.alias is not None for symbol in read):
            return None
        ready = prepare(command.command, tuple([None if symbol is None else symbol.spec for symbol in read]))
        if ready.writes_over:
            return None
        rows.append((ready, tuple([0 if key is None else numbers[key] for key in command.inputs]), command.origin))
        for key in command.outputs:
            numbers[key] = len(numbers) + 1
    wanted = tuple([numbers.get(value.symbol.key, 0) for value in outputs])
    # What is given as it came would be another handle of the same value.
    if not all(number > len(inputs) for number in wanted):
        return None
    last = {number: at for at, (_, read, _) in enumerate(rows) for number in read}
    ends: list[list[int]] = [[] for _ in rows]
    for number, at in last.items():
        if number > len(inputs) and number not in wanted:
            ends[at].append(number)
    commands = [ReplayedCommand(*row, tuple(end)) for row, end in zip(rows, ends, strict=True)]
    return Replay(tuple(commands), wanted)
