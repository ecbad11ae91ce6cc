from __future__ import annotations

from nnc.planning.instance import Effort, Instance
from nnc.planning.solvers import greedy
from nnc.planning.solvers.normalize import conflicts

STAIRS = Instance([0, 1, 2, 0], [2, 3, 4, 1], [4, 6, 4, 1], [1] * 4)


def test_the_orders() -> None:
    assert greedy.by_size(STAIRS) == [1, 0, 2, 3]
    assert greedy.by_width(STAIRS) == [1, 0, 2, 3]
    assert greedy.by_area(STAIRS) == [1, 0, 2, 3]
    assert greedy.by_birth(STAIRS) == [0, 3, 1, 2]
    assert greedy.by_conflicts(STAIRS) == [1, 0, 2, 3]
    assert greedy.by_breadth(STAIRS) == [1, 0, 2, 3]


def test_first_fit_goes_low_and_best_fit_goes_tight() -> None:
    """Over the life of the last block [0, 6) and [8, 10) are free; it has 2 bytes."""
    instance = Instance([0, 0, 0, 1], [1, 2, 2, 2], [6, 2, 3, 2], [1] * 4, pinned={0: 0, 1: 6, 2: 10})
    neighbours = conflicts(instance)
    assert greedy.place(instance, [3], neighbours, Effort(), tightest=False) == [0, 6, 10, 0]
    assert greedy.place(instance, [3], neighbours, Effort(), tightest=True) == [0, 6, 10, 8]


def test_companions_share_the_lowest_place_free_for_both() -> None:
    """Block 0 stands on [0, 4) at first, block 1 on [4, 8) later: their companions go above both."""
    instance = Instance([0, 2, 0, 2], [2, 4, 2, 4], [4, 4, 3, 3], [1] * 4, pinned={0: 0, 1: 4}, groups=((2, 3),))
    assert greedy.place(instance, [2, 3], conflicts(instance), Effort(), tightest=False) == [0, 4, 8, 8]


def test_companions_of_different_alignment_suit_both() -> None:
    instance = Instance([0, 0, 1], [1, 1, 2], [1, 4, 6], [1, 4, 6], pinned={0: 0}, groups=((1, 2),))
    assert greedy.place(instance, [1], conflicts(instance), Effort(), tightest=False) == [0, 12, 12]


def test_an_explicit_graph_replaces_lives() -> None:
    instance = Instance([0, 0, 0], [9, 9, 9], [4, 4, 4], [1] * 3, rows=(0b010, 0b001, 0b000))
    assert greedy.first_fit(greedy.by_size)(instance, Effort()).offsets == [0, 4, 0]
