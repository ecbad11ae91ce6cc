"""Forward-mode differentiation from the same rules as reverse mode.

    jvp(v) = J v

The gradient for seeds u is Jᵀ u: linear in u. Its own gradient by u, for seeds v, is J v, and no rule on the way reads
u, so nothing of Jᵀ u is computed. A Hessian-vector product is the jvp of a gradient: one more pass over the graph.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from nnc.arguments import checked
from nnc.core.precautions.origin import caller_origin
from nnc.errors import ArityError, ShapeError
from nnc.symbolic.gradient import backward
from nnc.symbolic.ir import Symbol, SymbolicGraph, bodies_of
from nnc.symbolic.passes.trim import trim
from nnc.symbolic.records import ExecKey, TensorKey


@checked
def jvp(
    graph: SymbolicGraph, outputs: Sequence[Symbol], inputs: Sequence[Symbol], tangents: Sequence[Symbol]
) -> tuple[Symbol, ...]:
    """Symbols of the change of each output when the inputs move along `tangents`.

    ShapeError for a tangent that has not the shape of its input; NotDifferentiableError as in `backward`.
    """
    if len(tangents) != len(inputs):
        raise ArityError("jvp", got=f"{len(tangents)} tangents", need=f"{len(inputs)}, one per input")
    for symbol, tangent in zip(inputs, tangents, strict=True):
        if tangent.shape != symbol.shape:
            raise ShapeError("jvp", got=f"tangent {tangent.spec}", need=str(symbol.spec), origin=caller_origin())
    loops = {key: len(record.outputs) for key, record in graph.execs.items() if bodies_of(record.command)}
    scaffold: list[ExecKey] = []
    made: list[TensorKey] = []
    with graph.observed(tensors=made.append):
        seeds = [graph.input(output.spec, "cotangent", fill=0.0) for output in outputs]
        with graph.observed(scaffold.append):
            gradients = backward(graph, outputs, inputs, seeds)
        results = backward(graph, gradients, seeds, tangents)
    kept = {key for symbol in results for key in (symbol.key, graph.root(symbol.key))}
    _dismantle(graph, scaffold, results)
    _trim_loops(graph, dict.fromkeys(scaffold, 0) | loops, kept)
    _forget(graph, made, kept)
    return results


@checked
def hessian_vector_product(
    graph: SymbolicGraph, loss: Symbol, inputs: Sequence[Symbol], vectors: Sequence[Symbol]
) -> tuple[Symbol, ...]:
    """H v, one symbol per input, H the matrix of second derivatives of the scalar `loss`."""
    return jvp(graph, backward(graph, [loss], inputs), inputs, vectors)


def _dismantle(graph: SymbolicGraph, scaffold: Sequence[ExecKey], results: Sequence[Symbol]) -> None:
    """Take out the execs that only led to Jᵀ u."""
    needed = set(graph.needed_for(symbol.key for symbol in results))
    for key in reversed(scaffold):
        if key not in needed:
            graph.remove_exec(key)


def _trim_loops(graph: SymbolicGraph, loops: Mapping[ExecKey, int], kept: Collection[TensorKey]) -> None:
    """Loops go without the outputs that only Jᵀ u asked of them, behind the first ones, which were there before."""
    for key, count in loops.items():
        if key not in graph.execs:
            continue
        record = graph.execs[key]
        used = tuple(
            place < count or output in kept or bool(graph.readers(output))
            for place, output in enumerate(record.outputs)
        )
        if not all(used):
            graph.replace_exec(key, trim(record, used))


def _forget(graph: SymbolicGraph, made: Sequence[TensorKey], kept: Collection[TensorKey]) -> None:
    """Remove the symbols that no exec names any more, aliases before their roots."""
    for key in reversed(made):
        users = [graph.execs[user] for user in (*graph.readers(key), *graph.writers(key))]
        named = graph.root(key) == key or any(key in (*record.inputs, *record.outputs) for record in users)
        if key not in kept and not (users and named):
            graph.remove_tensor(key)
