"""The execs of a compilation as a `Program` of numbers, for the search of what to run again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.ops.repetition import stand_ins
from nnc.ops.work import work
from nnc.symbolic.compiler.order.choose import predecessors
from nnc.symbolic.compiler.order.uses import Uses
from nnc.symbolic.compiler.repeat.schedule import NEVER, Program, Root
from nnc.symbolic.compiler.repeat.sequences import is_recurrent
from nnc.symbolic.control import CaseAttrs, PythonCondition, WhileAttrs
from nnc.symbolic.ir import Duplicate, SymbolicGraph, bodies_of
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey


@dataclass(frozen=True, slots=True, eq=False)
class Numbered:
    """A program, and what its steps and roots are in the graph."""

    program: Program
    order: tuple[ExecKey, ...]
    roots: tuple[TensorKey, ...]

    def moved(self, copy: Duplicate) -> Numbered:
        """The same in a copy of the graph."""
        order, roots = (copy.execs[key] for key in self.order), (copy.tensors[key] for key in self.roots)
        return Numbered(self.program, tuple(order), tuple(roots))


def number(
    graph: SymbolicGraph,
    order: Sequence[ExecKey],
    uses: Uses,
    carries: Mapping[TensorKey, TensorKey],
    first: Collection[ExecKey] = (),
) -> Numbered:
    """The execs in this order; each new value in `carries` is written over the old one, `first` come before others."""
    roots: dict[TensorKey, Root] = {}
    for key in order:
        for root in uses.touched(key):
            roots.setdefault(root, len(roots))
    steps = {key: step for step, key in enumerate(order)}
    again = [_recomputed_reads(graph, graph.execs[key]) for key in order]
    before = predecessors(graph, order, uses, carries, first)
    overwritten = {roots[old]: steps[graph.writers(new)[0]] for new, old in carries.items() if old in roots}
    program = Program(
        reads=[tuple(roots[root] for root in uses.reads[key]) for key in order],
        again=[() if read is None else tuple(roots[root] for root in read) for read in again],
        writes=[tuple(roots[root] for root in uses.writes[key]) for key in order],
        pairs=[tuple((roots[value], roots[two]) for value, two in uses.pairs[key]) for key in order],
        scratch=[uses.scratch.get(key, 0) for key in order],
        work=[work_of(graph, graph.execs[key]) for key in order],
        repeatable=[read is not None for read in again],
        before=[frozenset(steps[source] for source in before[key]) for key in order],
        nbytes=[uses.nbytes[root] for root in roots],
        maker=[_maker(graph, root, uses, steps) for root in roots],
        lasting=[root in uses.kept for root in roots],
        overwritten=overwritten,
        parts={
            step: sum(graph.tensors[part].spec.nbytes for part in _parts(graph, graph.execs[key]))
            for key, step in steps.items()
        },
    )
    return Numbered(program, tuple(order), tuple(roots))


def work_of(graph: SymbolicGraph, record: ExecSymbol) -> int:
    """Floating-point operations of an exec: of all iterations of a loop that has a limit, and of the longest branch."""
    attrs = record.command.attrs
    inside = [
        sum(work_of(body.graph, inner) for _, inner in body.graph.execs.items())
        for _, body in bodies_of(record.command)
    ]
    if inside:
        return max(inside) * (max(attrs.limit or 1, 1) if isinstance(attrs, WhileAttrs) else 1)
    inputs = [None if key is None else graph.tensors[key].spec for key in record.inputs]
    return work(record.command, inputs, [graph.tensors[key].spec for key in record.outputs])


def instead_of(record: ExecSymbol) -> Mapping[int, int] | None:
    """Outputs that stand in for inputs, by place, when an exec runs again (`nnc.ops.repetition`); None: it must not.

    A loop or a branch may where all inside may, with nothing in the place of anything, and no Python function decides.
    """
    if not record.optimize:
        return None
    bodies, attrs = bodies_of(record.command), record.command.attrs
    if not bodies:
        return stand_ins(record.command)
    if isinstance(attrs, WhileAttrs) and isinstance(attrs.test, PythonCondition):
        return None
    if isinstance(attrs, CaseAttrs) and attrs.function is not None:
        return None
    inside = [replace(inner, optimize=True) for _, body in bodies for _, inner in body.graph.execs.items()]
    return {} if all(instead_of(inner) == {} for inner in inside) else None


def recomputed_inputs(record: ExecSymbol, instead: Mapping[int, int]) -> tuple[TensorKey | None, ...]:
    """The inputs of an exec that runs again, with the outputs that stand in."""
    return tuple(record.outputs[instead[place]] if place in instead else key for place, key in enumerate(record.inputs))


def _recomputed_reads(graph: SymbolicGraph, record: ExecSymbol) -> tuple[TensorKey, ...] | None:
    """The roots that an exec reads when it runs again; None where it must not."""
    instead, by_step = instead_of(record), isinstance(record.command.attrs, WhileAttrs) or is_recurrent(record)
    if instead is None or (not by_step and _parts(graph, record)):
        return None
    return graph.roots(recomputed_inputs(record, instead))


def _parts(graph: SymbolicGraph, record: ExecSymbol) -> list[TensorKey]:
    """The outputs that are parts of roots, or that others write as well."""
    return [key for key in record.outputs if graph.root(key) != key or len(graph.writers(key)) > 1]


def _maker(graph: SymbolicGraph, root: TensorKey, uses: Uses, steps: Mapping[ExecKey, int]) -> int:
    """The step that writes all of a root which takes memory of its own; NEVER for any other root."""
    writers = [key for key in graph.writers(root) if key in steps]
    if len(writers) != 1 or not uses.nbytes[root] or root not in graph.execs[writers[0]].outputs:
        return NEVER
    return steps[writers[0]]
