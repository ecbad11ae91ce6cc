"""The kinds of files that nnc reads: a whole one of each, and who reads it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
from tests.fuzz.files.mutation import mutated
from tests.fuzz.files.onnx_models import mutated_model, onnx_models, read_onnx

from nnc import nn, ops, planning
from nnc.concrete import CountBelow, TuneCache
from nnc.concrete.choices import FILE_NAME, MeasuredChoice
from nnc.core.values.serialize import load_tensors, save_tensors
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.language.gguf import MetadataValue, TensorSource, ValueKind, read_gguf, write_gguf
from nnc.nn.data import Batches, Examples
from nnc.symbolic import SymbolicGraph, backward, case_of, while_loop
from nnc.symbolic.serialize import load, save
from nnc.symbolic.text import dump, parse


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file: the name it has, the bytes of whole ones, what reads it, and what goes wrong with it."""

    name: str
    whole: Callable[[], tuple[bytes, ...]]
    read: Callable[[Path], object]
    mutate: Callable[[Random, bytes], bytes] = mutated


def _written(write: Callable[[Path], object]) -> bytes:
    with TemporaryDirectory(prefix="nnc-fuzz-") as folder:
        place = Path(folder) / "file"
        write(place)
        return place.read_bytes()


@cache
def tensor_files() -> tuple[bytes, ...]:
    """Tensors of some types and shapes."""
    tensors = {
        "weight": Tensor.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3)),
        "steps": Tensor.from_numpy(np.arange(3, dtype=np.int64)),
        "none": Tensor.zeros(spec((0, 2))),
        "scalar": Tensor.zeros(spec((), "bf16")),
    }
    return (_written(lambda place: save_tensors(place, tensors, {"nnc": "1", "note": "ä"})),)


def small_model() -> nn.Model:
    """The model of the checkpoint."""
    return nn.Model(nn.Sequential(nn.Dense(2), nn.BatchNorm()), (3,), backend="reference")


@cache
def checkpoints() -> tuple[bytes, ...]:
    """A checkpoint before any training."""
    model, data = small_model(), Examples("none", np.zeros((4, 3), np.float32), np.zeros(4, np.int32))
    return (_written(lambda place: nn.save_checkpoint(place, model, nn.position_of(model, Batches(data, 2)))),)


@cache
def symbolic_graphs() -> tuple[SymbolicGraph, ...]:
    """A graph with gradients, and one with a loop and branches."""
    plain = SymbolicGraph("plain")
    x, w = plain.input(spec((4, 3)), "x"), plain.input(spec((3, 2)), "w")
    loss = ops.reduce_mean(ops.square(ops.relu(x @ w)[1:3]))
    backward(plain, [loss], [w])
    control = SymbolicGraph("control")
    y = control.input(spec((2, 2)), "y")
    index = control.input(spec((), "i64"), "index")
    (chosen,) = case_of(control, index, [ops.sin, ops.exp], [y])
    with while_loop(control, CountBelow(3)) as loop:
        a = loop.carry(chosen, "a")
        loop.next(a, ops.tanh(a * 0.5))
    loop.result(a).named("z")
    return plain, control


@cache
def graph_documents() -> tuple[bytes, ...]:
    """The graphs as JSON."""
    return tuple(save(graph).encode() for graph in symbolic_graphs())


@cache
def graph_texts() -> tuple[bytes, ...]:
    """The graphs as text."""
    return tuple(dump(graph).encode() for graph in symbolic_graphs())


@cache
def autotune_files() -> tuple[bytes, ...]:
    """A table of winners."""

    def write(place: Path) -> None:
        cache = TuneCache(place.parent)
        for number in range(3):
            cache.put(f"key {number}", MeasuredChoice("llvm", 0.5 * number, "nnc-1"))
        cache.save()
        (place.parent / FILE_NAME).rename(place)

    return (_written(write),)


@cache
def gguf_files() -> tuple[bytes, ...]:
    """Values of all kinds, and tensors of some types."""
    values = {
        "general.architecture": "llama",
        "general.alignment": 32,
        "tokenizer.ggml.tokens": ("a", "ä", ""),
        "tokenizer.ggml.scores": np.array([0.5, -1.0, 2.0], np.float32),
        "flag": True,
        "long": MetadataValue(ValueKind.U64, 1 << 63),
    }
    packed = TensorSource("packed", (2, 64), "q4_0", lambda: np.zeros(72, np.uint8))
    tensors = [TensorSource.of("weight", np.ones((2, 3), np.float32)), packed]
    return (_written(lambda place: write_gguf(place, values, tensors)),)


def plan_files() -> tuple[bytes, ...]:
    """Problems of the planner, with and without the columns that need not be there."""
    return (
        b"id,lower,upper,size\na,0,3,64\nb,1,4,100\nc,4,5,32\n",
        b"id,lower,upper,size,alignment,offset,memory\na,0,3,64,64,0,host\nb,1,4,100,1,,cuda\n",
    )


def _read_tensors(place: Path) -> None:
    for tensor in load_tensors(place).tensors.values():
        repr(tensor)


def _read_gguf(place: Path) -> None:
    for mapped in (False, True):
        file = read_gguf(place, mapped=mapped)
        for name in file.tensors:
            assert file.bytes(name).nbytes == file.tensors[name].nbytes


def _read_checkpoint(place: Path) -> None:
    nn.read_position(place)
    nn.load_checkpoint(place, small_model())


def _read_autotune(place: Path) -> None:
    """Such a file is ignored with a warning when it cannot be used, and is written anew."""
    place = place.rename(place.parent / FILE_NAME)
    cache = TuneCache(place.parent)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        cache.get("key 1")
        cache.put("key 1", MeasuredChoice("llvm", 1.0, "nnc-1"))
        cache.save()
    TuneCache(place.parent).get("key 1")


def _read_plan(place: Path) -> None:
    problem = planning.read_csv(place)
    if len(problem.blocks) < 50:
        assert planning.faults(problem, planning.solve(problem, time_limit=0.2)) == ()


KINDS: tuple[Kind, ...] = (
    Kind("tensors", tensor_files, _read_tensors),
    Kind("checkpoint", checkpoints, _read_checkpoint),
    Kind("graph as JSON", graph_documents, lambda place: dump(load(place.read_text("utf-8", "replace")))),
    Kind("graph as text", graph_texts, lambda place: dump(parse(place.read_text("utf-8", "replace")))),
    Kind("autotune", autotune_files, _read_autotune),
    Kind("plan", plan_files, _read_plan),
    Kind("GGUF", gguf_files, _read_gguf),
    Kind("ONNX", onnx_models, read_onnx, mutated_model),
)
