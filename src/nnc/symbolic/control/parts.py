"""What loops and branches share: values in memory of their own, and a body with its gradient to take parts from."""

from __future__ import annotations

from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.ops.movement.copy import contiguous
from nnc.symbolic.gradient import backward
from nnc.symbolic.ir import Body, Symbol, SymbolicGraph
from nnc.symbolic.records import ExecKey, TensorKey


@dataclass(frozen=True, slots=True)
class Pullback:
    """A copy of a body with its gradient: `graph`, old → new keys, seeds, what it gives, and the execs for that."""

    graph: SymbolicGraph
    mapped: dict[TensorKey, TensorKey]
    seeds: tuple[TensorKey, ...]
    given_back: tuple[TensorKey, ...]
    execs: tuple[ExecKey, ...]

    def into(self, graph: SymbolicGraph, given: dict[TensorKey, TensorKey]) -> tuple[Symbol, ...]:
        """Append the gradient to another graph; `given` says what the copy's inputs are there."""
        known = dict(given)
        graph.graft(self.graph, self.execs, self.given_back, known)
        return tuple(graph.symbol(known[key]) for key in self.given_back)

    def reads(self) -> set[TensorKey]:
        """Roots of the copy that come from outside."""
        roots = {self.graph.root(key) for key in self.given_back}
        return roots | set(self.graph.inputs_of(self.execs))


def pull_back_body(
    body: Body,
    outputs: Sequence[TensorKey],
    inputs: Sequence[TensorKey],
    beside: Sequence[TensorKey] = (),
    keep: Sequence[TensorKey] = (),
) -> Pullback:
    """(parameters…, seeds…) -> gradients by `inputs`, and the values `beside` them; `keep` are symbols to be mapped."""
    graph = body.graph
    copy, mapped = graph.subgraph(graph.execs.toposort(), (*body.parameters, *outputs, *inputs, *beside, *keep))
    results = [copy.symbol(mapped[key]) for key in outputs]
    seeds = [copy.input(symbol.spec, "seed") for symbol in results]
    gradients = backward(copy, results, [copy.symbol(mapped[key]) for key in inputs], seeds)
    keys = (*(symbol.key for symbol in gradients), *(mapped[key] for key in beside))
    return Pullback(copy, dict(mapped), tuple(symbol.key for symbol in seeds), keys, copy.needed_for(keys))


def results_of_their_own(
    graph: SymbolicGraph, parameters: Sequence[TensorKey], results: Sequence[Symbol]
) -> tuple[TensorKey, ...]:
    """Parameters that are handed on, and others in memory of their own."""
    taken: list[TensorKey] = []
    for symbol in results:
        taken.append(symbol.key if symbol.key in parameters else result_of_its_own(graph, symbol.key, taken))
    return tuple(taken)


def result_of_its_own(graph: SymbolicGraph, key: TensorKey, taken: Sequence[TensorKey]) -> TensorKey:
    """`key`, or a copy of it unless one exec writes all of it and nobody else gives it back."""
    writers = graph.writers(key)
    if graph.root(key) == key and key not in taken and len(writers) == 1 and key in graph.execs[writers[0]].outputs:
        return key
    return contiguous(graph.symbol(key)).key


def whole_of(symbol: Symbol) -> Symbol:
    """The symbol, or a copy of it when it is a part of another."""
    return symbol if symbol.graph.root(symbol.key) == symbol.key else contiguous(symbol)


def as_symbol(operand: object) -> Symbol:
    """The operand, which is a symbol here: gradient rules are written for symbols and variables alike."""
    assert isinstance(operand, Symbol)
    return operand
