"""Stretches of a program that fall apart into branches, and programs that run them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backends.llvm.harness import Array, launch, pool
from tests.backends.llvm.run.test_runtime import ITEMS, DoubleAndOne, climb

from nnc.backends.llvm.run.branches import LEAST_PART, MOST_NANOSECONDS, Stretch, Task, stretches
from nnc.backends.llvm.run.runtime import NativeProgram
from nnc.backends.llvm.run.steps import Launch
from nnc.codegen.ir.native_kernel import AddressRange

SMALL = 3000.0


def chain(*words: int, cost: float = SMALL) -> list[Task]:
    """Tasks of which each reads the word before and writes its own."""
    places = [AddressRange(word, word + 1) for word in words]
    return [Task((source,), (target,), cost, cost < 4000) for source, target in pairwise(places)]


def shared(tasks: Sequence[Task], workers: int = 2) -> list[Stretch]:
    found = list(stretches(tasks, workers))
    assert [index for stretch in found for index in range(stretch.first, stretch.last)] == [*range(len(tasks))]
    return [stretch for stretch in found if stretch.shares]


def test_two_chains_are_two_shares_in_whatever_order_they_come() -> None:
    left, right = chain(0, 1, 2, 3), chain(10, 11, 12, 13)
    assert shared([*left, *right]) == [Stretch(0, 6, ((0, 1, 2), (3, 4, 5)))]
    mixed = [task for pair in zip(left, right, strict=True) for task in pair]
    assert shared(mixed) == [Stretch(0, 6, ((0, 2, 4), (1, 3, 5)))]


def test_what_joins_them_comes_behind() -> None:
    left, right = chain(0, 1, 2, 3), chain(10, 11, 12, 13)
    join = Task((AddressRange(3, 4), AddressRange(13, 14)), (AddressRange(20, 21),), SMALL, alone=True)
    assert shared([*left, *right, join, *chain(20, 21, 22)]) == [Stretch(0, 6, ((0, 1, 2), (3, 4, 5)))]


def test_what_reads_the_same_is_apart_and_what_writes_the_same_is_not() -> None:
    reading = [
        Task((AddressRange(0, 4),), (AddressRange(8 + index, 9 + index),), SMALL, alone=True) for index in range(4)
    ]
    assert shared(reading) == [Stretch(0, 4, ((0, 2), (1, 3)))]
    assert not shared([Task((AddressRange(0, 4),), (AddressRange(8, 12),), SMALL, alone=True) for _ in range(4)])


@pytest.mark.parametrize(
    "tasks",
    [
        [],
        chain(0, 1, 2, 3, 4),
        [*chain(0, 1, 2, cost=100.0), *chain(10, 11, 12, cost=100.0)],
        [*chain(0, 1, cost=2 * MOST_NANOSECONDS), *chain(10, 11, cost=2 * MOST_NANOSECONDS)],
        [*chain(0, 1, 2, 3, 4, 5, 6), *chain(10, 11, cost=50.0)],
    ],
)
def test_where_it_is_not_faster_steps_stay(tasks: list[Task]) -> None:
    assert not shared(tasks)


def test_one_worker_shares_nothing() -> None:
    assert not shared([*chain(0, 1, 2, 3), *chain(10, 11, 12, 13)], workers=1)


WORDS = st.lists(st.integers(0, 40), max_size=2).map(
    lambda words: tuple(AddressRange(word, word + 1) for word in words)
)
TASKS = st.lists(st.builds(Task, WORDS, WORDS, st.sampled_from([300.0, 3000.0, 20_000.0, 90_000.0]), st.booleans()))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(TASKS, st.integers(2, 4))
def test_shares_hold_every_task_once_and_do_not_meet(tasks: list[Task], workers: int) -> None:
    for stretch in shared(tasks, workers):
        assert sorted(index for share in stretch.shares for index in share) == [*range(stretch.first, stretch.last)]
        assert 2 <= len(stretch.shares) <= workers
        owner = {index: number for number, share in enumerate(stretch.shares) for index in share}
        for share in stretch.shares:
            assert list(share) == sorted(share)
        for one in owner:
            assert not any(tasks[one].meets(tasks[other]) for other in owner if owner[other] != owner[one])


def two_ladders(first: Sequence[Array], second: Sequence[Array]) -> list[Launch]:
    """Both lists of arrays, each array made of the one before it."""
    kernel = DoubleAndOne(SMALL)
    pairs = [*pairwise(first), *pairwise(second)]
    return [launch(kernel, [source], [target], []) for source, target in pairs]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_branches_run_on_several_workers_with_the_same_result(workers: int) -> None:
    first, second = ([np.zeros(ITEMS, np.float32) for _ in range(6)] for _ in range(2))
    first[0][:], second[0][:] = np.arange(ITEMS), 7
    program = NativeProgram(pool(), two_ladders(first, second), workers)
    assert program.steps == (10 if workers == 1 else 1)
    for _ in range(20):
        for array in (*first[1:], *second[1:]):
            array[:] = -1
        program.run()
        np.testing.assert_array_equal(first[-1], climb(first[0], 5))
        np.testing.assert_array_equal(second[-1], climb(second[0], 5))


def test_the_estimate_counts_the_meeting() -> None:
    few = [*chain(0, 1), *chain(10, 11)]
    assert 2 * SMALL * (1 - LEAST_PART) > SMALL + 1000.0
    assert shared(few) == [Stretch(0, 2, ((0,), (1,)))]
