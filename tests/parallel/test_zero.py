"""State, gradients and weights in shards: results of one rank, bytes of a part, checkpoints for any number."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.parallel.conftest import run_alone

from nnc import nn
from nnc.core.values.serialize import load_tensors, save_tensors
from nnc.errors import ArgumentError, FormatError, ShapeError, UsageError
from nnc.nn.files.sharded_checkpoint import stored_in
from nnc.parallel import Mesh
from nnc.parallel.tensor_shards import piece_of

WIDE = nn.Sequential(*[nn.Sequential(nn.Dense(256), nn.ReLU()) for _ in range(24)], nn.Dense(4))


def stated(ranks: int, stage: int) -> int:
    mesh = None if ranks == 1 else Mesh(data=ranks)
    return nn.Model(WIDE, (256,), mesh=mesh, zero_stage=stage).memory(64 // ranks).total


def test_each_stage_trains_as_one_rank_and_any_number_of_ranks_goes_on(of_two: Path) -> None:
    run_alone("zero.py", str(of_two), "0", "0=3", "3=0")
    # Other numbers of ranks add in another order.
    rows = np.concatenate([np.load(of_two / f"{ranks}.npy") for ranks in (3, 2, 1)])
    np.testing.assert_allclose(rows, rows[:1].repeat(8, 0), rtol=1e-9, atol=1e-12)
    parts = sorted(path.name.split(".", 1)[1] for path in (of_two / "stage3.parts").iterdir())
    assert parts == [f"{rank}-of-3.safetensors" for rank in range(3)]
    one = nn.load_model(of_two / "whole.safetensors")
    assert (one.mesh, one.zero_stage) == (None, 0)
    weights = np.concatenate([values.ravel() for values in one.state_dict().values()])
    np.testing.assert_array_equal(weights, rows[2][-weights.size :])
    refuse_damaged(of_two / "stage3.safetensors")


def test_adapters_are_trained_and_texts_generated_where_no_rank_has_the_weights(of_two: Path) -> None:
    run_alone("adapters.py", str(of_two / "adapters1.npy"))
    one, two = (np.load(of_two / f"adapters{ranks}.npy") for ranks in (1, 2))
    np.testing.assert_allclose(two, one, rtol=1e-9)


def refuse_damaged(path: Path) -> None:
    file = load_tensors(path)
    facts = json.loads(file.metadata["nnc"])
    for change in ({"folder": "../stage3.parts"}, {"digests": ["../x"]}, {"wholes": {"a": "b"}}):
        damaged = path.with_name("damaged.safetensors")
        save_tensors(damaged, file.tensors, {"nnc": json.dumps(facts | {"parts": facts["parts"] | change})})
        with pytest.raises(FormatError, match="names of parts that cannot be read"):
            stored_in(damaged, load_tensors(damaged))
    part = next(path.with_suffix(".parts").glob("*.1-of-3.safetensors"))
    content = bytearray(part.read_bytes())
    content[-1] ^= 1
    part.write_bytes(content)
    stored = stored_in(path, load_tensors(path))
    name = next(iter(facts["parts"]["wholes"]))
    with pytest.raises(FormatError, match="damaged or changed"):
        stored[name].flat(0, stored[name].spec.elements)


def test_a_rank_of_four_states_less_than_three_tenths_of_one_before_it_runs() -> None:
    one = stated(1, 0)
    bytes_by_stage = [stated(4, stage) / one for stage in range(4)]
    assert bytes_by_stage == sorted(bytes_by_stage, reverse=True)
    assert bytes_by_stage[3] <= 0.3
    # A stage more never takes more, and the optimizer's state was two thirds of it.
    assert bytes_by_stage[1] <= 0.8


def test_pieces_cover_a_tensor_and_end_in_zeros() -> None:
    array = np.arange(1, 8).reshape(7, 1)
    assert [piece_of(array, rank, 3).tolist() for rank in range(3)] == [[1, 2, 3], [4, 5, 6], [7, 0, 0]]
    assert [piece_of(array[:1], rank, 2).tolist() for rank in range(2)] == [[1], [0]]


def test_what_cannot_be_split_says_so() -> None:
    mesh = Mesh(data=1)
    with pytest.raises(UsageError, match="zero_stage=1 without ranks; need a mesh"):
        nn.Model(nn.Dense(2), (3,), zero_stage=1)
    with pytest.raises(UsageError, match="zero_stage=2 with Lamb, which reads whole parameters"):
        nn.Model(nn.Dense(2), (3,), optimizer=nn.Lamb(0.1), mesh=mesh, zero_stage=2)
    model = nn.Model(nn.Dense(2), (3,), mesh=mesh, zero_stage=1)
    with pytest.raises(UsageError, match="Muon"):
        model.optimizer = nn.Muon(0.1)
    assert isinstance(model.optimizer, nn.Adam)
    assert model.states["weight.moment"].shape == (6,)
    with pytest.raises(UsageError, match="other ranks or shards beside its"):
        model.zero_stage = 3
    assert model.zero_stage == 1


def test_an_option_of_ranks_that_is_refused_leaves_the_model_as_it_was() -> None:
    model = nn.Model(nn.Sequential(nn.ColumnParallel(nn.Dense(5)), nn.Dense(2)), (3,))
    options: dict[str, Any] = {"mesh": (2, 2), "zero_stage": 7, "pipeline": None, "compress": "int4"}
    for name, value in options.items():
        with pytest.raises(ArgumentError, match=rf"{name}=.*; need "):
            setattr(model, name, value)
    with pytest.raises(ShapeError, match="whose axis 1 has 5"):
        model.mesh = Mesh(tensor=2)
    assert model.mesh is None
    assert model.predict(np.ones((1, 3), np.float32)).shape == (1, 2)


def test_a_copy_of_a_model_in_shards_trains_on() -> None:
    x, y = np.ones((4, 3), np.float32), np.zeros(4, np.int64)
    model = nn.Model(nn.Dense(2), (3,), mesh=Mesh(data=1), zero_stage=3)
    model.train_on_batch(x, y)
    other = pickle.loads(pickle.dumps(model))
    assert other.train_on_batch(x, y) == model.train_on_batch(x, y)
    assert np.array_equal(model.predict(x), other.predict(x))
