"""Libraries built by the C compiler of this machine, or by a cross compiler, and called."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from nnc.export import CLibrary

Array = NDArray[np.generic]
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror")


def tool(name: str) -> str:
    """Where a program is; the test is skipped by its name where it is absent."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def shared(library: CLibrary, folder: Path) -> ctypes.CDLL:
    """The library loaded into this process."""
    library.write(folder)
    made = folder / f"{library.name}.so"
    command = [tool("gcc"), "-shared", str(folder / f"{library.name}.o"), "-o", str(made)]
    subprocess.run(command, check=True, capture_output=True)
    return ctypes.CDLL(str(made))


def aligned_bytes(nbytes: int, alignment: int = 64) -> Array:
    """Bytes at an aligned address, all of them not-a-number."""
    whole = np.full(nbytes + alignment, 0xFF, np.uint8)
    start = -whole.ctypes.data % alignment
    return whole[start : start + nbytes]


def pointers(*arrays: Array | int) -> ctypes.Array[ctypes.c_void_p]:
    """A structure of pointers."""
    values = [array if isinstance(array, int) else array.ctypes.data for array in arrays]
    return (ctypes.c_void_p * max(len(values), 1))(*values)


def run(code: ctypes.CDLL, library: CLibrary, *inputs: Array, state: Array | None = None) -> list[Array]:
    """The outputs of one run in an arena of poison; the run must succeed."""
    function = getattr(code, f"{library.name}_run")
    outputs = [np.zeros(port.spec.shape, port.spec.dtype.numpy) for port in library.outputs]
    memory = [aligned_bytes(library.arena_bytes), *([] if state is None else [state])]
    addresses = [ctypes.c_void_p(part.ctypes.data) for part in memory]
    assert function(*addresses, pointers(*inputs), pointers(*outputs)) == 0
    return outputs


def checked(library: CLibrary, folder: Path, compiler: str, *flags: str, runner: tuple[str, ...] = ()) -> str:
    """What `check` prints, built by a compiler and run by a runner."""
    library.write(folder)
    command = [tool(compiler), *STRICT, *flags, "check.c", "-L.", f"-l{library.name}", "-o", "check"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    ran = subprocess.run([*runner, "./check"], cwd=folder, capture_output=True, text=True)
    return ran.stdout
