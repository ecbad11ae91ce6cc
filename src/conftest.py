"""What the examples of docstrings may name without an import."""

from __future__ import annotations

import numpy as np
import pytest

import nnc
from nnc import nn, optim


@pytest.fixture(autouse=True)
def _names_of_examples(doctest_namespace: dict[str, object]) -> None:
    """`nnc`, `nn`, `optim` and `np`."""
    doctest_namespace.update(nnc=nnc, nn=nn, optim=optim, np=np)
