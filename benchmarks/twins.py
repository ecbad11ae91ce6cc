"""The networks of `models.py` in torch and JAX, of the same shapes as ours."""

# ruff: noqa: ANN401  torch and JAX may be absent, so nothing here can name their types

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def mlp(torch: Any) -> Any:
    n = torch.nn
    return n.Sequential(n.Linear(784, 512), n.ReLU(), n.Linear(512, 512), n.ReLU(), n.Linear(512, 10))


def resnet20(torch: Any) -> Any:
    n = torch.nn

    class Block(n.Module):  # type: ignore[misc, name-defined]  # torch is imported at run time
        def __init__(self, before: int, after: int, stride: int) -> None:
            super().__init__()
            self.inner = n.Sequential(
                n.Conv2d(before, after, 3, stride, 1, bias=False),
                n.BatchNorm2d(after),
                n.ReLU(),
                n.Conv2d(after, after, 3, 1, 1, bias=False),
                n.BatchNorm2d(after),
            )
            self.stride, self.missing = stride, after - before

        def forward(self, x: Any) -> Any:
            y = x[:, :, :: self.stride, :: self.stride] if self.missing else x
            if self.missing:  # a shortcut without parameters, as ours
                y = n.functional.pad(y, (0, 0, 0, 0, 0, self.missing))
            return torch.relu(self.inner(x) + y)

    widths = [(16, 16, 1)] * 3 + [(16, 32, 2)] + [(32, 32, 1)] * 2 + [(32, 64, 2)] + [(64, 64, 1)] * 2
    blocks = [Block(*width) for width in widths]
    head = [n.Conv2d(3, 16, 3, 1, 1, bias=False), n.BatchNorm2d(16), n.ReLU()]
    return n.Sequential(*head, *blocks, n.AdaptiveAvgPool2d(1), n.Flatten(), n.Linear(64, 10))


def lstm(torch: Any) -> Any:
    n = torch.nn

    class Model(n.Module):  # type: ignore[misc, name-defined]  # torch is imported at run time
        def __init__(self) -> None:
            super().__init__()
            self.memory, self.classes = n.LSTM(256, 256, 2, batch_first=True), n.Linear(256, 10)

        def forward(self, x: Any) -> Any:
            return self.classes(self.memory(x)[0]).flatten(0, 1)

    return Model()


def gpt(torch: Any, vocabulary: int = 65, steps: int = 256, width: int = 384, heads: int = 6) -> Any:
    n, functional = torch.nn, torch.nn.functional

    class Block(n.Module):  # type: ignore[misc, name-defined]  # torch is imported at run time
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = n.LayerNorm(width, bias=False), n.LayerNorm(width, bias=False)
            self.mix, self.out = n.Linear(width, 3 * width, bias=False), n.Linear(width, width, bias=False)
            up, down = n.Linear(width, 4 * width, bias=False), n.Linear(4 * width, width, bias=False)
            self.dense = n.Sequential(up, n.GELU(approximate="tanh"), down)

        def forward(self, x: Any) -> Any:
            batch, rows, _ = x.shape
            parts = self.mix(self.before(x)).view(batch, rows, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, rows, width))
            return x + self.dense(self.between(x))

    class Model(n.Module):  # type: ignore[misc, name-defined]  # torch is imported at run time
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = n.Embedding(vocabulary, width), n.Embedding(steps, width)
            self.blocks, self.norm = n.Sequential(*(Block() for _ in range(6))), n.LayerNorm(width, bias=False)

        def forward(self, x: Any) -> Any:
            y = self.tokens(x) + self.places.weight[: x.shape[1]]
            logits = self.norm(self.blocks(y)) @ self.tokens.weight.T
            return logits.flatten(0, 1)

    return Model()


def bert(torch: Any, vocabulary: int = 30_522, steps: int = 512, width: int = 768) -> Any:
    n = torch.nn

    class Model(n.Module):  # type: ignore[misc, name-defined]  # torch is imported at run time
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = n.Embedding(vocabulary, width), n.Embedding(steps, width)
            self.norm = n.LayerNorm(width)
            layer = n.TransformerEncoderLayer(width, 12, 4 * width, 0.0, "gelu", batch_first=True)
            self.blocks = n.TransformerEncoder(layer, 12, enable_nested_tensor=False)
            self.pool = n.Linear(width, width)

        def forward(self, x: Any) -> Any:
            y = self.blocks(self.norm(self.tokens(x) + self.places.weight[: x.shape[1]]))
            return torch.tanh(self.pool(y[:, 0]))

    return Model()


def vision(name: str) -> Callable[[Any], Any]:
    """A network of torchvision."""
    return lambda torch: getattr(importlib.import_module("torchvision.models"), name)()


def jax_mlp_training(jax: Any, x: Array, target: Array, rate: float) -> Callable[[], object]:
    """One step of plain stochastic gradient descent on the MLP, compiled."""
    generator = np.random.default_rng(0)
    sizes = ((784, 512), (512, 512), (512, 10))
    start = [(generator.uniform(-0.05, 0.05, size).astype(np.float32), np.zeros(size[1], np.float32)) for size in sizes]

    def loss(parameters: Any) -> Any:
        y = x
        for number, (weight, bias) in enumerate(parameters):
            y = y @ weight + bias
            y = jax.nn.relu(y) if number < len(sizes) - 1 else y
        chosen = jax.nn.log_softmax(y)[np.arange(len(x)), target]
        return -chosen.mean()

    def step(parameters: Any) -> Any:
        gradients = jax.grad(loss)(parameters)
        return jax.tree.map(lambda value, gradient: value - rate * gradient, parameters, gradients)

    compiled = jax.jit(step)
    state = [compiled(start)]

    def run() -> None:
        state[0] = jax.block_until_ready(compiled(state[0]))

    return run
