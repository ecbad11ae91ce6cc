"""The optimizer's state in a file: the same bits, whatever is done with the model, and nothing that is left."""

from __future__ import annotations

import copy
import errno
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from nnc import nn
from nnc.errors import OutOfMemoryError, UsageError

X = np.linspace(-1, 1, 4 * 6, dtype=np.float32).reshape(4, 6)
Y = X[:, :2] ** 2
STATE = 2 * (6 * 2 + 2) * 4


def model(optimizer: nn.Optimizer | None = None) -> nn.Model:
    """One product, by Adam, on the reference."""
    chosen = nn.Adam(0.01) if optimizer is None else optimizer
    return nn.Model(nn.Dense(2), (6,), loss=nn.MeanSquaredError(), optimizer=chosen, backend="reference")


def filed(folder: Path) -> nn.Model:
    """The same with its state in a file."""
    made = model()
    made.state_folder = folder
    return made


def losses(trained: nn.Model, steps: int = 3) -> list[float]:
    """Of some updates."""
    return [trained.train_on_batch(X, Y)[0] for _ in range(steps)]


def test_updates_are_those_of_memory_and_the_statement_counts_none_of_it(tmp_path: Path) -> None:
    ours, theirs = filed(tmp_path), model()
    assert losses(ours) == losses(theirs)
    assert os.listdir(tmp_path) == []
    stated, plain = ours.memory(4), theirs.memory(4)
    assert stated.filed == STATE
    assert stated.process == plain.process - STATE
    assert stated.optimizer_state == plain.optimizer_state
    assert f"in a file of {STATE} B" in str(stated)
    assert ours.memory(4, "predict").filed == plain.filed == 0


def test_state_moves_with_its_values_and_copies_have_files_of_their_own(tmp_path: Path) -> None:
    ours, theirs = filed(tmp_path), model()
    assert losses(ours) == losses(theirs)
    made = [copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), ours]
    assert [each.memory(4).filed for each in made] == [STATE] * 3
    expected = losses(theirs)
    assert [losses(each) for each in made] == [expected] * 3
    ours.state_folder = None
    theirs.state_folder = tmp_path
    assert ours.memory(4).filed == 0
    assert losses(ours) == losses(theirs)


def test_an_optimizer_that_is_set_anew_begins_in_the_file(tmp_path: Path) -> None:
    ours, theirs = filed(tmp_path), model()
    for each in (ours, theirs):
        losses(each)
        each.optimizer = nn.SGD(0.1, momentum=0.9)
    assert losses(ours) == losses(theirs)
    assert ours.memory(4).filed == STATE // 2
    plain = filed(tmp_path)
    plain.optimizer = nn.SGD(0.1, momentum=0.0)
    losses(plain)
    assert plain.memory(4).filed == 0


def test_what_is_no_folder_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    ours, theirs = model(), model()
    assert losses(ours) == losses(theirs)
    (tmp_path / "file").write_text("")
    for wrong in (tmp_path / "missing", tmp_path / "file", "", 5):
        with pytest.raises(UsageError, match="state_folder"):
            ours.state_folder = wrong  # type: ignore[assignment]
    assert ours.memory(4).filed == 0
    assert losses(ours) == losses(theirs)


def test_a_disk_that_is_full_is_told_before_an_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    ours, theirs = filed(tmp_path), model()
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(OutOfMemoryError, match="state_folder"):
            losses(ours)
        losses(theirs, 1)
        with pytest.raises(OutOfMemoryError, match="state_folder"):
            theirs.state_folder = tmp_path
    assert theirs.memory(4).filed == 0
    assert losses(theirs, 2) == losses(ours)[1:]


def test_a_forked_child_copies_the_model_before_it_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = filed(tmp_path), model()
    assert losses(ours) == losses(theirs)
    number = os.getpid()
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: number + 1)
        with pytest.raises(UsageError, match="process that forked this one"):
            losses(ours)
        copied = losses(copy.copy(ours))
    assert copied == losses(ours) == losses(theirs)
