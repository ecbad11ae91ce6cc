"""Functional composition: several inputs and outputs, layers applied twice, functions as layers."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

from nnc import nn, ops
from nnc.core.values.dtype import I32
from nnc.errors import ArgumentError, ArityError, ShapeError, UsageError
from nnc.nn.data import Batches, Examples

RANDOM = np.random.default_rng(0)
A = RANDOM.standard_normal((10, 4)).astype(np.float32)
B = RANDOM.standard_normal((10, 3)).astype(np.float32)
Y = RANDOM.standard_normal((10, 2)).astype(np.float32)
CLASSES = RANDOM.integers(0, 2, 10)


def two_by_two(backend: str = "reference", **options: object) -> nn.Model:
    """Two inputs, two outputs, and a layer that both go through."""
    a, b = nn.Input((4,)), nn.Input((3,))
    shared, add = nn.Dense(5), nn.Lambda(ops.add)
    left, right = shared(nn.Dense(6)(a, name="left"), name="shared"), shared(nn.Dense(6)(b, name="right"))
    both = add(left, right)
    net = nn.Functional([a, b], [nn.Dense(2)(both, name="numbers"), nn.Dense(2)(both, name="classes")])
    losses = [nn.MeanSquaredError(), nn.SoftmaxCrossEntropy()]
    return nn.Model(net, loss=losses, seed=1, backend=backend, **options)  # type: ignore[arg-type]  # by name


def test_a_layer_applied_twice_has_one_set_of_parameters() -> None:
    paths = {path: tensor.shape for path, tensor in two_by_two().parameters.items()}
    assert paths == {
        "left.weight": (4, 6),
        "left.bias": (6,),
        "shared.weight": (6, 5),
        "shared.bias": (5,),
        "right.weight": (3, 6),
        "right.bias": (6,),
        "numbers.weight": (5, 2),
        "numbers.bias": (2,),
        "classes.weight": (5, 2),
        "classes.bias": (2,),
    }


def test_outputs_are_those_of_numpy() -> None:
    net = two_by_two()
    w = net.state_dict()

    def dense(name: str, x: np.ndarray) -> np.ndarray:
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    both = dense("shared", dense("left", A)) + dense("shared", dense("right", B))
    numbers, classes = net.predict_all((A, B))
    np.testing.assert_allclose(numbers, dense("numbers", both), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(classes, dense("classes", both), rtol=1e-5, atol=1e-5)
    with pytest.raises(ArityError, match=r"2 outputs.*predict_all"):
        net.predict((A, B))


@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_the_sum_of_losses_is_learnt_from_arrays_batches_and_pairs(backend: str) -> None:
    net = two_by_two(backend, optimizer=nn.Adam(0.05))
    first = net.evaluate((A, B), (Y, CLASSES)).loss
    history = net.fit((A, B), (Y, CLASSES), epochs=30, batch_size=4, validation_data=((A, B), (Y, CLASSES)))
    assert history["val_loss"][-1] < 0.5 * first
    batches = Batches(Examples("both", (A, B), (Y, CLASSES)), 4)
    assert net.fit(batches, epochs=2).complete
    assert net.fit([((A, B), (Y, CLASSES))], metrics=["mean_squared_error"]).complete
    assert repr(batches.next_batch().inputs[1].shape) == "(4, 3)"


def test_what_does_not_fit_is_told() -> None:
    net = two_by_two()
    with pytest.raises(ArityError, match="a tuple of 2"):
        net.predict_all(A)
    with pytest.raises(ShapeError, match="inputs of 10 and of 9 examples"):
        net.predict_all((A, B[:9]))
    with pytest.raises(ShapeError, match=r"\[n, 3\]"):
        net.train_on_batch((A, A), (Y, CLASSES))
    with pytest.raises(ArityError, match="got 3 losses; need 2, one for each output"):
        nn.Model(net.layer, loss=[nn.MeanSquaredError()] * 3)


def test_compositions_that_make_no_sense_are_told() -> None:
    a, b = nn.Input((4,)), nn.Input((4,))
    with pytest.raises(UsageError, match="beside inputs"):
        nn.Functional([a], [nn.Dense(2)(b)])
    with pytest.raises(UsageError, match="two layers of name 'x'"):
        nn.Functional([a], [nn.Dense(2)(nn.Dense(2)(a, name="x"), name="x")])
    shared = nn.Dense(4)
    with pytest.raises(UsageError, match="'x' and 'y'"):
        nn.Functional([a], [shared(shared(a, name="x"), name="y")])
    with pytest.raises(ArgumentError, match="inputs of a composition alone"):
        nn.Dense(2)(A, a)
    with pytest.raises(ArityError, match="one input"):
        nn.Model(nn.Functional([a, b], [nn.Dense(2)(a, b)]))
    with pytest.raises(ArityError, match="output 1"):
        nn.Model(nn.Functional([a], [nn.Dense(2)(a)[1]]))
    with pytest.raises(ArityError, match="no input_shape"):
        nn.Model(nn.Dense(2))


def test_a_function_may_have_several_outputs_and_inputs_their_types() -> None:
    tokens, x = nn.Input((3,), I32), nn.Input((3, 4))
    parts = nn.Lambda(lambda y: (ops.slice_axis(y, 2, 0, 2), ops.slice_axis(y, 2, 2, 4)))(x)
    table = nn.Embedding(7, 2)(tokens)
    net = nn.Functional([tokens, x], [nn.Lambda(ops.add)(table, parts[1]), parts[0]])
    model = nn.Model(net, loss=[nn.MeanSquaredError(), nn.MeanSquaredError()])
    values = RANDOM.standard_normal((5, 3, 4)).astype(np.float32)
    added, first = model.predict_all((np.ones((5, 3), np.int64), values))
    np.testing.assert_array_equal(first, values[..., :2])
    np.testing.assert_allclose(added, values[..., 2:] + model.state_dict()["0.weight"][1], rtol=1e-6)


def test_a_composition_is_a_layer_of_others() -> None:
    a = nn.Input((4,))
    hidden = nn.Dense(4)(a, name="hidden")
    block = nn.Functional([a], [nn.Lambda(ops.add)(hidden, a)])
    net = nn.Sequential(block, nn.ReLU(), block)
    model = nn.Model(net, (4,), loss=nn.MeanSquaredError())
    assert sorted(model.parameters) == ["0.hidden.bias", "0.hidden.weight", "2.hidden.bias", "2.hidden.weight"]
    assert [row.name for row in model.summary()] == ["0", "1", "2"]


def test_copies_pickles_and_checkpoints(tmp_path: Path) -> None:
    def net(units: int = 5) -> nn.Model:
        a, b = nn.Input((4,)), nn.Input((3,))
        values = [nn.Dense(units)(a), nn.Dense(units)(b)]
        return nn.Model(nn.Functional([a, b], values), loss=[nn.MeanSquaredError()] * 2, backend="reference")

    model = net()
    wanted = model.predict_all((A, B))[1].tobytes()
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.predict_all((A, B))[1].tobytes() == wanted
    batches = Batches(Examples("both", (A, B), (A, B)), 4)
    nn.save_checkpoint(tmp_path / "c", model, nn.position_of(model, batches))
    nn.load_checkpoint(tmp_path / "c", net())
    with pytest.raises(UsageError, match="another model"):
        nn.load_checkpoint(tmp_path / "c", net(6))


def test_a_long_chain_needs_no_recursion() -> None:
    a = nn.Input((2,))
    value, relu = nn.ReLU()(a), nn.ReLU()
    for _ in range(3000):
        value = relu(value)
    assert len(nn.Functional([a], [value]).calls) == 3001


def test_one_input_and_one_output_stand_for_themselves() -> None:
    x = nn.Input((3,))
    net = nn.Functional(x, nn.Dense(2)(x))
    assert nn.Model(net).predict(np.ones((4, 3))).shape == (4, 2)
