"""Two steps of a network of `networks.py` in torch, JAX or onnxruntime: what `memory.py` measures beside ours.

Training is plain stochastic gradient descent on the mean cross-entropy. onnxruntime reads a file that torch has written
in another process, and has no training.
"""

# ruff: noqa: ANN401  the peers may be absent, so nothing here can name their types

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from networks import NETWORKS, Array, Jax, Torch

RATE = 1e-4


def export(name: str, x: Array, path: str) -> None:
    """Write the network as an ONNX file, for inputs of the shape of `x`."""
    torch = importlib.import_module("torch")
    tools, inputs = Torch(training=False), torch_input(torch, x)
    NETWORKS[name](tools, inputs)

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined]  # torch is imported at run time
        def __init__(self) -> None:
            super().__init__()
            for key, cell in tools.cells.items():
                self.add_module(key, cell)
            for values in (tools.parameters, tools.statistics):
                for key in [key for key in values if key.split(".")[0] not in tools.cells]:
                    values[key] = torch.nn.Parameter(values[key], requires_grad=False)
                    self.register_parameter(key.replace(".", "_"), values[key])

        def forward(self, x: Any) -> Any:
            return NETWORKS[name](tools, x)

    torch.onnx.export(Network().eval(), (inputs,), path, dynamo=False)


def torch_input(torch: Any, x: Array) -> Any:
    """Images with channels second, as torch has them."""
    data = torch.from_numpy(x.astype(np.int64) if x.dtype == np.int32 else x)
    return data.permute(0, 3, 1, 2).contiguous() if data.dim() == 4 else data


def torch_steps(name: str, mode: str, x: Array, labels: Array, path: str) -> None:
    torch = importlib.import_module("torch")
    tools, inputs = Torch(training=mode == "train"), torch_input(torch, x)
    if mode != "train":
        with torch.inference_mode():
            for _ in range(2):
                NETWORKS[name](tools, inputs)
        return
    wanted = torch.from_numpy(labels.astype(np.int64).reshape(-1))
    for _ in range(2):
        torch.nn.functional.cross_entropy(NETWORKS[name](tools, inputs), wanted).backward()
        optimizer = torch.optim.SGD(tools.parameters.values(), RATE)
        optimizer.step()
        optimizer.zero_grad()


def onnxruntime_steps(name: str, mode: str, x: Array, labels: Array, path: str) -> None:
    runtime = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    data = np.moveaxis(x, -1, 1) if x.ndim == 4 else x.astype(np.int64)
    feed = {session.get_inputs()[0].name: np.ascontiguousarray(data)}
    for _ in range(2):
        session.run(None, feed)


def jax_steps(name: str, mode: str, x: Array, labels: Array, path: str) -> None:
    jax = importlib.import_module("jax")
    made: dict[str, Any] = {}
    jax.eval_shape(lambda data: NETWORKS[name](Jax(made, training=False), data), x)
    parameters = {key: jax.device_put(made.pop(key)) for key in tuple(made)}

    def logits(parameters: dict[str, Any], data: Any) -> Any:
        return NETWORKS[name](Jax(dict(parameters), training=mode == "train"), data)

    def loss(parameters: dict[str, Any], data: Any, wanted: Any) -> Any:
        rows = jax.nn.log_softmax(logits(parameters, data))
        return -jax.numpy.take_along_axis(rows, wanted.reshape(-1, 1), 1).mean()

    def update(parameters: dict[str, Any], data: Any, wanted: Any) -> Any:
        slopes = jax.grad(loss)(parameters, data, wanted)
        return jax.tree.map(lambda value, slope: value - RATE * slope, parameters, slopes)

    predict, train = jax.jit(logits), jax.jit(update, donate_argnums=0)
    for _ in range(2):
        if mode == "train":
            parameters = jax.block_until_ready(train(parameters, x, labels))
        else:
            jax.block_until_ready(predict(parameters, x))


Steps = Callable[[str, str, Array, Array, str], None]
PEERS: Mapping[str, Steps] = MappingProxyType(
    {"torch": torch_steps, "onnxruntime": onnxruntime_steps, "jax": jax_steps}
)
MODULES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "torch": ("torch", "torch.nn.functional", "torch.optim"),
        "onnxruntime": ("onnxruntime",),
        "jax": ("jax", "jax.numpy", "jax.nn"),
    }
)
