"""Lines that draw without a seed, and then ask whether a loss has fallen, draw the same in each run."""

from __future__ import annotations

import random

import numpy as np
import pytest

import nnc


@pytest.fixture
def _seeded() -> None:
    random.seed(0)
    np.random.seed(0)  # the state that the programs draw from
    nnc.seed(0)
