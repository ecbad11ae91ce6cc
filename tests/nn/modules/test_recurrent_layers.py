from __future__ import annotations

import pickle

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.core.values.dtype import BOOL
from nnc.errors import ArgumentError, AttributeValueError, ShapeError, UsageError
from nnc.nn import LSTM, Model
from nnc.nn.modules.recurrent_layers import Recurrent


def test_layers_feed_each_other() -> None:
    model = Model(LSTM(4, layers=2), (5, 3), backend="reference")
    shapes = {path: tensor.shape for path, tensor in model.parameters.items()}
    assert shapes == {
        "0.input_weight": (3, 16),
        "0.state_weight": (4, 16),
        "0.bias": (16,),
        "1.input_weight": (4, 16),
        "1.state_weight": (4, 16),
        "1.bias": (16,),
    }
    assert model.predict(np.ones((2, 5, 3), np.float32)).shape == (2, 5, 4)


def test_an_example_depends_on_no_other_and_a_step_on_no_later_one() -> None:
    model = Model(LSTM(4), (5, 3), backend="reference")
    x = np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32)
    changed = x.copy()
    changed[1, 3:] += 1.0
    one, other = model.predict(x), model.predict(changed)
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1, :3], other[1, :3])
    assert not np.array_equal(one[1, 3:], other[1, 3:])


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(AttributeValueError, match="units=0"):
        LSTM(0)
    with pytest.raises(ShapeError, match="batch, steps, features"):
        Model(LSTM(4), (5,))


KINDS = (nn.RNN, nn.GRU, nn.LSTM)
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((3, 6, 4)).astype(np.float32)
# The real steps of three examples: some with holes, one without any.
MASK = np.array([[1, 0, 1, 1, 0, 1], [0, 0, 1, 0, 1, 0], [0, 0, 0, 0, 0, 0]], bool)


def with_states(layer: Recurrent, steps: int, backend: str = "reference", mask: bool = False) -> Model:
    """Of the layer with a mask and first states, outputs and last states."""
    shape = (layer.layers * (1 + layer.bidirectional), layer.units)
    inputs = [nn.Input((steps, 4)), *([nn.Input((steps,), BOOL)] if mask else [])]
    inputs += [nn.Input(shape) for _ in range(layer.states)]
    value = layer(*inputs, name="memory")
    outputs = [value[index] for index in range(1 + layer.states)]
    losses = [nn.MeanSquaredError() for _ in outputs]
    return Model(nn.Functional(inputs, outputs), loss=losses, backend=backend)


def first_states(layer: Recurrent) -> list[np.ndarray]:
    shape = (3, layer.layers * (1 + layer.bidirectional), layer.units)
    return [RANDOM.standard_normal(shape).astype(np.float32) for _ in range(layer.states)]


