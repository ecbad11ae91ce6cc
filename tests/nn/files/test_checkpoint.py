from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from nnc import nn, ops
from nnc.core.values.dtype import F32
from nnc.core.values.serialize import load_tensors, save_tensors
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import DataError, FormatError, UsageError
from nnc.nn.data import Batches, BatchState, DataSet
from nnc.nn.files.checkpoint import sealed, text_of

COUNT, SIZE = 22, 4


def model_of(units: int = 6, optimizer: nn.Optimizer | None = None, seed: int = 0) -> nn.Model:
    layer = nn.Sequential(hidden=nn.Dense(units), act=nn.ReLU(), classes=nn.Dense(3))
    optimizer = nn.Adam(nn.Cosine(0.05, 30)) if optimizer is None else optimizer
    return nn.Model(layer, (5,), optimizer=optimizer, seed=seed, backend="reference")


def batches_of(seed: int = 1) -> Batches:
    generator = np.random.default_rng(0)
    inputs = generator.standard_normal((COUNT, 5)).astype(np.float32)
    return Batches(DataSet("some", inputs, (np.arange(COUNT) % 3).astype(np.int32), ("a", "b", "c")), SIZE, seed=seed)


def train(model: nn.Model, batches: Batches, updates: int, epochs: int = 3) -> None:
    """Train until `updates` updates are done in all."""
    model.fit(batches, epochs=epochs - batches.state().epoch, stop=lambda: model.updates >= updates)


