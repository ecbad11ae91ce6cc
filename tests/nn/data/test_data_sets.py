from __future__ import annotations

import pytest

from nnc.errors import DataError
from nnc.nn.data import DATA_SETS, load


@pytest.mark.parametrize("name", DATA_SETS)
def test_every_row_loads_and_names_its_parts(name: str) -> None:
    split = load(name)
    assert (split.train.name, split.test.name) == (f"{name}/train", f"{name}/test")
    assert split.train.classes == split.test.classes
    assert len(split.train) > len(split.test) > 0


@pytest.mark.parametrize("name", ["digit", "Digits", "dgits"])
def test_a_near_name_is_suggested(name: str) -> None:
    with pytest.raises(DataError, match=f"got '{name}'; need one of digits. Fix: did you mean 'digits'") as caught:
        load(name)
    assert caught.value.fix == "did you mean 'digits'?"


@pytest.mark.parametrize("name", ["", "imagenet", "../digits"])
def test_a_far_name_is_not(name: str) -> None:
    with pytest.raises(DataError, match="need one of digits"):
        load(name)


def test_nothing_is_suggested_for_a_far_name() -> None:
    with pytest.raises(DataError) as caught:
        load("imagenet")
    assert caught.value.fix == ""
