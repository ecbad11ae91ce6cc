"""The front door has what the four projects have in common, but for what docs/names.md leaves out with a reason."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import nnc
from nnc import numerics

ROOT = Path(__file__).resolve().parents[2]
LISTS = sorted((Path(__file__).parent / "namespaces").glob("*.txt"))
# Of how many lists a name is asked for.
COMMON = 3


def names_of(path: Path) -> set[str]:
    """What a list names; its first line is the page that it was taken from."""
    head, _, names = path.read_text(encoding="utf-8").partition("\n")
    assert "https://" in head
    return set(names.split())


def left_out() -> dict[str, str]:
    """The rows of the page: names and reasons."""
    text = (ROOT / "docs" / "names.md").read_text(encoding="utf-8").partition("## Left out")[2]
    return dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", text, re.MULTILINE))


def common() -> set[str]:
    counts = Counter(name for path in LISTS for name in names_of(path))
    return {name for name, count in counts.items() if count >= COMMON}


def test_there_are_four_lists() -> None:
    assert [path.stem for path in LISTS] == ["jax", "mlx", "numpy", "torch"]
    assert all(len(names_of(path)) > 200 for path in LISTS)
    assert len(common()) > 200


def test_what_three_of_the_four_have_is_at_the_front_door_or_left_out_with_a_reason() -> None:
    there = {name for name in common() if hasattr(nnc, name)}
    assert common() - there == set(left_out())
    assert all(len(reason) > 5 for reason in left_out().values())


def test_reasons_name_what_there_is() -> None:
    for name in re.findall(r"`nnc\.(\w+)", " ".join(left_out().values())):
        assert hasattr(nnc, name), name


@pytest.mark.parametrize("name", ["fft", "linalg", "random"])
def test_packages_within(name: str) -> None:
    module = getattr(nnc, name)
    assert all(getattr(module, one).__doc__ for one in module.__all__)


def test_every_function_says_what_it_is() -> None:
    functions = [getattr(numerics, name) for name in numerics.__all__]
    assert all(one.__doc__ for one in functions if callable(one))
    assert set(numerics.__all__) <= set(dir(nnc))
