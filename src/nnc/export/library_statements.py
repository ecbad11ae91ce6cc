"""A compiled program as statements on tensors, and what stands in the way of a library of it.

statements_of(graph.body, backend)      commands in order; BackendError lists those without a kernel
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnc.concrete.body import CaseOfExec, ConcreteBody, Exec, Noop, Record, WhileExec, all_bodies
from nnc.concrete.control import PythonChoice, PythonTest
from nnc.concrete.multiview import Place
from nnc.core.running.dispatch import DISPATCHER, Call, Specs
from nnc.core.running.library_program import LibraryStatement
from nnc.core.values.tensor import Tensor
from nnc.errors import BackendError


def check_native(body: ConcreteBody, backend: str) -> None:
    """BackendError with every command, test and choice that this backend has no code for, and its line."""
    refused = [row for inner in all_bodies(body) for row in _refused(inner, backend)]
    if refused:
        rows = "; ".join(dict.fromkeys(refused))
        need = f"commands that {backend} has kernels for"
        raise BackendError("library", got=rows, need=need, fix="docs/library.md says what a library may hold")


def _refused(body: ConcreteBody, backend: str) -> Iterator[str]:
    if isinstance(body.test, PythonTest):
        yield "a loop whose test is a function of Python's"
    for _, record in body.execs.items():
        reason = _reason(record, backend)
        if reason:
            yield f"{reason} ({record.origin})" if record.origin else reason


def _reason(record: Record, backend: str) -> str:
    match record:
        case Exec():
            if record.claim.backend.name == backend:
                return ""
            inputs, outputs = _specs(record.inputs), _specs(record.outputs)
            why = DISPATCHER.backend(backend).refusal(record.command, inputs, outputs)
            return f"{record.command.op.name}: {why}"
        case Noop():
            return "" if record.action is None else "a function of Python's between commands"
        case CaseOfExec():
            return "a branch that a function of Python's chooses" if isinstance(record.choice, PythonChoice) else ""
        case WhileExec():
            return "" if record.forward is None else "a loop that goes back along a tape"


def _specs(places: Sequence[Place | None]) -> Specs:
    return tuple(None if place is None else place.spec for place in places)


def statements_of(body: ConcreteBody, backend: str) -> tuple[LibraryStatement, ...]:
    """The commands of a body in order."""
    check_native(body, backend)
    statements = []
    for key in body.span(body.sources, body.destinations):
        record = body.execs[key]
        match record:
            case Exec():
                statements.append(_call(record))
            case Noop():
                pass
            case WhileExec() | CaseOfExec():
                raise BackendError("library", got=f"a loop or a branch ({record.origin})", need="commands in order")
    return tuple(statements)


def _call(record: Exec) -> Call:
    inputs, outputs = map(_tensors, (record.inputs, record.outputs))
    return Call(record.claim.kernel, inputs, outputs, record.workspace, record)


def _tensors(places: Sequence[Place | None]) -> tuple[Tensor | None, ...]:
    tensors = tuple(place for place in places if place is None or isinstance(place, Tensor))
    assert len(tensors) == len(places)
    return tensors
