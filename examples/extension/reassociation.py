"""A pass: (a · b) · c becomes a · (b · c) wherever that takes fewer operations, and the other way round.

WORK is a fact: any pass may ask for it by this key, and the manager computes it again when the graph has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from examples.extension.operations import OPERATIONS
from nnc.core.values.spec import TensorSpec
from nnc.graph import Changed, Fact, PassManager, Transform, analysis, transform
from nnc.ops.products.products import GEMM, GemmAttrs, gemm
from nnc.ops.rules import infer
from nnc.symbolic import ExecKey, ExecSymbol, Symbol, SymbolicGraph, faults
from nnc.symbolic.passes import prune
from nnc.symbolic.rewrite import Match, Replacement, Rule, has_one_reader, rewrite

PLAIN = GemmAttrs()


@dataclass(frozen=True, slots=True)
class Work:
    """Operations per exec; commands without a rule (they only move elements, say) count nothing."""

    by_exec: Mapping[ExecKey, int]

    @property
    def total(self) -> int:
        """Operations of one run of the graph."""
        return sum(self.by_exec.values())


WORK = Fact[Work]("work")


@analysis(WORK)
def count_work(graph: SymbolicGraph) -> Work:
    """The operations of every exec."""
    return Work({key: _operations(graph, key) for key in graph.execs})


def _operations(graph: SymbolicGraph, key: ExecKey) -> int:
    record = graph.execs[key]
    rule = OPERATIONS.get(record.command.op)
    inputs = tuple(None if tensor is None else graph.tensors[tensor].spec for tensor in record.inputs)
    outputs = tuple(graph.tensors[tensor].spec for tensor in record.outputs)
    return 0 if rule is None else rule(record.command.attrs, inputs, outputs)


def reassociation(outputs: Iterable[Symbol]) -> Transform[SymbolicGraph]:
    """The transform for a graph of which `outputs` are wanted."""
    wanted = tuple(outputs)

    @transform(WORK)
    def reassociate(graph: SymbolicGraph, work: Work) -> Changed:
        fired = rewrite(graph, [Rule("reassociate", GEMM, lambda match: _cheaper(match, work))], wanted)
        return Changed(fired.total() + prune(graph, wanted))

    return reassociate


def reassociated(graph: SymbolicGraph, outputs: Iterable[Symbol]) -> tuple[int, int]:
    """Run the transform until nothing changes; the operations before and after."""
    manager = PassManager(graph, [count_work], verify=faults)
    before, one = manager.get(WORK).total, reassociation(outputs)
    while manager.run(one).count:
        pass
    return before, manager.get(WORK).total


def _cheaper(match: Match, work: Work) -> Replacement | None:
    """The other order of three matrices, when the work counted for this order exceeds what the other would take."""
    for position in (0, 1):
        product = match.producer(position, GEMM)
        if product is None or not _is_chain(match, product):
            continue
        (writer,) = match.graph.writers(product.outputs[0])
        # Execs made in this run of the pass are not counted yet; the next run looks at them.
        if match.key not in work.by_exec or writer not in work.by_exec:
            continue
        inner = [match.graph.symbol(key) for key in product.inputs if key is not None]
        a, b, c = (*inner, match.input(1)) if position == 0 else (match.input(0), *inner)
        specs = (a.spec, b.spec, c.spec)
        other = _operations_to_the_right(*specs) if position == 0 else _operations_to_the_left(*specs)
        if other < work.by_exec[match.key] + work.by_exec[writer]:
            return (gemm(a, gemm(b, c)) if position == 0 else gemm(gemm(a, b), c),)
    return None


def _is_chain(match: Match, inner: ExecSymbol) -> bool:
    """Two products of matrices as they are, without bias, the inner one for the outer one alone."""
    records = (match.record, inner)
    matrices = [match.graph.tensors[key].spec for record in records for key in record.inputs if key is not None]
    return (
        has_one_reader(match.graph, inner.outputs[0])
        and all(record.command.attrs == PLAIN and record.inputs[2] is None for record in records)
        and all(spec.rank == 2 for spec in matrices)
    )


def _operations_to_the_right(a: TensorSpec, b: TensorSpec, c: TensorSpec) -> int:
    right, operations = _product(b, c)
    return operations + _product(a, right)[1]


def _operations_to_the_left(a: TensorSpec, b: TensorSpec, c: TensorSpec) -> int:
    left, operations = _product(a, b)
    return operations + _product(left, c)[1]


def _product(a: TensorSpec, b: TensorSpec) -> tuple[TensorSpec, int]:
    """The spec of a · b, and the operations it takes."""
    inputs = (a, b, None)
    outputs = infer(GEMM, PLAIN, inputs)
    return outputs[0], OPERATIONS[GEMM](PLAIN, inputs, outputs)
