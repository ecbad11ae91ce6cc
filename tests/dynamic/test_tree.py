from __future__ import annotations

from collections import namedtuple

import pytest

from nnc.dynamic.tree import LEAF, flatten, map_leaves

Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    ("tree", "leaves", "paths"),
    [
        (5, [5], [""]),
        (None, [None], [""]),
        ((), [], []),
        ({}, [], []),
        ([1, (2,)], [1, 2], ["0", "1.0"]),
        ({"b": 1, "a": {"c": 2}}, [1, 2], ["b", "a.c"]),
        (Pair(1, [2]), [1, 2], ["left", "right.0"]),
    ],
    ids=str,
)
def test_containers_come_apart_and_together(tree: object, leaves: list[object], paths: list[str]) -> None:
    found, structure = flatten(tree)
    assert found == leaves
    assert list(structure.paths()) == paths
    again = structure.unflatten(found)
    assert again == tree
    assert type(again) is type(tree)
    assert hash(structure) == hash(flatten(tree)[1])


def test_other_containers_have_another_structure() -> None:
    structures = [flatten(tree)[1] for tree in ((1, 2), [1, 2], {"a": 1, "b": 2}, Pair(1, 2), (1, (2,)), 1)]
    assert len(set(structures)) == len(structures)
    assert structures[-1] == LEAF


def test_a_function_of_each_leaf() -> None:
    assert map_leaves(lambda leaf: leaf + 1, {"a": (1, [2])}) == {"a": (2, [3])}
    pair = map_leaves(lambda leaf: leaf + 1, [Pair(1, (2,)), {}, ()])
    assert pair == [Pair(2, (3,)), {}, ()]
    assert type(pair[0]) is Pair
