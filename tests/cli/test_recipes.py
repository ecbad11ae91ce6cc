"""Every row of the table of programs is whole, and examples are found by their place in the whole data set."""

from __future__ import annotations

import numpy as np
import pytest

from nnc.cli.programs.digits import locate
from nnc.cli.recipe import Arguments
from nnc.cli.recipes import RECIPES
from nnc.errors import DataError, UsageError
from nnc.nn.data import DATA_SETS, load


def test_every_data_set_has_a_program() -> None:
    assert DATA_SETS.keys() <= RECIPES.keys()


def test_the_parts_together_are_the_whole() -> None:
    split = load("digits")
    total = len(split.train) + len(split.test)
    places = [locate(split, index) for index in range(total)]
    for part in (split.train, split.test):
        assert [row for found, row in places if found is part] == list(range(len(part)))
    for index in (-1, total):
        with pytest.raises(DataError):
            locate(split, index)


def test_the_first_digits_are_in_their_known_order() -> None:
    split = load("digits")
    places = [locate(split, index) for index in range(10)]
    assert [int(part.labels[row]) for part, row in places] == list(range(10))


@pytest.mark.parametrize("name", RECIPES)
def test_arguments_that_a_program_does_not_take_are_refused(name: str) -> None:
    recipe = RECIPES[name]
    paths = () if recipe.paths else ("a",)
    with pytest.raises(UsageError, match="paths for"):
        recipe.check(name, Arguments(paths))
    for option in {"target", "task"} - recipe.options:
        with pytest.raises(UsageError, match=f"--{option}"):
            recipe.check(name, Arguments(() if paths else ("a",), **{option: "x"}))


def test_the_rate_does_not_depend_on_the_epochs_asked_for() -> None:
    recipe, examples = RECIPES["digits"], len(load("digits").train)
    rates = [recipe.model({}, examples, 64, 0).optimizer.scalars(step)["rate"] for step in (1, 230, 461, 10_000)]
    assert rates[0] == recipe.rate
    assert np.isclose(rates[2], recipe.last_rate)
    assert rates == sorted(rates, reverse=True)
