"""What `forward` reads of a layer below its module, `self.embed.weight`, is the model's own tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

import nnc
from nnc import nn, optim


class Tied(nn.Module):
    """Scores of tokens by the embedding that they came from, two layers down."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Embedding(5, 3), nn.Dense(3))

    def forward(self, x: Any) -> Any:
        return self.body(x).mean(1) @ self.body[0].weight.T


def test_tied_weights_follow_both_gradients() -> None:
    x, labels = np.array([[0, 1], [2, 3], [4, 0]]), np.array([1, 3, 0])
    net = Tied()
    net(x)
    model = nn.Model(net, (2,), input_dtype=nnc.i32, loss=nn.SoftmaxCrossEntropy(), optimizer=nn.SGD(0.5, momentum=0.0))
    np.testing.assert_allclose(model.predict(x), net(x).numpy(), rtol=1e-5)
    step = optim.SGD(net.parameters(), lr=0.5)
    for _ in range(2):
        model.train_on_batch(x, labels)
        step.zero_grad()
        nn.SoftmaxCrossEntropy()(net(x), labels).backward()
        step.step()
    state = net.state_dict()
    for path, values in model.state_dict().items():
        np.testing.assert_allclose(values, state[path].numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.predict(x), net(x).numpy(), rtol=1e-4, atol=1e-6)
