"""Modules of the user's own, written as ONNX: onnxruntime gives what they give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import nnc
import onnx
from nnc import nn
from nnc.onnx import save


class Perceptron(nn.Module):
    """Attributes, functions of arrays, and PyTorch's methods."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)
        self.scale = nn.Parameter(np.full(16, 1.5, np.float32))

    def forward(self, x: nnc.Array) -> nnc.Array:
        hidden = nnc.relu(self.first(x)) * self.scale
        return self.last(hidden).clamp(min=-2.0).softmax(dim=-1)


class Residual(nn.Module):
    """Images through a list of blocks with statistics, and a mean over places."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Convolution(8, 3)
        self.blocks = [nn.Sequential(nn.Convolution(8, 3), nn.BatchNorm(), nn.ReLU()) for _ in range(2)]
        self.head = nn.Linear(8, 3)

    def forward(self, x: nnc.Array) -> nnc.Array:
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x.mean(axis=(1, 2)))


class Attention(nn.Module):
    """Heads by `view`, `transpose` and `chunk`, a mask by `masked_fill`."""

    def __init__(self, features: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm()
        self.qkv, self.out, self.drop = (
            nn.Linear(features, 3 * features),
            nn.Linear(features, features),
            nn.Dropout(0.5),
        )

    def forward(self, x: nnc.Array) -> nnc.Array:
        batch, steps, features = x.shape
        parts = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (part.view(batch, steps, self.heads, -1).transpose(1, 2) for part in parts)
        later = np.triu(np.ones((steps, steps), bool), 1)
        scores = (q @ k.mT / (features // self.heads) ** 0.5).masked_fill(later, -1e9)
        mixed = (scores.softmax(dim=-1) @ v).transpose(1, 2).contiguous().view(batch, steps, features)
        return x + self.drop(self.out(mixed))


NETS: list[tuple[Callable[[], nn.Module], tuple[int, ...]]] = [
    (Perceptron, (8,)),
    (Residual, (6, 6, 3)),
    (Attention, (5, 8)),
]


@pytest.mark.parametrize(("make", "shape"), NETS, ids=[make.__name__ for make, _ in NETS])
def test_onnxruntime_gives_what_a_module_gives(
    make: Callable[[], nn.Module], shape: tuple[int, ...], tmp_path: Path
) -> None:
    nnc.seed(0)
    net, path = make(), tmp_path / "net.onnx"
    random = np.random.default_rng(0)
    net(random.random((4, *shape), np.float32))  # statistics of a batch in training
    save(nn.Model(net, shape), path)
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    net.eval()
    for batch in (1, 3):
        x = random.random((batch, *shape), np.float32)
        (answer,) = session.run(None, {given.name: x})
        np.testing.assert_allclose(answer, net(x).numpy(), rtol=1e-5, atol=1e-5)
