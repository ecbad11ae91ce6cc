"""Gradient programs: a part of the record, differentiated and compiled once, run again whenever it comes again.

Tensors of a computation are numbered by first appearance. Two computations with the same commands on the same
numbers have the same signature, so the steps of a training loop share one program.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from nnc.dynamic.calls import CALL
from nnc.symbolic.compiler import Arena, MovingProgram, compile
from nnc.symbolic.gradient import backward
from nnc.symbolic.ir import ExecKey, Symbol, SymbolicGraph, TensorKey

# Canonical form of a recorded computation: commands with numbered tensors, which are known, and what is asked for.
Signature = tuple[object, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Computation:
    """The recorded execs that lead to `outputs`, in order, and all tensors with their numbers."""

    execs: tuple[ExecKey, ...]
    numbers: Mapping[TensorKey, int]
    outputs: tuple[TensorKey, ...]
    inputs: tuple[TensorKey, ...]


@dataclass(frozen=True, slots=True, eq=False)
class GradientProgram:
    """A compiled gradient over symbols of its own `graph`.

    `numbers` tells which symbols are tensors of the computation. The program is `given` some of them and writes
    `fresh` roots; `results` are these or aliases of them. `execs` are the backward execs, for whoever records them.
    """

    graph: SymbolicGraph
    compiled: MovingProgram
    numbers: Mapping[TensorKey, int]
    given: tuple[Symbol, ...]
    fresh: tuple[Symbol, ...]
    results: tuple[Symbol, ...]
    execs: tuple[ExecKey, ...]


def computation_of(record: SymbolicGraph, outputs: Sequence[TensorKey], inputs: Sequence[TensorKey]) -> Computation:
    """What `outputs` depend on, numbered by first appearance; each alias comes behind its root."""
    execs = record.needed_for(outputs)
    numbers: dict[TensorKey, int] = {}
    for tensor in (*_named(record, execs), *outputs, *inputs):
        numbers.setdefault(record.root(tensor), len(numbers))
        numbers.setdefault(tensor, len(numbers))
    return Computation(execs, numbers, tuple(outputs), tuple(inputs))


def signature_of(record: SymbolicGraph, computation: Computation, known: Collection[TensorKey]) -> Signature:
    """Equal for computations that one gradient program serves."""
    numbers = computation.numbers
    records = [record.execs[key] for key in computation.execs]
    commands = tuple(
        (exec_.command, tuple(None if key is None else numbers[key] for key in (*exec_.inputs, *exec_.outputs)))
        for exec_ in records
    )
    tensors = tuple(
        (record.tensors[key].spec, numbers[record.root(key)], record.region(key), key in known) for key in numbers
    )
    asked = tuple(numbers[key] for key in computation.outputs), tuple(numbers[key] for key in computation.inputs)
    return (commands, tensors, asked)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A computation in a graph of its own: where each of its tensors is there, and those that are known."""

    graph: SymbolicGraph
    mapped: Mapping[TensorKey, TensorKey]
    known: tuple[TensorKey, ...]


def part_of(record: SymbolicGraph, computation: Computation, known: Collection[TensorKey]) -> Part:
    """A copy of the computation, apart from the record."""
    graph, mapped = record.subgraph(computation.execs, computation.numbers)
    return Part(graph, mapped, tuple(mapped[key] for key in computation.numbers if key in known))


def gradient_program(part: Part, computation: Computation, backend: str, arena: Arena) -> GradientProgram:
    """Differentiate a computation; compile the gradients alone, from the roots that are known."""
    graph, mapped = part.graph, part.mapped
    results = backward(
        graph,
        [graph.symbol(mapped[key]) for key in computation.outputs],
        [graph.symbol(mapped[key]) for key in computation.inputs],
    )
    given = tuple(map(graph.symbol, part.known))
    roots = dict.fromkeys(graph.symbol(graph.root(symbol.key)) for symbol in results)
    fresh = tuple(root for root in roots if root not in given)
    compiled = compile(graph, results, given=dict.fromkeys(given), bind=dict.fromkeys(fresh), backend=backend)
    numbers = {mapped[key]: number for key, number in computation.numbers.items()}
    execs = graph.needed_for([symbol.key for symbol in results], numbers)
    # A call may run gradient programs of its own meanwhile.
    has_calls = any(graph.execs[key].command.op is CALL for key in execs)
    program = MovingProgram(compiled.in_arena_of(Arena(0) if has_calls else arena), given, fresh)
    return GradientProgram(graph, program, numbers, given, fresh, results, execs)


def _named(record: SymbolicGraph, execs: Sequence[ExecKey]) -> list[TensorKey]:
    """The tensors that execs name, in order, with repetitions."""
    records = [record.execs[key] for key in execs]
    return [key for exec_ in records for key in (*exec_.inputs, *exec_.outputs) if key is not None]
