"""A program as a graph of its own, as the only branch of a `case_of`, and as the body of a loop of one iteration.

The body's graph is compiled by itself too, so that both are the same execs. Inputs are in the arena or the caller's,
results are in the arena; what the loop begins with, and what the branch is chosen by, are the caller's.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.fuzz.graphs.case import Case, Fault
from tests.symbolic.programs import Built

from nnc.concrete import CountBelow
from nnc.core.values.dtype import I64
from nnc.core.values.spec import TensorSpec
from nnc.symbolic import Symbol, SymbolicGraph, TensorKey, case_of, compile, while_loop
from nnc.symbolic.ir import Body, bodies_of


def check_moved(case: Case, numbers: random.Random) -> None:
    """A program takes no more memory as a branch, or as an iteration, than by itself."""
    built = case.built
    computed = [symbol for symbol in built.wanted if built.graph.writers(built.graph.root(symbol.key))]
    if built.outside or not computed or not read(built, computed):
        return
    given = numbers.random() < 0.5
    for name, move in (("branch", as_branch), ("iteration", as_iteration)):
        graph, inputs, known, results = move(built, computed)
        body = next(body for _, record in graph.execs.items() for _, body in bodies_of(record.command))
        alone = arena_alone(body, given)
        moved = arena(graph, results, [*known, *(inputs if given else ())])
        case.outcomes.add(f"{name}: smaller" if moved < alone else f"{name}: equal")
        if moved > alone:
            raise Fault(f"moved: {moved} bytes as a {name}, {alone} alone, inputs {'given' if given else 'inside'}")


def arena(graph: SymbolicGraph, results: Sequence[Symbol], given: Sequence[Symbol]) -> int:
    """Bytes of a graph, with the memory of some inputs outside."""
    return compile(graph, results, given=dict.fromkeys(given), backend="reference").memory().arena


def arena_alone(body: Body, given: bool) -> int:
    """Bytes of the graph of a body."""
    graph = body.graph
    inputs = [graph.symbol(key) for key in body.parameters] if given else []
    return arena(graph, [graph.symbol(key) for key in body.results], inputs)


def as_branch(
    built: Built, wanted: Sequence[Symbol]
) -> tuple[SymbolicGraph, Sequence[Symbol], Sequence[Symbol], Sequence[Symbol]]:
    """The graph, its inputs, the choice, and the results."""
    graph = SymbolicGraph()
    inputs = [graph.input(symbol.spec) for symbol in read(built, wanted)]
    choice = graph.input(TensorSpec((), I64))

    def branch(*values: Symbol) -> tuple[Symbol, ...]:
        return grafted(values[0].graph, built, wanted, values)

    return graph, inputs, [choice], case_of(graph, choice, [branch], inputs)


def as_iteration(
    built: Built, wanted: Sequence[Symbol]
) -> tuple[SymbolicGraph, Sequence[Symbol], Sequence[Symbol], Sequence[Symbol]]:
    """The graph, its inputs, what the results are in front of the iteration, and the results."""
    graph = SymbolicGraph()
    inputs = [graph.input(symbol.spec) for symbol in read(built, wanted)]
    begun = [graph.input(symbol.spec) for symbol in wanted]
    with while_loop(graph, CountBelow(1)) as loop:
        state = [loop.carry(symbol) for symbol in begun]
        values = [loop.capture(symbol) for symbol in inputs]
        for symbol, value in zip(state, grafted(loop.body, built, wanted, values), strict=True):
            loop.next(symbol, value)
    return graph, inputs, begun, [loop.result(symbol) for symbol in state]


def read(built: Built, wanted: Sequence[Symbol]) -> list[Symbol]:
    """The inputs that the wanted ones depend on."""
    graph = built.graph
    keys = {*graph.inputs_of(graph.needed_for([symbol.key for symbol in wanted]))}
    return [symbol for symbol in built.inputs if symbol.key in keys]


def grafted(
    graph: SymbolicGraph, built: Built, wanted: Sequence[Symbol], values: Sequence[Symbol]
) -> tuple[Symbol, ...]:
    """What is wanted of the program, computed in this graph from these values of its inputs."""
    keys = [symbol.key for symbol in wanted]
    mapped: dict[TensorKey, TensorKey] = dict(
        zip((symbol.key for symbol in read(built, wanted)), (value.key for value in values), strict=True)
    )
    graph.graft(built.graph, built.graph.needed_for(keys), keys, mapped)
    return tuple(graph.symbol(mapped[key]) for key in keys)
