"""C libraries of ONNX files beside what others ship: time, code, and the memory that a process takes.

    python benchmarks/library_peers.py [--files squeezenet shufflenet] [--peers onnxruntime iree] [--seconds 5]

One JSON line per file and peer. Files are the light models of the package `onnx` with random weights as initializers,
of opset 17, so that every peer reads the same file. Time is the fastest of many calls in turns with the library's, in
one process, on one thread, inputs and outputs copied on both sides; `ratio` is the library's over the peer's.
Then each runs in a process of its own: `anonymous` is by how much its memory that no file is behind grew from before
loading to behind three runs, weights included where they are copied, `code` what was mapped to be executed, and `arena`
what a peer states of its plan, where it does. `off` is the largest difference of outputs.

Peers are those of onnxruntime, mnn, iree-base-compiler with iree-base-runtime, ncnn with pnnx, apache-tvm, and
executorch with torch that are installed. It needs gcc.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from library import aligned, fastest, runner
from onnx.version_converter import convert_version
from process import anonymous

import nnc.onnx
import onnx
from nnc import export
from nnc.core.settings import SETTINGS
from onnx import numpy_helper

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
FILES = ("squeezenet", "shufflenet", "inception_v2", "densenet121")
IMAGE = (1, 3, 224, 224)
OPSET = 17
FACTS = "facts.json"
Run = Callable[[], np.ndarray]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What runs a file once, and what is known of it."""

    run: Run
    facts: Mapping[str, object] = field(default_factory=dict)


def write_filled(name: str, path: Path) -> None:
    """The light file with random numbers for the weights that its graph makes."""
    model = onnx.load(LIGHT / f"light_{name}.onnx")
    graph, random = model.graph, np.random.default_rng(0)
    made = {value.name: numpy_helper.to_array(value) for value in graph.initializer}
    nodes = []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            nodes.append(node)
            continue
        shape = made[node.input[0]]
        filler = numpy_helper.to_array(node.attribute[0].t).item() if node.attribute else 0.0
        spread = random.standard_normal(shape) / np.sqrt(np.prod(shape[1:])) if shape.size > 1 else None
        weights = np.full(shape, filler) if spread is None else spread
        graph.initializer.append(numpy_helper.from_array(weights.astype(np.float32), node.output[0]))
    read = {value for node in nodes for value in node.input}
    kept = [value for value in graph.initializer if value.name in read]
    names = {value.name for value in kept}
    inputs = [value for value in graph.input if value.name in read - names]
    for values, new in ((graph.node, nodes), (graph.initializer, kept), (graph.input, inputs)):
        del values[:]
        values.extend(new)
    model.ir_version = 8
    onnx.save(convert_version(model, OPSET), path)


def ports(path: Path) -> tuple[str, str]:
    """The names of the one input and the one output."""
    graph = onnx.load(path, load_external_data=False).graph
    return graph.input[0].name, graph.output[0].name


def load_library(path: Path, folder: Path, image: np.ndarray) -> Loaded:
    """Our library, with constants inside, for the processor at hand."""
    model = nnc.onnx.load(path)
    made = export.library(model, "network", target="native", constants_inside=True)
    result = np.zeros(made.outputs[0].spec.shape, np.float32)
    run = runner(made, folder, image, result)
    (folder / FACTS).write_text(json.dumps({"arena": made.arena_bytes, "result": list(result.shape)}))

    def run_copied() -> np.ndarray:
        run()
        return result.copy()

    return Loaded(run_copied, {"arena": made.arena_bytes, "code": made.code_bytes})


def load_onnxruntime(path: Path, folder: Path, image: np.ndarray) -> Loaded:
    peer = import_module("onnxruntime")
    options = peer.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session, (name, _) = peer.InferenceSession(path, options, providers=["CPUExecutionProvider"]), ports(path)
    return Loaded(lambda: session.run(None, {name: image})[0])


