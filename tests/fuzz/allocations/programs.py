"""The programs whose allocations fail: what people do with memory, from a graph to a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from random import Random

import numpy as np
from tests.concrete.eager import ADDITION, PRODUCT, noise, room
from tests.fuzz.interrupts.phases import (
    Answer,
    Case,
    Phase,
    compiling,
    eager,
    first_run,
    fitting,
    tuning,
    workers,
)

import onnx
from nnc import nn, ops
from nnc.concrete import ConcreteGraph
from nnc.core.values.dtype import I32
from nnc.core.values.spec import spec
from nnc.nn.data import Batches, DataSet
from nnc.nn.zoo import GPT
from nnc.onnx import load
from nnc.symbolic import SymbolicGraph, backward, compile
from onnx import helper


def graph(random: Random, folder: Path) -> Case:
    """A graph and its gradient, compiled and run."""
    size = random.randint(2, 40)
    symbols = SymbolicGraph()
    x, w = symbols.input(spec((size, 16)), "x"), symbols.input(spec((16, size)), "w")
    loss = ops.reduce_sum(ops.tanh(ops.gemm(x, w)))
    (slope,) = backward(symbols, [loss], [w])
    compiled = compile(symbols, [loss, slope])
    values = np.linspace(-1.0, 1.0, size * 16, dtype=np.float32)
    feeds = {x: values.reshape(size, 16), w: values.reshape(16, size)}

    def run() -> Answer:
        return {str(place): one.tobytes() for place, one in enumerate(compiled(feeds, loss, slope))}

    return Case(run, run)


def training(random: Random, folder: Path) -> Case:
    """A model from nothing: parameters, a compiled step and two updates."""
    inputs = np.random.default_rng(random.randint(0, 9)).standard_normal((8, 3)).astype(np.float32)
    labels = (inputs[:, 0] > 0).astype(np.int32)

    def run() -> Answer:
        layer = nn.Sequential(hidden=nn.Dense(16), norm=nn.BatchNorm(), act=nn.ReLU(), classes=nn.Dense(2))
        model = nn.Model(layer, (3,), optimizer=nn.Adam(0.05))
        model.fit(inputs, labels, batch_size=4, epochs=1)
        return {name: tensor.numpy().tobytes() for name, tensor in {**model.tensors(), **model.states}.items()}

    return Case(run, run)


def file(random: Random, folder: Path) -> Case:
    """An ONNX file, loaded and run with two batch sizes."""
    weight = np.random.default_rng(random.randint(0, 9)).standard_normal((4, 6)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Softmax", ["p"], ["y"])]
    ends = [helper.make_tensor_value_info(name, 1, ["n", size]) for name, size in (("x", 4), ("y", 6))]
    parts = helper.make_graph(nodes, "g", ends[:1], ends[1:], [onnx.numpy_helper.from_array(weight, "w")])
    onnx.save(helper.make_model(parts, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), folder / "m.onnx")
    model = load(folder / "m.onnx")

    def run() -> Answer:
        results = [model.run({"x": np.ones((rows, 4), np.float32)})["y"] for rows in (2, 5)]
        return {str(place): np.asarray(one).tobytes() for place, one in enumerate(results)}

    return Case(run, run)


def generation(random: Random, folder: Path) -> Case:
    """Tokens of a small language model, each step on keys and values that are kept."""
    model = nn.Model(GPT(11, 16, 8, 1, 2), (nn.UpTo(16),), input_dtype=I32)
    prompts = [[random.randint(0, 9) for _ in range(count)] for count in (3, 5)]

    def run() -> Answer:
        return {"tokens": str(nn.generate(model, prompts, 4)).encode()}

    return Case(run, run)


def checkpoint(random: Random, folder: Path) -> Case:
    """A trained model as a file, and another one from it."""
    inputs = np.random.default_rng(random.randint(0, 9)).standard_normal((8, 3)).astype(np.float32)
    data = DataSet("some", inputs, (inputs[:, 0] > 0).astype(np.int32), ("a", "b"))
    path = folder / "model.safetensors"

    def model() -> nn.Model:
        return nn.Model(nn.Sequential(nn.Dense(16), nn.ReLU(), nn.Dense(2)), (3,), optimizer=nn.Adam(0.05))

    trained, batches = model(), Batches(data, 4, seed=2)
    trained.fit(batches, epochs=1)

    def run() -> Answer:
        nn.save_checkpoint(path, trained, nn.position_of(trained, batches))
        twin = model()
        nn.load_checkpoint(path, twin)
        assert os.listdir(folder) == [path.name]
        return {"file": path.read_bytes()} | {name: one.tobytes() for name, one in twin.state_dict().items()}

    return Case(run, run)


def streams(random: Random, folder: Path) -> Case:
    """A graph on three streams, whose threads stay; a run needs no memory beside its tensors, which are made in it."""
    x, commands = noise(1, 8, 8), [random.choice((ADDITION, PRODUCT)) for _ in range(4)]

    def run() -> Answer:
        whole, ends, total = ConcreteGraph(backend="llvm"), [room(8, 8) for _ in commands], room(8, 8)
        keys = [whole.add(command, [x, x], [end]) for command, end in zip(commands, ends, strict=True)]
        whole.add(ADDITION, [ends[0], ends[3]], [total], after=keys)
        whole.run(schedule=whole.schedule(streams=3))
        return {"total": total.numpy().tobytes()}

    return Case(run, run)


PROGRAMS: Mapping[str, Phase] = {
    "graph": graph,
    "training": training,
    "file": file,
    "eager": eager,
    "generation": generation,
    "checkpoint": checkpoint,
    "compile": compiling,
    "first run": first_run,
    "workers": workers,
    "autotune": tuning,
    "fit": fitting,
    "streams": streams,
}
