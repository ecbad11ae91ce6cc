"""Nested values under the names of `jax.tree`."""

from __future__ import annotations

import numpy as np
import pytest
from nnc.flatten_util import ravel_pytree

import nnc
from nnc.errors import ArgumentError, ShapeError

PARAMETERS = {"weight": np.ones((2, 3)), "layers": [np.zeros(2), (np.ones(1), 3.0)]}


def test_containers_are_taken_apart_and_put_together() -> None:
    leaves, structure = nnc.tree.flatten(PARAMETERS)
    assert len(leaves) == len(nnc.tree.leaves(PARAMETERS)) == 4
    assert structure == nnc.tree.structure(PARAMETERS)
    again = nnc.tree.unflatten(structure, leaves)
    assert again["layers"][1][1] == 3.0
    assert type(again["layers"][1]) is tuple


def test_a_function_is_mapped_over_several() -> None:
    doubled = nnc.tree.map(lambda x: x * 2, PARAMETERS)
    added = nnc.tree.map(lambda a, b, c: a + b + c, {"a": 1, "b": [2]}, {"b": [20], "a": 10}, {"a": 100, "b": [200]})
    assert doubled["layers"][1][1] == 6.0
    assert added == {"a": 111, "b": [222]}


def test_a_step_of_descent_compiles() -> None:
    @nnc.jit
    def step(parameters, x):  # type: ignore[no-untyped-def]
        gradients = nnc.grad(lambda p: (x @ p["w"] + p["b"]).sum())(parameters)
        return nnc.tree.map(lambda p, g: p - 0.5 * g, parameters, gradients)

    new = step({"w": np.zeros((3, 1), np.float32), "b": np.zeros(1, np.float32)}, np.ones((4, 3), np.float32))
    np.testing.assert_array_equal(new["w"], np.full((3, 1), -2.0))
    np.testing.assert_array_equal(new["b"], [-2.0])


def test_other_containers_are_refused() -> None:
    with pytest.raises(ArgumentError, match="tree.map: got leaves at b, c of one value"):
        nnc.tree.map(lambda a, b: a, {"a": 1, "b": 2}, {"a": 1, "c": 2})
    with pytest.raises(ArgumentError, match=r"tree.unflatten: got 1 leaves; need the 2 of the structure"):
        nnc.tree.unflatten(nnc.tree.structure([1, 2]), [1])


def test_all_leaves_hold_or_are_refused() -> None:
    assert nnc.tree.all({"a": True, "b": [np.ones(1)]})
    with pytest.raises(ArgumentError, match=r"tree\.all: got The truth value of an array"):
        nnc.tree.all([np.ones(2)])


def test_what_is_no_function_or_structure_is_refused() -> None:
    with pytest.raises(ArgumentError, match="map: got function=an object; need something to call"):
        nnc.tree.map(object(), [1])  # type: ignore[arg-type]  # what is tested
    with pytest.raises(ArgumentError, match="unflatten: got shape=3; need a Structure"):
        nnc.tree.unflatten(3, [1])  # type: ignore[arg-type]  # what is tested


def test_trees_are_one_vector_and_back() -> None:
    tree = {"w": nnc.ones((2, 3)), "b": [nnc.array([1, 2]), nnc.array(5.0)]}
    vector, restored = ravel_pytree(tree)
    assert vector.tolist() == [1.0] * 6 + [1.0, 2.0, 5.0]
    again = restored(vector * 2)
    assert again["w"].shape == (2, 3)
    assert again["b"][0].dtype is nnc.i64
    assert again["b"][1].item() == 10.0
    assert ravel_pytree([])[0].shape == (0,)
    slope = nnc.grad(lambda row: (restored(row)["w"] * 3.0).sum())(vector)
    assert slope.tolist() == [3.0] * 6 + [0.0] * 3
    with pytest.raises(ShapeError, match="9 elements in a row"):
        restored(nnc.ones(8))
