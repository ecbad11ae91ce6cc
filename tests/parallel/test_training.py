"""A model on several ranks is the model on one: batch norms, clipping, sums of batches, uneven parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.parallel.conftest import run_alone

from nnc import nn
from nnc.errors import UsageError
from nnc.parallel import Mesh


def test_losses_and_weights_on_three_ranks_are_those_of_one(of_three: Path) -> None:
    run_alone("training.py", str(of_three / "one.npy"))
    many, alone = (np.load(of_three / name) for name in ("many.npy", "one.npy"))
    np.testing.assert_allclose(many, alone, rtol=1e-9, atol=1e-12)


def test_a_mesh_for_more_ranks_than_there_are_is_refused_before_a_step() -> None:
    model = nn.Model(nn.Dense(1), (2,), loss=nn.MeanSquaredError(), mesh=Mesh(data=4))
    with pytest.raises(UsageError, match="nnc launch -n 4"):
        model.train_on_batch(np.ones((2, 2), np.float32), np.ones((2, 1), np.float32))
    assert model.updates == 0
