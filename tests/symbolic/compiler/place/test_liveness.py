from __future__ import annotations

from nnc import ops
from nnc.core.values.command import Command
from nnc.core.values.spec import spec
from nnc.ops.movement.copy import contiguous
from nnc.ops.rules import NoAttrs
from nnc.symbolic import Symbol, SymbolicGraph
from nnc.symbolic.compiler.order.uses import uses_of
from nnc.symbolic.compiler.place.liveness import (
    LiveRanges,
    carried_roots,
    find_live_ranges,
    fold_inplace,
    may_overwrite,
)

COPIED = Command(contiguous, NoAttrs())


def lives_of(graph: SymbolicGraph, wanted: list[Symbol], bound: list[Symbol]) -> LiveRanges:
    order = graph.needed_for([symbol.key for symbol in wanted])
    outside = frozenset(symbol.key for symbol in bound)
    uses = uses_of(graph, order, outside, [graph.root(symbol.key) for symbol in wanted])
    return find_live_ranges(graph, order, uses, outside)


def span(lives: LiveRanges, symbol: Symbol) -> tuple[int, int]:
    life = lives.of[symbol.key]
    return life.lower, life.upper


def test_a_value_lives_from_its_writer_to_behind_its_last_reader() -> None:
    graph = SymbolicGraph()
    x, late = graph.input(spec((4,))), graph.input(spec((4,)))
    a = ops.exp(x)
    b = ops.sin(a)
    c = ops.multiply(b, late)
    lives = lives_of(graph, [c], [])
    assert [span(lives, symbol) for symbol in (x, late, a, b, c)] == [(0, 1), (0, 3), (0, 2), (1, 3), (2, 4)]


def test_a_read_of_an_alias_keeps_the_root() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((4,)))
    a = ops.exp(x)
    b = ops.sin(ops.sin(x[0:2]))
    c = ops.add(b, a[2:4])
    lives = lives_of(graph, [c], [])
    assert span(lives, x) == (0, 2)
    assert span(lives, a) == (0, 4)


def test_bound_values_have_no_life() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((4,)))
    a = ops.exp(x)
    assert lives_of(graph, [a], [x, a]).of == {}


def test_a_value_written_by_parts_lives_from_the_first_part() -> None:
    graph = SymbolicGraph()
    x, whole = graph.input(spec((4,))), graph.input(spec((8,)))
    y = ops.exp(ops.exp(x))
    graph.apply(COPIED, [y], [whole[0:4]])
    graph.apply(COPIED, [ops.sin(y)], [whole[4:8]])
    z = ops.exp(whole)
    assert span(lives_of(graph, [z], []), whole) == (2, 6)


def test_a_value_that_is_there_in_part_lives_from_the_start() -> None:
    graph = SymbolicGraph()
    x, whole = graph.input(spec((4,))), graph.input(spec((9,)))
    graph.apply(COPIED, [ops.exp(ops.exp(x))], [whole[0:4]])
    z = ops.exp(whole)
    assert span(lives_of(graph, [z], []), whole) == (0, 4)


def test_folding_joins_lives_end_to_end() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((4,)))
    a = ops.exp(x)
    b = ops.sin(a)
    order = graph.needed_for([b.key])
    lives = lives_of(graph, [b], [])
    assert fold_inplace(graph, order, lives) == 2
    (block,) = lives.blocks()
    assert (block.roots, block.lower, block.upper) == ([x.key, a.key, b.key], 0, 3)


def test_an_update_may_overwrite_what_it_reads_in_an_allowed_place_alone() -> None:
    graph = SymbolicGraph()
    w, x = graph.input(spec((4, 4))), graph.input(spec((4, 4)))
    plain, square, parts, elsewhere = ops.subtract(w, x), w @ x, ops.add(w, w[0]), ops.exp(x)

    def allowed(new: Symbol) -> bool:
        return may_overwrite(graph, graph.execs[graph.writers(new.key)[0]], new.key, w.key)

    assert [allowed(new) for new in (plain, square, parts, elsewhere)] == [True, False, False, True]
    assert carried_roots(graph, {plain.key: w.key, square.key: x.key}, {w.key, x.key}) == {plain.key: w.key}
    assert carried_roots(graph, {plain.key: w.key}, {plain.key}) == {}
