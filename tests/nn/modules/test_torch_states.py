"""State dictionaries of PyTorch (2.13) in modules that are written as there, and tensors that layers share."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import nnc
from nnc import nn, optim
from nnc.errors import FormatError
from nnc.nn.model.tied_weights import TiedWeights

TOKENS = np.array([[0, 1], [2, 3], [4, 0]])


class Net(nn.Module):
    """Most layers of PyTorch that have weights; many of them square."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(2, 3, (2, 1)), nn.BatchNorm2d(3)
        self.lin, self.rnn = nn.Linear(3, 3), nn.RNN(3, 3, batch_first=True)
        self.lstm: Any = nn.LSTM(3, 2, bidirectional=True, batch_first=True)
        self.gru, self.emb = nn.GRUCell(4, 4), nn.Embedding(4, 4)
        self.att = nn.MultiheadAttention(4, 2, batch_first=True)
        self.ln, self.up = nn.LayerNorm(4), nn.ConvTranspose2d(4, 1, 2)

    def forward(self, x: Any, i: Any) -> Any:
        x = self.bn(self.conv(x)).flatten(2).transpose(1, 2)
        x = self.lstm(self.rnn(self.lin(x))[0])[0]
        y = self.gru(x[:, -1], self.emb(i))
        y = self.att(y[:, None], x, x)[0] + x
        return self.up(self.ln(y).transpose(1, 2)[..., None])


# What torch 2.13 says of the same class: keys and shapes of its state, in order.
STATE = {
    "conv.weight": (3, 2, 2, 1), "conv.bias": (3,), "bn.weight": (3,), "bn.bias": (3,), "bn.running_mean": (3,),
    "bn.running_var": (3,), "bn.num_batches_tracked": (), "lin.weight": (3, 3), "lin.bias": (3,),
    "rnn.weight_ih_l0": (3, 3), "rnn.weight_hh_l0": (3, 3), "rnn.bias_ih_l0": (3,), "rnn.bias_hh_l0": (3,),
    "lstm.weight_ih_l0": (8, 3), "lstm.weight_hh_l0": (8, 2), "lstm.bias_ih_l0": (8,), "lstm.bias_hh_l0": (8,),
    "lstm.weight_ih_l0_reverse": (8, 3), "lstm.weight_hh_l0_reverse": (8, 2), "lstm.bias_ih_l0_reverse": (8,),
    "lstm.bias_hh_l0_reverse": (8,), "gru.weight_ih": (12, 4), "gru.weight_hh": (12, 4), "gru.bias_ih": (12,),
    "gru.bias_hh": (12,), "emb.weight": (4, 4), "att.in_proj_weight": (12, 4), "att.in_proj_bias": (12,),
    "att.out_proj.weight": (4, 4), "att.out_proj.bias": (4,), "ln.weight": (4,), "ln.bias": (4,),
    "up.weight": (4, 1, 2, 2), "up.bias": (1,),
}  # fmt: skip
# And what it computes of x = numbers((2, 2, 3, 2), 1) and i = [1, 3] with `numbers` of each key's place.
Y = [
    1.14465, -1.25414, 2.614, -1.15911, 2.60087, -1.13552, 2.6758, -1.19574, 1.60494, 0.32457, 1.13857, -1.26362,
    2.58517, -1.13596, 2.59058, -1.12573, 2.6884, -1.20375, 1.6067, 0.32428,
]  # fmt: skip


def numbers(shape: tuple[int, ...], place: int) -> NDArray[np.float32]:
    count = int(np.prod(shape))
    return (((np.arange(count) * 37 + 5 * place) % 65 - 32) / 32).astype(np.float32).reshape(shape)


def their_state() -> dict[str, NDArray[Any]]:
    state = {path: numbers(shape, place) for place, (path, shape) in enumerate(STATE.items())}
    state["bn.running_var"] = np.abs(state["bn.running_var"]) + np.float32(0.5)
    return state | {"bn.num_batches_tracked": np.array(3)}


