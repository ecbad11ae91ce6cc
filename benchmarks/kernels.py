"""GFLOP/s of the LLVM backend's matrix products and convolutions, GB/s of what memory limits; one JSON line per case.

    python benchmarks/kernels.py [--threads N] [--repeats N] [--only TEXT] [--sweep] [--processor]

Products run in alternation with torch's matmul, where torch is installed, on as many threads, and with NumPy's (whose
BLAS chooses its own threads unless OPENBLAS_NUM_THREADS says otherwise); `ratio` is our rate / that of the better one.
Those of bf16 run beside ours of f32 and torch's of bf16; those of bytes (`--only int8`) beside ours of f32 and
onnxruntime's. `share` is the part of the machine's measured FMA peak of f32, which is that of a loop on each thread
that does nothing but fused multiply-adds on registers, in turns with each case, as the clock sinks under load. For
kernels that memory limits, `share` is the part of the rate of a copy that runs in alternation; what counts is each
operand once. Their operands are several times as large as caches are, and lie where NumPy puts them. On a busy machine
`--threads 1 --processor` counts the time in which the process had a processor.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc.backends.llvm.backend import LlvmBackend
from nnc.backends.llvm.run.engine import engine
from nnc.backends.llvm.run.peak import peak
from nnc.core.running.dispatch import Call
from nnc.core.settings import SETTINGS
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.dtype import BF16, U8
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.ops.convolutions.convolutions import (
    CONVOLUTION,
    CONVOLUTION_DATA_GRADIENT,
    CONVOLUTION_WEIGHT_GRADIENT,
    ConvolutionAttrs,
    ConvolutionGradientAttrs,
)
from nnc.ops.convolutions.window import Window, window_of
from nnc.ops.elementwise.pointwise import add, erf, exp, gelu, relu, sigmoid, tanh
from nnc.ops.movement.broadcast import REDUCE_SUM, ReduceAttrs
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.movement import TRANSPOSE, TransposeAttrs
from nnc.ops.normalization.normalization import LAYER_NORM, RMS_NORM, NormalizationAttrs
from nnc.ops.normalization.softmaxes import log_softmax, softmax
from nnc.ops.optimizer.optimizer import GRADIENT_DESCENT, GradientDescentAttrs
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.quantization.quantization import INTEGER_PRODUCT, IntegerProductAttrs
from nnc.ops.rules import NoAttrs, infer

Array = NDArray[np.float32]
Run = Callable[[], object]
Clock = Callable[[], float]
# Runs of a turn, seconds of a turn, seconds between turns.
RUNS, TURN, PAUSE = 3, 0.01, 0.3
MATRIX = (32768, 1024)
BYTES_PRODUCTS = ((512, 512, 512), (128, 3072, 768), (128, 768, 3072), (128, 768, 768), (3136, 64, 64), (49, 512, 2048))
COPIED, NONE = 2 * 4 * MATRIX[0] * MATRIX[1], NoAttrs()
BACKEND = LlvmBackend()


@dataclass(frozen=True, slots=True)
class Product:
    """c[n, rows, columns] = a[n, rows, inner] b[n, inner, columns] for n in batch; the flipped ones lie transposed."""

    rows: int
    columns: int
    inner: int
    flip_a: bool = False
    flip_b: bool = False
    batch: int = 1

    @property
    def operations(self) -> float:
        return 2.0 * self.batch * self.rows * self.columns * self.inner

    def __str__(self) -> str:
        size = f"{self.batch} of " if self.batch > 1 else ""
        flips = f"{' a^T' if self.flip_a else ''}{' b^T' if self.flip_b else ''}"
        return f"gemm {size}{self.rows}x{self.columns}x{self.inner}{flips}"


TOKENS, WIDTH, HEADS = (128, 512, 2048), 768, 12
PRODUCTS = (
    *(Product(size, size, size) for size in (64, 128, 256, 384, 512, 768, 1024, 1536, 2048)),
    Product(512, 512, 512, flip_a=True),
    Product(512, 512, 512, flip_b=True),
    Product(64, 10, 128),
    Product(64, 128, 1024),
    # A transformer: projections, the two layers behind attention and their gradients, scores and their use.
    *(Product(tokens, WIDTH, WIDTH) for tokens in TOKENS),
    *(Product(tokens, 4 * WIDTH, WIDTH, flip_b=flip) for tokens in TOKENS for flip in (False, True)),
    *(Product(tokens, WIDTH, 4 * WIDTH, flip_b=flip) for tokens in TOKENS for flip in (False, True)),
    Product(2048, 1536, 384),
    Product(2048, 384, 1536),
    Product(384, 1536, 2048, flip_a=True),
    *(Product(tokens, tokens, 64, flip_b=True, batch=HEADS) for tokens in (128, 512)),
    *(Product(tokens, 64, tokens, batch=HEADS) for tokens in (128, 512)),
    Product(1, 1024, 1024),
    Product(1, 1024, 1024, flip_b=True),
    Product(1024, 1, 1024),
)
# Powers of two and their neighbours, where strides fall on few sets and pages, and layers of transformers of so many
# rows (a sentence, an image of 14x14 patches and a class, batches of them), with every transpose.
SQUARES = (256, 384, 511, 512, 513, 768, 1023, 1024, 1025, 1536, 2048, 4096)
LAYERS = tuple(
    (rows, columns, inner)
    for rows in (128, 197, 256, 512, 2048)
    for columns, inner in ((WIDTH, WIDTH), (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH))
)
SWEEP = tuple(
    Product(*sizes, flip_a, flip_b)
    for sizes in (*((size, size, size) for size in SQUARES), *LAYERS)
    for flip_a in (False, True)
    for flip_b in (False, True)
)
# batch, size, channels, kernel, filters, stride, border, groups
CONVOLUTIONS = (
    (64, 8, 1, 3, 32, 1, 1, 1),
    (64, 8, 32, 3, 32, 1, 1, 1),
    (64, 4, 32, 3, 64, 1, 1, 1),
    (128, 32, 16, 3, 16, 1, 1, 1),
    (1, 224, 3, 7, 64, 2, 3, 1),
    (1, 56, 64, 3, 64, 1, 1, 1),
    (1, 28, 128, 3, 128, 1, 1, 1),
    (1, 14, 256, 3, 256, 1, 1, 1),
    (1, 7, 512, 3, 512, 1, 1, 1),
    (1, 56, 128, 3, 128, 2, 1, 1),
    (1, 56, 64, 1, 256, 1, 0, 1),
    (1, 14, 1024, 1, 256, 1, 0, 1),
    (1, 112, 32, 3, 32, 1, 1, 32),
    (1, 14, 576, 3, 576, 1, 1, 576),
)


@dataclass(frozen=True, slots=True)
class Case:
    """What is run: a name, its floating-point operations, our program, and those of peers.

    Where memory is the limit there are `nbytes` instead, and the only peer is a copy, which moves `COPIED` bytes.
    """

    name: str
    operations: float
    ours: Run
    peers: Mapping[str, Run] = field(default_factory=dict)
    nbytes: int = 0


def random(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


def program(command: AnyCommand, *arrays: Array | None) -> Run:
    inputs = tuple(None if array is None else Tensor.from_numpy(array) for array in arrays)
    results = infer(command.op, command.attrs, tuple(None if tensor is None else tensor.spec for tensor in inputs))
    kernel = BACKEND.kernel(command, tuple(None if tensor is None else tensor.spec for tensor in inputs), results)
    size = kernel.workspace_bytes
    workspace = Tensor.empty(TensorSpec((size,), U8)) if size else None
    return BACKEND.program([Call(kernel, inputs, tuple(Tensor.empty(result) for result in results), workspace)])


def optional(name: str, workers: int) -> Any:  # noqa: ANN401  it may be absent, so nothing here can name its type
    """The module of a peer that runs on `workers` threads, or None, which is said."""
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        print(json.dumps({"peer": name, "skipped": str(error)}))
        return None
    module.set_num_threads(workers)
    return module


def operands(product: Product) -> tuple[Array, Array]:
    rows, columns, inner = product.rows, product.columns, product.inner
    outer = (product.batch,) if product.batch > 1 else ()
    a = random(*outer, inner, rows) if product.flip_a else random(*outer, rows, inner)
    b = random(*outer, columns, inner) if product.flip_b else random(*outer, inner, columns)
    return a, b


def products(torch: Any, *, sweep: bool) -> Iterator[Case]:  # noqa: ANN401  see `optional`
    for product in SWEEP if sweep else PRODUCTS:
        a, b = operands(product)
        left, right = a.swapaxes(-1, -2) if product.flip_a else a, b.swapaxes(-1, -2) if product.flip_b else b
        out = np.empty((*a.shape[:-2], product.rows, product.columns), np.float32)
        peers: dict[str, Run] = {"numpy": partial(np.matmul, left, right, out=out)}
        if torch is not None:
            place = torch.from_numpy(np.empty_like(out))
            peers["torch"] = partial(torch.matmul, torch.from_numpy(left), torch.from_numpy(right), out=place)
        command = Command(GEMM, GemmAttrs(product.flip_a, product.flip_b))
        yield Case(str(product), product.operations, program(command, a, b, None), peers)
        if not sweep:
            yield narrow_product(product, torch, (a, b), command)


def narrow_product(product: Product, torch: Any, operands: tuple[Array, Array], command: AnyCommand) -> Case:  # noqa: ANN401  see `optional`
    """The same of bf16, beside our own of f32 and torch's of bf16."""
    peers: dict[str, Run] = {"f32": program(command, *operands, None)}
    if torch is not None:
        flips = (product.flip_a, product.flip_b)
        sides = [torch.from_numpy(one).bfloat16() for one in operands]
        left, right = (one.mT if flip else one for one, flip in zip(sides, flips, strict=True))
        peers["torch"] = partial(torch.matmul, left, right, out=torch.matmul(left, right))
    ours = program(command, *(one.astype(BF16.numpy) for one in operands), None)
    return Case(f"{product} bf16", product.operations, ours, peers)


