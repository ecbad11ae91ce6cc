"""Callers who give what they must not: codes, and not one byte written; and memory of which each byte is watched."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.export.compiled_c import STRICT, Array, aligned_bytes, pointers, shared, tool

from nnc import export, nn
from nnc.export.program_ports import Function

LAYERS = nn.Sequential(nn.Convolution(8), nn.BatchNorm(), nn.ReLU(), nn.MaxPool(2), nn.Flatten(), nn.Dense(10))
NULL, MISALIGNED, SHORT, OVERLAP = 1, 2, 3, 4
X = np.random.default_rng(0).standard_normal((2, 8, 8, 3)).astype(np.float32)
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def model() -> nn.Model:
    return nn.Model(LAYERS, (8, 8, 3))


@pytest.fixture(scope="module")
def apart(model: nn.Model) -> export.CLibrary:
    return export.library(model, "apart", batch=2, constants_inside=False, pool=True)


@pytest.fixture(scope="module")
def code(apart: export.CLibrary, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return shared(apart, tmp_path_factory.mktemp("apart"))


@pytest.fixture(scope="module")
def weights(apart: export.CLibrary) -> Array:
    held = aligned_bytes(apart.constant_bytes)
    held[:] = np.frombuffer(apart.files["apart.weights"], np.uint8)
    return held


def checked_run(code: ctypes.CDLL, nbytes: int, arena: int, given: object, wanted: object) -> int:
    return int(code.apart_run_checked(ctypes.c_size_t(nbytes), ctypes.c_void_p(arena), given, wanted))


def test_weights_of_a_file_are_checked_as_other_memory_is(
    apart: export.CLibrary, code: ctypes.CDLL, weights: Array
) -> None:
    arena, y, nbytes = aligned_bytes(apart.arena_bytes), np.zeros((2, 10), np.float32), apart.arena_bytes
    at, held = arena.ctypes.data, weights.tobytes()
    run = [code, nbytes, at]
    assert checked_run(*run, pointers(0, X), pointers(y)) == NULL
    assert checked_run(*run, pointers(weights.ctypes.data + 4, X), pointers(y)) == MISALIGNED
    assert checked_run(*run, pointers(at, X), pointers(y)) == OVERLAP
    assert checked_run(*run, pointers(weights, X), pointers(weights.ctypes.data + 64)) == OVERLAP
    assert (arena == 0xFF).all()
    assert not y.any()
    assert weights.tobytes() == held
    assert checked_run(*run, pointers(weights, X), pointers(y)) == 0


@pytest.mark.parametrize("nbytes", [0, 1, -1])
def test_sizes_beside_the_right_one(apart: export.CLibrary, code: ctypes.CDLL, weights: Array, nbytes: int) -> None:
    arena, y = aligned_bytes(apart.arena_bytes), np.zeros((2, 10), np.float32)
    given = apart.arena_bytes - 1 if nbytes < 0 else nbytes
    assert checked_run(code, given, arena.ctypes.data, pointers(weights, X), pointers(y)) == SHORT
    assert (arena == 0xFF).all()
    whole = ctypes.c_size_t(-1).value
    assert checked_run(code, whole, arena.ctypes.data, pointers(weights, X), pointers(y)) == 0


def test_an_output_in_the_place_of_an_input_is_allowed(
    apart: export.CLibrary, code: ctypes.CDLL, weights: Array
) -> None:
    arena, y, both = aligned_bytes(apart.arena_bytes), np.zeros((2, 10), np.float32), X.copy()
    run = [code, apart.arena_bytes, arena.ctypes.data]
    assert checked_run(*run, pointers(weights, X), pointers(y)) == 0
    assert checked_run(*run, pointers(weights, both), pointers(both)) == 0
    assert both.reshape(-1)[:20].tobytes() == y.tobytes()


def test_a_pool_without_a_function_is_refused_where_it_would_be_called(
    apart: export.CLibrary, code: ctypes.CDLL, weights: Array
) -> None:
    arena, y = aligned_bytes(apart.arena_bytes), np.zeros((2, 10), np.float32)
    pool = (ctypes.c_void_p * 3)(0, 2, 0)
    ports = ctypes.c_void_p(arena.ctypes.data), pointers(weights, X), pointers(y)
    assert code.apart_run_parallel(*ports, pool) == NULL
    assert (arena == 0xFF).all()


@pytest.mark.parametrize("poison", [0x00, 0x01, 0x7F, 0x80, 0xFF, "of an earlier run"])
def test_what_was_in_the_arena_changes_nothing(
    apart: export.CLibrary, code: ctypes.CDLL, weights: Array, poison: int | str
) -> None:
    arenas = [aligned_bytes(apart.arena_bytes) for _ in range(2)]
    results = [np.zeros((2, 10), np.float32) for _ in range(2)]
    if isinstance(poison, int):
        arenas[1][:] = poison
    else:
        code.apart_run(ctypes.c_void_p(arenas[1].ctypes.data), pointers(weights, X * 1e30), pointers(results[1]))
    for arena, y in zip(arenas, results, strict=True):
        assert code.apart_run(ctypes.c_void_p(arena.ctypes.data), pointers(weights, X), pointers(y)) == 0
    assert results[0].tobytes() == results[1].tobytes()


@contextmanager
def between_guards(nbytes: int) -> Iterator[int]:
    """The address of bytes that end where a page begins that nobody may touch."""
    page = mmap.PAGESIZE
    whole = -(-nbytes // page) * page
    memory = mmap.mmap(-1, whole + 2 * page)
    base, libc = ctypes.addressof(ctypes.c_char.from_buffer(memory)), ctypes.CDLL(None)
    guards = base, base + page + whole
    for guard in guards:
        assert libc.mprotect(ctypes.c_void_p(guard), page, 0) == 0
    try:
        yield base + page + (whole - nbytes)
    finally:
        for guard in guards:
            libc.mprotect(ctypes.c_void_p(guard), page, mmap.PROT_READ | mmap.PROT_WRITE)


def test_every_buffer_may_end_where_memory_ends(apart: export.CLibrary, code: ctypes.CDLL, weights: Array) -> None:
    nbytes = -(-apart.arena_bytes // 64) * 64
    held = -(-weights.nbytes // 64) * 64
    with ExitStack() as stack:
        arena, constants, x, y = [stack.enter_context(between_guards(size)) for size in (nbytes, held, X.nbytes, 80)]
        ctypes.memmove(constants, weights.ctypes.data, weights.nbytes)
        ctypes.memmove(x, X.ctypes.data, X.nbytes)
        assert checked_run(code, nbytes, arena, pointers(constants, x), pointers(y)) == 0
        assert np.isfinite(np.frombuffer(ctypes.string_at(y, 80), np.float32)).all()


@pytest.mark.parametrize("function", ["predict", "train"])
@pytest.mark.parametrize("program", ["main", "check"])
def test_sanitizers_find_nothing(model: nn.Model, function: Function, program: str, tmp_path: Path) -> None:
    export.library(model, "clean", target="x86-64", function=function).write(tmp_path)
    build = [tool("gcc"), *STRICT, "-g", *SANITIZERS, f"{program}.c", "-L.", "-lclean", "-o", program]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    subprocess.run([f"./{program}"], cwd=tmp_path, check=True, capture_output=True)


# Memory of the size that the header states, from the heap and never set: valgrind watches both ends, and what is read.
HEAP = """
#include "clean.h"
#include <stdlib.h>
#include <string.h>
int main(void) {
    unsigned char *arena = aligned_alloc(CLEAN_ALIGNMENT, CLEAN_ARENA_BYTES), *input = malloc(INPUT_BYTES);
    float *output = malloc(10 * sizeof(float));
    const clean_inputs inputs = {(const float *)(void *)input};
    clean_outputs outputs = {output};
    memset(input, 0x3F, INPUT_BYTES);
    int error = clean_run_checked(CLEAN_ARENA_BYTES, arena, &inputs, &outputs), large = 0;
    for (int i = 0; i < 10; ++i)
        large += output[i] > 1e30f;
    free(arena), free(input), free(output);
    return error || large == 11;
}
"""


def test_valgrind_finds_nothing(model: nn.Model, tmp_path: Path) -> None:
    export.library(model, "clean", target="x86-64-v3").write(tmp_path)
    (tmp_path / "heap.c").write_text(HEAP.replace("INPUT_BYTES", str(X[0].nbytes)))
    subprocess.run([tool("gcc"), "-g", "heap.c", "-L.", "-lclean", "-o", "heap"], cwd=tmp_path, check=True)
    watched = [tool("valgrind"), "-q", "--error-exitcode=9", "./heap"]
    ran = subprocess.run(watched, cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_linker_sees_nothing_undefined_but_memcpy(model: nn.Model, tmp_path: Path) -> None:
    export.library(model, "clean", function="train").write(tmp_path)
    told = subprocess.run([tool("nm"), "-u", "clean.o"], cwd=tmp_path, check=True, capture_output=True, text=True)
    undefined = {line.split()[-1] for line in told.stdout.splitlines() if line.strip().startswith("U ")}
    assert undefined <= {"memcpy", "memset", "_GLOBAL_OFFSET_TABLE_"}
