"""Kinds of steps beside a network's own four, for `memory.py --cases`: generation, adapters, accumulated gradients, 16
bits, batches of many sizes, files of ONNX, and states of optimizers that lie in a file.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from process import anonymous, high_water, settled

from nnc import nn, onnx
from nnc.core.values.dtype import BF16
from nnc.nn.zoo import network

Array = np.ndarray
# Steps on made-up data of a network in a folder; the statement.
Kind = Callable[[str, Array, Array, Path], int]
STEPS, PARTS, CAPACITY, WORDS = 2, 4, 64, 32
# What some of the kinds import when they are first asked for.
MODULES = ("nnc.nn.generation", "nnc.onnx.importer", "nnc.onnx.made.making", "nnc.symbolic.passes")


def _generated(name: str, inputs: Array, labels: Array, folder: Path) -> int:
    model = network(name)
    stated = model.memory(len(inputs), "generate", CAPACITY).process
    nn.generate(model, inputs[:, :8].astype(np.int32), WORDS)
    return stated


def _trained(model: nn.Model, inputs: Array, labels: Array) -> int:
    stated = model.memory(len(inputs)).process
    for _ in range(STEPS):
        model.train_on_batch(inputs, labels)
    return stated


def _in_16_bits(name: str, inputs: Array, labels: Array, folder: Path) -> int:
    model = network(name)
    model.precision = BF16
    return _trained(model, inputs, labels)


def _adapted(name: str, inputs: Array, labels: Array, folder: Path) -> int:
    """Adapters on all dense layers."""
    whole = network(name)
    return _trained(
        nn.Model(
            nn.LoRA(whole.layer, ("*",)),
            whole.input_shape,
            input_dtype=whole.input_dtype,
        ),
        inputs,
        labels,
    )


def _accumulated(name: str, inputs: Array, labels: Array, folder: Path) -> int:
    """Gradients of several batches, one behind the other."""
    model = network(name)
    stated = model.memory(len(inputs), "backward").process
    examples, wanted = (np.concatenate([rows] * PARTS) for rows in (inputs, labels))
    model.fit(examples, wanted, batch_size=len(inputs), accumulate=PARTS, epochs=1)
    return stated


def _of_many_sizes(name: str, inputs: Array, labels: Array, folder: Path) -> int:
    """The batch and all that are smaller."""
    model = network(name)
    stated = model.memory(range(1, len(inputs) + 1), "predict").process
    for count in (len(inputs), 1, len(inputs) // 2 + 1):
        model.predict(inputs[:count], count)
    return stated


def _with_state_in_a_file(name: str, inputs: Array, labels: Array, folder: Path) -> int:
    model = network(name, optimizer=nn.Adam(1e-4))
    model.state_folder = str(folder)
    return _trained(model, inputs, labels)


def _from_onnx(name: str, inputs: Array, labels: Array, folder: Path) -> int:
    file = folder / "network.onnx"
    _in_a_child(lambda: onnx.save(network(name), str(file)))
    session = onnx.load(str(file))
    own = next(iter(session.inputs))
    open_sizes = session.inputs[own].type.tensor_type.shape.dim
    sizes = {dim.dim_param or f"{own}.{axis}": len(inputs) for axis, dim in enumerate(open_sizes) if not dim.dim_value}
    stated = session.memory(**sizes).process
    for _ in range(STEPS):
        session.run({own: inputs})
    return stated


def _in_a_child(write: Callable[[], object]) -> None:
    """What writes a file leaves no memory behind here."""
    child = os.fork()
    if not child:
        write()
        os._exit(0)
    os.waitpid(child, 0)


KINDS: Mapping[str, Kind] = {
    "generate": _generated,
    "bf16": _in_16_bits,
    "lora": _adapted,
    "accumulate": _accumulated,
    "sizes": _of_many_sizes,
    "onnx": _from_onnx,
    "state": _with_state_in_a_file,
}
# Files that are mapped count in the high-water mark: of these what no file is behind is measured at the end.
FILED = frozenset({"state"})


def run_kind(kind: str, name: str, inputs: Array, labels: Array, folder: str) -> tuple[int, int]:
    """Bytes that this process takes for it, and what is stated."""
    for module in MODULES:
        importlib.import_module(module)
    before = settled()
    without_files = anonymous()
    stated = KINDS[kind](name, inputs, labels, Path(folder))
    return (
        anonymous() - without_files if kind in FILED else high_water() - before,
        stated,
    )
