"""The runtimes that `models.py` compares with; each is absent or skips a case with a reason.

A maker takes what the case offers and returns what runs one step. It raises `SkippedError` where it has no such step.
"""

# ruff: noqa: ANN401  the peers may be absent, so nothing here can name their types

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from twins import Array

Run = Callable[[], object]
Twin = Callable[[Any], Any]
RATE = 1e-3


class SkippedError(Exception):
    """This peer has no such case."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A case as peers see it: a torch twin, the input, the labels of a training step, JAX's step, the light graph.

    `half`: products are of bf16, which torch does by autocast.
    """

    twin: Twin
    x: Array
    target: Array | None = None
    jax: Callable[[Any, Array, Array, float], Run] | None = None
    light: str = ""
    half: bool = False


def torch_input(torch: Any, x: Array) -> Any:
    """Images with channels second, as torch has them."""
    data = torch.from_numpy(x.astype(np.int64) if x.dtype == np.int32 else x)
    return data.permute(0, 3, 1, 2).contiguous() if data.dim() == 4 else data


def torch_step(torch: Any, offer: Offer, compiled: bool) -> Run:
    """A training step, or a prediction where there are no labels."""
    model, data = offer.twin(torch), torch_input(torch, offer.x)
    network = torch.compile(model) if compiled else model

    def call(x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=offer.half):
            return network(x)

    if offer.target is None:
        model.eval()

        def predict() -> None:
            with torch.inference_mode():
                call(data)

        return predict
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    wanted = torch.from_numpy(offer.target.astype(np.int64).reshape(-1))

    def train() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(call(data).float(), wanted).backward()
        optimizer.step()

    return train


def eager(threads: int, offer: Offer) -> Run:
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    return torch_step(torch, offer, compiled=False)


def inductor(threads: int, offer: Offer) -> Run:
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    return torch_step(torch, offer, compiled=True)


def onnxruntime(threads: int, offer: Offer) -> Run:
    """The light graph of the onnx wheel where there is one, else the export of torch's twin."""
    runtime = importlib.import_module("onnxruntime")
    if offer.target is not None or offer.half:
        raise SkippedError("no bf16" if offer.half else "training")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = runtime.InferenceSession(onnx_graph(offer), options, providers=["CPUExecutionProvider"])
    (first, *_) = session.get_inputs()
    data = np.moveaxis(offer.x, -1, 1) if offer.x.ndim == 4 else offer.x.astype(np.int64)
    feed = {first.name: np.ascontiguousarray(data)}
    return lambda: session.run(None, feed)


def onnx_graph(offer: Offer) -> bytes:
    onnx = importlib.import_module("onnx")
    if offer.light:
        folder = Path(onnx.__file__).parent / "backend/test/data/light"
        return (folder / f"light_{offer.light}.onnx").read_bytes()
    torch = importlib.import_module("torch")
    file = io.BytesIO()
    model = offer.twin(torch).eval()
    torch.onnx.export(model, (torch_input(torch, offer.x),), file, dynamo=False)
    return file.getvalue()


def jax(threads: int, offer: Offer) -> Run:
    """JAX takes its number of threads from the processors that this process may use."""
    module = importlib.import_module("jax")
    if offer.jax is None or offer.target is None or offer.half:
        raise SkippedError("no twin in JAX")
    return offer.jax(module, offer.x, offer.target, RATE)


PEERS: dict[str, Callable[[int, Offer], Run]] = {
    "torch": eager,
    "torch.compile": inductor,
    "onnxruntime": onnxruntime,
    "jax": jax,
}