def tool(*words: str | Path) -> None:
    """Runs a program that was installed beside this interpreter."""
    program = Path(sys.executable).parent / words[0]
    subprocess.run([program, *words[1:]], check=True, capture_output=True)


def load_mnn(path: Path, folder: Path, image: np.ndarray) -> Loaded:
    expressions, networks = import_module("MNN.expr"), import_module("MNN.nn")
    converted = folder / "network.mnn"
    if not converted.exists():
        tool("mnnconvert", "-f", "ONNX", "--modelFile", path, "--MNNModel", converted, "--bizCode", "MNN")
    options = {"backend": "CPU", "numThread": 1, "precision": "high"}
    runtime, (name, result) = networks.create_runtime_manager((options,)), ports(path)
    network = networks.load_module_from_file(str(converted), [name], [result], runtime_manager=runtime)

    def run() -> np.ndarray:
        given = expressions.const(image, image.shape, expressions.NCHW)
        return np.array(network.onForward([given])[0].read())

    return Loaded(run)


def load_iree(path: Path, folder: Path, image: np.ndarray) -> Loaded:
    peer, converted, made = import_module("iree.runtime"), folder / "network.mlir", folder / "network.vmfb"
    if not made.exists():
        tool("iree-import-onnx", path, "-o", converted)
        device = ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu")
        tool("iree-compile", converted, *device, "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3", "-o", made)
    config = peer.Config("local-sync")
    program = peer.VmModule.mmap(config.vm_instance, str(made))
    name = next(word for word in program.function_names if "$" not in word and not word.startswith("__"))
    function = getattr(peer.load_vm_modules(program, config=config)[0], name)

    def run() -> np.ndarray:
        return np.asarray(function(image))

    run()
    told = re.search(r"DEVICE_LOCAL: +(\d+)B peak", config.device.allocator.formatted_statistics)
    return Loaded(run, {"arena": int(told[1])} if told else {})


def load_ncnn(path: Path, folder: Path, image: np.ndarray) -> Loaded:
    peer, copied = import_module("ncnn"), folder / "network.onnx"
    if not (folder / "network.ncnn.bin").exists():
        copied.write_bytes(path.read_bytes())
        tool("pnnx", copied, "fp16=0")
    network = peer.Net()
    network.opt.num_threads, network.opt.use_vulkan_compute, network.opt.use_bf16_storage = 1, False, False
    network.opt.use_fp16_packed = network.opt.use_fp16_storage = network.opt.use_fp16_arithmetic = False
    network.load_param(str(folder / "network.ncnn.param"))
    network.load_model(str(folder / "network.ncnn.bin"))

    def run() -> np.ndarray:
        with network.create_extractor() as extractor:
            extractor.input("in0", peer.Mat(image[0]).clone())
            return np.array(extractor.extract("out0")[1])

    return Loaded(run)


def load_tvm(path: Path, folder: Path, image: np.ndarray) -> Loaded:
    """Without tuning, which takes hours a network."""
    peer, relax = import_module("tvm"), import_module("tvm.relax")
    importer = import_module("tvm.relax.frontend.onnx")
    made = folder / "network.so"
    if not made.exists():
        program = relax.get_pipeline("zero")(importer.from_onnx(onnx.load(path)))
        target = peer.target.Target({"kind": "llvm", "mcpu": peer.target.codegen.llvm_get_system_cpu()})
        peer.compile(program, target=target).export_library(str(made))
    machine = relax.VirtualMachine(peer.runtime.load_module(str(made)), peer.cpu())

    def run() -> np.ndarray:
        result: Any = machine["main"](peer.runtime.tensor(image, peer.cpu()))
        return np.asarray((result if hasattr(result, "numpy") else result[0]).numpy())

    return Loaded(run)


def load_executorch(path: Path, folder: Path, image: np.ndarray) -> Loaded:
    torch, made = import_module("torch"), folder / "network.pte"
    if not made.exists():
        import_module("executorch_peer").write_program(path, image, made)
    method = import_module("executorch.runtime").Runtime.get().load_program(made).load_method("forward")
    return Loaded(lambda: np.array(method.execute([torch.from_numpy(image)])[0].numpy()))


