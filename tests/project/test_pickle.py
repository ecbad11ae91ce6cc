"""What is public goes through pickle by its name: to another process, and into files that hold it."""

from __future__ import annotations

import pickle
from importlib import import_module

import pytest

MODULES = ("nnc", "nnc.ops", "nnc.nn", "nnc.nn.data", "nnc.array_api", "nnc.array_api.fft", "nnc.array_api.linalg")


@pytest.mark.parametrize("name", MODULES)
def test_every_public_function_and_class_is_pickled_by_its_name(name: str) -> None:
    module = import_module(name)
    public = getattr(module, "__all__", None) or [one for one in vars(module) if not one.startswith("_")]
    made = [getattr(module, one) for one in public]
    values = [one for one in made if callable(one) and getattr(one, "__module__", "").startswith("nnc")]
    assert len(values) > 5
    assert [one for one in values if pickle.loads(pickle.dumps(one)) is not one] == []
