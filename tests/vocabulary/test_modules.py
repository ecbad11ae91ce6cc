"""Modules of other projects are answered with where we have what is in them."""

from __future__ import annotations

from importlib import import_module

import pytest

from nnc.errors import UnknownModuleError
from nnc.vocabulary.modules import MODULES


@pytest.mark.parametrize("module", MODULES)
def test_every_row_is_an_answer(module: str) -> None:
    parent = module.rpartition(".")[0]
    if parent.count(".") < 2 and parent in ("nnc", "nnc.nn"):
        with pytest.raises(UnknownModuleError) as caught:
            import_module(module)
        assert f"Fix: {MODULES[module]}" in str(caught.value)


def test_names_that_are_asked_for_in_an_import_have_their_rows() -> None:
    with pytest.raises(ImportError, match=r"nn\.MultiHeadAttention\(heads\)"):
        exec("from nnc.nn import MultiheadAttention")
    with pytest.raises(ImportError, match="from nnc import cond, scan, while_loop"):
        exec("from nnc import lax")
    with pytest.raises(ImportError, match="cannot import name"):
        exec("from nnc import nothing_of_the_kind")
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        exec("import nnc.nothing_of_the_kind")
