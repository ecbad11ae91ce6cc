"""Modules of other projects are answered with where we have what is in them."""

from __future__ import annotations

from importlib import import_module

import pytest

from nnc.errors import UnknownModuleError
from nnc.vocabulary.modules import ELSEWHERE, MODULES


@pytest.mark.parametrize("module", MODULES)
def test_every_row_is_an_answer(module: str) -> None:
    parent = module.rpartition(".")[0]
    if parent.count(".") < 2 and parent in ("nnc", "nnc.nn"):
        with pytest.raises(UnknownModuleError) as caught:
            import_module(module)
        assert f"Fix: {MODULES[module]}" in str(caught.value)


@pytest.mark.parametrize("module", ELSEWHERE)
def test_modules_that_stand_elsewhere_are_those(module: str) -> None:
    there = import_module(ELSEWHERE[module])
    assert import_module(module) is there
    assert there.__spec__ is not None
    assert there.__spec__.name == ELSEWHERE[module]


def test_names_that_are_asked_for_in_an_import_have_their_rows() -> None:
    with pytest.raises(ImportError, match=r"nn\.BatchNorm\(\)"):
        exec("from nnc.nn import BatchNormalization")
    with pytest.raises(ImportError, match="from nnc import parallel"):
        exec("from nnc import distributed")
    with pytest.raises(ImportError, match="cannot import name"):
        exec("from nnc import nothing_of_the_kind")
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        exec("import nnc.nothing_of_the_kind")
