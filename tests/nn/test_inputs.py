"""What training and evaluation refuse: nothing that a model cannot learn from gets as far as its memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnc import nn
from nnc.core.values.dtype import F64, I32
from nnc.errors import ArgumentError, DataError, DTypeError, NotFiniteError, ShapeError, UsageError
from nnc.nn.data import Batches, DataSet, Examples

X = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
LABELS = np.arange(8) % 3


def classifier(**options: object) -> nn.Model:
    return nn.Model(nn.Dense(3), (4,), backend="reference", **options)


def regressor(units: int = 1, **options: object) -> nn.Model:
    return nn.Model(nn.Dense(units), (4,), loss=nn.MeanSquaredError(), backend="reference", **options)


def changed(row: int, value: int) -> np.ndarray:
    labels = LABELS.copy()
    labels[row] = value
    return labels


CALLS: dict[str, Callable[[nn.Model, object, object], object]] = {
    "train_on_batch": lambda model, x, y: model.train_on_batch(x, y),
    "evaluate": lambda model, x, y: model.evaluate(x, y),
    "fit": lambda model, x, y: model.fit(x, y, epochs=1, batch_size=3),
}
BAD: tuple[tuple[object, object, type[Exception], str], ...] = (
    (X, None, ArgumentError, "target=None; need a target for each example"),
    (X, np.arange(20) % 3, ShapeError, "8 examples and 20 targets"),
    (X, LABELS[:5], ShapeError, "8 examples and 5 targets"),
    (X, changed(5, 3), DataError, r"label 3 in row 5; need labels from 0 to 2, one for each of the 3 classes"),
    (X, changed(2, -1), DataError, "label -1 in row 2"),
    (X, LABELS + 1, DataError, "label 3 in row 2; .*Fix: subtract 1"),
    (X, LABELS + 2**32, DataError, "label 4294967296 in row 0"),
    (X, changed(7, 2**63 - 1).astype(np.uint64), DataError, "label 9223372036854775807 in row 7"),
    (X, LABELS.astype(np.float32), DTypeError, "labels of type float32; need whole numbers"),
    (X, np.array(["a"] * 8), DTypeError, "labels of type"),
    (X, 3, ShapeError, "targets that are a single value"),
    (X, LABELS.reshape(4, 2), ShapeError, "8 examples and 4 targets"),
    (X, np.stack([LABELS, LABELS], 1), ShapeError, r"targets \[8, 2\] for outputs \[8, 3\]; need targets \[8\]"),
    (X[:, :3], LABELS, ShapeError, r"inputs \[8, 3\]; need \[n, 4\]"),
    (X[:, :1], LABELS, ShapeError, r"inputs \[8, 1\]; need \[n, 4\]"),
    (1.0, LABELS, ShapeError, "inputs that are a single value"),
    ([[1.0], [2.0, 3.0]], [0, 1], ShapeError, "rows of different lengths"),
)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("x", "y", "error", "told"), BAD)
def test_what_cannot_be_learnt_from_is_an_error_and_changes_nothing(
    call: str, x: object, y: object, error: type[Exception], told: str
) -> None:
    model = classifier()
    before = model.state_dict()
    with pytest.raises(error, match=told):
        CALLS[call](model, x, y)
    assert model.updates == 0
    for path, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[path])


@pytest.mark.parametrize("call", CALLS)
def test_no_examples_are_an_error(call: str) -> None:
    with pytest.raises((DataError, ShapeError)):
        CALLS[call](classifier(), X[:0], LABELS[:0])


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int16, np.uint64])
def test_labels_may_be_whole_numbers_of_any_width(kind: type[np.generic]) -> None:
    model, twin = classifier(), classifier()
    assert model.train_on_batch(X, LABELS.astype(kind)) == twin.train_on_batch(X, LABELS.astype(np.int32))


def test_labels_of_a_data_set_are_looked_at_when_it_is_made() -> None:
    with pytest.raises(DataError, match="data set d: got label 3 in row 1"):
        DataSet("d", X[:2], np.array([0, 3]), ("a", "b"))
    with pytest.raises(DTypeError, match="float64"):
        DataSet("d", X[:2], np.array([0.0, 1.0]), ("a", "b"))
    with pytest.raises(ArgumentError, match="inputs=a list"):
        DataSet("d", [[1.0]], np.array([0]), ("a",))


def test_a_label_of_many_in_a_row_is_named_by_its_place() -> None:
    model = nn.Model(nn.Dense(3), (2, 4), backend="reference")
    with pytest.raises(DataError, match=r"label 9 in row 1 at \[0\]"):
        model.train_on_batch(X.reshape(4, 2, 4), np.array([[0, 1], [9, 2], [0, 1], [0, 1]]))


# ---- fit with arrays


def test_fit_takes_arrays() -> None:
    model = classifier(optimizer=nn.Adam(0.05))
    first = model.evaluate(X, LABELS).loss
    assert model.fit(X, LABELS, batch_size=3, epochs=40).complete
    assert model.updates == 3 * 40
    assert model.evaluate(X, LABELS).loss < first / 2


def test_fit_takes_lists_and_a_data_set() -> None:
    one, other = classifier(), classifier()
    one.fit(X.tolist(), LABELS.tolist(), batch_size=4)
    other.fit(DataSet("d", X, LABELS, ("a", "b", "c")), batch_size=4)
    np.testing.assert_array_equal(one.parameters["weight"].numpy(), other.parameters["weight"].numpy())
    assert one.updates == 2


def test_a_second_fit_goes_on_with_another_order() -> None:
    model, twin = classifier(), classifier()
    for one in (model, twin):
        one.fit(X, LABELS, batch_size=3, epochs=2)
        one.fit(X, LABELS, batch_size=3)
    assert model.updates == 9
    np.testing.assert_array_equal(model.parameters["weight"].numpy(), twin.parameters["weight"].numpy())


def test_fit_asks_for_one_source() -> None:
    model, batches = classifier(), Batches(DataSet("d", X, LABELS, ("a", "b", "c")), 4)
    for call in (
        lambda: model.fit(batches, LABELS),
        lambda: model.fit(batches, batch_size=4),
        lambda: model.fit(DataSet("d", X, LABELS, ("a", "b", "c")), LABELS),
    ):
        with pytest.raises(UsageError, match="fit.*Fix: fit"):
            call()
    for options, told in (({"epochs": -1}, "epochs=-1"), ({"batch_size": 0}, "batch_size=0"), ({"epochs": 1.5}, "1.5")):
        with pytest.raises(ArgumentError, match=told):
            model.fit(X, LABELS, **options)
    assert model.updates == 0


# ---- regression


def test_fit_learns_numbers() -> None:
    wanted = X @ np.array([1.0, -2.0, 0.5, 3.0]) + 0.25
    model = regressor(optimizer=nn.Adam(0.1), dtype=F64)
    assert model.fit(X, wanted, batch_size=8, epochs=300).complete
    assert model.evaluate(X, wanted).loss < 1e-3
    np.testing.assert_allclose(model.predict(X)[:, 0], wanted, atol=0.1)


def test_targets_are_of_the_outputs_shape_but_for_ones_at_its_end() -> None:
    model = regressor(2)
    model.train_on_batch(X, np.zeros((8, 2)))
    for shape in ((8,), (8, 1), (8, 3), (8, 2, 2)):
        with pytest.raises(ShapeError, match=r"need targets \[8, 2\]"):
            model.train_on_batch(X, np.zeros(shape))


def test_examples_of_numbers_are_drawn_in_batches() -> None:
    batches = Batches(Examples("numbers", X, X[:, :2]), 3, seed=1)
    for batch in batches:
        np.testing.assert_array_equal(batch.labels, batch.inputs[:, :2])
    with pytest.raises(DataError, match="of the same n"):
        Examples("numbers", X, X[:5])


# ---- numbers that are not finite


def huge() -> nn.Layer:
    return nn.Sequential(nn.Dense(4), nn.BatchNorm(), nn.Dense(1))


@pytest.mark.parametrize("backend", ["llvm", "reference"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_a_guarded_update_that_is_not_finite_changes_nothing(backend: str, bad: float) -> None:
    model = nn.Model(huge(), (4,), loss=nn.MeanSquaredError(), backend=backend, nan_guard=True)
    twin = nn.Model(huge(), (4,), loss=nn.MeanSquaredError(), backend=backend)
    assert model.train_on_batch(X, X[:, 0]) == twin.train_on_batch(X, X[:, 0])
    before = {name: np.array(one.numpy()) for name, one in (model.tensors() | model.states).items()}
    wrong = X.copy()
    wrong[3, 1] = bad
    with pytest.raises(NotFiniteError, match="update 2 of loss (nan|inf|[0-9.e+]+); need finite") as caught:
        model.train_on_batch(wrong, X[:, 0])
    assert caught.value.step == 2
    for name, one in (model.tensors() | model.states).items():
        np.testing.assert_array_equal(one.numpy(), before[name])
    assert model.updates == 1
    assert model.train_on_batch(X, X[:, 0]) == twin.train_on_batch(X, X[:, 0])


def test_without_a_guard_the_loss_tells() -> None:
    loss, _ = regressor().train_on_batch(np.full((2, 4), np.nan), np.zeros(2))
    assert np.isnan(loss)


def test_the_memory_of_a_guard_is_stated() -> None:
    plain, guarded = regressor().memory(8), regressor(nan_guard=True).memory(8)
    assert guarded.step.arena > plain.step.arena


# ---- wrong types


def test_a_model_refuses_what_is_no_part_of_one() -> None:
    dense = nn.Dense(3)
    for make, told in (
        (lambda: nn.Model(nn.Dense, (4,)), r"layer=the class Dense; need a Layer. Fix: make one of it: Dense\(…\)"),
        (lambda: nn.Sequential(dense, nn.ReLU), r"1=the class ReLU; need layers. Fix: make one of it: ReLU\(…\)"),
        (lambda: nn.Model(dense, 4), "input_shape=4; need several of an integer"),
        (lambda: nn.Model(dense, (4,), optimizer="adam"), r"optimizer='adam'; .*Fix: pass Adam\(…\)"),
        (lambda: nn.Model(dense, (4,), loss="mes"), r"loss='mes'; need one of mse, .* did you mean 'mse'"),
        (lambda: nn.Model(dense, (4,), seed=0.5), "seed=0.5; need an integer"),
        (lambda: nn.Model(dense, (4,), dtype="f32"), "dtype='f32'; need a DType"),
        (lambda: nn.Model(dense, (4,), clip_norm=-1.0), "clip_norm=-1.0; need a number > 0"),
        (lambda: nn.Model(dense, (4,), memory_limit=-1), "memory_limit=-1"),
        (lambda: nn.Model(dense, (4,), passes="all"), "passes='all'"),
        (lambda: nn.Model(dense, (4,), backend=None), "backend=None"),
        (lambda: classifier().training_step("4"), "batch='4'"),
        (lambda: Batches(X, 4), "data=a ndarray"),
        (lambda: Batches(Examples("e", X, X), "4"), "size='4'"),
        (lambda: Batches(Examples("e", X, X), 4, seed="1"), "seed='1'"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=told):
            make()


def test_tokens_that_are_no_whole_numbers_are_refused() -> None:
    model = nn.Model(nn.Sequential(nn.Embedding(5, 2), nn.Flatten(), nn.Dense(3)), (4,), input_dtype=I32)
    with pytest.raises(DTypeError, match="round first"):
        model.train_on_batch(X, LABELS)
