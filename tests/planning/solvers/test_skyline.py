from __future__ import annotations

from random import Random

import pytest

from nnc.planning.instance import Effort, Instance
from nnc.planning.solvers.normalize import totals
from nnc.planning.solvers.skyline import CHUNK, Ranges, fullest, rank, skyline


def test_ranges_agree_with_lists() -> None:
    draw = Random(11)
    values = [0] * (3 * CHUNK + 17)
    ranges = Ranges(values.copy())
    for _ in range(300):
        start = draw.randrange(len(values))
        stop = min(len(values), start + 1 + draw.randrange(draw.choice((4, CHUNK, 4 * CHUNK))))
        assert ranges.highest(start, stop) == max(values[start:stop])
        value = max(values[start:stop]) + draw.randrange(9)
        values[start:stop] = [value] * (stop - start)
        ranges.raise_to(start, stop, value)
    assert ranges.values == values


def test_the_keys_order_blocks() -> None:
    instance = Instance([0, 1, 2, 3], [2, 3, 4, 4], [4, 6, 4, 9], [1] * 4)
    assert totals(instance) == [4, 10, 10, 13]
    assert fullest(instance) == [10, 10, 13, 13]
    assert rank(instance, "TZ") == [3, 2, 1, 0]
    assert rank(instance, "TWA") == [2, 3, 1, 0]
    assert rank(instance, "Z") == [3, 1, 0, 2]


def test_the_lowest_place_goes_first() -> None:
    """Blocks 0 and 1 stand side by side on the ground; 2 stands on 1, the lower of the two; 3 on 0."""
    instance = Instance([0, 2, 2, 0], [2, 4, 4, 4], [5, 2, 1, 1], [1] * 4)
    assert skyline("Z")(instance, Effort()).offsets == [0, 0, 2, 5]


def test_a_deadline_that_has_passed_ends_a_long_run() -> None:
    count = 20_000
    instance = Instance([i % 50 for i in range(count)], [i % 50 + 9 for i in range(count)], [1] * count, [1] * count)
    assert skyline("Z")(instance, Effort(deadline=0.0)).offsets is None


@pytest.mark.parametrize("keys", ["TWA", "TAW", "AWT", "TZ"])
def test_offsets_are_aligned(keys: str) -> None:
    instance = Instance([0, 0, 1, 2], [3, 2, 3, 3], [2, 4, 8, 4], [2, 4, 8, 4])
    offsets = skyline(keys)(instance, Effort()).offsets
    assert offsets is not None
    assert all(offset % alignment == 0 for offset, alignment in zip(offsets, instance.alignment, strict=True))


def test_ranks_count_sections_or_steps_and_take_noise() -> None:
    """Block 0 lives in more sections, block 1 in more steps."""
    instance = Instance([0, 2], [2, 3], [4, 4], [1, 1], lifetime=[5, 9])
    assert rank(instance, "W") == [0, 1]
    assert rank(instance, "W", in_steps=True) == [1, 0]
    assert rank(instance, "W", in_steps=True, noise=[200, 100]) == [0, 1]
