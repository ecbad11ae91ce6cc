from __future__ import annotations

from nnc.planning.instance import Instance
from nnc.planning.solvers.flow import SINK, SOURCE, AllocationGraph, FlowEdge, flow_sizes, precedence, settled


def test_three_blocks_pass_their_bytes_on() -> None:
    """Sizes 3, 5, 4 in an edge of 8: the second takes 2 from the source, the third all of its 4 from the second."""
    graph = AllocationGraph([3, 5, 4], edges=[FlowEdge(SOURCE, SINK, 10, 8)], arena=18)
    graph.insert((0, 1, 2), graph.edges[0])
    assert graph.edges == [
        FlowEdge(SOURCE, SINK, 15, 3),
        FlowEdge(SOURCE, 0, 10, 3),
        FlowEdge(0, 1, 10, 3),
        FlowEdge(SOURCE, 1, 13, 2),
        FlowEdge(1, 2, 10, 4),
        FlowEdge(2, SINK, 10, 4),
        FlowEdge(1, SINK, 14, 1),
    ]
    assert graph.offsets == {0: 10, 1: 10, 2: 10}
    assert graph.arena == 18


def test_what_is_left_of_each_flows_to_the_head() -> None:
    """Sizes 6, 2, 4: the third takes 2 from the second and 2 from the first, whose last 2 go to the sink."""
    graph = AllocationGraph([6, 2, 4])
    graph.insert((0, 1, 2), None)
    assert graph.edges == [
        FlowEdge(SOURCE, 0, 0, 6),
        FlowEdge(0, 1, 0, 2),
        FlowEdge(1, 2, 0, 2),
        FlowEdge(0, 2, 2, 2),
        FlowEdge(2, SINK, 0, 4),
        FlowEdge(0, SINK, 4, 2),
    ]
    assert graph.arena == 6


def test_precedence_needs_the_end_of_one_life_before_the_other() -> None:
    instance = Instance([0, 1, 2], [1, 3, 4], [1, 1, 1], [1, 1, 1])
    assert precedence(instance) == ([0b000, 0b001, 0b001], [0b110, 0b000, 0b000])


def test_precedence_of_an_explicit_graph_leaves_out_who_interferes() -> None:
    instance = Instance([0, 1, 2], [1, 2, 3], [1, 1, 1], [1, 1, 1], rows=(0b100, 0b000, 0b001))
    assert precedence(instance) == ([0b000, 0b001, 0b010], [0b010, 0b100, 0b000])


def test_an_interference_that_no_order_explains_is_not_passed_off_as_a_plan() -> None:
    """Bytes go from 0 to 1 to 2, but 0 and 2 interfere."""
    instance = Instance([0, 1, 2], [1, 2, 3], [1, 1, 1], [1, 1, 1], rows=(0b100, 0b000, 0b001))
    assert settled(instance, AllocationGraph([1, 1, 1], offsets={0: 0, 1: 0, 2: 0})).offsets is None
    assert settled(instance, AllocationGraph([1, 1, 1], offsets={0: 0, 1: 0, 2: 1})).offsets == [0, 0, 1]


def test_sizes_are_rounded_to_the_common_alignment() -> None:
    assert flow_sizes(Instance([0, 0], [1, 1], [4, 6], [4, 6])) == [12, 12]
