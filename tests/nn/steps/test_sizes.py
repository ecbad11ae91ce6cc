"""Models at any batch and length: steps made of what earlier ones were made of, with the bits of one size alone."""

from __future__ import annotations

import copy
import random
import threading
from collections.abc import Callable

import numpy as np
import pytest

from nnc import nn, ops
from nnc.core.values.dtype import BF16, I32
from nnc.errors import MemoryLimitError, NncError, ShapeError, UsageError
from nnc.nn.steps.step_builder import StepBuilder
from nnc.nn.steps.step_graph import StepTemplate, TracedStep
from nnc.nn.zoo import BERT, GPT, lstm_language_model
from nnc.ops.operand import T
from nnc.symbolic.sharing.openings import MOST_UNUSED

Batch = tuple[np.ndarray, np.ndarray]


def images() -> nn.Model:
    layer = nn.Sequential(
        nn.Convolution(16), nn.BatchNorm(), nn.ReLU(), nn.MaxPool(2), nn.Convolution(16), nn.GlobalAveragePool(),
        nn.Dropout(0.2), nn.Dense(3),
    )  # fmt: skip
    return nn.Model(layer, (8, 8, 3), seed=1)


def rows(**options: object) -> nn.Model:
    layer = nn.Sequential(nn.Dense(24), nn.ReLU(), nn.Dropout(0.2), nn.BatchNorm(), nn.Dense(3))
    return nn.Model(layer, (4,), optimizer=nn.Adam(0.01), seed=2, **options)  # type: ignore[arg-type]  # by name


def texts(layer: nn.Layer) -> nn.Model:
    return nn.Model(layer, (nn.UpTo(40),), input_dtype=I32, optimizer=nn.SGD(0.1), seed=3)


def batch_of_images(batch: int, length: int) -> Batch:
    numbers = np.random.default_rng(batch)
    return numbers.standard_normal((batch, 8, 8, 3)).astype(np.float32), numbers.integers(0, 3, batch)


def batch_of_rows(batch: int, length: int) -> Batch:
    numbers = np.random.default_rng(batch)
    return numbers.standard_normal((batch, 4)).astype(np.float32), numbers.integers(0, 3, batch)


def batch_of_texts(batch: int, length: int) -> Batch:
    tokens = np.random.default_rng(length).integers(0, 11, (batch, length))
    return tokens, tokens


