"""Libraries of several sizes: the bits of a program for each alone, one header, shared constants and kernels."""

from __future__ import annotations

import ctypes
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.export.compiled_c import STRICT, Array, aligned_bytes, checked, pointers, shared, tool
from tests.export.test_targets import RUNNERS
from tests.onnx import models

import nnc
import nnc.onnx
import onnx
from nnc import export, nn
from nnc.errors import UsageError

SIZE = 7
SIZES = range(1, 9)
X = np.random.default_rng(0).standard_normal((8, 8, 8, 3)).astype(np.float32)


def layers() -> nn.Layer:
    return nn.Sequential(
        nn.Convolution(8), nn.BatchNorm(), nn.ReLU(), nn.MaxPool(2), nn.Convolution(8), nn.GELU(), nn.Flatten(),
        nn.Dense(10),
    )  # fmt: skip


@pytest.fixture(scope="module")
def model() -> nn.Model:
    return nn.Model(layers(), (8, 8, 3), optimizer=nn.SGD(0.1))


@pytest.fixture(scope="module")
def library(model: nn.Model) -> export.CLibrary:
    return export.library(model, "open", batch=SIZES)


@pytest.fixture(scope="module")
def code(library: export.CLibrary, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return shared(library, tmp_path_factory.mktemp("open"))


def run(code: ctypes.CDLL, library: export.CLibrary, size: int, x: Array, y: Array) -> int:
    arena = aligned_bytes(library.arena_bytes)
    ports = ctypes.c_void_p(arena.ctypes.data), pointers(x), pointers(y)
    return int(code.open_run(*ports, ctypes.c_size_t(size)))


@pytest.mark.parametrize("size", SIZES)
def test_each_size_has_the_bits_of_our_own_run(
    model: nn.Model, library: export.CLibrary, code: ctypes.CDLL, size: int
) -> None:
    y = np.full((9, 10), 7, np.float32)
    assert run(code, library, size, X[:size], y) == 0
    assert y[:size].tobytes() == model.freeze(size).run(X[:size])[0].tobytes()
    assert (y[size:] == 7).all()


@pytest.mark.parametrize("size", [0, 9, 1 << 32, (1 << 64) - 1])
def test_a_size_beside_them_is_a_code_before_anything_is_written(
    library: export.CLibrary, code: ctypes.CDLL, size: int
) -> None:
    y = np.full((9, 10), 7, np.float32)
    assert run(code, library, size, X, y) == SIZE
    assert (y == 7).all()


def test_the_checked_run_asks_for_the_arena_of_the_size(
    model: nn.Model, library: export.CLibrary, code: ctypes.CDLL
) -> None:
    small = export.library(model, "open", batch=1).arena_bytes
    assert small < library.arena_bytes
    arena, y = aligned_bytes(small), np.zeros((8, 10), np.float32)
    ports = ctypes.c_void_p(arena.ctypes.data), pointers(X), pointers(y)
    for size, nbytes, code_of in ((1, small, 0), (1, small - 1, 3), (8, small, 3), (9, small, SIZE)):
        assert code.open_run_checked(ctypes.c_size_t(nbytes), *ports, ctypes.c_size_t(size)) == code_of
    sizes = export.library(model, "open", batch=(1, 8))
    assert sizes.arena_bytes == library.arena_bytes


def test_the_header_names_the_size(library: export.CLibrary, tmp_path: Path) -> None:
    header = library.files["open.h"].decode()
    assert "const float *input; /* f32[batch, 8, 8, 3] */" in header
    assert "#define OPEN_BATCH_LEAST ((size_t)1)" in header
    assert "#define OPEN_BATCH_MOST ((size_t)8)" in header
    assert checked(library, tmp_path, "gcc") == "open: the recorded answers\n"
    build = [tool("gcc"), *STRICT, "main.c", "-L.", "-lopen", "-o", "main"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "plus.cpp").write_text(
        '#include "open.hpp"\nstatic open::program one; int main() { return 0 * sizeof one; }'
    )
    subprocess.run([tool("g++"), "-std=c++11", "-Werror", "-Wall", "plus.cpp"], cwd=tmp_path, check=True)


def test_sizes_share_constants_and_kernels(model: nn.Model, library: export.CLibrary) -> None:
    alone = export.library(model, "open", batch=8)
    assert library.constant_bytes <= 2 * alone.constant_bytes
    assert library.code_bytes <= 5 * alone.code_bytes


def test_an_update_of_any_batch_goes_on_from_one_state(model: nn.Model, tmp_path: Path) -> None:
    twin = nn.Model(layers(), (8, 8, 3), optimizer=nn.SGD(0.1))
    made = export.library(twin, "open", function="train", batch=(2, 3))
    code, state = shared(made, tmp_path), aligned_bytes(made.state_bytes)
    state[:] = np.frombuffer((ctypes.c_ubyte * made.state_bytes).in_dll(code, "open_initial_state"), np.uint8)
    labels, rate = np.array([1, 2, 3], np.int32), np.array([0.1], np.float32)
    for size in (2, 3, 2):
        loss, score = np.zeros(1, np.float32), np.zeros(1, np.float32)
        arena = aligned_bytes(made.arena_bytes)
        given = pointers(X[:size], labels[:size], rate), pointers(loss, score)
        memory = ctypes.c_void_p(arena.ctypes.data), ctypes.c_void_p(state.ctypes.data)
        assert code.open_run(*memory, *given, ctypes.c_size_t(size)) == 0
        assert float(loss[0]) == twin.train_on_batch(X[:size], labels[:size])[0]


@pytest.mark.turns(5)
@pytest.mark.parametrize("target", ["aarch64", "armv7", "riscv64"])
def test_other_processors_take_a_size(model: nn.Model, target: str, tmp_path: Path) -> None:
    runner = next(row for row in RUNNERS if row.target == target)
    made = export.library(model, "open", target=target, batch=(1, 3, 4))
    tool(runner.emulator[0])
    assert checked(made, tmp_path, runner.compiler, runner=runner.emulator) == "open: the recorded answers\n"


def test_sizes_out_of_order_or_too_many_are_refused(model: nn.Model) -> None:
    for sizes in ((), (2, 1), (1, 1), (0, 1)):
        with pytest.raises(UsageError, match="each larger than the one before"):
            export.library(model, "open", batch=sizes)
    with pytest.raises(UsageError, match="99 sizes of batch; need at most 64"):
        export.library(model, "open", batch=range(1, 100))
    function = nnc.compile(lambda x: x + 1.0)
    with pytest.raises(UsageError, match="a model or an ONNX file"):
        export.library(function, "open", example=(X,), batch=SIZES)


def test_a_file_of_two_open_dimensions_has_the_bits_of_each_row(tmp_path: Path) -> None:
    nodes = [models.node("MatMul", "x w", "h"), models.node("Softmax", "h", "y", axis=1)]
    weights = np.random.default_rng(1).standard_normal((12, 5)).astype(np.float32)
    file = tmp_path / "open.onnx"
    onnx.save(models.model(nodes, {"x": ("batch", "length", 12)}, ["y"], {"w": weights}), file)
    made = export.library(nnc.onnx.load(file), "open", sizes={"batch": (1, 3), "length": (2, 5)})
    header = made.files["open.h"].decode()
    assert "const float *x; /* f32[batch, length, 12] */" in header
    assert (
        "open_run(void *arena, const open_inputs *inputs, open_outputs *outputs, size_t batch, size_t length)" in header
    )
    assert "#define OPEN_LENGTH_MOST ((size_t)5)" in header
    rows = json.loads(made.files["open.json"])["open"]["arenas"]
    assert [(row["batch"], row["length"]) for row in rows] == [(1, 2), (1, 5), (3, 2), (3, 5)]
    assert max(row["arena"] for row in rows) == made.arena_bytes
    code = shared(made, tmp_path)
    for batch, length in ((1, 2), (1, 5), (3, 2), (3, 5), (2, 5), (3, 1), (5, 3)):
        x = np.random.default_rng(2).standard_normal((batch, length, 12)).astype(np.float32)
        arena, y = aligned_bytes(made.arena_bytes), np.full((batch, length, 5), 7, np.float32)
        sizes = ctypes.c_size_t(batch), ctypes.c_size_t(length)
        told = code.open_run(ctypes.c_void_p(arena.ctypes.data), pointers(x), pointers(y), *sizes)
        if (batch, length) in [(row["batch"], row["length"]) for row in rows]:
            own = nnc.onnx.load(file).run({"x": x})["y"]
            assert (told, y.tobytes()) == (0, np.asarray(own).tobytes())
        else:
            assert told == SIZE
            assert (y == 7).all()
    assert checked(made, tmp_path, "gcc") == "open: the recorded answers\n"


def test_a_file_of_an_open_dimension_and_a_known_input(tmp_path: Path) -> None:
    """The number `k` is a shape's part, so it is known by its value and no input of the library."""
    nodes = [
        models.node("Unsqueeze", "k axis", "length"),
        models.node("Concat", "rows length", "shape", axis=0),
        models.node("Reshape", "x shape", "flat"),
        models.node("MatMul", "flat w", "y"),
    ]
    weights = np.random.default_rng(1).standard_normal((12, 5)).astype(np.float32)
    constants = {"axis": np.array([0]), "rows": np.array([-1]), "w": weights}
    file, described = tmp_path / "open.onnx", models.model(nodes, {"x": ("n", 3, 4)}, ["y"], constants)
    described.graph.input.append(onnx.helper.make_tensor_value_info("k", onnx.TensorProto.INT64, ()))
    onnx.save(described, file)
    made = export.library(nnc.onnx.load(file), "open", sizes={"n": range(1, 5), "k": 12})
    assert [port.name for port in made.inputs] == ["x"]
    code, x = shared(made, tmp_path), np.random.default_rng(2).standard_normal((4, 3, 4)).astype(np.float32)
    for size in range(1, 5):
        y = np.zeros((size, 5), np.float32)
        assert run(code, made, size, x[:size], y) == 0
        own = nnc.onnx.load(file).run({"x": x[:size], "k": np.int64(12)})["y"]
        assert y.tobytes() == np.asarray(own).tobytes()
