"""Every data set has a recipe, and examples are found by their place in the whole data set."""

from __future__ import annotations

import numpy as np
import pytest

from nnc.cli.recipes import RECIPES
from nnc.errors import DataError
from nnc.nn.data import DATA_SETS, load


def test_every_data_set_has_a_recipe() -> None:
    assert RECIPES.keys() == DATA_SETS.keys()


@pytest.mark.parametrize("name", RECIPES)
def test_the_parts_together_are_the_whole(name: str) -> None:
    split, recipe = load(name), RECIPES[name]
    total = len(split.train) + len(split.test)
    places = [recipe.locate(split, index) for index in range(total)]
    for part in (split.train, split.test):
        assert [row for found, row in places if found is part] == list(range(len(part)))
    for index in (-1, total):
        with pytest.raises(DataError):
            recipe.locate(split, index)


def test_the_first_digits_are_in_their_known_order() -> None:
    split = load("digits")
    places = [RECIPES["digits"].locate(split, index) for index in range(10)]
    assert [int(part.labels[row]) for part, row in places] == list(range(10))


def test_the_rate_does_not_depend_on_the_epochs_asked_for() -> None:
    recipe, split = RECIPES["digits"], load("digits")
    rates = [recipe.model(split, 64, 0, "").optimizer.scalars(step)["rate"] for step in (1, 230, 461, 10_000)]
    assert rates[0] == recipe.rate
    assert np.isclose(rates[2], recipe.last_rate)
    assert rates == sorted(rates, reverse=True)
