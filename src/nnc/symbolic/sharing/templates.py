"""Graphs for many sizes: one that was built with sizes that remember where they come from, made for others.

    trace = SizeTrace();  n = trace.read(8)
    ...                               a graph of specs with n in them, passes and all
    template = GraphTemplate(graph, trace.close())
    template.at((9,))                 the graph that the same steps build for 9; None where they take another way

Every comparison on the way is a guard (`nnc.core.values.sizes`), so what comes of it is what would be built anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from nnc.classes import dataclass
from nnc.core.running.dispatch import Specs
from nnc.core.values.command import AnyCommand
from nnc.core.values.sizes import Numbers, Renewal, depends, renewing
from nnc.core.values.spec import TensorSpec
from nnc.symbolic.ir import Body, SymbolicGraph, bodies_of
from nnc.symbolic.records import AliasOf, ExecKey, ExecSymbol, TensorKey, TensorSymbol

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class GraphTemplate:
    """A graph, and which of its records have sizes in them that are computed anew."""

    graph: SymbolicGraph
    tensors: Mapping[TensorKey, TensorSymbol]
    execs: Mapping[ExecKey, ExecSymbol]
    _specs: Mapping[int, Callable[[Numbers], TensorSpec]]
    _aliases: Mapping[TensorKey, Callable[[Numbers], AliasOf | None]]
    _commands: Mapping[ExecKey, Callable[[Numbers], AnyCommand]]

    @classmethod
    def of(cls, graph: SymbolicGraph) -> GraphTemplate:
        """Of a graph whose trace is closed. The graph is not changed any more."""
        tensors = {key: record for key, record in graph.tensors.items() if depends(record)}
        execs = {key: record for key, record in graph.execs.items() if depends(record.command)}
        specs = {id(record.spec): renewing(record.spec) for record in tensors.values()}
        aliases = {key: renewing(record.alias) for key, record in tensors.items()}
        commands = {key: _renewing_command(record.command) for key, record in execs.items()}
        return cls(graph, tensors, execs, specs, aliases, commands)

    @property
    def is_fixed(self) -> bool:
        """Whether it is the same at all sizes."""
        return not self.tensors and not self.execs

    def at(self, numbers: Numbers) -> SymbolicGraph:
        """The graph with these numbers, by their places in the trace; its keys are those of the template."""
        return self.instance(numbers).graph

    def instance(self, numbers: Numbers) -> GraphInstance:
        """The same, with where it comes from."""
        commands, aliases = self._commands, self._aliases
        execs = {key: replace(record, command=commands[key](numbers)) for key, record in self.execs.items()}
        # Symbols of one spec have one here too.
        specs = {spec: made(numbers) for spec, made in self._specs.items()}
        tensors = {
            key: TensorSymbol(specs[id(each.spec)], each.name, aliases[key](numbers), each.origin, each.fill)
            for key, each in self.tensors.items()
        }
        return GraphInstance(self, numbers, self.graph.renewed(tensors, execs), tensors, execs)


def _renewing_command(command: AnyCommand) -> Callable[[Numbers], AnyCommand]:
    if bodies_of(command):
        return lambda numbers: GraphRenewal(numbers).of(command)
    return renewing(command)


@dataclass(frozen=True, slots=True, eq=False)
class GraphInstance:
    """A graph that was made of a template for these numbers, with the records that were made for them.

    The graph may have been changed since.
    """

    template: GraphTemplate
    numbers: Numbers
    graph: SymbolicGraph
    tensors: Mapping[TensorKey, TensorSymbol]
    execs: Mapping[ExecKey, ExecSymbol]

    def specs(self, key: ExecKey) -> tuple[Specs, tuple[TensorSpec, ...]]:
        """The operands and results of an exec."""
        record, tensors = self.graph.execs[key], self.graph.tensors
        return self.graph.specs(record.inputs), tuple([tensors[output].spec for output in record.outputs])

    def sized(self, key: ExecKey) -> tuple[AnyCommand, Specs, Specs]:
        """The command and the specs with the sizes of the template in them, and others as they are."""
        record, template = self.graph.execs[key], self.template

        def spec(operand: TensorKey) -> TensorSpec:
            return (template.tensors if operand in template.tensors else self.graph.tensors)[operand].spec

        inputs = tuple([None if operand is None else spec(operand) for operand in record.inputs])
        made = template.execs.get(key)
        return (record if made is None else made).command, inputs, tuple(map(spec, record.outputs))

    def others(self, key: ExecKey) -> Specs:
        """The specs of operands that no size of the template is in."""
        tensors, sized = self.graph.tensors, self.template.tensors
        record = self.graph.execs[key]
        operands = [each for each in (*record.inputs, *record.outputs) if each is not None]
        return tuple([tensors[each].spec for each in operands if each not in sized])

    def matches_template(self, key: ExecKey) -> bool:
        """Whether the command and the sized operands of an exec are those that were made for these numbers."""
        record, made, tensors = self.graph.execs[key], self.execs.get(key), self.tensors
        whole = self.template.graph.execs
        if key not in whole or record.command is not (whole[key] if made is None else made).command:
            return False
        operands = [each for each in (*record.inputs, *record.outputs) if each in tensors]
        return all([self.graph.tensors[each] is tensors[each] for each in operands if each is not None])  # noqa: C419  # a generator is a call more for each


class GraphRenewal(Renewal):
    """The same of commands with bodies."""

    def of(self, value: T) -> T:
        """The value with these numbers; itself where it has no sizes."""
        return self._body(value) if type(value) is Body else super().of(value)  # type: ignore[arg-type, return-value]

    def _body(self, body: Body) -> Body:
        template = GraphTemplate.of(body.graph)
        return body if template.is_fixed else Body(template.at(self.numbers), body.parameters, body.results)
