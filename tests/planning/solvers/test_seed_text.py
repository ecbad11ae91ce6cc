"""Three graphs worked out on paper: the candidates of each round and the allocation graph after it."""

from __future__ import annotations

from nnc.planning import Block, Interference, Problem, faults, lower_bound, solve
from nnc.planning.instance import Instance
from nnc.planning.solvers.flow import SINK, SOURCE, AllocationGraph, FlowEdge
from nnc.planning.solvers.seed_text import Insertion, SizeFacts, rounds


def steps(instance: Instance, *, literal: bool = False) -> tuple[list[Insertion], AllocationGraph]:
    facts = SizeFacts.of(instance)
    graph = AllocationGraph(facts.size)
    return list(rounds(facts, graph, literal=literal)), graph


def edges(*rows: tuple[int, int, int, int]) -> tuple[FlowEdge, ...]:
    return tuple(FlowEdge(*row) for row in rows)


CHAIN = Instance([0, 1, 2, 3], [2, 3, 4, 5], [4, 2, 4, 2], [1] * 4)


def test_a_chain() -> None:
    """x(4) -> a(2) -> b(4) -> c(2); interference x-a, a-b, b-c, so the degrees are 1, 2, 2, 1.

    1. a and b have the most interference; nothing larger is free of either. The larger, b, opens 4 bytes.
    2. a is alone with 2; it meets b, so no edge takes it: 2 more bytes, behind.
    3. x and c tie at 1. c with the larger x comes first (4 bytes, 2 edges), then x (4, 1), then c (2, 1). The pair
       would have to be before and after b at once; x goes between the source and b.
    4. c goes behind a, on its 2 bytes; b's bytes are not free, b and c interfere.
    """
    x, a, b, c = range(4)
    done, graph = steps(CHAIN)
    assert [step.candidates for step in done] == [
        ((b,), (a,)),
        ((a,),),
        ((c, x), (x,), (c,)),
        ((c,),),
    ]
    assert [(step.chosen, step.edge) for step in done] == [
        ((b,), None),
        ((a,), None),
        ((x,), FlowEdge(SOURCE, b, 0, 4)),
        ((c,), FlowEdge(a, SINK, 4, 2)),
    ]
    assert done[0].edges == edges((SOURCE, b, 0, 4), (b, SINK, 0, 4))
    assert done[1].edges == edges((SOURCE, b, 0, 4), (b, SINK, 0, 4), (SOURCE, a, 4, 2), (a, SINK, 4, 2))
    assert done[2].edges == edges((b, SINK, 0, 4), (SOURCE, a, 4, 2), (a, SINK, 4, 2), (SOURCE, x, 0, 4), (x, b, 0, 4))
    assert done[3].edges == edges(
        (b, SINK, 0, 4), (SOURCE, a, 4, 2), (SOURCE, x, 0, 4), (x, b, 0, 4), (a, c, 4, 2), (c, SINK, 4, 2)
    )
    assert (graph.offsets, graph.arena) == ({b: 0, a: 4, x: 0, c: 4}, 6)


def test_to_the_letter_a_chain_shares_only_within_a_tuple() -> None:
    """Every edge touches the source or the sink, so none is reused; the last block shares the first one's bytes,
    because the two are a tuple: the larger one is dead when the smaller is born."""
    done, graph = steps(CHAIN, literal=True)
    assert [step.chosen for step in done] == [(2,), (1,), (0, 3)]
    assert all(step.edge is None for step in done)
    assert graph.arena == 4 + 2 + 4


