"""Who runs the commands of a graph, and why those whom the user would rather have do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile

from nnc.classes import dataclass
from nnc.concrete.body import ConcreteBody, Exec, all_bodies
from nnc.concrete.check import specs_of
from nnc.core.running.dispatch import Dispatcher, Specs, kinds_of
from nnc.core.values.command import AnyCommand


@dataclass(frozen=True, slots=True)
class Served:
    """A command on these specs, which `count` execs run: who runs it, and what those before him said against it."""

    command: AnyCommand
    inputs: Specs
    outputs: Specs
    backend: str
    refusals: Mapping[str, str]
    origin: str
    count: int = 1

    def __str__(self) -> str:
        specs = ", ".join("–" if spec is None else str(spec) for spec in self.inputs)
        reasons = "".join(f"; {name}: {reason}" for name, reason in self.refusals.items())
        times = f" × {self.count}" if self.count > 1 else ""
        return f"{self.backend} runs {self.command.op.name}({specs}){times}{reasons} ({self.origin})"


def report(body: ConcreteBody, dispatcher: Dispatcher, prefer: str) -> tuple[Served, ...]:
    """A row for each command with its specs, in bodies too, in order of the first exec of each."""
    served: dict[tuple[AnyCommand, Specs, Specs, str], Served] = {}
    for inner in all_bodies(body):
        for _, record in inner.execs.items():
            if isinstance(record, Exec):
                key = (record.command, specs_of(record.inputs), specs_of(record.outputs), str(record.claim))
                if key in served:
                    served[key] = replace(served[key], count=served[key].count + 1)
                else:
                    served[key] = Served(*key, _refusals(record, dispatcher, prefer), record.origin)
    return tuple(served.values())


def _refusals(record: Exec, dispatcher: Dispatcher, prefer: str) -> dict[str, str]:
    """What each backend before the one that claimed says."""
    inputs, outputs = specs_of(record.inputs), specs_of(record.outputs)
    usable = dispatcher.usable(prefer, kinds_of(inputs, outputs))
    before = takewhile(lambda backend: backend is not record.claim.backend, usable)
    reasons = {backend.name: backend.refusal(record.command, inputs, outputs) for backend in before}
    return {name: reason for name, reason in reasons.items() if reason}
