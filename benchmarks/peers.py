"""The runtimes that `models.py` compares with; each is absent or skips a case with a reason.

A maker takes what the case offers and returns what runs one step. It raises `SkippedError` where it has no such step.
"""

# ruff: noqa: ANN401  the peers may be absent, so nothing here can name their types

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from twins import Array

Run = Callable[[], object]
Twin = Callable[[Any], Any]
RATE = 1e-3
# Files that torch has written, which takes it up to a minute: by its version.
FILES = Path(__file__).resolve().parents[1] / ".nnc" / "onnx"


class SkippedError(Exception):
    """This peer has no such case."""


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """A case as peers see it: a torch twin, the input, the labels of a training step, JAX's step, a file's name.

    `half`: products are of bf16, which torch does by autocast. Without a twin `file` is the path of an ONNX file, else
    the name of what torch writes.
    """

    twin: Twin | None
    x: Array
    target: Array | None = None
    jax: Callable[[Any, Array, Array, float], Run] | None = None
    file: str = ""
    half: bool = False


def torch_input(torch: Any, x: Array) -> Any:
    """Images with channels second, as torch has them."""
    data = torch.from_numpy(x.astype(np.int64) if x.dtype == np.int32 else x)
    return data.permute(0, 3, 1, 2).contiguous() if data.dim() == 4 else data


def torch_step(torch: Any, offer: Offer, compiled: bool) -> Run:
    """A training step, or a prediction where there are no labels."""
    if offer.twin is None:
        raise SkippedError("no twin in torch")
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
    torch.compiler.reset()  # the programs of other cases
    return torch_step(torch, offer, compiled=True)


def onnxruntime(threads: int, offer: Offer) -> Run:
    runtime, path = importlib.import_module("onnxruntime"), onnx_file(offer)
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (first, *_) = session.get_inputs()
    feed = {first.name: onnx_input(offer)}
    return lambda: session.run(None, feed)


def openvino(threads: int, offer: Offer) -> Run:
    runtime, path = importlib.import_module("openvino"), onnx_file(offer)
    options = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    # Pinned threads would take the caller's processor from the sides that run after.
    compiled = runtime.Core().compile_model(str(path), "CPU", {**options, "ENABLE_CPU_PINNING": False})
    request, feed = compiled.create_infer_request(), {0: onnx_input(offer)}
    return lambda: request.infer(feed, share_inputs=True, share_outputs=True)


def onnx_input(offer: Offer) -> Array:
    return np.ascontiguousarray(np.moveaxis(offer.x, -1, 1)) if offer.x.ndim == 4 else offer.x.astype(np.int64)


@lru_cache(maxsize=1)
def onnx_file(offer: Offer) -> Path:
    """The case's own file, or what torch writes of the twin: once for each of its versions."""
    if offer.target is not None or offer.half:
        raise SkippedError("no bf16" if offer.half else "training")
    if offer.twin is None:
        return Path(offer.file)
    torch = importlib.import_module("torch")
    path = FILES / torch.__version__ / f"{offer.file}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        torch.onnx.export(offer.twin(torch).eval(), (torch_input(torch, offer.x),), str(part), dynamo=False)
        part.replace(path)
    return path


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
    "openvino": openvino,
    "jax": jax,
}
