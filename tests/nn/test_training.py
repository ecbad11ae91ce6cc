from __future__ import annotations

import itertools
import signal

import numpy as np
import pytest

from nnc import nn
from nnc.backends.reference.backend import NumpyKernel
from nnc.errors import AttributeValueError, UsageError
from nnc.nn.data import Batches, BatchState, DataSet


def setting(count: int = 10, size: int = 4) -> tuple[nn.Model, Batches]:
    inputs = np.random.default_rng(0).standard_normal((count, 3)).astype(np.float32)
    data = DataSet("some", inputs, (inputs[:, 0] > 0).astype(np.int32), ("a", "b"))
    model = nn.Model(nn.Dense(2), (3,), optimizer=nn.SGD(0.5), backend="reference")
    return model, Batches(data, size, seed=2)


def test_every_update_is_told() -> None:
    model, batches = setting()
    told: list[nn.Progress] = []
    assert nn.fit(model, batches, 2, listener=told.append)
    assert model.updates == 6
    assert [(one.epoch, one.batch, one.examples, one.epoch_done) for one in told] == [
        (0, 1, 4, False),
        (0, 2, 8, False),
        (0, 3, 10, True),
        (1, 1, 4, False),
        (1, 2, 8, False),
        (1, 3, 10, True),
    ]
    assert {(one.epochs, one.batches) for one in told} == {(2, 3)}
    assert all(0.0 <= one.score <= 1.0 for one in told)
    assert told[-1].loss < told[2].loss


def test_progress_is_a_mean_over_examples() -> None:
    model, batches = setting()
    twin, other = setting()
    told: list[nn.Progress] = []
    nn.fit(model, batches, 1, listener=told.append)
    results = [(twin.train_on_batch(batch.inputs, batch.labels), len(batch)) for batch in other]
    assert told[-1].loss == pytest.approx(sum(loss * size for (loss, _), size in results) / 10)
    assert told[-1].score == pytest.approx(sum(right for (_, right), _ in results) / 10)


def test_a_stop_is_clean_and_training_can_be_taken_up() -> None:
    model, batches = setting()
    assert not nn.fit(model, batches, 2, stop=lambda: model.updates == 2)
    assert batches.state() == BatchState(2, 0, 8)
    told: list[nn.Progress] = []
    assert nn.fit(model, batches, 2, listener=told.append)
    assert [(one.epoch, one.batch, one.examples) for one in told[:2]] == [(0, 3, 2), (1, 1, 4)]
    twin, other = setting()
    nn.fit(twin, other, 2)
    np.testing.assert_array_equal(model.parameters["weight"].numpy(), twin.parameters["weight"].numpy())


def test_a_stop_after_the_last_update_is_an_end() -> None:
    model, batches = setting()
    assert nn.fit(model, batches, 1, stop=lambda: model.updates == 3)
    assert model.updates == 3


def test_a_second_fit_with_the_same_batches_trains_as_much_again() -> None:
    model, batches = setting()
    told: list[nn.Progress] = []
    assert nn.fit(model, batches, 2)
    assert nn.fit(model, batches, 1, listener=told.append)
    assert model.updates == 9
    assert [(one.epoch, one.epochs, one.batch) for one in told] == [(2, 3, 1), (2, 3, 2), (2, 3, 3)]
    twin, other = setting()
    nn.fit(twin, other, 3)
    np.testing.assert_array_equal(model.parameters["weight"].numpy(), twin.parameters["weight"].numpy())


def test_batches_that_another_model_was_trained_on_train_too() -> None:
    model, batches = setting()
    nn.fit(model, batches, 2)
    other, _ = setting()
    assert nn.fit(other, batches, 2)
    assert other.updates == 6


def test_batches_are_counted_whatever_was_trained_before() -> None:
    model, batches = setting()
    nn.fit(model, batches, 1)
    _, others = setting(size=5)
    told: list[nn.Progress] = []
    nn.fit(model, others, 1, listener=told.append)
    assert [one.batch for one in told] == [1, 2]


def test_no_epochs_are_no_training() -> None:
    model, batches = setting()
    assert nn.fit(model, batches, 0)
    assert model.updates == 0
    with pytest.raises(AttributeValueError, match="epochs=-1"):
        nn.fit(model, batches, -1)


def test_the_position_is_where_the_next_batch_is() -> None:
    model, batches = setting()
    nn.fit(model, batches, 5, stop=lambda: model.updates == 4)
    assert nn.position_of(model, batches) == nn.Position(4, BatchState(2, 1, 4), 4)


def trained(model: nn.Model, batches: Batches) -> dict[str, bytes]:
    """The bits of everything when two epochs are done."""
    nn.fit(model, batches, 2 - batches.state().epoch)
    tensors = {**model.tensors(), **model.states}
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()} | {"updates": bytes([model.updates])}


@pytest.mark.parametrize("kernel", [1, 3, 7, 12, 20, 31])
def test_an_interrupt_within_an_update_waits_for_its_end(monkeypatch: pytest.MonkeyPatch, kernel: int) -> None:
    model, batches = setting()
    wanted = trained(*setting())
    model.training_step(4).compiled.allocate()
    run, runs = NumpyKernel.run, itertools.count(1)

    def press_and_run(self: NumpyKernel, *operands: object) -> None:
        if next(runs) == kernel:
            signal.raise_signal(signal.SIGINT)
        run(self, *operands)

    with monkeypatch.context() as patch:
        patch.setattr(NumpyKernel, "run", press_and_run)
        with pytest.raises(KeyboardInterrupt):
            nn.fit(model, batches, 2)
    state = batches.state()
    assert model.updates == 3 * state.epoch + state.position // 4 > 0
    assert trained(model, batches) == wanted


def test_an_error_of_the_listener_leaves_the_position_behind_the_update() -> None:
    model, batches = setting()

    def fail(progress: nn.Progress) -> None:
        if model.updates == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        nn.fit(model, batches, 2, listener=fail)
    assert (model.updates, batches.state()) == (2, BatchState(2, 0, 8))
    assert trained(model, batches) == trained(*setting())


def test_an_update_that_fails_leaves_the_position_before_it() -> None:
    model, batches = setting()
    with pytest.raises(UsageError):
        model.train_on_batch(np.zeros((4, 5)), np.zeros(4), done=batches.advance)
    assert (model.updates, batches.state()) == (0, BatchState(2))
