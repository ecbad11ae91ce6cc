"""Who runs the commands of a graph, and why those whom the user would rather have do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nnc.concrete.body import Body, Exec, all_bodies
from nnc.concrete.check import specs_of
from nnc.core.command import AnyCommand
from nnc.core.dispatch import Dispatcher, Specs


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


def report(body: Body, dispatcher: Dispatcher, prefer: str) -> tuple[Served, ...]:
    """A row for each command with its specs, in bodies too, in order of the first exec of each."""
    found: dict[tuple[AnyCommand, Specs, Specs, str], Served] = {}
    for one in all_bodies(body):
        for _, record in one.execs.items():
            if isinstance(record, Exec):
                row = _served(record, dispatcher, prefer)
                key = (row.command, row.inputs, row.outputs, row.backend)
                found[key] = replace(found[key], count=found[key].count + 1) if key in found else row
    return tuple(found.values())


def _served(record: Exec, dispatcher: Dispatcher, prefer: str) -> Served:
    inputs, outputs = specs_of(record.inputs), specs_of(record.outputs)
    refusals = {}
    for backend in dispatcher.usable(prefer):
        if backend is record.claim.backend:
            break
        if reason := backend.refusal(record.command, inputs, outputs):
            refusals[backend.name] = reason
    return Served(record.command, inputs, outputs, str(record.claim), refusals, record.origin)
