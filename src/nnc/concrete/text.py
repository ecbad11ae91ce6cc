"""Concrete graphs for the eye: a text dump and Graphviz, bodies of loops and branches inside their nodes."""

from __future__ import annotations

from typing import assert_never

from nnc.concrete.body import CaseOfExec, ConcreteBody, Exec, ExecKey, Noop, Record, WhileExec, all_bodies, bodies_of
from nnc.concrete.control import Choice, CountBelow, NonZero, PythonChoice, PythonTest, Selector, TapedChoice, Test
from nnc.concrete.multiview import Carry, Multiview, Phi, Place, Recalled, Reference, Taped
from nnc.core.values.tensor import Tensor

INDENT = "    "


def dump(body: ConcreteBody, details: bool = False) -> str:
    """One line per node, `%key label <- %source reason, …`, and under it the bodies inside, indented.

    `details` adds the places of each command with their addresses.
    """
    texts: dict[ConcreteBody, list[str]] = {}
    for shown in reversed(all_bodies(body)):
        head, *lines = shown.execs.dump(lambda record: label(record, details), lambda edge: edge.reason).splitlines()
        text = [head]
        for line, (_, record) in zip(lines, shown.execs.items(), strict=True):
            text.append(line)
            for role, inner in bodies_of(record):
                first, *rest = texts.pop(inner)
                text += [f"{INDENT}{role}, {first}{_loop(inner)}", *(INDENT + below for below in rest)]
        texts[shown] = text
    return "\n".join(texts[body])


def to_dot(body: ConcreteBody, details: bool = False) -> str:
    """The Graphviz text; each body inside a node is a cluster that a dashed edge leads to."""
    bodies = all_bodies(body)
    number = {shown: index for index, shown in enumerate(bodies)}
    texts: dict[ConcreteBody, list[str]] = {}
    for shown in reversed(bodies):
        text = [
            f'n{number[shown]}_{key} [label="{_escape(label(record, details))}"];'
            for key, record in shown.execs.items()
        ]
        text += [
            f'n{number[shown]}_{edge.source} -> n{number[shown]}_{edge.target} [label="{_escape(edge.data.reason)}"];'
            for edge in map(shown.execs.edge, shown.execs.edges())
        ]
        for key, record in shown.execs.items():
            for role, inner in bodies_of(record):
                text += _cluster(f"n{number[shown]}_{key}", role, inner, number[inner], texts.pop(inner))
        texts[shown] = text
    return "\n".join(["digraph {", "  compound=true;", *(f"  {line}" for line in texts[body]), "}"])


def _cluster(node: str, role: str, inner: ConcreteBody, number: int, lines: list[str]) -> list[str]:
    title = _escape(f"{role}{_loop(inner)}")
    text = [f"subgraph cluster_{number} {{", f'  label="{title}";', *(f"  {line}" for line in lines), "}"]
    first = next(iter(inner.execs), None)
    if first is not None:
        text.append(f"{node} -> n{number}_{first} [style=dashed, lhead=cluster_{number}];")
    return text


def label(record: Record, details: bool = False) -> str:
    """What a node is, on one line."""
    match record:
        case Exec():
            text = f"{record.command} on {record.claim}"
            return f"{text} ({_places(record.inputs)}) -> ({_places(record.outputs)})" if details else text
        case Noop():
            return "noop"
        case WhileExec():
            return f"while{_named(record.name)}" + ("" if record.forward is None else " backward")
        case CaseOfExec():
            offset = f" {record.offset:+d}" if record.offset else ""
            outputs = f" -> ({_places(record.outputs)})" if details else ""
            return f"case{_named(record.name)} of {_choice(record.choice)}{offset}{outputs}"
        case _:
            assert_never(record)


def describe(place: Place | None) -> str:
    """A place with the addresses of the tensors that it can be."""
    match place:
        case None:
            return "–"
        case Tensor():
            return f"{place.spec}@{place.address:#x}"
        case Multiview():
            return f"{place.kind.name}({', '.join(map(describe, place.views))})"
        case Phi():
            return f"phi({' | '.join(map(describe, (place.passed, *place.taken)))})"
        case Carry():
            return f"carry({describe(place.initial)})"
        case Reference():
            return f"reference({place.spec})"
        case Taped():
            return f"taped({describe(place.inner)})"
        case Recalled():
            return f"recalled({describe(place.taped)})"
        case _:
            assert_never(place)


def _places(places: tuple[Place | None, ...]) -> str:
    return ", ".join(map(describe, places))


def _named(name: str) -> str:
    return f" {' '.join(name.split())}" if name else ""


def _loop(body: ConcreteBody) -> str:
    parts = []
    if body.test is not None:
        parts.append(f"while {_test(body.test)}{_at(body.breakpoints)}")
    if body.carry_overs:
        parts.append(f"{len(body.carry_overs)} carried")
    return "".join(f", {part}" for part in parts)


def _at(breakpoints: tuple[ExecKey, ...]) -> str:
    return f" after {' '.join(f'%{key}' for key in breakpoints)}" if breakpoints else ""


def _test(test: Test) -> str:
    match test:
        case CountBelow():
            return f"count < {test.limit}"
        case NonZero():
            return f"{test.place.spec} ≠ 0"
        case PythonTest():
            return _function(test.function)
        case _:
            assert_never(test)


def _choice(choice: Choice) -> str:
    match choice:
        case Selector():
            return str(choice.place.spec)
        case PythonChoice():
            return _function(choice.function)
        case TapedChoice():
            return f"what %{choice.forward[1]} took"
        case _:
            assert_never(choice)


def _function(function: object) -> str:
    return f"{getattr(function, '__name__', type(function).__name__)}()"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
