"""`import nnc.optim as optim` is what `nnc.nn.optim` is."""

from __future__ import annotations

import pytest

import nnc.nn.optim
import nnc.optim


def test_names_are_those_of_nn() -> None:
    assert nnc.optim.Adam is nnc.nn.optim.Adam
    assert set(nnc.nn.optim.__all__) <= set(dir(nnc.optim))
    with pytest.raises(AttributeError, match=r"nn\.Adam\(rate\)"):
        nnc.optim.RAdam
