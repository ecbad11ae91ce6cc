from __future__ import annotations

from nnc.planning.instance import Effort, Instance
from nnc.planning.solvers import sweep

EFFORT = Effort()


def test_first_fit_takes_the_lowest_gap_and_best_fit_the_tightest() -> None:
    """At step 1 the gaps are [0, 8) and [12, 16); a block of 4 fits both."""
    instance = Instance([0, 0, 0, 0, 1], [1, 3, 1, 3, 3], [8, 4, 4, 4, 4], [1] * 5)
    assert sweep.sweep_first_fit(instance, EFFORT).offsets == [0, 8, 12, 16, 0]
    assert sweep.sweep_best_fit(instance, EFFORT).offsets == [0, 8, 12, 16, 12]


def test_gaps_grow_together_again() -> None:
    instance = Instance([0, 0, 0, 1], [1, 1, 1, 2], [4, 4, 4, 12], [1] * 4)
    assert sweep.sweep_first_fit(instance, EFFORT).offsets == [0, 4, 8, 0]


def test_the_walk_from_the_peak_plans_nested_lives_without_loss() -> None:
    """Activations of 1, 2, 3, … bytes die in the reverse order of their births, gradients come with their deaths."""
    depth = 30
    kept = [(i, 2 * depth - i, i + 1) for i in range(depth)]
    gradients = [(2 * depth - i - 1, 2 * depth - i + 1, i + 1) for i in range(depth)]
    lower, upper, size = (list(column) for column in zip(*kept, *gradients, strict=True))
    instance = Instance(lower, upper, size, [1] * len(size))
    offsets = sweep.peak_best_fit("WZ")(instance, EFFORT).offsets
    assert offsets is not None
    assert instance.arena(offsets) == sum(range(1, depth + 1)) + depth


def test_offsets_are_aligned() -> None:
    instance = Instance([0, 0, 1, 2], [3, 2, 3, 3], [2, 4, 8, 4], [2, 4, 8, 4])
    for solver in (sweep.sweep_first_fit, sweep.sweep_best_fit, sweep.peak_best_fit("WZ"), sweep.peak_best_fit("ZW")):
        offsets = solver(instance, EFFORT).offsets
        assert offsets is not None
        assert all(offset % alignment == 0 for offset, alignment in zip(offsets, instance.alignment, strict=True))