@pytest.mark.parametrize("backend", ["reference", "llvm"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_masked_sequence_gives_what_its_real_steps_give_alone(kind: type[Recurrent], backend: str) -> None:
    layer = kind(5, layers=2, bidirectional=True, return_state=True)
    masked, first = with_states(layer, 6, backend, mask=True), first_states(layer)
    x = np.where(MASK[..., None], X, np.float32(np.nan))
    y, *last = masked.predict_all((x, MASK, *first))
    for row, real in enumerate(MASK):
        assert not y[row, ~real].any()
        if not real.any():
            wanted = [y[row : row + 1, real], *(state[row : row + 1] for state in first)]
        else:
            alone = with_states(layer, int(real.sum()), backend)
            alone.load_state_dict(masked.state_dict())
            wanted = list(alone.predict_all((X[row : row + 1, real], *(state[row : row + 1] for state in first))))
        np.testing.assert_allclose(y[row, real], wanted[0][0], rtol=1e-5, atol=1e-6)
        for found, state in zip(last, wanted[1:], strict=True):
            np.testing.assert_allclose(found[row], state[0], rtol=1e-5, atol=1e-6)


@pytest.mark.turns(5)
@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_at_masked_steps_reaches_no_gradient(kind: type[Recurrent]) -> None:
    layer = kind(3, layers=2, bidirectional=True, return_state=True)
    first, weights = first_states(layer), []
    for filling in (0.0, np.nan):
        model = with_states(layer, 6, mask=True)
        x = np.where(MASK[..., None], X, np.float32(filling))
        model.train_on_batch((x, MASK, *first), tuple(np.ones((3, *spec.shape)) for spec in model.outputs))
        weights.append(model.state_dict())
    for path, array in weights[0].items():
        np.testing.assert_array_equal(array, weights[1][path])


@pytest.mark.parametrize("kind", KINDS)
def test_two_halves_with_states_handed_on_are_the_whole(kind: type[Recurrent]) -> None:
    layer = kind(5, layers=2, return_state=True)
    whole, half, first = with_states(layer, 6), with_states(layer, 3), first_states(layer)
    half.load_state_dict(whole.state_dict())
    begun = half.predict_all((X[:, :3], *first))
    ended = half.predict_all((X[:, 3:], *begun[1:]))
    wanted = whole.predict_all((X, *first))
    np.testing.assert_allclose(np.concatenate([begun[0], ended[0]], 1), wanted[0], rtol=1e-5, atol=1e-6)
    for one, other in zip(ended[1:], wanted[1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_second_direction_reads_from_the_end(kind: type[Recurrent]) -> None:
    both, one = Model(kind(5, bidirectional=True), (6, 4)), Model(kind(5), (6, 4))
    state = both.state_dict()
    one.load_state_dict({path: state[path.replace("0.", "0.reverse.")] for path in one.state_dict()})
    np.testing.assert_allclose(both.predict(X)[:, :, 5:], one.predict(X[:, ::-1])[:, ::-1], rtol=1e-5, atol=1e-6)
    ends = Model(kind(5, bidirectional=True, return_sequences=False), (6, 4))
    ends.load_state_dict(state)
    y = both.predict(X)
    np.testing.assert_array_equal(ends.predict(X), np.concatenate([y[:, -1, :5], y[:, 0, 5:]], 1))


def test_a_plain_recurrence_may_be_rectified() -> None:
    assert (Model(nn.RNN(5, activation="relu"), (6, 4)).predict(X) >= 0.0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_masks_keep_batches_of_any_size_open(kind: type[Recurrent]) -> None:
    inputs = [nn.Input((6, 4)), nn.Input((6,), BOOL)]
    net = nn.Functional(inputs, [kind(5, bidirectional=True)(*inputs)])
    assert Model(net, loss=nn.MeanSquaredError()).padding() == ""


def test_what_one_layer_hands_to_the_next_is_dropped_in_training_alone() -> None:
    plain, dropping = Model(nn.GRU(5, layers=2), (6, 4)), Model(nn.GRU(5, layers=2, dropout=0.5), (6, 4))
    np.testing.assert_array_equal(plain.predict(X), dropping.predict(X))
    target = np.zeros((3, 6), np.int32)
    assert plain.train_on_batch(X, target) != dropping.train_on_batch(X, target)


def test_names_of_directions_and_of_two_biases_are_pytorch_s() -> None:
    model = Model(nn.GRU(3, layers=2, bidirectional=True), (6, 4))
    theirs = nn.torch_state_dict(model)
    parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    assert set(theirs) == {f"{part}_l{n}{way}" for part in parts for n in (0, 1) for way in ("", "_reverse")}
    assert theirs["weight_ih_l1_reverse"].shape == (9, 6)
    theirs["bias_hh_l1_reverse"] += 1
    nn.load_torch_state_dict(model, theirs)
    assert model.state_dict()["1.reverse.state_bias"].all()
    assert not model.state_dict()["1.reverse.bias"].any()


def test_inputs_beside_the_sequence_are_a_mask_and_all_first_states() -> None:
    x, state = nn.Input((6, 4)), nn.Input((1, 5))
    for layer, inputs, told in (
        (nn.LSTM(5), (x, state), "2 first states or none"),
        (nn.GRU(5), (x, nn.Input((5,), BOOL)), r"need a mask \[1, 6\]"),
        (nn.GRU(5, layers=2), (x, state), "layers · directions"),
        (nn.RNN(5), (x, state, state), "1 first states or none"),
    ):
        with pytest.raises(UsageError, match=told):
            Model(nn.Functional([x, *dict.fromkeys(inputs[1:])], [layer(*inputs)]))
    with pytest.raises(ArgumentError, match="activation='gelu'"):
        nn.RNN(5, activation="gelu")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="dropout=1"):
        nn.LSTM(5, dropout=1.0)


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_errors_name_the_class_that_was_called(name: str) -> None:
    make = getattr(nn, name)
    for wrong in (
        lambda: make(3, 4, num_layers="a"),
        lambda: make(3, 4, foo=1),
        lambda: make(3, 4)(nnc.ones((2, 5, 7))),
    ):
        with pytest.raises(nnc.errors.UsageError, match=rf"^{name}: got ") as caught:
            wrong()
        assert "Sized" not in str(caught.value)
    layer = make(3, 4)
    assert repr(pickle.loads(pickle.dumps(layer))) == repr(layer)
