"""The networks of `nnc.nn.zoo` that `memory.py` compares, written once over the functions of torch and of JAX.

A network is a function `(tools, x) -> logits[rows, classes]`. `Torch` and `Jax` are the tools: layers whose parameters
are made when a name is met first, in the sizes of ours.
"""

# ruff: noqa: ANN401  torch and JAX may be absent, so nothing here can name their types

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Torch:
    """Layers as torch runs them eagerly; images have their channels second."""

    def __init__(self, *, training: bool) -> None:
        self.torch = importlib.import_module("torch")
        self.layer = importlib.import_module("torch.nn.functional")
        self.training = training
        self.parameters: dict[str, Any] = {}
        self.statistics: dict[str, Any] = {}
        self.cells: dict[str, Any] = {}

    def parameter(self, name: str, *shape: int) -> Any:
        if name not in self.parameters:
            made = self.torch.empty(shape).uniform_(-0.05, 0.05)
            self.parameters[name] = made.requires_grad_(self.training)
        return self.parameters[name]

    def features(self, x: Any) -> int:
        return int(x.shape[1] if x.dim() == 4 else x.shape[-1])

    def convolution(self, name: str, x: Any, filters: int, size: int, stride: int = 1, *, bias: bool = False) -> Any:
        weight = self.parameter(f"{name}.weight", filters, self.features(x), size, size)
        added = self.parameter(f"{name}.bias", filters) if bias else None
        return self.layer.conv2d(x, weight, added, stride, size // 2)

    def up(self, name: str, x: Any, filters: int) -> Any:
        weight = self.parameter(f"{name}.weight", self.features(x), filters, 2, 2)
        return self.layer.conv_transpose2d(x, weight, self.parameter(f"{name}.bias", filters), 2)

    def norm(self, name: str, x: Any) -> Any:
        count = self.features(x)
        for part in ("mean", "variance"):
            self.statistics.setdefault(f"{name}.{part}", self.torch.ones(count))
        mean, variance = (self.statistics[f"{name}.{part}"] for part in ("mean", "variance"))
        scale, shift = self.parameter(f"{name}.scale", count), self.parameter(f"{name}.shift", count)
        return self.layer.batch_norm(x, mean, variance, scale, shift, self.training)

    def relu(self, x: Any) -> Any:
        return self.layer.relu(x, inplace=True)

    def max_pool(self, x: Any, size: int) -> Any:
        return self.layer.max_pool2d(x, size, 2, size // 2 if size % 2 else 0)

    def mean_pool(self, x: Any) -> Any:
        return self.layer.avg_pool2d(x, 2)

    def mean(self, x: Any) -> Any:
        return x.mean((2, 3))

    def join(self, parts: list[Any]) -> Any:
        return self.torch.cat(parts, 1)

    def pixels(self, x: Any) -> Any:
        return x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])

    def rows(self, x: Any) -> Any:
        return x.reshape(-1, x.shape[-1])

    def dense(self, name: str, x: Any, units: int, *, bias: bool = True) -> Any:
        weight = self.parameter(f"{name}.weight", units, self.features(x))
        return self.layer.linear(x, weight, self.parameter(f"{name}.bias", units) if bias else None)

    def embedding(self, name: str, x: Any, count: int, width: int) -> Any:
        return self.layer.embedding(x, self.parameter(name, count, width))

    def tied(self, name: str, x: Any) -> Any:
        return self.layer.linear(x, self.parameters[name])

    def positions(self, name: str, x: Any, steps: int) -> Any:
        return x + self.parameter(name, steps, self.features(x))

    def layer_norm(self, name: str, x: Any) -> Any:
        return self.layer.layer_norm(x, x.shape[-1:], self.parameter(name, x.shape[-1]))

    def gelu(self, x: Any) -> Any:
        return self.layer.gelu(x, approximate="tanh")

    def attention(self, x: Any, heads: int) -> Any:
        """Of queries, keys and values side by side: causal."""
        batch, steps, width = x.shape
        parts = x.view(batch, steps, 3, heads, width // 3 // heads).permute(2, 0, 3, 1, 4)
        y = self.layer.scaled_dot_product_attention(*parts, is_causal=True)
        return y.transpose(1, 2).reshape(batch, steps, width // 3)

    def lstm(self, name: str, x: Any, units: int, layers: int) -> Any:
        if name not in self.cells:
            self.cells[name] = self.torch.nn.LSTM(self.features(x), units, layers, batch_first=True)
            for part, value in self.cells[name].named_parameters():
                self.parameters[f"{name}.{part}"] = value.requires_grad_(self.training)
        return self.cells[name](x)[0]


class Jax:
    """Layers as JAX traces them; images have their channels last. Statistics of batches are not kept."""

    def __init__(self, parameters: dict[str, Any], *, training: bool) -> None:
        self.jax = importlib.import_module("jax")
        self.numpy = self.jax.numpy
        self.training = training
        self.parameters = parameters

    def parameter(self, name: str, *shape: int) -> Any:
        if name not in self.parameters:
            self.parameters[name] = np.full(shape, 0.02, np.float32)
        return self.parameters[name]

    def convolution(self, name: str, x: Any, filters: int, size: int, stride: int = 1, *, bias: bool = False) -> Any:
        weight = self.parameter(f"{name}.weight", size, size, x.shape[-1], filters)
        edges, axes = [(size // 2, size // 2)] * 2, ("NHWC", "HWIO", "NHWC")
        y = self.jax.lax.conv_general_dilated(x, weight, (stride, stride), edges, dimension_numbers=axes)
        return y + self.parameter(f"{name}.bias", filters) if bias else y

    def up(self, name: str, x: Any, filters: int) -> Any:
        weight = self.parameter(f"{name}.weight", 2, 2, x.shape[-1], filters)
        axes = ("NHWC", "HWIO", "NHWC")
        y = self.jax.lax.conv_transpose(x, weight, (2, 2), "SAME", dimension_numbers=axes)
        return y + self.parameter(f"{name}.bias", filters)

    def norm(self, name: str, x: Any) -> Any:
        count = x.shape[-1]
        mean, variance = (self.parameter(f"{name}.{part}", count) for part in ("mean", "variance"))
        if self.training:
            mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        scale, shift = self.parameter(f"{name}.scale", count), self.parameter(f"{name}.shift", count)
        return (x - mean) * (scale * self.jax.lax.rsqrt(variance + 1e-5)) + shift

    def relu(self, x: Any) -> Any:
        return self.jax.nn.relu(x)

    def max_pool(self, x: Any, size: int) -> Any:
        edge = size // 2 if size % 2 else 0
        window, edges = (1, size, size, 1), ((0, 0), (edge, edge), (edge, edge), (0, 0))
        return self.jax.lax.reduce_window(x, -math.inf, self.jax.lax.max, window, (1, 2, 2, 1), edges)

    def mean_pool(self, x: Any) -> Any:
        return self.jax.lax.reduce_window(x, 0.0, self.jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4

    def mean(self, x: Any) -> Any:
        return x.mean((1, 2))

    def join(self, parts: list[Any]) -> Any:
        return self.numpy.concatenate(parts, -1)

    def rows(self, x: Any) -> Any:
        return x.reshape(-1, x.shape[-1])

    pixels = rows

    def dense(self, name: str, x: Any, units: int, *, bias: bool = True) -> Any:
        y = x @ self.parameter(f"{name}.weight", x.shape[-1], units)
        return y + self.parameter(f"{name}.bias", units) if bias else y

    def embedding(self, name: str, x: Any, count: int, width: int) -> Any:
        return self.numpy.take(self.parameter(name, count, width), x, axis=0)

    def tied(self, name: str, x: Any) -> Any:
        return x @ self.parameters[name].T

    def positions(self, name: str, x: Any, steps: int) -> Any:
        return x + self.parameter(name, steps, x.shape[-1])

    def layer_norm(self, name: str, x: Any) -> Any:
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * self.jax.lax.rsqrt(variance + 1e-5) * self.parameter(name, x.shape[-1])

    def gelu(self, x: Any) -> Any:
        return self.jax.nn.gelu(x)

    def attention(self, x: Any, heads: int) -> Any:
        batch, steps, width = x.shape
        parts = self.numpy.moveaxis(x.reshape(batch, steps, 3, heads, width // 3 // heads), 2, 0)
        return self.jax.nn.dot_product_attention(*parts, is_causal=True).reshape(batch, steps, width // 3)

    def lstm(self, name: str, x: Any, units: int, layers: int) -> Any:
        for layer in range(layers):
            inner = self.parameter(f"{name}.{layer}.inner", units, 4 * units)
            start = self.numpy.zeros((2, x.shape[0], units))
            outer = self.dense(f"{name}.{layer}", x, 4 * units)

            def step(state: Any, row: Any, inner: Any = inner) -> Any:
                i, f, g, o = self.numpy.split(row + state[0] @ inner, 4, -1)
                memory = self.jax.nn.sigmoid(f) * state[1] + self.jax.nn.sigmoid(i) * self.numpy.tanh(g)
                hidden = self.jax.nn.sigmoid(o) * self.numpy.tanh(memory)
                return self.numpy.stack((hidden, memory)), hidden

            x = self.jax.lax.scan(step, start, outer.swapaxes(0, 1))[1].swapaxes(0, 1)
        return x


Tools = Torch | Jax


def resnet50(t: Tools, x: Any) -> Any:
    x = t.max_pool(t.relu(t.norm("norm", t.convolution("first", x, 64, 7, 2))), 3)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            name, width, stride = f"{stage}.{block}", 64 << stage, 2 if stage and not block else 1
            y = t.relu(t.norm(f"{name}.a", t.convolution(f"{name}.1", x, width, 1)))
            y = t.relu(t.norm(f"{name}.b", t.convolution(f"{name}.2", y, width, 3, stride)))
            y = t.norm(f"{name}.c", t.convolution(f"{name}.3", y, 4 * width, 1))
            if not block:
                x = t.norm(f"{name}.d", t.convolution(f"{name}.4", x, 4 * width, 1, stride))
            y += x
            x = t.relu(y)
    return t.dense("classes", t.mean(x), 1000)


def densenet121(t: Tools, x: Any) -> Any:
    x = t.max_pool(t.relu(t.norm("norm", t.convolution("first", x, 64, 7, 2))), 3)
    width = 64
    for stage, layers in enumerate((6, 12, 24, 16)):
        parts = [x]
        for layer in range(layers):
            name = f"{stage}.{layer}"
            y = t.convolution(f"{name}.1", t.relu(t.norm(f"{name}.a", t.join(parts))), 128, 1)
            parts.append(t.convolution(f"{name}.2", t.relu(t.norm(f"{name}.b", y)), 32, 3))
        x, width = t.relu(t.norm(f"{stage}.norm", t.join(parts))), width + 32 * layers
        if stage < 3:
            width //= 2
            x = t.mean_pool(t.convolution(f"{stage}.half", x, width, 1))
    return t.dense("classes", t.mean(x), 1000)


def unet(t: Tools, x: Any) -> Any:
    def double(name: str, x: Any, width: int) -> Any:
        for number in (1, 2):
            x = t.relu(t.norm(f"{name}.n{number}", t.convolution(f"{name}.c{number}", x, width, 3)))
        return x

    skips = []
    for level in range(4):
        skips.append(double(f"down{level}", x, 64 << level))
        x = t.max_pool(skips[-1], 2)
    x = double("bottom", x, 1024)
    for level in reversed(range(4)):
        x = t.join([skips.pop(), t.up(f"up{level}", x, 64 << level)])
        x = double(f"join{level}", x, 64 << level)
    return t.pixels(t.convolution("classes", x, 2, 1, bias=True))


def lstm(t: Tools, x: Any) -> Any:
    return t.rows(t.dense("classes", t.lstm("memory", t.embedding("tokens", x, 10_000, 650), 650, 2), 10_000))


def gpt_6x384(t: Tools, x: Any) -> Any:
    y = t.positions("positions", t.embedding("tokens", x, 65, 384), 256)
    for block in range(6):
        name = str(block)
        mixed = t.dense(f"{name}.mix", t.layer_norm(f"{name}.before", y), 3 * 384, bias=False)
        y = y + t.dense(f"{name}.out", t.attention(mixed, 6), 384, bias=False)
        wide = t.gelu(t.dense(f"{name}.up", t.layer_norm(f"{name}.between", y), 4 * 384, bias=False))
        y = y + t.dense(f"{name}.down", wide, 384, bias=False)
    return t.rows(t.tied("tokens", t.layer_norm("norm", y)))


NETWORKS: Mapping[str, Callable[[Tools, Any], Any]] = MappingProxyType(
    {"resnet50": resnet50, "densenet121": densenet121, "unet": unet, "lstm": lstm, "gpt_6x384": gpt_6x384}
)
