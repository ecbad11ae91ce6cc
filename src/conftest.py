"""What the examples of docstrings may name without an import, and where they write files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnc
from nnc import nn, optim


@pytest.fixture(autouse=True)
def _names_of_examples(doctest_namespace: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`nnc`, `nn`, `optim` and `np`, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    doctest_namespace.update(nnc=nnc, nn=nn, optim=optim, np=np)
