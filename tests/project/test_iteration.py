"""`list(x)` of whatever the public packages hold ends: what takes any number as an index is no sequence."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from contextlib import suppress
from enum import EnumMeta
from itertools import islice
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import keras, nn
from nnc.core.values.spec import spec
from nnc.errors import DataError, IndexRangeError
from nnc.graph import OpAttr
from nnc.nn.data import load
from nnc.symbolic import SymbolicGraph

MANY = 1000
X = nnc.tensor(np.ones((3, 2), np.float32))
# What is indexed and does not say how it is iterated; each ends, or is no sequence.
INDEXED: dict[str, Callable[[], Any]] = {
    "a variable": lambda: X,
    "places of a variable": lambda: X.at,
    "a symbol": lambda: SymbolicGraph().input(spec((3, 2))),
    "a symbol without axes": lambda: SymbolicGraph().input(spec(())),
    "what a layer gives": lambda: nn.Dense(3)(nn.Input((4,))),
    "an attribute of operators": lambda: OpAttr[int]("of a test"),
    "a history": lambda: nn.Model(nn.Dense(1), (2,)).fit(np.ones((4, 2)), np.ones((4, 1)), epochs=1),
    "rows of a data set": lambda: load("digits").train,
}
# Indexed inside the house, by keys or by numbers that end: graphs and columns by key, calls of ONNX by operand.
INSIDE = {
    "Column", "Facts", "Symbol", "LiftingOperand", "ArithmeticOperand", "ImageFolder", "ExportOperand",
    "ExportCall", "NodeCall", "ArrayMethods", "ElementwiseMethods", "ElementTypeMethods", "PyTorchMethods",
    # What a loader asks of others' data: their own length ends it.
    "SizedExamples",
    # A number of NumPy's, which has no axis.
    "Figure",
}  # fmt: skip


@pytest.mark.parametrize("what", INDEXED)
def test_iterating_ends(what: str) -> None:
    with suppress(TypeError, LookupError, nnc.errors.NncError):
        assert len(list(islice(iter(INDEXED[what]()), MANY))) < MANY


def test_what_a_layer_gives_and_places_are_no_sequences() -> None:
    value = nn.Dense(3)(nn.Input((4,)))
    for whole in (value, X.at):
        with pytest.raises(TypeError, match="not iterable"):
            list(whole)
    with pytest.raises(TypeError):
        _, _ = value
    assert value[1].index == 1


class Batches(keras.utils.PyDataset):
    """Any number indexes it."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        return index


def test_a_data_set_of_keras_ends_with_its_length() -> None:
    assert list(Batches()) == [0, 1, 2]
    assert 1 in Batches()
    assert 5 not in Batches()
    for ask in (len, list, lambda given: given[0]):
        with pytest.raises(DataError, match=r"PyDataset: got no __(len|getitem)__"):
            ask(keras.utils.PyDataset())


def test_a_symbol_ends_with_its_first_axis() -> None:
    assert len(list(SymbolicGraph().input(spec((3, 2))))) == 3
    with pytest.raises(IndexRangeError, match="need at most 0"):
        SymbolicGraph().input(spec(()))[0]


def test_every_class_that_is_indexed_says_how_it_is_iterated() -> None:
    """Python takes what has `__getitem__` alone for a sequence, and asks it for one element after another."""
    found = set[str]()
    for module in pkgutil.walk_packages(nnc.__path__, "nnc."):
        for kind in vars(importlib.import_module(module.name)).values():
            if isinstance(kind, type) and not isinstance(kind, EnumMeta) and kind.__module__.startswith("nnc"):
                names = {name for base in kind.__mro__ for name in vars(base)}
                if "__getitem__" in names and "__iter__" not in names:
                    found.add(kind.__name__)
    assert found == INSIDE
