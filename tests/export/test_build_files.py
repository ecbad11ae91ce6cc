"""What makes programs of a library: make, cmake, a C++ compiler; and shared libraries by a linker of this machine."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.export.compiled_c import aligned_bytes, pointers, tool

from nnc import export, nn
from nnc.errors import BackendError
from nnc.export.program_ports import Function

X = np.random.default_rng(0).standard_normal((1, 8, 8, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> nn.Model:
    return nn.Model(nn.Sequential(nn.Convolution(8), nn.ReLU(), nn.Flatten(), nn.Dense(10)), (8, 8, 3))


def succeeded(folder: Path, *command: str) -> str:
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("inside", [True, False])
def test_make_builds_and_checks(model: nn.Model, inside: bool, tmp_path: Path) -> None:
    export.library(model, "built", constants_inside=inside).write(tmp_path)
    compiler = f"CC={tool('gcc')}"
    assert "built: the recorded answers" in succeeded(tmp_path, tool("make"), compiler)
    assert len(succeeded(tmp_path, "./main").split()) == 8
    succeeded(tmp_path, "make", "clean")
    assert not (tmp_path / "main").exists()


def test_cmake_builds_and_its_tests_pass(model: nn.Model, tmp_path: Path) -> None:
    export.library(model, "built", constants_inside=False).write(tmp_path)
    cmake, compiler = tool("cmake"), tool("gcc")
    succeeded(tmp_path, cmake, "-S", ".", "-B", "made", f"-DCMAKE_C_COMPILER={compiler}")
    succeeded(tmp_path, cmake, "--build", "made")
    assert "100% tests passed" in succeeded(tmp_path, tool("ctest"), "--test-dir", "made")


PLUS = """
#include "built.hpp"
#include <cstdio>
static built::program one, other;
int main() {
    static float input[built::program::input_elements], output[2][built::program::output_elements];
    RATE
    const built_inputs inputs = {GIVEN};
    built_outputs first = {output[0]LAST}, second = {output[1]LAST};
    if (one.run(inputs, first) || other.run(inputs, second))
        return 1;
    for (std::size_t i = 0; i < built::program::output_elements; ++i)
        if (output[0][i] != output[1][i])
            return 2;
    std::puts("alike");
    return 0;
}
"""
TRAINED = PLUS.replace("output", "loss").replace("built_losss", "built_outputs")


@pytest.mark.parametrize("standard", ["c++11", "c++20"])
@pytest.mark.parametrize("function", ["predict", "train"])
def test_c_plus_plus_has_instances(model: nn.Model, function: Function, standard: str, tmp_path: Path) -> None:
    export.library(model, "built", function=function).write(tmp_path)
    source, rest = (TRAINED, ", scores") if function == "train" else (PLUS, "")
    rate = "static float rate[1] = {0.1f}, scores[1]; static int32_t target[1];" if rest else ""
    given = "input, target, rate" if rest else "input"
    source = source.replace("RATE", rate).replace("GIVEN", given).replace("LAST", rest)
    (tmp_path / "plus.cpp").write_text(source)
    strict = [f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fno-exceptions"]
    succeeded(tmp_path, tool("g++"), *strict, "plus.cpp", "-L.", "-lbuilt", "-o", "plus")
    assert succeeded(tmp_path, "./plus") == "alike\n"


def test_a_shared_library_is_loaded_as_it_is(model: nn.Model, tmp_path: Path) -> None:
    tool("cc")
    made = export.library(model, "built", shared=True)
    made.write(tmp_path)
    code, y = ctypes.CDLL(str(tmp_path / "libbuilt.so")), np.zeros((1, 10), np.float32)
    arena = aligned_bytes(made.arena_bytes)
    assert code.built_run(ctypes.c_void_p(arena.ctypes.data), pointers(X), pointers(y)) == 0
    assert y.tobytes() == model.freeze(1).run(X)[0].tobytes()
    # The programs beside it take the archive, and run where no path is set.
    assert succeeded(tmp_path, tool("make"), "-s", "check").endswith("built: the recorded answers\n")


@pytest.mark.parametrize("target", ["aarch64", "armv7", "riscv64"])
def test_lld_links_where_a_compiler_of_the_target_is_absent(
    model: nn.Model, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ld.lld").symlink_to(os.path.realpath(tool("ld.lld")))
    monkeypatch.setenv("PATH", str(tmp_path))
    made = export.library(model, "built", target=target, shared=True)
    assert made.files["libbuilt.so"].startswith(b"\x7fELF")


@pytest.mark.parametrize(
    ("target", "need"),
    [
        ("thumbv7em", "a target that loads shared libraries"),
        ("browser", "a target that loads shared libraries"),
        ("aarch64", "aarch64-linux-gnu-gcc or ld.lld"),
        ("x86-64-v3-windows", "x86_64-w64-mingw32-gcc"),
        ("aarch64-macos", "the linker of arm64-apple-macos11, on its own system"),
    ],
)
def test_a_shared_library_without_a_linker_is_refused(
    model: nn.Model, target: str, need: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BackendError, match=need):
        export.library(model, "built", target=target, shared=True)