def state(model: nn.Model) -> dict[str, bytes]:
    tensors = {**model.parameters, **model.states}
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()} | {"updates": bytes([model.updates])}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The checkpoint of a model after eight updates."""
    model, batches = model_of(), batches_of()
    train(model, batches, 8)
    nn.save_checkpoint(tmp_path / "model.safetensors", model, nn.position_of(model, batches))
    return tmp_path / "model.safetensors"


def test_a_checkpoint_gives_back_everything(saved: Path) -> None:
    original, batches = model_of(), batches_of()
    train(original, batches, 8)
    model = model_of(seed=9)
    position = nn.load_checkpoint(saved, model)
    assert state(model) == state(original)
    assert position == nn.Position(8, batches.state(), SIZE, draws=8, sizes=original.sizes)
    assert position.batches == BatchState(1, 1, 8)
    assert nn.read_position(saved) == position


def test_the_same_state_is_the_same_file(saved: Path) -> None:
    model = model_of()
    position = nn.load_checkpoint(saved, model)
    nn.save_checkpoint(saved.with_name("again"), model, position)
    assert saved.read_bytes() == saved.with_name("again").read_bytes()


@pytest.mark.parametrize("stop", [1, 5, 6, 7, 12, 17])
def test_training_goes_on_as_if_it_had_not_been_stopped(tmp_path: Path, stop: int) -> None:
    whole, batches = model_of(), batches_of()
    train(whole, batches, 100)
    assert whole.updates == 18

    first, batches = model_of(), batches_of()
    train(first, batches, stop)
    nn.save_checkpoint(tmp_path / "c", first, nn.position_of(first, batches))
    second, batches = model_of(seed=5), batches_of()
    batches.restore(nn.load_checkpoint(tmp_path / "c", second).batches)
    train(second, batches, 100)
    assert state(second) == state(whole)


def test_other_tools_read_a_checkpoint(saved: Path) -> None:
    tensors = safetensors.numpy.load_file(saved)
    model = model_of()
    nn.load_checkpoint(saved, model)
    assert set(tensors) == {f"model.{path}" for path in model.parameters} | {
        f"optimizer.{path}" for path in model.states
    }
    np.testing.assert_array_equal(tensors["model.hidden.weight"], model.parameters["hidden.weight"].numpy())


def rewritten(path: Path, change: Callable[[dict[str, Tensor], dict[str, object]], object]) -> None:
    """The file again, after `change(tensors, facts)`."""
    file = load_tensors(path)
    tensors = {name: Tensor.from_numpy(np.array(tensor.numpy())) for name, tensor in file.tensors.items()}
    facts = json.loads(file.metadata["nnc"])
    change(tensors, facts)
    save_tensors(path, tensors, {"nnc": sealed(facts, tensors)})


def place(facts: dict[str, object]) -> dict[str, object]:
    found = facts["position"]
    assert isinstance(found, dict)
    return found


WRONG = {
    "version": lambda tensors, facts: facts.update(version=1),
    "no version": lambda tensors, facts: facts.pop("version"),
    "architecture": lambda tensors, facts: facts.update(architecture="other"),
    "updates as text": lambda tensors, facts: place(facts).update(updates="8"),
    "negative updates": lambda tensors, facts: place(facts).update(updates=-1),
    "draws as text": lambda tensors, facts: place(facts).update(draws="8"),
    "no start of the optimizer": lambda tensors, facts: place(facts).pop("since"),
    "fractional updates": lambda tensors, facts: place(facts).update(updates=1.5),
    "infinite updates": lambda tensors, facts: place(facts).update(updates=float("inf")),
    "batches as a list": lambda tensors, facts: place(facts).update(batches=[1, 2, 3]),
    "batches without seed": lambda tensors, facts: place(facts).update(batches={"epoch": 0, "position": 0}),
    "a scale as text": lambda tensors, facts: place(facts).update(scaling={"scale": "8", "passes": 0}),
    "an infinite scale": lambda tensors, facts: place(facts).update(scaling={"scale": float("inf"), "passes": 0}),
    "a scale of other fields": lambda tensors, facts: place(facts).update(scaling={"more": 1}),
    "negative passes of a scale": lambda tensors, facts: place(facts).update(scaling={"scale": 8.0, "passes": -1}),
    "position as a list": lambda tensors, facts: facts.update(position=[]),
    "a tensor less": lambda tensors, facts: tensors.pop("model.classes.bias"),
    "a tensor more": lambda tensors, facts: tensors.update(more=Tensor.zeros(spec((1,)))),
    "another shape": lambda tensors, facts: tensors.update({"model.classes.bias": Tensor.zeros(spec((4,)))}),
    "another type": lambda tensors, facts: tensors.update({"model.classes.bias": Tensor.zeros(spec((3,), "f64"))}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_is_no_checkpoint_of_the_model_changes_nothing(saved: Path, name: str) -> None:
    rewritten(saved, WRONG[name])
    model = model_of()
    before = state(model)
    with pytest.raises(FormatError, match=r"need a checkpoint of this model\. Fix: "):
        nn.load_checkpoint(saved, model)
    assert state(model) == before


@pytest.mark.parametrize("other", [model_of(units=7), model_of(optimizer=nn.SGD()), model_of(optimizer=nn.Adam())])
def test_a_checkpoint_of_another_model_is_refused(saved: Path, other: nn.Model) -> None:
    before = state(other)
    with pytest.raises(FormatError, match="a checkpoint of"):
        nn.load_checkpoint(saved, other)
    assert state(other) == before


def test_a_scale_in_a_file_is_that_of_a_model_with_one(saved: Path) -> None:
    rewritten(saved, lambda tensors, facts: place(facts).update(scaling={"scale": 8.0, "passes": 3}))
    scaling = nn.read_position(saved).scaling
    assert scaling is not None
    assert (scaling.scale, scaling.passes) == (8.0, 3)


def test_notes_that_are_no_object_are_none(saved: Path) -> None:
    rewritten(saved, lambda tensors, facts: facts.update(notes=[1]))
    assert nn.read_notes(saved) == {}


def test_a_truncated_file_is_refused_at_every_length(saved: Path) -> None:
    data = saved.read_bytes()
    model = model_of()
    before = state(model)
    for length in (*range(0, len(data), 37), len(data) - 1):
        saved.write_bytes(data[:length])
        with pytest.raises(FormatError):
            nn.load_checkpoint(saved, model)
    assert state(model) == before


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04" + bytes(100), b"{}" * 40, bytes(64)])
def test_a_file_of_another_kind_is_refused(saved: Path, content: bytes) -> None:
    saved.write_bytes(content)
    with pytest.raises(FormatError):
        nn.load_checkpoint(saved, model_of())


def test_plain_safetensors_are_refused(saved: Path) -> None:
    safetensors.numpy.save_file({"w": np.ones(3)}, saved)
    with pytest.raises(FormatError, match="without a checkpoint's facts"):
        nn.load_checkpoint(saved, model_of())
    safetensors.numpy.save_file({"w": np.ones(3)}, saved, {"nnc": "[" * 100_000})
    with pytest.raises(FormatError, match="without a checkpoint's facts"):
        nn.load_checkpoint(saved, model_of())


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such file"):
        nn.load_checkpoint(tmp_path / "nowhere", model_of())
    with pytest.raises(FormatError, match="directory"):
        nn.load_checkpoint(tmp_path, model_of())


def test_a_failed_write_leaves_the_old_checkpoint(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()
    model, batches = model_of(), batches_of()

    def fail(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UsageError, match="no space left on device"):
        nn.save_checkpoint(saved, model, nn.position_of(model, batches))
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_a_flipped_bit_anywhere_is_found(saved: Path) -> None:
    good = saved.read_bytes()
    model = model_of()
    before = state(model)
    for place in range(0, len(good), 13):
        saved.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(FormatError):
            nn.load_checkpoint(saved, model)
    assert state(model) == before


def test_the_last_checkpoints_are_kept(tmp_path: Path) -> None:
    model, batches = model_of(), batches_of()
    for updates in (1, 2, 3):
        train(model, batches, updates)
        nn.save_checkpoint(tmp_path / "m.safetensors", model, nn.position_of(model, batches), keep=2)
    names = sorted(os.listdir(tmp_path))
    assert names == ["m.1.safetensors", "m.safetensors"]
    assert [nn.read_position(tmp_path / name).updates for name in names] == [2, 3]


def test_a_checkpoint_does_not_depend_on_what_an_interrupt_did_to_repr(tmp_path: Path) -> None:
    """An interrupted `repr` of a dataclass leaves it saying `...`: it takes itself for its own part."""
    model, batches = model_of(), batches_of()

    first, last = model.layer.parts[0][1], model.layer.parts[-1][1]
    left = []
    for layer in (first, last):
        guard = type(layer).__repr__.__closure__
        assert guard is not None
        (running,) = [cell.cell_contents for cell in guard if isinstance(cell.cell_contents, set)]
        left.append((running, (id(layer), threading.get_ident())))
    try:
        for running, key in left:
            running.add(key)
        assert repr(first) == repr(last) == "..."
        nn.save_checkpoint(tmp_path / "m", model, nn.position_of(model, batches))
    finally:
        # Layers of other tests come to lie where these did.
        for running, key in left:
            running.discard(key)
    other = model_of()
    nn.load_checkpoint(tmp_path / "m", other)
    assert state(other) == state(model)


@dataclass
class Options:
    """Options of somebody's own layer."""

    rates: tuple[float, ...]
    table: dict[str, object]


