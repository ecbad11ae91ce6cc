"""Libraries on this machine: the bits of our own run, error codes, memory, refusals."""

from __future__ import annotations

import ctypes
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.export.compiled_c import STRICT, aligned_bytes, checked, pointers, run, shared, tool

from nnc import export, nn, ops
from nnc.backends.llvm import object_files
from nnc.core.values.spec import spec
from nnc.errors import BackendError, UsageError
from nnc.symbolic import SymbolicGraph, compile

LAYERS = nn.Sequential(
    nn.Convolution(8), nn.BatchNorm(), nn.ReLU(), nn.MaxPool(2), nn.Flatten(), nn.Dense(10), nn.Softmax()
)
X = np.random.default_rng(0).standard_normal((2, 8, 8, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> nn.Model:
    return nn.Model(LAYERS, (8, 8, 3))


@pytest.fixture(scope="module")
def library(model: nn.Model) -> export.CLibrary:
    return export.library(model, "small", batch=2)


@pytest.fixture(scope="module")
def code(library: export.CLibrary, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return shared(library, tmp_path_factory.mktemp("small"))


def test_a_library_has_the_bits_of_our_own_run(model: nn.Model, library: export.CLibrary, code: ctypes.CDLL) -> None:
    (result,) = run(code, library, X)
    assert result.tobytes() == model.freeze(2).run(X)[0].tobytes()


def test_the_recorded_answers_are_met_by_a_strict_compiler(library: export.CLibrary, tmp_path: Path) -> None:
    assert checked(library, tmp_path, "gcc") == "small: the recorded answers\n"


def test_other_weights_take_the_code_that_is_on_the_disk(
    library: export.CLibrary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def compile_on(source: str, machine: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(object_files, "compile_on", compile_on)
    other = export.library(nn.Model(LAYERS, (8, 8, 3), seed=7), "small", batch=2)
    before, behind = library.files["small.o"], other.files["small.o"]
    assert len(before) == len(behind)
    differing = np.flatnonzero(np.frombuffer(before, np.uint8) != np.frombuffer(behind, np.uint8))
    assert 0 < np.ptp(differing) < library.constant_bytes
    assert checked(other, tmp_path, "gcc") == "small: the recorded answers\n"


def test_the_header_is_freestanding(library: export.CLibrary, tmp_path: Path) -> None:
    library.write(tmp_path)
    (tmp_path / "only.c").write_text('#include "small.h"\nint main(void) { return SMALL_ARENA_BYTES == 0; }\n')
    command = [tool("gcc"), *STRICT, "-ffreestanding", "-fsyntax-only", "only.c"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)


def test_nothing_is_asked_of_others_but_memcpy(library: export.CLibrary) -> None:
    assert set(library.undefined) <= {"memcpy", "memset"}
    assert library.files["libsmall.a"].startswith(b"!<arch>\n")


def call(code: ctypes.CDLL, name: str, *arguments: object) -> int:
    return int(getattr(code, name)(*arguments))


def test_null_and_misaligned_pointers_are_error_codes(library: export.CLibrary, code: ctypes.CDLL) -> None:
    arena, y = aligned_bytes(library.arena_bytes), np.zeros((2, 10), np.float32)
    given, wanted, at = pointers(X), pointers(y), ctypes.c_void_p
    assert call(code, "small_run", None, given, wanted) == 1
    assert call(code, "small_run", at(arena.ctypes.data), None, wanted) == 1
    assert call(code, "small_run", at(arena.ctypes.data), given, None) == 1
    assert call(code, "small_run", at(arena.ctypes.data), pointers(0), wanted) == 1
    assert call(code, "small_run", at(arena.ctypes.data + 4), given, wanted) == 2
    assert call(code, "small_run", at(arena.ctypes.data), pointers(X.ctypes.data + 1), wanted) == 2
    assert (arena == 0xFF).all()
    assert not y.any()


def test_a_short_arena_and_outputs_over_other_memory_are_error_codes(
    library: export.CLibrary, code: ctypes.CDLL
) -> None:
    arena, y, at = aligned_bytes(library.arena_bytes), np.zeros((2, 10), np.float32), ctypes.c_void_p
    place, size = at(arena.ctypes.data), ctypes.c_size_t
    enough = size(library.arena_bytes)
    assert call(code, "small_run_checked", size(library.arena_bytes - 1), place, pointers(X), pointers(y)) == 3
    inside = arena.ctypes.data + library.arena_bytes - 4
    assert call(code, "small_run_checked", enough, place, pointers(X), pointers(inside)) == 4
    assert call(code, "small_run_checked", enough, place, pointers(inside), pointers(y)) == 4
    assert (arena == 0xFF).all()
    assert call(code, "small_run_checked", enough, place, pointers(X), pointers(y)) == 0


def test_the_arena_is_that_of_the_plan_and_scratch_memory(model: nn.Model, library: export.CLibrary) -> None:
    statement = model.freeze(2).compiled.memory()
    assert library.arena_bytes <= statement.arena + statement.scratch + 64 * 3


def test_weights_in_a_file_are_mapped_by_the_caller(model: nn.Model, library: export.CLibrary, tmp_path: Path) -> None:
    outside = export.library(model, "apart", batch=2, constants_inside=False)
    assert len(outside.files["apart.weights"]) == outside.constant_bytes == library.constant_bytes
    weights = aligned_bytes(outside.constant_bytes)
    weights[:] = np.frombuffer(outside.files["apart.weights"], np.uint8)
    (result,) = run(shared(outside, tmp_path), outside, weights, X)
    assert result.tobytes() == model.freeze(2).run(X)[0].tobytes()
    assert checked(outside, tmp_path, "gcc") == "apart: the recorded answers\n"


def test_equal_models_give_equal_files(model: nn.Model, library: export.CLibrary) -> None:
    assert export.library(model, "small", batch=2).files == library.files


def test_what_has_no_kernel_is_refused_with_all_its_lines() -> None:
    graph = SymbolicGraph("refused")
    x = graph.input(spec((4, 4)), "x")
    y = ops.cholesky(x)
    compiled = compile(graph, [y], backend="target:x86-64")
    with pytest.raises(BackendError, match=r"cholesky: .*test_c_library.py") as refused:
        export.library(export.ProgramPorts(compiled, {"x": x}, {"y": y}), "refused")
    assert "docs/library.md" in str(refused.value)


@pytest.mark.parametrize("name", ["", "1st", "a-b", "a b", "é"])
def test_names_are_names_of_c(model: nn.Model, name: str) -> None:
    with pytest.raises(UsageError, match="a name of C"):
        export.library(model, name)


def test_an_unknown_target_is_refused_with_the_table(model: nn.Model) -> None:
    with pytest.raises(UsageError, match="one of native, x86-64, .*thumbv7em"):
        export.library(model, "small", target="z80")


@pytest.mark.parametrize("target", ["x86-64-v3", "thumbv7em"])
def test_scratch_memory_is_planned_beside_the_tensors_of_its_step(target: str) -> None:
    layers = nn.Sequential(nn.Convolution(32), nn.ReLU(), nn.Convolution(8, 1), nn.Convolution(32), nn.Flatten())
    made = export.library(nn.Model(layers, (24, 24, 32)), "net", target=target)
    facts = json.loads(made.files["net.json"])
    scratch = [row for row in facts["arena"] if row["name"].startswith("workspace")]
    # In the first step its input, its output and tiles are alive; the other steps fit into what is free then.
    assert len(scratch) == 3
    assert made.arena_bytes == 2 * 4 * 24 * 24 * 32 + max(row["bytes"] for row in scratch)
    assert all(row["offset"] + row["bytes"] <= made.arena_bytes for row in scratch)