def test_a_state_of_pytorch_gives_what_pytorch_gives() -> None:
    net, x, i = Net().eval(), numbers((2, 2, 3, 2), 1), np.array([1, 3])
    unfit = net.load_state_dict(their_state())
    assert not unfit.missing_keys
    np.testing.assert_allclose(net(x, i).numpy().ravel(), Y, atol=2e-5)
    own = {path: value.shape for path, value in net.state_dict().items()}
    kernels = {"conv.weight": (2, 1, 2, 3), "up.weight": (2, 2, 1, 4)}
    assert own == {path: shape for path, shape in STATE.items() if "tracked" not in path} | kernels
    for path, value in nn.torch_state_dict(net).items():
        np.testing.assert_array_equal(value, their_state()[path])
    again = Net().eval()
    again(x, i)
    again.load_state_dict(their_state())
    np.testing.assert_array_equal(again(x, i).numpy(), net(x, i).numpy())


def test_a_kernel_of_one_shape_in_both_orders_is_asked_about(tmp_path: Path) -> None:
    layer, other = nn.Conv2d(3, 3, 3), nn.Conv2d(3, 3, 3)
    layer.save(tmp_path / "a.safetensors")
    for given in (layer.state_dict(), nn.Conv2d(3, 3, 3).load(tmp_path / "a.safetensors").state_dict()):
        other.load_state_dict(given)
        np.testing.assert_array_equal(other.weight.numpy(), layer.weight.numpy())
    with pytest.raises(FormatError, match=r"the same shape in both orders.*nn.load_torch_state_dict"):
        other.load_state_dict({path: value.numpy() for path, value in layer.state_dict().items()})
    nn.load_torch_state_dict(other, nn.torch_state_dict(layer))
    np.testing.assert_array_equal(other.weight.numpy(), layer.weight.numpy())


class Tied(nn.Module):
    """A table that gives the scores too."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Any) -> Any:
        return self.head(self.embed(x)).mean(1)


def test_a_shared_tensor_is_one() -> None:
    net = Tied()
    table = net.embed.weight
    assert [path for path, _ in net.named_parameters()] == ["embed.weight"]
    assert sorted(net.state_dict()) == ["embed.weight", "head.weight"]
    net(TOKENS).square().sum().backward()

    def total(w: Any) -> Any:
        return (w[TOKENS] @ w.T).mean(1).square().sum()

    np.testing.assert_allclose(table.grad.numpy(), nnc.grad(total)(table).numpy(), rtol=1e-4, atol=1e-8)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert twin.head.weight is twin.embed.weight is not table
    step = nnc.compile(net)
    step(TOKENS)
    net.head.weight = nn.Parameter(np.ones((5, 3), np.float32))
    assert len(list(net.parameters())) == 2
    np.testing.assert_allclose(step(TOKENS).numpy(), net(TOKENS).numpy(), atol=1e-6)


def test_a_model_has_a_shared_tensor_once(tmp_path: Path) -> None:
    net, labels = Tied(), np.array([1, 3, 0])
    options: Any = {"input_dtype": nnc.i32, "loss": nn.SoftmaxCrossEntropy(), "optimizer": nn.SGD(0.5, momentum=0.0)}
    model = nn.Model(net, (2,), **options)
    assert isinstance(model.layer, TiedWeights)
    assert (list(model.parameters), model.parameter_count()) == (["embed.weight"], 15)
    assert model.memory(3).weights == 60
    step = optim.SGD(net.parameters(), lr=0.5)
    for _ in range(2):
        model.train_on_batch(TOKENS, labels)
        step.zero_grad()
        nn.SoftmaxCrossEntropy()(net(TOKENS), labels).backward()
        step.step()
    np.testing.assert_allclose(model.state_dict()["embed.weight"], net.head.weight.numpy(), rtol=1e-5, atol=1e-7)
    net.load_state_dict(model.state_dict())
    assert model.load_state_dict({path: value.numpy() for path, value in net.state_dict().items()}).complete
    nn.save_model(tmp_path / "a.nnc", nn.Model(nn.Sequential(net.embed, net.head), (2,), **options))
    opened = nn.load_model(tmp_path / "a.nnc")
    assert list(opened.parameters) == ["0.weight"]
    np.testing.assert_array_equal(opened.state_dict()["0.weight"], net.embed.weight.numpy())