CASES: dict[str, tuple[Callable[[], nn.Model], Callable[[int, int], Batch]]] = {
    "images": (images, batch_of_images),
    "rows": (rows, batch_of_rows),
    "rows in bf16": (lambda: rows(precision=BF16), batch_of_rows),
    "guarded": (lambda: rows(nan_guard=True, clip_norm=1.0), batch_of_rows),
    "gpt": (lambda: texts(GPT(11, 40, 8, 1, 2)), batch_of_texts),
    "lstm": (lambda: texts(lstm_language_model(11, 8)), batch_of_texts),
}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether a template served, each time that one was asked."""
    outcomes: list[bool] = []
    at = StepTemplate.at

    def noting(template: StepTemplate, shapes: dict[str, tuple[int, ...]]) -> object:
        draft = at(template, shapes)
        outcomes.append(draft is not None)
        return draft

    monkeypatch.setattr(StepTemplate, "at", noting)
    return outcomes


def bytes_of(model: nn.Model) -> list[bytes]:
    return [tensor.numpy().tobytes() for tensor in (*model.parameters.values(), *model.statistics.values())]


def sizes_of(name: str, count: int) -> list[tuple[int, int]]:
    numbers = random.Random(name)
    return [(5, 7), (6, 9), *[(numbers.randint(1, 40), numbers.randint(1, 40)) for _ in range(count)]]


@pytest.mark.turns(6)
@pytest.mark.parametrize("name", CASES)
def test_updates_at_any_size_have_the_bits_of_a_model_for_that_size_alone(name: str, served: list[bool]) -> None:
    made, batch = CASES[name]
    model = made()
    for pair in sizes_of(name, 5):
        alone = copy.deepcopy(model)
        assert alone.train_on_batch(*batch(*pair)) == model.train_on_batch(*batch(*pair)), pair
        assert bytes_of(alone) == bytes_of(model), pair
    assert sum(served) >= 3, "half of the sizes are served by templates"


@pytest.mark.turns(6)
@pytest.mark.parametrize("name", ["images", "rows", "gpt"])
def test_gradients_that_are_summed_have_them_too(name: str) -> None:
    made, batch = CASES[name]
    model = made()
    for pair in sizes_of(name, 3):
        alone = copy.deepcopy(model)
        for one in (alone, model):
            one.backward(*batch(*pair))
            one.apply_gradients()
        assert bytes_of(alone) == bytes_of(model), pair


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", ["images", "rows", "gpt", "lstm"])
def test_predictions_and_scores_have_them_too(name: str, served: list[bool]) -> None:
    made, batch = CASES[name]
    model = made()
    for pair in sizes_of(name, 6):
        x, y = batch(*pair)
        alone = copy.deepcopy(model)
        assert alone.predict(x).tobytes() == model.predict(x).tobytes(), pair
        metrics = () if name in ("gpt", "lstm") else ("accuracy",)
        assert alone.evaluate(x, y, metrics=metrics) == model.evaluate(x, y, metrics=metrics), pair
    assert sum(served) >= 8


def test_encoders_take_any_length(served: list[bool]) -> None:
    model = texts(BERT(11, 40, 8, 1, 2))
    for pair in ((2, 4), (2, 5), (2, 6), (3, 7), (3, 40)):
        x, _ = batch_of_texts(*pair)
        assert copy.deepcopy(model).predict(x).tobytes() == model.predict(x).tobytes()
    assert any(served)


def test_the_last_smaller_batch_of_an_epoch_trains_as_it_is() -> None:
    x, y = batch_of_rows(50, 0)
    model = rows()
    model.fit(x, y, 16, epochs=2)
    assert {(key.batch, key.padded) for key in model._programs.kept._table} == {(16, False), (2, False)}


def test_memory_of_further_sizes_is_that_of_a_model_for_them(served: list[bool]) -> None:
    model = images()
    for size in (8, 9, 12, 16, 31):
        for kind in ("train", "predict"):
            assert model.memory(size, kind).step.arena == images().memory(size, kind).step.arena
    assert any(served)


def test_memory_of_a_range_is_that_of_its_largest_step() -> None:
    model = texts(GPT(11, 40, 8, 1, 2))
    alone = [texts(GPT(11, 40, 8, 1, 2)).memory(batch, "predict", length) for batch in (1, 3) for length in (5, 9, 13)]
    memory = model.memory(range(1, 4, 2), "predict", range(5, 14, 4))
    assert memory.step.arena == max(one.step.arena for one in alone)
    assert model.memory(range(1, 4), "predict", 13).step.arena == memory.step.arena
    for batch, length in ((range(0), 3), (range(1, 1000), range(1, 1000))):
        with pytest.raises(UsageError, match="memory: got"):
            model.memory(batch, "predict", length)


def test_a_limit_holds_for_all_of_a_range() -> None:
    limit = images().memory(12).step.arena
    model = nn.Model(images().layer, (8, 8, 3), seed=1, memory_limit=limit)
    assert model.memory(range(2, 13)).step.arena <= limit
    with pytest.raises(MemoryLimitError):
        model.memory(range(2, 80, 20))


def reading(x: T) -> T:
    """The size itself, in Python: where a template would serve this size alone."""
    return ops.affine(x, float(len(range(x.shape[0]))))


def test_layers_that_read_the_size_get_it(served: list[bool]) -> None:
    model = nn.Model(nn.Sequential(nn.Lambda(reading), nn.Dense(2)), (4,))
    for size in range(2, 12):
        x, _ = batch_of_rows(size, 0)
        assert copy.deepcopy(model).predict(x).tobytes() == model.predict(x).tobytes()
    # Each serves the size that it is made for, and after some that served nobody else no more are made.
    assert sum(served) == MOST_UNUSED


def even(x: T) -> T:
    return ops.reshape(ops.reshape(x, (x.shape[0] // 2, 2, 4)), (x.shape[0], 4))


def test_a_size_that_a_layer_refuses_is_told_as_for_that_size_alone() -> None:
    model = nn.Model(nn.Lambda(lambda x: even(x) if x.shape[0] > 1 else x), (4,))
    for size in (2, 4, 6, 8):
        assert model.predict(batch_of_rows(size, 0)[0]).shape == (size, 4)
    for one in (model, copy.deepcopy(model)):
        with pytest.raises(NncError, match="reshape"):
            one.predict(batch_of_rows(5, 0)[0])
    with pytest.raises(ShapeError):
        model.predict(np.zeros((3, 5), np.float32))
    assert model.predict(batch_of_rows(10, 0)[0]).shape == (10, 4)


def test_an_error_of_a_layer_that_wants_real_integers_is_no_error() -> None:
    def table(x: T) -> T:
        if type(x.shape[0]) is not int:
            raise TypeError("no integer")
        return x

    model = nn.Model(nn.Sequential(nn.Lambda(table), nn.Dense(2)), (4,))
    for size in (2, 3, 4):
        assert model.predict(batch_of_rows(size, 0)[0]).shape == (size, 2)


def test_threads_that_ask_for_new_sizes_at_once_get_theirs_each_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, made, build = rows(), [], StepBuilder.build
    monkeypatch.setattr(StepBuilder, "build", lambda self, key, *rest: (made.append(key), build(self, key, *rest))[1])
    results: dict[int, np.ndarray] = {}

    def ask(size: int) -> None:
        results[size] = model.predict(batch_of_rows(size, 0)[0])

    threads = [threading.Thread(target=ask, args=(size,)) for size in (*range(2, 12), *range(2, 12))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(key.batch for key in made) == [*range(2, 12)]
    alone = rows()
    for size in range(2, 12):
        assert results[size].tobytes() == alone.predict(batch_of_rows(size, 0)[0]).tobytes()


def test_an_interrupt_while_a_template_is_made_leaves_nothing_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    model, drafted = rows(), TracedStep.drafted
    model.predict(batch_of_rows(3, 0)[0])

    def interrupted(*arguments: object) -> object:
        drafted(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(TracedStep, "drafted", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.predict(batch_of_rows(4, 0)[0])
    monkeypatch.undo()
    for size in (4, 5, 6):
        x, _ = batch_of_rows(size, 0)
        assert model.predict(x).tobytes() == copy.deepcopy(model).predict(x).tobytes()


def test_options_that_are_set_anew_count() -> None:
    model = rows()
    for size in (4, 5, 6):
        model.train_on_batch(*batch_of_rows(size, 0))
    model.clip_norm = 0.001
    model.compile(optimizer=nn.SGD(0.5), loss=nn.SoftmaxCrossEntropy())
    for size in (7, 8):
        alone = copy.deepcopy(model)
        alone.train_on_batch(*batch_of_rows(size, 0))
        model.train_on_batch(*batch_of_rows(size, 0))
        assert bytes_of(alone) == bytes_of(model)
