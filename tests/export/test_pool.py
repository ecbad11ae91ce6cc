"""A library on workers of the caller's, and the stack that a run takes: both by programs in C."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.export.compiled_c import STRICT, aligned_bytes, pointers, run, shared, tool

from nnc import export, nn

THREADS = """
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
typedef struct { void (*task)(void *, size_t); void *argument; size_t number; } work;
size_t handed;
static void *start(void *given) { work *one = given; one->task(one->argument, one->number); return 0; }
void parallel_for(void *context, size_t tasks, void (*task)(void *, size_t), void *argument) {
    pthread_t threads[64];
    work works[64];
    ++*(size_t *)context;
    handed += tasks;
    for (size_t n = 0; n < tasks; ++n) {
        works[n] = (work){task, argument, n};
        pthread_create(&threads[n], 0, start, &works[n]);
    }
    for (size_t n = 0; n < tasks; ++n) pthread_join(threads[n], 0);
}
"""
PAINTED = """
#include "net.h"
#include <stdio.h>
#include <ucontext.h>
enum { BYTES = 1 << 18 };
static _Alignas(64) unsigned char arena[NET_ARENA_BYTES], stack[BYTES];
static float input[INPUTS], output[OUTPUTS];
static ucontext_t here, there;
static size_t mark;
static void work(void) {
    volatile unsigned char place = 0;
    const net_inputs inputs = {input};
    net_outputs outputs = {output};
    mark = (size_t)((const volatile unsigned char *)&place - stack);
    net_run(arena, &inputs, &outputs);
}
int main(void) {
    for (size_t n = 0; n < BYTES; ++n) stack[n] = 0xA5;
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = BYTES;
    there.uc_link = &here;
    makecontext(&there, work, 0);
    swapcontext(&here, &there);
    size_t lowest = 0;
    while (stack[lowest] == 0xA5) ++lowest;
    printf("%d %d\\n", (int)(mark - lowest), (int)NET_STACK_BYTES);
    return 0;
}
"""


@pytest.fixture(scope="module")
def model() -> nn.Model:
    layers = nn.Sequential(nn.Convolution(32), nn.ReLU(), nn.Convolution(32), nn.ReLU(), nn.Flatten(), nn.Dense(10))
    return nn.Model(layers, (24, 24, 3))


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("threads")
    (folder / "threads.c").write_text(THREADS)
    build = [tool("gcc"), *STRICT, "-shared", "-fPIC", "threads.c", "-o", "threads.so", "-lpthread"]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    return ctypes.CDLL(str(folder / "threads.so"))


def test_any_number_of_workers_gives_the_same_bits(model: nn.Model, threads: ctypes.CDLL, tmp_path: Path) -> None:
    made = export.library(model, "net", batch=2, pool=True)
    code = shared(made, tmp_path)
    x = np.random.default_rng(0).standard_normal((2, 24, 24, 3)).astype(np.float32)
    (alone,) = run(code, made, x)
    header = made.files["net.h"].decode()
    (worker_bytes,) = (int(line.split(")")[1].strip(")")) for line in header.splitlines() if "WORKER_BYTES (" in line)
    for workers in (1, 2, 3, 7):
        arena, y, calls = (
            aligned_bytes(made.arena_bytes + (workers - 1) * worker_bytes),
            np.zeros_like(alone),
            ctypes.c_size_t(),
        )
        function = ctypes.cast(threads.parallel_for, ctypes.c_void_p).value
        pool = (ctypes.c_void_p * 3)(ctypes.addressof(calls), workers, function)
        assert code.net_run_parallel(ctypes.c_void_p(arena.ctypes.data), pointers(x), pointers(y), pool) == 0
        assert y.tobytes() == alone.tobytes()
        assert (calls.value > 0) is (workers > 1)
    assert code.net_run_parallel(ctypes.c_void_p(arena.ctypes.data), pointers(x), pointers(y), None) == 0


def test_a_size_stands_before_the_pool_as_in_the_header(model: nn.Model, threads: ctypes.CDLL, tmp_path: Path) -> None:
    made = export.library(model, "net", batch=(1, 2), pool=True)
    assert "size_t batch, const net_pool *pool);" in made.files["net.h"].decode()
    code, x = shared(made, tmp_path), np.random.default_rng(0).standard_normal((2, 24, 24, 3)).astype(np.float32)
    function = ctypes.cast(threads.parallel_for, ctypes.c_void_p).value
    calls, arena = ctypes.c_size_t(), aligned_bytes(2 * made.arena_bytes)
    pool = (ctypes.c_void_p * 3)(ctypes.addressof(calls), 2, function)
    for size in (1, 2):
        y, alone = (np.zeros((size, *made.outputs[0].spec.shape[1:]), np.float32) for _ in range(2))
        ports = ctypes.c_void_p(arena.ctypes.data), pointers(x[:size])
        assert code.net_run_parallel(*ports, pointers(y), ctypes.c_size_t(size), pool) == 0
        assert code.net_run(*ports, pointers(alone), ctypes.c_size_t(size)) == 0
        assert y.tobytes() == alone.tobytes()
    assert calls.value > 0
    assert code.net_run_parallel(*ports, pointers(y), ctypes.c_size_t(3), pool) == 7


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3"])
def test_no_run_takes_more_of_the_stack_than_the_header_says(model: nn.Model, target: str, tmp_path: Path) -> None:
    made = export.library(model, "net", target=target)
    made.write(tmp_path)
    sizes = {"INPUTS": made.inputs[0].spec.elements, "OUTPUTS": made.outputs[0].spec.elements}
    source = PAINTED
    for word, number in sizes.items():
        source = source.replace(word, str(number))
    (tmp_path / "painted.c").write_text(source)
    build = [tool("gcc"), "-O1", "painted.c", "-L.", "-lnet", "-o", "painted"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    told = subprocess.run(["./painted"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    taken, stated = map(int, told.split())
    # The frame of the caller and what memcpy takes are beside what is stated.
    assert taken <= stated + 256
    assert stated <= 4096
    assert taken >= stated // 4
