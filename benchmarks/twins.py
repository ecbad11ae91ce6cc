"""The networks of `models.py` in torch and JAX, of the same shapes as ours."""

# ruff: noqa: ANN401  torch and JAX may be absent, so nothing here can name their types

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import networks
import numpy as np
from numpy.typing import NDArray

OPERATORS: list[Any] = []  # libraries that live as long as the process
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


def gpt2(torch: Any, batch: int, past: int, width: int = 768, heads: int = 12) -> Any:
    """GPT-2 small, which reads tokens behind `past` ones that it has read: the scores of what follows, and the caches.

    Caches are of one size; behind a past they are written in place, as ours are.
    """
    n, functional = torch.nn, torch.nn.functional

    class Block(n.Module):  # type: ignore[misc, name-defined]  # torch is imported at run time
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = n.LayerNorm(width), n.LayerNorm(width)
            self.mix, self.out = n.Linear(width, 3 * width), n.Linear(width, width)
            self.dense = n.Sequential(
                n.Linear(width, 4 * width), n.GELU(approximate="tanh"), n.Linear(4 * width, width)
            )
            self.register_buffer("old", torch.randn(2, batch, heads, past + 1, width // heads))

        def forward(self, x: Any) -> Any:
            rows = x.shape[1]
            parts = self.mix(self.before(x)).view(batch, rows, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            kept = parts[1:]
            if past and torch.onnx.is_in_onnx_export():  # a file has no memory that a run writes
                kept = torch.cat((self.old[..., :past, :], kept), -2)
            elif past:
                self.old[..., past:, :] = kept
                kept = self.old
            y = functional.scaled_dot_product_attention(parts[0], kept[0], kept[1], is_causal=not past)
            x = x + self.out(y.transpose(1, 2).reshape(batch, rows, width))
            return x + self.dense(self.between(x)), kept

    class Model(n.Module):  # type: ignore[misc, name-defined]  # torch is imported at run time
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = n.Embedding(50_257, width), n.Embedding(1024, width)
            self.blocks, self.norm = n.ModuleList(Block() for _ in range(12)), n.LayerNorm(width)

        def forward(self, x: Any) -> Any:
            y, caches = self.tokens(x) + self.places.weight[past : past + x.shape[1]], []
            for block in self.blocks:
                y, kept = block(y)
                caches.append(kept)
            return functional.linear(self.norm(y[:, -1]), self.tokens.weight), *([] if past else caches)

    return Model()


def unet(torch: Any) -> Any:
    """The network of `networks.py` as a module."""

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]  # torch is imported at run time
        def __init__(self) -> None:
            super().__init__()
            self.tools = networks.Torch(training=True)
            networks.unet(self.tools, torch.zeros(1, 3, 32, 32))
            made = self.tools.parameters
            for name in made:
                made[name] = torch.nn.Parameter(made[name].detach())
                self.register_parameter(name.replace(".", "_"), made[name])

        def forward(self, x: Any) -> Any:
            return networks.unet(self.tools, x)

    return Model()


def vision(name: str) -> Callable[[Any], Any]:
    """A network of torchvision."""

    def make(torch: Any) -> Any:
        try:
            models = importlib.import_module("torchvision.models")
        except RuntimeError:  # built for another torch, its own operators do not load: these networks have none
            library = torch.library.Library("torchvision", "FRAGMENT")
            for operator in ("nms", "qnms"):
                library.define(f"{operator}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
            models = importlib.import_module("torchvision.models")
            OPERATORS.append(library)
        known = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
        return getattr(models, name)(**known)

    return make


def jax_mlp_training(jax: Any, x: Array, target: Array, rate: float) -> Callable[[], object]:
    """One training step of the MLP."""
    sizes = ((784, 512), (512, 512), (512, 10))

    def network(parameters: Any, y: Any) -> Any:
        for number, (weight, bias) in enumerate(parameters):
            y = y @ weight + bias
            y = jax.nn.relu(y) if number < len(sizes) - 1 else y
        return y

    return _jax_step(jax, network, [(uniform(*size), zeros(size[1])) for size in sizes], (x, target), rate)


def jax_lstm_training(jax: Any, x: Array, target: Array, rate: float) -> Callable[[], object]:
    """One training step of two LSTM layers and a dense one; the products with inputs are made for all steps at once."""
    width, layers, classes = x.shape[2], 2, target.max() + 1
    memories = [(uniform(width, 4 * width), uniform(width, 4 * width), zeros(4 * width)) for _ in range(layers)]
    initial = zeros(len(x), width)

    def memory(sequence: Any, weight: Any, state_weight: Any, bias: Any) -> Any:
        def cell(state: Any, z: Any) -> Any:
            h, c = state
            i, f, g, o = jax.numpy.split(z + h @ state_weight, 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jax.numpy.tanh(g)
            h = jax.nn.sigmoid(o) * jax.numpy.tanh(c)
            return (h, c), h

        return jax.lax.scan(cell, (initial, initial), sequence @ weight + bias)[1]

    def network(parameters: Any, batch: Any) -> Any:
        *deep, (weight, bias) = parameters
        y = batch.swapaxes(0, 1)
        for layer in deep:
            y = memory(y, *layer)
        return y.swapaxes(0, 1) @ weight + bias

    return _jax_step(jax, network, [*memories, (uniform(width, classes), zeros(classes))], (x, target), rate)


def jax_gpt_training(jax: Any, x: Array, target: Array, rate: float) -> Callable[[], object]:
    """One training step of the GPT."""
    width, heads, vocabulary, steps = 384, 6, 65, x.shape[1]
    shapes = (width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)
    blocks = [(*(uniform(*shape) for shape in shapes), ones(width), ones(width)) for _ in range(6)]

    def norm(y: Any, scale: Any) -> Any:
        centred = y - y.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(jax.numpy.square(centred).mean(-1, keepdims=True) + 1e-5) * scale

    def block(y: Any, mix: Any, out: Any, up: Any, down: Any, before: Any, between: Any) -> Any:
        parts = (norm(y, before) @ mix).reshape(len(y), steps, 3, heads, width // heads)
        mixed = jax.nn.dot_product_attention(parts[:, :, 0], parts[:, :, 1], parts[:, :, 2], is_causal=True)
        y = y + mixed.reshape(y.shape) @ out
        return y + jax.nn.gelu(norm(y, between) @ up, approximate=True) @ down

    def network(parameters: Any, batch: Any) -> Any:
        tokens, places, *deep, last = parameters
        y = tokens[batch] + places
        for layer in deep:
            y = block(y, *layer)
        return norm(y, last) @ tokens.T

    start = [uniform(vocabulary, width), uniform(steps, width), *blocks, ones(width)]
    return _jax_step(jax, network, start, (x, target), rate)


def _jax_step(jax: Any, network: Any, start: Any, data: tuple[Array, Array], rate: float) -> Callable[[], object]:
    """One step of plain stochastic gradient descent on the mean cross entropy, compiled; parameters are overwritten."""

    def loss(parameters: Any, x: Any, target: Any) -> Any:
        chosen = jax.numpy.take_along_axis(jax.nn.log_softmax(network(parameters, x)), target[..., None], -1)
        return -chosen.mean()

    def step(parameters: Any, x: Any, target: Any) -> Any:
        gradients = jax.grad(loss)(parameters, x, target)
        return jax.tree.map(lambda value, gradient: value - rate * gradient, parameters, gradients)

    compiled = jax.jit(step, donate_argnums=0)
    placed = jax.device_put(data)
    state = [compiled(jax.device_put(start), *placed)]

    def run() -> None:
        state[0] = jax.block_until_ready(compiled(state[0], *placed))

    return run


def uniform(*shape: int) -> Array:
    return np.random.default_rng(shape).uniform(-0.05, 0.05, shape).astype(np.float32)


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)
