"""Bytes alive, against their definition."""

from __future__ import annotations

import random

from nnc.symbolic.compiler.order.live_bytes import LiveBytes, shared_bytes


def test_bytes_are_those_of_the_lives_around_each_position() -> None:
    """Also where one lives on behind the last position."""
    numbers, count = random.Random(0), 9
    for _ in range(20):
        spans = [sorted(numbers.choices(range(count), k=2)) for _ in range(6)]
        values = [(numbers.randrange(9), [(first, last + numbers.randrange(2))]) for first, last in spans]
        own, shared = ([numbers.randrange(4) for _ in range(count)] for _ in range(2))
        expected = [
            sum(nbytes for nbytes, ((first, last),) in values if first <= place <= last) + own[place] - shared[place]
            for place in range(count)
        ]
        found = LiveBytes.counted(values, own, shared)
        assert found.during.tolist() == expected
        assert (found.peak, found.at_peak) == (max(expected), expected.index(max(expected)))
        parts = LiveBytes(found.through, found.born, found.own, found.shared)
        assert (parts.during.tolist(), parts.peak) == (expected, found.peak)
    nothing = LiveBytes.counted([], [], [])
    assert (nothing.peak, nothing.at_peak) == (0, 0)


def test_a_value_takes_over_one_other_and_is_taken_over_once() -> None:
    lives = {"x": [(0, 2)], "y": [(0, 2)], "z": [(2, 3)], "later": [(3, 4)]}
    pairs = [("x", "later"), ("x", "z"), ("y", "z")]
    assert shared_bytes(pairs, {"x": 4, "y": 8}.__getitem__, lives.__getitem__, 2) == 4
    assert shared_bytes(pairs, {"x": 4, "y": 8}.__getitem__, lives.__getitem__, 3) == 0
