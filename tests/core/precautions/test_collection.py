"""Rare collections of garbage: the thresholds inside of a block and behind it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from nnc.core.precautions.collection import SELDOM, RareCollections


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_collections_are_rare_in_a_block_and_in_those_inside_it() -> None:
    with RareCollections():
        with RareCollections():
            assert gc.get_threshold() == (SELDOM, 10, 10)
        assert gc.get_threshold() == (SELDOM, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_an_error_ends_the_block_too() -> None:
    with pytest.raises(ValueError, match="inside"), RareCollections():
        raise ValueError("inside")
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("threshold", [0, 10 * SELDOM])
def test_who_collects_less_keeps_his_threshold(threshold: int) -> None:
    gc.set_threshold(threshold)
    with RareCollections():
        assert gc.get_threshold()[0] == threshold
    assert gc.get_threshold()[0] == threshold


def test_a_threshold_set_inside_stays() -> None:
    with RareCollections():
        gc.set_threshold(5)
    assert gc.get_threshold()[0] == 5
