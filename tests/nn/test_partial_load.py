"""Weights from elsewhere: what fits, under other names, into a new head; means of models; another optimizer."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.core.values.serialize import load_tensors, save_tensors
from nnc.errors import ArgumentError, FormatError
from nnc.nn.data import Batches, Examples
from nnc.nn.files.checkpoint import sealed

X = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
Y = np.zeros(8, np.int32)
BODY = nn.Sequential(body=nn.Sequential(nn.Dense(6), nn.Tanh()), head=nn.Dense(3))


def model(layer: nn.Layer = BODY, optimizer: nn.Optimizer | None = None, seed: int = 0) -> nn.Model:
    return nn.Model(layer, (4,), optimizer=optimizer, seed=seed, backend="reference")


def test_a_replaced_head_takes_the_body_alone() -> None:
    trained, fresh = model(seed=1), model(BODY.replaced("head", nn.Dense(2)))
    head = fresh.state_dict()["head.weight"]
    report = fresh.load_state_dict(trained.state_dict(), strict=False)
    assert report.loaded == ("body.0.bias", "body.0.weight")
    assert report.other_shape == ("head.bias", "head.weight")
    assert str(report) == "of another shape: head.bias, head.weight"
    np.testing.assert_array_equal(fresh.state_dict()["body.0.weight"], trained.state_dict()["body.0.weight"])
    np.testing.assert_array_equal(fresh.state_dict()["head.weight"], head)
    with pytest.raises(FormatError, match="of another shape: head.bias, head.weight"):
        fresh.load_state_dict(trained.state_dict())


def test_names_are_changed_by_rules(tmp_path: Path) -> None:
    trained, fresh = model(seed=1), model()
    theirs = {f"net.{name.replace('body.0', 'encoder')}": value for name, value in trained.state_dict().items()}
    rules = {r"^net\.": "", "^encoder": "body.0"}
    report = fresh.load_state_dict(theirs, rename=rules)
    assert report.complete
    assert str(report) == "all 4 tensors fit"
    nnc.save(tmp_path / "theirs.safetensors", theirs)
    other = nnc.load(tmp_path / "theirs.safetensors", model(), rename=rules)
    assert other.predict(X).tobytes() == trained.predict(X).tobytes()
    with pytest.raises(FormatError, match="two tensors of one name"):
        fresh.load_state_dict(theirs, rename={".*": "x"})


def test_no_part_of_that_name_is_told() -> None:
    for path in ("tail", "head.0", "body.7"):
        with pytest.raises(ArgumentError, match="path="):
            BODY.replaced(path, nn.Dense(2))


def test_a_mean_of_weights_follows_a_model() -> None:
    net, mean = model(seed=1), model(seed=2)
    before, other = mean.state_dict(), net.state_dict()
    mean.zip_map(lambda m, w: 0.9 * m + 0.1 * w, net, pattern="head.*")
    after = mean.state_dict()
    np.testing.assert_allclose(after["head.weight"], 0.9 * before["head.weight"] + 0.1 * other["head.weight"])
    np.testing.assert_array_equal(after["body.0.weight"], before["body.0.weight"])
    with pytest.raises(FormatError, match="of another shape"):
        mean.zip_map(lambda m: m[:1])
    with pytest.raises(FormatError, match="no body.0.bias in another model"):
        mean.zip_map(lambda m, w: w, model(nn.Dense(3)))
    np.testing.assert_array_equal(mean.state_dict()["head.weight"], after["head.weight"])


@pytest.mark.parametrize(
    ("optimizer", "since"), [(nn.Adam(0.5), 0), (nn.Adam(nn.Cosine(0.5, 10)), 0), (nn.SGD(0.1), 3)]
)
def test_a_checkpoint_is_opened_with_another_optimizer_when_asked(
    optimizer: nn.Optimizer, since: int, tmp_path: Path
) -> None:
    net, batches = model(optimizer=nn.Adam(0.1)), Batches(Examples("some", X, Y), 3)
    net.fit(batches)
    nn.save_checkpoint(tmp_path / "c", net, nn.position_of(net, batches))
    other = model(optimizer=optimizer, seed=5)
    with pytest.raises(FormatError, match="another model"):
        nn.load_checkpoint(tmp_path / "c", other)
    position = nn.load_checkpoint(tmp_path / "c", other, another_optimizer=True)
    assert (position.updates, position.since, other.since) == (3, since, since)
    assert other.predict(X).tobytes() == net.predict(X).tobytes()
    assert all(one.numpy().any() for one in other.states.values()) == (since == 0)
    with pytest.raises(FormatError, match="another model"):
        nn.load_checkpoint(tmp_path / "c", model(nn.Dense(3)), another_optimizer=True)


def test_a_damaged_checkpoint_of_another_optimizer_leaves_the_state_of_this_one(tmp_path: Path) -> None:
    """It was set to zero before the checksum was looked at."""
    net, other, batches = (
        model(optimizer=nn.SGD(0.1)),
        model(optimizer=nn.Adam(0.1)),
        Batches(Examples("some", X, Y), 3),
    )
    nn.save_checkpoint(tmp_path / "c", net, nn.position_of(net, batches))
    other.fit(batches)
    before = {name: one.numpy().tobytes() for name, one in {**other.tensors(), **other.states}.items()}
    data = (tmp_path / "c").read_bytes()
    (tmp_path / "c").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(FormatError, match="its checksum is another"):
        nn.load_checkpoint(tmp_path / "c", other, another_optimizer=True)
    assert {name: one.numpy().tobytes() for name, one in {**other.tensors(), **other.states}.items()} == before


def test_a_checkpoint_of_another_optimizer_without_a_weight_is_refused(tmp_path: Path) -> None:
    net, batches = model(optimizer=nn.SGD(0.1)), Batches(Examples("some", X, Y), 3)
    nn.save_checkpoint(tmp_path / "c", net, nn.position_of(net, batches))
    file = load_tensors(tmp_path / "c")
    tensors = dict(file.tensors)
    del tensors["model.head.weight"]
    facts = {name: fact for name, fact in json.loads(file.metadata["nnc"]).items() if name != "sha256"}
    save_tensors(tmp_path / "d", tensors, {"nnc": sealed(facts, tensors)})
    with pytest.raises(FormatError, match=r"no tensor model\.head\.weight"):
        nn.load_checkpoint(tmp_path / "d", model(optimizer=nn.Adam(0.1)), another_optimizer=True)
