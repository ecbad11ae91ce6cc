"""Models and the threads of their callers: runs take turns, results are the caller's, one arena, bounded tables."""

from __future__ import annotations

import copy
import gc
import threading
import weakref

import numpy as np
import pytest
from tests.together import in_threads

from nnc import nn
from nnc.core.settings import SETTINGS

X = np.linspace(-1.0, 1.0, 32, dtype=np.float32).reshape(8, 4)
Y = np.linspace(0.0, 1.0, 16, dtype=np.float32).reshape(8, 2)


def model(**options: object) -> nn.Model:
    layer = nn.Sequential(nn.Dense(16), nn.Tanh(), nn.Dense(2))
    return nn.Model(layer, (4,), loss=nn.MeanSquaredError(), seed=3, **options)  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize("backend", ["llvm", "reference"])
def test_predictions_of_many_threads_and_sizes_are_their_own(backend: str) -> None:
    net = model(backend=backend)
    inputs = [np.random.default_rng(seed).standard_normal((3 + seed % 2, 4)).astype(np.float32) for seed in range(4)]
    wanted = [net.predict(x).tobytes() for x in inputs]
    wrong: list[int] = []

    def ask(number: int) -> None:
        for _ in range(100):
            if net.predict(inputs[number]).tobytes() != wanted[number]:
                wrong.append(number)

    in_threads(*(lambda number=number: ask(number) for number in range(4)))  # type: ignore[misc]  # bound by default
    assert wrong == []


def test_updates_of_two_threads_follow_each_other() -> None:
    one, two = model(backend="reference"), model(backend="reference")
    for _ in range(40):
        two.train_on_batch(X, Y)

    def train() -> None:
        for _ in range(20):
            one.train_on_batch(X, Y)

    in_threads(train, train)
    assert one.updates == 40
    assert one.predict(X).tobytes() == two.predict(X).tobytes()


def test_a_model_that_two_threads_use_first_is_made_once() -> None:
    net = model(backend="reference")
    found: list[object] = []
    in_threads(*[lambda: found.append(net.parameters)] * 4, *[lambda: found.append(net.prediction_step(2))] * 4)
    assert len({id(one) for one in found}) == 2


def test_results_of_a_step_are_the_caller_s() -> None:
    step = model(backend="reference").prediction_step(8)
    first = step.run(X)[0]
    before = first.tobytes()
    step.run(X + 1)
    assert first.tobytes() == before


def test_all_steps_of_a_model_share_one_arena() -> None:
    net = model(backend="reference")
    net.train_on_batch(X, Y)
    net.predict(X[:3])
    net.evaluate(X, Y, batch_size=5)
    net.predict(np.zeros((300, 4), np.float32))
    steps = [net.training_step(8), net.prediction_step(3), net.evaluation_step(5), net.prediction_step(256)]
    largest = max(step.compiled.memory().arena for step in steps)
    stated = net.memory(3, "predict")
    assert stated.arena == largest
    assert stated.total == largest + stated.weights
    assert "share an arena of" in str(stated)
    for step in steps:
        step.compiled.allocate()
    assert len({id(step.compiled._storages) for step in steps}) == 1
    assert net._programs.arena.nbytes == largest


def test_an_arena_that_has_become_too_small_is_given_back() -> None:
    net = model(backend="reference")
    small = net.predict(X[:3])
    left = weakref.ref(net._programs.arena.storages["cpu:0"])
    net.predict(np.zeros((256, 4), np.float32))
    gc.collect()
    assert left() is None
    assert net.predict(X[:3]).tobytes() == small.tobytes()


def test_the_programs_of_a_model_are_bounded_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "kept_programs", 2)
    net = model(backend="reference")
    big, small = net.prediction_step(64), net.prediction_step(1)
    assert net.prediction_step(64) is big
    net.prediction_step(2)
    assert net.prediction_step(64) is big
    assert net.prediction_step(1) is not small
    assert (net.memory(1, "predict").programs, net.memory(1, "predict").arena) == (2, big.compiled.memory().arena)
    net.prediction_step(2)
    net.prediction_step(1)
    assert net.memory(1, "predict").arena < big.compiled.memory().arena
    assert big.run(np.zeros((64, 4)))[0].shape == (64, 2)


def test_many_batch_sizes_stay_within_the_budget_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    net = model(backend="reference")
    one = net.memory(1, "predict").step.program
    monkeypatch.setattr(SETTINGS, "kept_bytes", 5 * one)
    running = net.prediction_step(64)
    for size in range(1, 41):
        assert net.prediction_step(size).run(np.zeros((size, 4)))[0].shape == (size, 2)
        memory = net.memory(size, "predict")
        assert memory.kept_bytes <= 5 * one
    assert (memory.programs, memory.arena) == (5, memory.step.arena)
    assert running.run(np.zeros((64, 4)))[0].shape == (64, 2)
    monkeypatch.setattr(SETTINGS, "kept_bytes", 0)
    net.train_on_batch(X, Y)
    assert net.memory(len(X)).programs == 1


def test_a_model_that_shares_weights_predicts_beside_the_other() -> None:
    net = model()
    other = net.share()
    wanted = net.predict(X).tobytes()
    found: list[bytes] = []
    in_threads(*[lambda: found.append(net.predict(X).tobytes()), lambda: found.append(other.predict(X).tobytes())] * 2)
    assert found == [wanted] * 4
    assert net.prediction_step(8).compiled.tensor is not other.prediction_step(8).compiled.tensor


def test_copies_and_states_are_those_between_two_updates() -> None:
    """Both weights of this model change by the same at each update, so a copy in the midst of one would show."""
    net = nn.Model(nn.Parallel(nn.Dense(4, bias=False), nn.Dense(4, bias=False)), (4,), loss=nn.MeanSquaredError())
    zeros = {path: np.zeros(tensor.shape, np.float32) for path, tensor in net.parameters.items()}
    net.load_state_dict(zeros)
    stop, torn = threading.Event(), []

    def train() -> None:
        while not stop.is_set():
            net.train_on_batch(X, np.ones((8, 4), np.float32))

    def look() -> None:
        try:
            for number in range(60):
                state = copy.deepcopy(net).state_dict() if number % 2 else net.state_dict()
                one, two = state.values()
                if one.tobytes() != two.tobytes():
                    torn.append(number)
        finally:
            stop.set()

    in_threads(train, look)
    assert torn == []
    assert net.updates > 0