def bytes_products() -> Iterator[Case]:
    """u8 a times i8 b, into i32, beside our own product of f32 and onnxruntime's MatMulInteger of a constant b."""
    for rows, columns, inner in BYTES_PRODUCTS:
        generator = np.random.default_rng(0)
        a = generator.integers(0, 256, (rows, inner), dtype=np.uint8)
        b = generator.integers(-128, 128, (inner, columns), dtype=np.int8)
        peers: dict[str, Run] = {
            "f32": program(Command(GEMM, GemmAttrs()), random(rows, inner), random(inner, columns), None)
        }
        peers |= matmul_integer(a, b)
        ours = program(Command(INTEGER_PRODUCT, IntegerProductAttrs()), a, b, None, None)
        yield Case(f"int8 {rows}x{columns}x{inner}", 2.0 * rows * columns * inner, ours, peers)


def matmul_integer(a: NDArray[Any], b: NDArray[Any]) -> dict[str, Run]:
    """onnxruntime's product, where it is installed, on as many threads."""
    try:
        runtime, onnx = importlib.import_module("onnxruntime"), importlib.import_module("onnx")
    except ImportError:
        return {}
    make, kind = onnx.helper, onnx.TensorProto
    x, y = make.make_tensor_value_info("a", kind.UINT8, a.shape), make.make_tensor_value_info("y", kind.INT32, None)
    node = make.make_node("MatMulInteger", ["a", "b"], ["y"])
    graph = make.make_graph([node], "g", [x], [y], [onnx.numpy_helper.from_array(b, "b")])
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 13)], ir_version=8)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = SETTINGS.worker_count()
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return {"onnxruntime": partial(session.run, None, {"a": a})}