class Plain:
    """An object whose `repr` says where it lies."""

    def __init__(self) -> None:
        self.size = 3
        self.function = state
        self.kind = Path


def test_the_text_of_an_architecture_is_its_structure() -> None:
    assert (
        text_of(model_of().layer)
        == "Sequential(hidden=Dense(units=6, bias=True), act=ReLU(), classes=Dense(units=3, bias=True))"
    )
    own = Options((0.5, 1e-3), {"plain": Plain(), "type": F32})
    assert text_of(own) == (
        "Options(rates=(0.5, 0.001), table=dict('plain'=Plain(function=state, kind=Path, size=3), 'type'=f32))"
    )


def test_notes_that_json_lacks_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    model = nn.Model(nn.Dense(2), (3,))
    with pytest.raises(DataError, match="notes: .*need what JSON has"):
        nn.save_checkpoint(
            tmp_path / "a.safetensors", model, nn.Position(0, BatchState(0), 4), notes={"mean": object()}
        )
    assert not [*tmp_path.iterdir()]


def test_the_scale_of_a_loss_goes_on_where_the_checkpoint_left_it(tmp_path: Path) -> None:
    def scaled() -> nn.Model:
        layer = nn.Sequential(hidden=nn.Dense(6), classes=nn.Dense(3))
        return nn.Model(layer, (5,), loss_scale=nn.LossScale(), backend="reference")

    model, other = scaled(), scaled()
    model.train_on_batch(np.ones((2, 5), np.float32), np.zeros(2, np.int32))
    assert model.scaling is not None
    nn.save_checkpoint(tmp_path / "c", model, nn.position_of(model, batches_of()))
    nn.load_checkpoint(tmp_path / "c", other)
    assert other.scaling == model.scaling


def functional(joined: bool) -> nn.Model:
    a = nn.Input((4,))
    hidden = nn.Dense(3)(a)
    net = nn.Functional([a], [nn.Lambda(ops.add)(hidden, nn.Dense(3)(a)) if joined else hidden])
    return nn.Model(net, backend="reference")


def test_a_checkpoint_of_a_network_of_calls_knows_its_calls(tmp_path: Path) -> None:
    model = functional(joined=True)
    nn.save_checkpoint(tmp_path / "c", model, nn.position_of(model, batches_of()))
    nn.load_checkpoint(tmp_path / "c", functional(joined=True))
    with pytest.raises(FormatError):
        nn.load_checkpoint(tmp_path / "c", functional(joined=False))
