"""Graphs for many sizes: one that was built with sizes that remember where they come from, made for others.

    trace = SizeTrace();  n = trace.read(8)
    ...                               a graph of specs with n in them, passes and all
    template = GraphTemplate(graph, trace.close())
    template.at((9,))                 the graph that the same steps build for 9; None where they take another way

Every comparison on the way is a guard (`nnc.core.values.sizes`), so what comes of it is what would be built anew.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeVar, cast

from nnc.classes import dataclass
from nnc.core.values.derived import Known
from nnc.core.values.sizes import Size, size_of
from nnc.core.values.spec import TensorSpec
from nnc.symbolic.ir import Body, SymbolicGraph
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey, TensorSymbol

T = TypeVar("T")
# By the place of a size in its trace.
Numbers = Sequence[Known] | Mapping[int, Known]
# Values that are made of nothing else.
ATOMS = frozenset({bool, bytes, float, int, str, type(None)})


@dataclass(frozen=True, slots=True, eq=False)
class GraphTemplate:
    """A graph, and which of its records have sizes in them that are computed anew."""

    graph: SymbolicGraph
    tensors: Mapping[TensorKey, TensorSymbol]
    execs: Mapping[ExecKey, ExecSymbol]

    @classmethod
    def of(cls, graph: SymbolicGraph) -> GraphTemplate:
        """Of a graph whose trace is closed. The graph is not changed any more."""
        tensors = {key: record for key, record in graph.tensors.items() if depends(record)}
        return cls(graph, tensors, {key: record for key, record in graph.execs.items() if depends(record.command)})

    @property
    def is_fixed(self) -> bool:
        """Whether it is the same at all sizes."""
        return not self.tensors and not self.execs

    def at(self, numbers: Numbers) -> SymbolicGraph:
        """The graph with these numbers, by their places in the trace; its keys are those of the template."""
        renewal = Renewal(numbers)
        execs = {key: replace(record, command=renewal.of(record.command)) for key, record in self.execs.items()}
        return self.graph.renewed({key: renewal.tensor(record) for key, record in self.tensors.items()}, execs)


def depends(value: object) -> bool:
    """Whether there is a size in a value, or in what it is made of, that remembers where it comes from."""
    return next(sizes_in(value), None) is not None


def sizes_in(value: object) -> Iterator[Size]:
    """The sizes in a value, or in what it is made of, that remember where they come from."""
    size, kind = size_of(value), type(value)
    if size is not None:
        yield size
    elif kind in ATOMS:
        return
    elif isinstance(value, tuple | list | frozenset):
        for part in value:
            yield from sizes_in(part)
    elif isinstance(value, SymbolicGraph):
        yield from sizes_in(tuple([record for _, record in value.tensors.items()]))
        yield from sizes_in(tuple([record.command for _, record in value.execs.items()]))
    elif dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            yield from sizes_in(getattr(value, each.name))


class Renewal:
    """Values with other numbers in the place of sizes; what has none stays as it is."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._specs: dict[int, TensorSpec] = {}

    def of(self, value: T) -> T:
        """The value with these numbers; itself where it has no sizes."""
        size, kind = size_of(value), type(value)
        if size is not None:
            return self._numbers[size.place]  # type: ignore[return-value]  # which stands where a number is expected
        if kind in ATOMS:
            return value
        if kind is tuple or kind is list or kind is frozenset:
            parts = [self.of(each) for each in value]  # type: ignore[attr-defined]  # a collection
            is_same = all(map(operator.is_, parts, value))  # type: ignore[call-overload]
            return value if is_same else kind(parts)  # type: ignore[call-arg]
        if kind is Body:
            return self._body(value)  # type: ignore[arg-type, return-value]
        if names := _fields(cast(Hashable, kind)):
            fields = {name: getattr(value, name) for name in names}
            renewed = {name: self.of(part) for name, part in fields.items()}
            return value if all(renewed[name] is fields[name] for name in names) else kind(**renewed)
        return value

    def tensor(self, record: TensorSymbol) -> TensorSymbol:
        """A symbol; symbols of one spec have one here too."""
        spec = self._specs.get(id(record.spec))
        if spec is None:
            spec = self._specs[id(record.spec)] = self.of(record.spec)
        return TensorSymbol(spec, record.name, self.of(record.alias), record.origin, record.fill)

    def _body(self, body: Body) -> Body:
        template = GraphTemplate.of(body.graph)
        return body if template.is_fixed else Body(template.at(self._numbers), body.parameters, body.results)


@cache
def _fields(kind: Hashable) -> tuple[str, ...]:
    """What a dataclass is made of; nothing for other classes."""
    return tuple(each.name for each in dataclasses.fields(kind) if each.init) if dataclasses.is_dataclass(kind) else ()