def convolutions() -> Iterator[Case]:
    for batch, size, channels, kernel, filters, stride, border, groups in CONVOLUTIONS:
        window: Window = window_of(kernel, stride=stride, padding=border)
        output = (size + 2 * border - kernel) // stride + 1
        x, w = random(batch, size, size, channels), random(kernel, kernel, channels // groups, filters)
        g = random(batch, output, output, filters)
        work = 2.0 * batch * output * output * filters * kernel * kernel * channels / groups
        shape = f"{batch}x{size}x{size}x{channels} {kernel}x{kernel} {filters} /{stride}"
        shape = shape if groups == 1 else f"{shape} in {groups} groups"
        data = ConvolutionGradientAttrs(window, groups, (size, size))
        weight = replace(data, sizes=(kernel, kernel))
        forward = Command(CONVOLUTION, ConvolutionAttrs(window, groups))
        yield Case(f"convolution {shape}", work, program(forward, x, w, None))
        yield Case(f"data gradient {shape}", work, program(Command(CONVOLUTION_DATA_GRADIENT, data), g, w))
        yield Case(f"weight gradient {shape}", work, program(Command(CONVOLUTION_WEIGHT_GRADIENT, weight), x, g))


def memory_limited() -> Iterator[Case]:
    """Operators that do little with much: rows of a transformer."""
    x, y = random(*MATRIX), random(*MATRIX)
    row = random(MATRIX[1])
    last, norm = ReduceAttrs((1,)), NormalizationAttrs((1,), (1,))
    rate = np.float32(0.1).reshape(())
    rows: tuple[tuple[AnyCommand, tuple[Array | None, ...]], ...] = (
        (Command(contiguous, NONE), (x,)),
        (Command(relu, NONE), (x,)),
        (Command(exp, NONE), (x,)),
        (Command(tanh, NONE), (x,)),
        (Command(sigmoid, NONE), (x,)),
        (Command(erf, NONE), (x,)),
        (Command(gelu, NONE), (x,)),
        (Command(add, NONE), (x, y)),
        (Command(add, NONE), (x, row)),
        (Command(TRANSPOSE, TransposeAttrs((1, 0))), (x,)),
        (Command(REDUCE_SUM, last), (x,)),
        (Command(REDUCE_SUM, ReduceAttrs((0,))), (x,)),
        (Command(softmax, NONE), (x,)),
        (Command(log_softmax, NONE), (x,)),
        (Command(LAYER_NORM, norm), (x, row, row)),
        (Command(RMS_NORM, norm), (x, row)),
        (Command(GRADIENT_DESCENT, GradientDescentAttrs()), (x, y, rate)),
    )
    copy = program(Command(contiguous, NONE), x)
    for command, arrays in rows:
        results = infer(
            command.op, command.attrs, tuple(None if a is None else Tensor.from_numpy(a).spec for a in arrays)
        )
        moved = sum(array.nbytes for array in arrays if array is not None) + sum(result.nbytes for result in results)
        shapes = ", ".join("x".join(map(str, array.shape)) for array in arrays if array is not None)
        yield Case(f"{command.op.name} {shapes} {command.attrs}", 0.0, program(command, *arrays), {"copy": copy}, moved)


def seconds(run: Run, clock: Clock) -> float:
    start = clock()
    run()
    return clock() - start


def turn(run: Run, clock: Clock) -> list[float]:
    """Seconds of runs in a row: enough of them for sleeping workers to be awake in most."""
    found: list[float] = []
    while len(found) < RUNS or sum(found) < TURN:
        found.append(seconds(run, clock))
    return found


def measure(case: Case, repeats: int, workers: int, clock: Clock) -> tuple[float, dict[str, float], float]:
    """Best seconds of ours and of each peer, and the peak: in turns, with pauses, as threads of a BLAS spin on."""
    pause = PAUSE if workers > 1 else 0.0
    ours: list[float] = []
    limits: list[float] = []
    peers: dict[str, list[float]] = {name: [] for name in case.peers}
    for _ in range(repeats):
        ours += turn(case.ours, clock)
        limits.append(peak(engine(), RUNS, workers=workers))
        for name, peer in case.peers.items():
            time.sleep(pause)
            peers[name] += turn(peer, clock)
        if peers:
            time.sleep(pause)
    return min(ours), {name: min(found) for name, found in peers.items()}, max(limits)


def report(case: Case, repeats: int, workers: int, clock: Clock) -> dict[str, object]:
    ours, peers, limit = measure(case, repeats, workers, clock)
    if case.nbytes:
        rate, copied = case.nbytes / ours, COPIED / peers["copy"]
        figures = {"microseconds": ours * 1e6, "gigabytes": rate / 1e9, "copy": copied / 1e9, "share": rate / copied}
        return {"case": case.name} | {name: round(value, 3) for name, value in figures.items()}
    rate = case.operations / ours
    row: dict[str, object] = {
        "case": case.name,
        "microseconds": round(ours * 1e6, 1),
        "gflops": round(rate / 1e9, 1),
        "share": round(rate / limit, 3),
    }
    row |= {f"{name}_gflops": round(case.operations / peer / 1e9, 1) for name, peer in peers.items()}
    return row | ({"ratio": round(min(peers.values()) / ours, 3)} if peers else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="workers; 0 means one per usable core")
    parser.add_argument("--repeats", type=int, default=6, help="turns per case; the best run counts")
    parser.add_argument("--only", default="", help="run the cases whose name contains this text")
    parser.add_argument("--sweep", action="store_true", help="products of many sizes instead of all else")
    parser.add_argument("--processor", action="store_true", help="count the process's own time on processors")
    options = parser.parse_args()
    clock = time.process_time if options.processor else time.perf_counter
    SETTINGS.threads = options.threads
    workers = SETTINGS.worker_count()
    limit = peak(engine(), options.repeats, workers=workers)
    target = engine().target
    machine = {"processor": target.processor, "vector_bits": target.vector_bits, "threads": workers}
    print(json.dumps({**machine, "peak_gflops": round(limit / 1e9, 1)}))
    torch = optional("torch", workers)
    others = () if options.sweep else (bytes_products(), convolutions(), memory_limited())
    for cases in (products(torch, sweep=options.sweep), *others):
        for case in cases:
            if options.only in case.name:
                print(json.dumps(report(case, options.repeats, workers, clock)), flush=True)


if __name__ == "__main__":
    main()