def test_a_tuple_of_three_and_partial_reuse() -> None:
    """u(8) dies as t(2) is born, v(4) is born as t dies; p, q, r (1 each) live one by one beside t, w(1) beside v.

    The degrees are t 3, v 1, w 1, p 1, q 1, r 1, u 0.
    1. t has the most interference. u is the largest that is larger and free of it, then v, free of both. By largest
       size, then by edges: t+u+v (8, 4), t+u (8, 3), t (2, 3). The triple opens 8 bytes: u takes them all, hands 2
       to t, 2 to v and 4 to the sink, t hands its 2 to v.
    2. p, q, r, w tie. p fits into u -> v (2 bytes) and u -> sink (4): the lighter. One byte of u -> v is left, above.
    3. q fits into that byte and into p -> v: equal weights, and the byte that was left is the older edge.
    4. r fits behind p (older) and behind q: behind p.
    5. w meets v; it fits into u -> sink alone.
    """
    t, u, v, p, q, r, w = range(7)
    instance = Instance([2, 0, 5, 2, 3, 4, 6], [5, 2, 7, 3, 4, 5, 7], [2, 8, 4, 1, 1, 1, 1], [1] * 7)
    done, graph = steps(instance)
    assert [step.candidates for step in done] == [
        ((t, u, v), (t, u), (t,)),
        ((p,), (q,), (r,), (w,)),
        ((q,), (r,), (w,)),
        ((r,), (w,)),
        ((w,),),
    ]
    assert [(step.chosen, step.edge) for step in done] == [
        ((u, t, v), None),
        ((p,), FlowEdge(u, v, 2, 2)),
        ((q,), FlowEdge(u, v, 3, 1)),
        ((r,), FlowEdge(p, v, 2, 1)),
        ((w,), FlowEdge(u, SINK, 4, 4)),
    ]
    opened = ((SOURCE, u, 0, 8), (u, t, 0, 2), (t, v, 0, 2))
    assert done[0].edges == edges(*opened, (u, v, 2, 2), (v, SINK, 0, 4), (u, SINK, 4, 4))
    assert done[1].edges == edges(*opened, (v, SINK, 0, 4), (u, SINK, 4, 4), (u, v, 3, 1), (u, p, 2, 1), (p, v, 2, 1))
    assert (graph.offsets, graph.arena) == ({u: 0, t: 0, v: 0, p: 2, q: 3, r: 2, w: 4}, 8)


DIAMOND = (
    Block("s", 4, 0, 4),
    Block("l1", 2, 1, 3),
    Block("l2", 2, 2, 6),
    Block("r1", 3, 3, 5),
    Block("r2", 1, 4, 6),
    Block("j", 4, 5, 7),
)


def test_two_branches_in_any_order() -> None:
    """s -> l1 -> l2 -> j and s -> r1 -> r2 -> j: what is on one branch interferes with all of the other and with s.

    Only j is behind s, l1 and r1. The degrees are s 4, l1 4, l2 5, r1 4, r2 5, j 2.
    1. l2 (2) and r2 (1) have the most interference and meet everybody: l2 opens 2 bytes.
    2. r2 opens 1 byte.
    3. s, l1, r1 tie at 4. j is larger than l1 and r1 and behind them: l1+j (4, 6), r1+j (4, 6), s (4, 4), r1 (3),
       l1 (2). Nothing fits; l1+j opens 4 bytes: l1 hands 2 to j, the source 2.
    4. s (4) and r1 (3): source -> j has only 2. s opens 4 bytes.
    5. r1 meets s and all but j; it opens 3 bytes.
    """
    s, l1, l2, r1, r2, j = range(6)
    apart = {(s, j), (l1, j), (r1, j)}
    pairs = [(a, b) for a in range(6) for b in range(a + 1, 6) if (a, b) not in apart]
    problem = Problem(DIAMOND, Interference.of_pairs(6, pairs))
    instance = Instance(
        [block.lower for block in DIAMOND],
        [block.upper for block in DIAMOND],
        [block.size for block in DIAMOND],
        [1] * 6,
        rows=problem.interference.rows if problem.interference else None,
    )
    done, graph = steps(instance)
    assert [step.candidates for step in done] == [
        ((l2,), (r2,)),
        ((r2,),),
        ((l1, j), (r1, j), (s,), (r1,), (l1,)),
        ((s,), (r1,)),
        ((r1,),),
    ]
    assert [(step.chosen, step.edge) for step in done] == [
        ((l2,), None),
        ((r2,), None),
        ((l1, j), None),
        ((s,), None),
        ((r1,), None),
    ]
    assert done[2].edges[4:] == edges((SOURCE, l1, 3, 2), (l1, j, 3, 2), (SOURCE, j, 5, 2), (j, SINK, 3, 4))
    assert graph.arena == 14
    plan = solve(problem, solver="seed_text")
    assert (plan.arena_bytes, faults(problem, plan)) == (14, ())
    assert solve(problem).arena_bytes == lower_bound(problem) == 12
