"""One step of a recurrent network is that of its layer; MLX's layers of said sizes are ours of channels last."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.errors import ArgumentError, NncError, ShapeError

X = nnc.tensor(np.linspace(-1.0, 1.0, 6, dtype=np.float32).reshape(2, 3))


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_cell_is_a_step_of_the_layer(name: str, bias: bool) -> None:
    nnc.seed(0)
    kind: Any = getattr(nn, name)
    layer, cell = kind(3, 4, bias=bias), getattr(nn, f"{name}Cell")(3, 4, bias=bias)
    cell.load_state_dict({path.removesuffix("_l0"): value for path, value in layer.state_dict().items()})
    _, want = layer(X.expand_dims(0))
    np.testing.assert_allclose(np.stack(cell(X)).reshape(-1), np.stack(want).reshape(-1), rtol=1e-5, atol=1e-6)
    states = cell(X, cell(X))
    first = states if name != "LSTM" else states[0]
    alone = cell(X[0], cell(X[0]))
    np.testing.assert_allclose(alone if name != "LSTM" else alone[0], first[0], rtol=1e-5)
    with pytest.raises(ShapeError, match=rf"nn\.{name}Cell\(5, 4\)"):
        cell(nnc.ones((2, 5)))
    with pytest.raises(ShapeError, match="a state"):
        cell(X, (nnc.ones((2, 9)),) * 2 if name == "LSTM" else nnc.ones((2, 9)))


def test_a_decoder_of_cells_trains() -> None:
    nnc.seed(0)
    cell, x = nn.LSTMCell(3, 3), X
    optimizer = nn.optim.Adam(cell.parameters(), lr=0.05)
    losses = []
    for _ in range(30):
        h = c = nnc.zeros((2, 3))
        for _ in range(2):
            h, c = cell(x, (h, c))
        loss = ((h - X) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_batch_norm_of_so_many_channels_is_mlx_s() -> None:
    norm, ours = nn.BatchNorm(3), nn.BatchNorm()
    np.testing.assert_allclose(norm(X), ours(X), rtol=1e-6)
    assert [path for path, _ in norm.named_buffers()] == ["running_mean", "running_var"]
    np.testing.assert_allclose(norm.running_mean, ours.running_mean, rtol=1e-6)
    norm.eval()
    assert norm(X).shape == pickle.loads(pickle.dumps(norm))(X).shape == copy.deepcopy(norm)(X).shape
    with pytest.raises(ShapeError, match=r"nn\.BatchNorm\(\)"):
        norm(nnc.ones((2, 5)))
    assert pickle.loads(pickle.dumps(nn.BatchNorm(0.7))) == nn.BatchNorm(0.7)


def test_attention_of_said_sizes_is_mlx_s() -> None:
    nnc.seed(0)
    attention: Any = nn.MultiHeadAttention(8, 2)
    x = nnc.randn(1, 4, 8)
    additive: Any = nn.MultiHeadAttention.create_additive_causal_mask(4)
    masked = attention(x, x, x, additive)
    np.testing.assert_allclose(attention(x, mask=nnc.tril(nnc.ones((4, 4))).bool()), masked, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(attention(x[:, :2], mask=additive[:2, :2]), masked[:, :2], rtol=1e-4, atol=1e-6)
    assert sorted(path for path, _ in attention.named_parameters())[0] == "key_proj.weight"
    with pytest.raises(ArgumentError, match="multiple of heads"):
        nn.MultiHeadAttention(8, 3)


@pytest.mark.parametrize(
    "mask", [nn.MultiHeadAttention.create_additive_causal_mask, nn.Transformer.generate_square_subsequent_mask]
)
def test_masks_of_no_size_are_refused(mask: Any) -> None:
    for steps, need in ((-1, "every size"), (len, "sequence of integers"), (1.5, "sequence of integers")):
        with pytest.raises(ShapeError, match=need):
            mask(steps)
    with pytest.raises(NncError):
        mask(2**33)
    assert mask(0).shape == (0, 0)


def test_gelu_of_a_formula() -> None:
    assert nn.GELU(approximate="tanh") == nn.GELUTanh()
    assert nn.GELU("none") == nn.GELU() == pickle.loads(pickle.dumps(nn.GELU()))
    with pytest.raises(ArgumentError, match="approximate"):
        nn.GELU(approximate="exact")


def test_layers_by_name_are_attributes_and_may_be_lists() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            blocks = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
            self.transformer = nn.ModuleDict({"h": blocks, "out": nn.Linear(3, 1)})

        def forward(self, x: Any) -> Any:
            for block in self.transformer.h:
                x = block(x)
            return self.transformer.out(x)

    net = Net()
    assert net(X).shape == (2, 1)
    assert [path for path, _ in net.named_parameters()][::2] == [
        "transformer.h.0.weight", "transformer.h.1.weight", "transformer.out.weight",
    ]  # fmt: skip
    assert len(net.state) == 6
    net.transformer.out = nn.Linear(3, 5)
    assert net(X).shape == (2, 5)
    with pytest.raises(AttributeError, match="ModuleDict has no 'outt'"):
        net.transformer.outt
    with pytest.raises(ArgumentError, match="ModuleDict"):
        net.transformer.number = 3


def test_weights_that_lie_the_other_way_are_told_of() -> None:
    table, head = nn.Embedding(5, 3), nn.Linear(5, 3)
    for refused in (
        lambda: setattr(head, "weight", table.weight),
        lambda: setattr(table, "weight", head.weight),
        lambda: head.weight.data.copy_(nnc.ones((5, 3))),
    ):
        with pytest.raises(Exception, match=r"w\.T"):
            refused()
    table.weight = nnc.ones((5, 3))
    assert table(nnc.tensor([1])).tolist() == [[1.0, 1.0, 1.0]]
