"""Layers that are told the sizes of their inputs, as PyTorch has them, beside ours that find them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.errors import ArgumentError, ShapeError

DRAW = np.random.default_rng(0)
X = DRAW.standard_normal((2, 5, 3)).astype(np.float32)


def twin_of(kind: str, sized: Any) -> nn.Layer:
    """Our layer that finds its size, with the weights of the sized one."""
    ours: nn.Layer = getattr(nn, kind)(4, layers=2, bidirectional=True, return_state=True)
    ours(X)
    state = sized.state_dict()
    values = {}
    for path in ours.state_dict():
        layer, _, name = path.partition(".")
        reverse, name = ("_reverse", name.removeprefix("reverse.")) if name.startswith("reverse.") else ("", name)
        end = f"l{layer}{reverse}"
        match name:
            case "input_weight":
                values[path] = state[f"weight_ih_{end}"].T
            case "state_weight":
                values[path] = state[f"weight_hh_{end}"].T
            case "bias":
                both = 0.0 if kind == "GRU" else state[f"bias_hh_{end}"]
                values[path] = state[f"bias_ih_{end}"] + both
            case _:
                values[path] = state[f"bias_hh_{end}"]
    ours.load_state_dict(values)
    return ours


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_are_those_that_find_their_size(kind: str) -> None:
    sized = getattr(nn, kind)(3, 4, num_layers=2, batch_first=True, bidirectional=True)
    assert isinstance(sized, getattr(nn, kind))
    assert not isinstance(nn.Dense(2), getattr(nn, kind))
    y, states = sized(nnc.tensor(X))
    wanted, *last = twin_of(kind, sized)(X)
    np.testing.assert_allclose(y.numpy(), wanted.numpy(), atol=1e-6)
    for state, end in zip(states if kind == "LSTM" else (states,), last, strict=True):
        np.testing.assert_allclose(state.numpy(), end.numpy().swapaxes(0, 1), atol=1e-6)
    whole, _ = getattr(nn, kind)(3, 4)(nnc.tensor(X.swapaxes(0, 1)))
    assert whole.shape == (5, 2, 4)


def test_states_go_on_and_an_example_stands_alone() -> None:
    layer = nn.LSTM(3, 4, batch_first=True)
    y, _ = layer(nnc.tensor(X))
    first, states = layer(nnc.tensor(X[:, :2]))
    second, _ = layer(nnc.tensor(X[:, 2:]), states)
    np.testing.assert_allclose(np.concatenate([first.numpy(), second.numpy()], 1), y.numpy(), atol=1e-6)
    alone, (h, _) = layer(nnc.tensor(X[0]))
    assert h.shape == (1, 4)
    np.testing.assert_allclose(alone.numpy(), y.numpy()[0], atol=1e-6)


def test_packed_sequences_end_where_they_end() -> None:
    layer, lengths = nn.GRU(3, 4, batch_first=True, bidirectional=True), [5, 2]
    packed = nn.utils.rnn.pack_padded_sequence(nnc.tensor(X), lengths, batch_first=True)
    y, h = layer(packed)
    padded, sizes = nn.utils.rnn.pad_packed_sequence(y, batch_first=True)
    assert padded.shape == (2, 5, 8)
    assert sizes.tolist() == lengths
    short, last = layer(nnc.tensor(X[1:, :2]))
    np.testing.assert_allclose(padded.numpy()[1, :2], short.numpy()[0], atol=1e-6)
    np.testing.assert_allclose(h.numpy()[:, 1], last.numpy()[:, 0], atol=1e-6)
    assert not padded.numpy()[1, 2:].any()


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm, self.norm = nn.Embedding(9, 3), nn.LSTM(3, 4, batch_first=True), nn.LayerNorm(4)

    def forward(self, x: Any, state: Any = None) -> Any:
        y, state = self.lstm(self.embed(x), state)
        return {"scores": self.norm(y), "state": state, "loss": None}


def test_modules_take_and_give_containers_in_every_world() -> None:
    net, tokens = Tagger(), nnc.tensor(np.array([[1, 2, 3]]))
    given = net(tokens)
    assert given["loss"] is None
    assert given["state"][0].shape == (1, 1, 4)
    again = net(tokens, given["state"])
    traced = nnc.compile(lambda tokens, state: net(tokens, state)["scores"])(tokens, given["state"])
    np.testing.assert_allclose(traced.numpy(), again["scores"].numpy(), atol=1e-6)
    model = nn.Model(net, (3,), input_dtype=nnc.i32)
    scores, h, c = model.predict_all(tokens.numpy().astype(np.int32))
    np.testing.assert_allclose(scores, given["scores"].numpy(), atol=1e-6)
    np.testing.assert_allclose([h, c], [state.numpy() for state in given["state"]], atol=1e-6)
    assert len(list(net.parameters())) == 7
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        np.testing.assert_array_equal(other(tokens)["scores"].numpy(), given["scores"].numpy())


def test_attention_is_the_formula_and_masks_hide() -> None:
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    x = nnc.tensor(DRAW.standard_normal((2, 5, 4)).astype(np.float32))
    hidden = nnc.triu(nnc.ones(5, 5), 1).bool()
    y, weights = attention(x, x, x, attn_mask=hidden)
    fused, nothing = attention(x, x, x, attn_mask=hidden, need_weights=False)
    causal, _ = attention(x, x, x, is_causal=True, need_weights=False)
    assert nothing is None
    assert not weights.numpy()[:, hidden.numpy()].any()
    for other in (fused, causal):
        np.testing.assert_allclose(other.numpy(), y.numpy(), atol=1e-6)
    padding = nnc.tensor(np.array([[False] * 5, [False] * 3 + [True] * 2]))
    _, weights = attention(x, x, x, key_padding_mask=padding, average_attn_weights=False)
    assert weights.shape == (2, 2, 5, 5)
    assert not weights.numpy()[1, :, :, 3:].any()
    np.testing.assert_allclose(weights.numpy().sum(-1), 1.0, atol=1e-6)


def test_transformers_train_and_their_layers_are_copies() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    encoder = nn.TransformerEncoder(layer, num_layers=2)
    assert len(list(encoder.parameters())) == 2 * len(list(layer.parameters())) == 24
    x = nnc.tensor(DRAW.standard_normal((2, 5, 4)).astype(np.float32))
    (encoder(x) * x).sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())
    eager = encoder.eval()(x).numpy()
    np.testing.assert_allclose(nn.Model(encoder, (5, 4)).predict(x.numpy()), eager, atol=1e-5)
    model = nn.Transformer(4, 2, 1, 1, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert model(nnc.zeros((6, 2, 4)), nnc.zeros((3, 2, 4)), tgt_mask=mask).shape == (3, 2, 4)


def test_norms_and_tables_have_their_tensors_from_the_start() -> None:
    norm, table = nn.LayerNorm((2, 3)), nn.Embedding(5, 3, padding_idx=1)
    assert norm.weight.shape == norm.bias.shape == (2, 3)
    assert not norm.bias.numpy().any()
    assert nn.LayerNorm(3, bias=False) == nn.LayerNorm(3, has_bias=False)  # type: ignore[call-arg]  # our field
    assert not table.weight.numpy()[1].any()
    assert table.weight.numpy()[0].any()
    table(nnc.tensor(np.array([0, 1, 1]))).sum().backward()
    weight = next(iter(table.parameters()))
    assert weight.grad is not None
    assert not weight.grad.numpy()[1].any()
    assert weight.grad.numpy()[0].all()
    images = DRAW.standard_normal((2, 4, 3, 3)).astype(np.float32)
    first = nn.GroupNorm(2, 4)(images).numpy()
    last = nn.GroupNorm(2)(images.transpose(0, 2, 3, 1)).numpy()
    np.testing.assert_allclose(first, last.transpose(0, 3, 1, 2), atol=1e-6)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM", "MultiheadAttention", "LayerNorm", "Embedding"])
def test_pytorch_s_tensors_go_both_ways(kind: str) -> None:
    sizes = (4, 2)[: 1 if kind == "LayerNorm" else 2]
    layer, other = getattr(nn, kind)(*sizes), getattr(nn, kind)(*sizes)
    theirs = nn.torch_state_dict(layer)
    if kind == "LSTM":
        assert {name: value.shape for name, value in theirs.items()} == {
            "weight_ih_l0": (8, 4), "weight_hh_l0": (8, 2), "bias_ih_l0": (8,), "bias_hh_l0": (8,),
        }  # fmt: skip
    nn.load_torch_state_dict(other, theirs)
    for path, value in layer.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[path], value)


def test_refusals_say_the_sizes() -> None:
    with pytest.raises(ShapeError, match=r"need \[steps, batch, features\] of 3 features"):
        nn.LSTM(3, 4)(nnc.ones((5, 2, 7)))
    with pytest.raises(ShapeError, match=r"layers · directions, batch, units"):
        nn.GRU(3, 4)(nnc.ones((5, 2, 3)), nnc.ones((2, 2, 4)))
    with pytest.raises(ShapeError, match=r"need \[4\] as its last sizes"):
        nn.LayerNorm(4)(nnc.ones((2, 3)))
    with pytest.raises(ArgumentError, match="features a multiple of heads"):
        nn.MultiheadAttention(5, 2)
    with pytest.raises(ArgumentError, match="padding_idx=7"):
        nn.Embedding(5, 3, padding_idx=7)
