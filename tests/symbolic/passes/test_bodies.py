"""Passes inside loops and branches: the same rules there, and what nobody outside needs goes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.symbolic.evaluation import inputs_of, random_arrays, values_of
from tests.symbolic.passes.control_programs import CARRIED, SHAPE, Program

from nnc import ops
from nnc.concrete import CountBelow
from nnc.core.values.command import Command
from nnc.core.values.spec import spec
from nnc.errors import SymbolError, VerificationError
from nnc.graph import Changed, transform
from nnc.ops.elementwise.pointwise import tanh
from nnc.ops.movement.fill import FILL, FillAttrs
from nnc.symbolic import Loop, Symbol, SymbolicGraph, backward, case_of, while_loop
from nnc.symbolic.ir import bodies_of
from nnc.symbolic.passes import Pass, Report, simplify
from nnc.symbolic.passes.simplification import size
from nnc.symbolic.rewrite import WANTED, Match, Replacement, Rule, rewrite

pytestmark = pytest.mark.usefixtures("debug")

# These round on purpose.
LOSSY = (Pass.BFLOAT16, Pass.FLOAT16)
KEEPING = tuple(one for one in Pass if one not in LOSSY)


def commands(graph: SymbolicGraph) -> list[str]:
    """The operators of a graph and of its bodies, in order."""
    found = []
    for key in graph.execs.toposort():
        command = graph.execs[key].command
        found.append(command.op.name)
        for _, body in bodies_of(command):
            found.extend(f"  {name}" for name in commands(body.graph))
    return found


def check(
    graph: SymbolicGraph, outputs: Sequence[Symbol], inputs: Sequence[Symbol], passes: Sequence[Pass]
) -> tuple[Report, ...]:
    """The outputs are bit for bit those without the passes."""
    given = dict(zip(inputs, random_arrays([symbol.shape for symbol in inputs]), strict=True))
    before = values_of(graph, outputs, given)
    reports = simplify(graph, outputs, passes)
    after = values_of(graph, outputs, given)
    assert [value.tolist() for value in after] == [value.tolist() for value in before]
    return reports


def duplicates(graph: SymbolicGraph, x0: Symbol, w: Symbol) -> tuple[Loop, Symbol, Symbol]:
    """x ← tanh(p + q) for two equal products p and q of the body."""
    with while_loop(graph, CountBelow(3)) as loop:
        x = loop.carry(x0)
        p, q = x * w, x * w
        loop.next(x, tanh(p + q))
    return loop, x, q


def test_case_37_duplicates_in_a_body_are_computed_once() -> None:
    graph = SymbolicGraph()
    x0, w = inputs_of(graph, [(3,), (3,)])
    loop, x, _ = duplicates(graph, x0, w)
    (report,) = check(graph, [loop.result(x)], [x0, w], [Pass.COMMON_SUBEXPRESSIONS])
    assert report.fired == {"removed": 1}
    assert commands(graph) == ["while", "  multiply", "  add", "  tanh"]


def test_case_37_a_duplicate_that_is_read_outside_keeps_its_symbol() -> None:
    graph = SymbolicGraph()
    x0, w = inputs_of(graph, [(3,), (3,)])
    loop, x, q = duplicates(graph, x0, w)
    outputs = [loop.result(x), loop.result(q)]
    check(graph, outputs, [x0, w], [Pass.COMMON_SUBEXPRESSIONS])
    assert commands(graph).count("  multiply") == 2
    check(graph, outputs[:1], [x0, w], [Pass.PRUNING])
    assert commands(graph) == ["while", "  multiply", "  add", "  tanh"]


def test_case_37_what_reads_different_iterations_cannot_be_simplified() -> None:
    graph = SymbolicGraph()
    x0, z0, w = inputs_of(graph, [(3,), (3,), (3,)])
    with while_loop(graph, CountBelow(3)) as loop:
        x, z = loop.carry(x0), loop.carry(z0)
        loop.next(x, x * w)
        loop.next(z, z * w + x)
    outputs = [loop.result(x), loop.result(z)]
    (report,) = check(graph, outputs, [x0, z0, w], [Pass.COMMON_SUBEXPRESSIONS])
    assert report.fired == {}
    assert commands(graph) == ["while", "  multiply", "  multiply", "  add"]


def test_a_result_is_asked_for_before_the_body_changes() -> None:
    graph = SymbolicGraph()
    x0, w = inputs_of(graph, [(3,), (3,)])
    loop, x, q = duplicates(graph, x0, w)
    simplify(graph, [loop.result(x)], [Pass.COMMON_SUBEXPRESSIONS])
    with pytest.raises(SymbolError, match="a pass has changed"):
        loop.result(q)


def test_a_carried_value_that_only_feeds_itself_goes_with_what_it_needs() -> None:
    graph = SymbolicGraph()
    x0, z0, w, v = inputs_of(graph, [(3,)] * 4)
    with while_loop(graph, CountBelow(3)) as loop:
        x, z = loop.carry(x0), loop.carry(tanh(z0))
        loop.next(x, x * w)
        loop.next(z, z * v + x)
    y = loop.result(x)
    check(graph, [y], [x0, z0, w, v], [Pass.PRUNING])
    assert commands(graph) == ["while", "  multiply"]
    (record,) = (record for _, record in graph.execs.items())
    assert record.inputs == (x0.key, w.key)


def test_a_chain_of_carried_values_stays_whole() -> None:
    graph = SymbolicGraph()
    starts = inputs_of(graph, [(3,)] * 3)
    with while_loop(graph, CountBelow(3)) as loop:
        a, b, c = map(loop.carry, starts)
        loop.next(a, b)
        loop.next(b, c)
        loop.next(c, tanh(c))
    check(graph, [loop.result(a)], starts, [Pass.PRUNING])
    assert commands(graph) == ["while", "  tanh"]


def test_a_loop_of_which_only_the_count_is_read_keeps_a_value() -> None:
    graph = SymbolicGraph()
    x0, z0 = inputs_of(graph, [(3,), (3,)])
    with while_loop(graph, CountBelow(3)) as loop:
        x, z = loop.carry(x0), loop.carry(z0)
        loop.next(x, tanh(x))
        loop.next(z, tanh(z) * x)
    check(graph, [loop.exit_count], [x0, z0], [Pass.PRUNING])
    assert commands(graph) == ["while", "  tanh"]


def test_results_and_captures_of_branches_that_nobody_reads_go() -> None:
    graph = SymbolicGraph()
    x, w, v = inputs_of(graph, [(3,)] * 3)
    index = graph.input(spec((), "i64"))
    y, _ = case_of(graph, index, [lambda x: (x * w, x + v), lambda x: (tanh(x), x - v)], [x])
    before = graph.duplicate()
    given = dict(zip([x, w, v, index], [*random_arrays([(3,)] * 3), np.array(1)], strict=True))
    expected = values_of(graph, [y], given)
    simplify(graph, [y], [Pass.PRUNING])
    assert commands(graph) == ["case_of", "  multiply", "  tanh"]
    assert values_of(graph, [y], given)[0].tolist() == expected[0].tolist()
    assert commands(before.graph) == ["case_of", "  multiply", "  add", "  tanh", "  subtract"]


def test_invariants_are_computed_in_front_of_the_outermost_loop() -> None:
    graph = SymbolicGraph()
    x0, w = inputs_of(graph, [(3,), (3,)])
    with while_loop(graph, CountBelow(3)) as outer:
        x = outer.carry(x0)
        with while_loop(outer.body, CountBelow(2)) as inner:
            z = inner.carry(x)
            v = inner.capture(w)
            inner.next(z, z * (tanh(v) + ops.fill_like(v, 1.0)))
        outer.next(x, inner.result(z))
    reports = check(graph, [outer.result(x)], [x0, w], [Pass.INVARIANTS, Pass.PRUNING])
    assert commands(graph) == ["tanh", "fill", "add", "while", "  while", "    multiply"]
    assert reports[0].fired == {"hoisted": 4}


def test_a_known_choice_inside_a_loop_is_resolved() -> None:
    graph = SymbolicGraph()
    (x0,) = inputs_of(graph, [(3,)])
    with while_loop(graph, CountBelow(3)) as loop:
        x = loop.carry(x0)
        (index,) = loop.body.apply(Command(FILL, FillAttrs(1.0, spec((), "i64"))), ())
        (y,) = case_of(loop.body, index, [lambda x: tanh(x), lambda x: ops.sin(x)], [x])
        loop.next(x, y)
    check(graph, [loop.result(x)], [x0], [Pass.BRANCHES])
    assert commands(graph) == ["while", "  sin"]


def test_a_body_does_not_read_a_part_where_a_copy_was() -> None:
    graph = SymbolicGraph()
    (x0,) = inputs_of(graph, [(4, 4)])
    with while_loop(graph, CountBelow(3)) as loop:
        x = loop.carry(x0[:, 1:3])
        loop.next(x, tanh(x[::-1]))
    check(graph, [loop.result(x)], [x0], [Pass.DATA_TRANSFER])


def test_a_pass_of_the_users_own_goes_into_bodies_and_is_checked() -> None:
    def to_sine(match: Match) -> Replacement:
        return (ops.sin(match.input(0)),)

    @transform(WANTED)
    def sines(graph: SymbolicGraph, wanted: tuple[Symbol, ...]) -> Changed:
        return Changed(rewrite(graph, [Rule("sine", tanh, to_sine)], wanted).total())

    @transform(WANTED)
    def silent(graph: SymbolicGraph, wanted: tuple[Symbol, ...]) -> Changed:
        ops.sin(wanted[0])
        return Changed()

    graph = SymbolicGraph()
    (x0,) = inputs_of(graph, [(3,)])
    with while_loop(graph, CountBelow(3)) as loop:
        x = loop.carry(x0)
        loop.next(x, tanh(x))
    y = loop.result(x)
    (report,) = simplify(graph, [y], [sines])
    assert report.name == "sines"
    assert commands(graph) == ["while", "  sin"]
    with pytest.raises(VerificationError, match="silent"):
        simplify(graph, [y], [silent])


@pytest.mark.turns(4)
@pytest.mark.parametrize("seed", [2, 7])
def test_random_loops_and_their_gradients_under_every_pass(seed: int) -> None:
    graph = SymbolicGraph()
    symbols = inputs_of(graph, [SHAPE] * (CARRIED + 1))
    results = Program(seed, 1).loop(symbols[:-1], symbols[-1])
    outputs = [*results, *backward(graph, results[:2], symbols)]
    arrays = random_arrays([SHAPE] * (CARRIED + 1), seed, -1.0, 1.0)
    expected = values_of(graph, outputs, dict(zip(symbols, arrays, strict=True)))
    for passes in [[one] for one in KEEPING] + [list(KEEPING), list(KEEPING)[::-1]]:
        copy = graph.duplicate()
        wanted, given = ([copy.graph.symbol(copy.tensors[one.key]) for one in row] for row in (outputs, symbols))
        before = size(copy.graph)
        simplify(copy.graph, wanted, passes)
        assert size(copy.graph) <= before
        found = values_of(copy.graph, wanted, dict(zip(given, arrays, strict=True)))
        for got, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