LOADERS: Mapping[str, Callable[[Path, Path, np.ndarray], Loaded]] = {
    "library": load_library,
    "onnxruntime": load_onnxruntime,
    "mnn": load_mnn,
    "iree": load_iree,
    "ncnn": load_ncnn,
    "tvm": load_tvm,
    "executorch": load_executorch,
}
MODULES = {
    "onnxruntime": "onnxruntime", "mnn": "MNN", "iree": "iree.runtime", "ncnn": "ncnn", "tvm": "tvm",
    "executorch": "executorch",
}  # fmt: skip


def executable() -> dict[str, int]:
    """The bytes of each file that this process may execute."""
    sizes: dict[str, int] = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        words = line.split()
        if len(words) > 5 and "x" in words[1]:
            begin, end = (int(word, 16) for word in words[0].split("-"))
            sizes[words[5]] = sizes.get(words[5], 0) + end - begin
    return sizes


def run_alone(peer: str, path: Path, folder: Path) -> dict[str, object]:
    """What a process takes to load and to run a file that was converted before."""
    image = np.random.default_rng(0).random(IMAGE, np.float32)
    if peer == "library":
        return library_alone(folder, image)
    before, mapped = anonymous(), executable()
    loaded = LOADERS[peer](path, folder, image)
    for _ in range(3):
        loaded.run()
    code = sum(size for name, size in executable().items() if name not in mapped)
    return {**loaded.facts, "anonymous": anonymous() - before, "code": code}


def library_alone(folder: Path, image: np.ndarray) -> dict[str, object]:
    """Our shared library was linked before: it needs neither nnc nor a compiler."""
    facts = json.loads((folder / FACTS).read_text())
    before = anonymous()
    function = ctypes.CDLL(str(folder / "network.so")).network_run
    arena, result = aligned(facts["arena"]), np.zeros(facts["result"], np.float32)
    inputs, outputs = (ctypes.c_void_p * 1)(image.ctypes.data), (ctypes.c_void_p * 1)(result.ctypes.data)
    for _ in range(3):
        assert function(ctypes.c_void_p(arena.ctypes.data), inputs, outputs) == 0
    return {"anonymous": anonymous() - before}


def alone(peer: str, path: Path, folder: Path) -> dict[str, object]:
    """`run_alone` in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(run_alone, (peer, path, folder))


def compared(name: str, peers: list[str], seconds: float) -> None:
    image = np.random.default_rng(0).random(IMAGE, np.float32)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / f"{name}.onnx"
        write_filled(name, path)
        folders = {peer: Path(place) / peer for peer in ("library", *peers)}
        for folder in folders.values():
            folder.mkdir()
        ours = load_library(path, folders["library"], image)
        right = ours.run().ravel()
        row = {"file": name, "peer": "library", **ours.facts, **alone("library", path, folders["library"])}
        print(json.dumps(row), flush=True)
        for peer in peers:
            loaded = LOADERS[peer](path, folders[peer], image)
            off = float(np.abs(loaded.run().ravel() - right).max())
            mine, theirs = fastest([lambda: ours.run() is None, lambda run=loaded.run: run() is None], seconds)
            row = {"library_ms": 1e3 * mine, "peer_ms": 1e3 * theirs, "ratio": mine / theirs, "off": off}
            print(json.dumps({"file": name, "peer": peer, **row, **alone(peer, path, folders[peer])}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", nargs="*", default=list(FILES))
    here = [peer for peer, module in MODULES.items() if find_spec(module.split(".")[0])]
    parser.add_argument("--peers", nargs="*", default=here)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    SETTINGS.threads = 1
    for name in options.files:
        compared(name, options.peers, options.seconds)


if __name__ == "__main__":
    main()
