from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from llvmlite.binding import JITLibraryBuilder
from tests.backends.llvm.harness import access, random

from nnc.backends.llvm.run import jit as jit_module
from nnc.backends.llvm.run.compilations import compilations
from nnc.backends.llvm.run.engine import engine
from nnc.backends.llvm.run.host import host_target
from nnc.backends.llvm.run.jit import Jit
from nnc.backends.llvm.run.object_code import Crew, assembly
from nnc.backends.llvm.run.object_loader import CodeImage, UnsupportedObjectError
from nnc.backends.llvm.run.runtime import NativeProgram
from nnc.backends.llvm.run.steps import Launch
from nnc.codegen.ir.builder import Module
from nnc.codegen.ir.expression import Instruction
from nnc.codegen.kernels.elementwise.pointwise import Pointwise
from nnc.core.precautions.disk_cache import MAGIC, DiskCache
from nnc.core.settings import SETTINGS

X = random((32,))
SQUARE = Pointwise((32,), (access(X),), (access(X),), (Instruction("square", (0,)),), (1,))
CUBE = Pointwise((32,), SQUARE.inputs, SQUARE.outputs, (*SQUARE.instructions, Instruction("multiply", (0, 1))), (2,))


def entries(folder: Path) -> list[Path]:
    """The objects of a cache."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".json")


def make(folder: Path | None) -> DiskCache:
    cache = DiskCache(folder)
    Jit(host_target(), cache).kernel(SQUARE)
    return cache


def test_code_can_be_read_in_the_processors_words() -> None:
    module = Module(host_target())
    SQUARE.emit(module, "square")
    assert "square:" in assembly(str(module), host_target())


def test_a_second_process_finds_the_object(tmp_path: Path) -> None:
    first = make(tmp_path)
    assert (first.hits, first.misses) == (0, 1)
    (entry,) = entries(tmp_path)
    assert entry.read_bytes().startswith(MAGIC)
    second = make(tmp_path)
    assert (second.hits, second.misses) == (1, 0)


def test_what_llvmlite_never_frees_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    make(None)
    monkeypatch.delattr("nnc.backends.llvm.run.jit.llvm.create_new_function_pass_manager")
    monkeypatch.delattr("nnc.backends.llvm.run.jit.llvm.create_pass_builder")
    assert Jit(host_target(), DiskCache(None)).kernel(CUBE).addresses


@pytest.mark.parametrize("damage", [b"", b"garbage", MAGIC + b"0" * 32 + b"other"], ids=["empty", "short", "sum"])
def test_a_damaged_entry_is_built_again(tmp_path: Path, damage: bytes) -> None:
    make(tmp_path)
    (entry,) = entries(tmp_path)
    good = entry.read_bytes()
    entry.write_bytes(damage)
    with pytest.warns(RuntimeWarning, match="object cache"):
        assert make(tmp_path).misses == 1
    assert entry.read_bytes() == good


def test_one_flipped_bit_is_found(tmp_path: Path) -> None:
    make(tmp_path)
    (entry,) = entries(tmp_path)
    content = bytearray(entry.read_bytes())
    content[-1] ^= 1
    entry.write_bytes(content)
    with pytest.warns(RuntimeWarning, match="object cache"):
        assert make(tmp_path).misses == 1


def test_a_folder_that_cannot_be_made_is_not_used(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert make(blocked).misses == 1
    assert entries(tmp_path) == [blocked]


def test_no_folder_keeps_nothing() -> None:
    cache = make(None)
    assert cache.entries is None
    assert cache.misses == 1


def test_processes_may_share_a_folder(tmp_path: Path) -> None:
    code = "from tests.backends.llvm.run.test_jit import make; import sys, pathlib; make(pathlib.Path(sys.argv[1]))"
    roots = [str(Path(__file__).resolve().parents[3]), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(roots)}
    children = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=environment) for _ in range(2)]
    assert [child.wait(60) for child in children] == [0, 0]
    assert len(entries(tmp_path)) == 1
    assert make(tmp_path).hits == 1


def test_equal_generators_are_one_kernel() -> None:
    jit = Jit(host_target(), DiskCache(None))
    twin = Pointwise((32,), (access(np.zeros(32, np.float32)),), SQUARE.outputs, SQUARE.instructions, (1,))
    assert jit.kernel(SQUARE) is jit.kernel(twin)


def test_kernels_made_together_are_one_library(monkeypatch: pytest.MonkeyPatch) -> None:
    jit = Jit(host_target(), DiskCache(None))
    other = Pointwise((32,), SQUARE.inputs, SQUARE.outputs, (Instruction("absolute", (0,)),), (1,))
    linked: list[int] = []
    link = Jit._link
    monkeypatch.setattr(Jit, "_link", lambda self, codes: (linked.append(len(codes)), link(self, codes))[1])
    made = jit.make((SQUARE, other, SQUARE))
    assert linked == [2]
    found = [jit.kernel(one) for one in (SQUARE, other)]
    assert linked == [2]
    assert [one is two for one, two in zip(made, found, strict=True)] == [True, True]
    assert len({address for kernel in found for address in kernel.addresses}) == 2
    assert jit.kernel(SQUARE).hash == Jit(host_target(), DiskCache(None)).kernel(SQUARE).hash


def test_code_goes_with_the_last_who_holds_its_kernel() -> None:
    jit = Jit(host_target(), DiskCache(None))
    kernel = jit.kernel(SQUARE)
    assert (len(jit._kernels), len(jit._loaded)) == (1, 1)
    program = NativeProgram(engine().pool, [Launch(kernel, (0, 0), (), ())], 1)
    del kernel
    gc.collect()
    assert (len(jit._kernels), len(jit._loaded)) == (1, 1)
    del program
    gc.collect()
    assert (len(jit._kernels), len(jit._loaded)) == (0, 0)
    assert jit.kernel(SQUARE).addresses


def press(*arguments: object) -> None:
    """Ctrl-C."""
    signal.raise_signal(signal.SIGINT)


def then_press(function: Callable[..., object]) -> Callable[..., object]:
    """The function, with Ctrl-C just before it returns."""

    def called(*arguments: object, **named: object) -> object:
        result = function(*arguments, **named)
        press()
        return result

    return called


def refuse(*_: object) -> None:
    """As of objects that LLVM has to link."""
    raise UnsupportedObjectError("of another kind")


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (JITLibraryBuilder, "link"),
        (JITLibraryBuilder, "add_current_process"),
        (CodeImage, "write"),
        (DiskCache, "load"),
        (Jit, "_load"),
    ],
)
def test_an_interrupt_while_a_kernel_is_made_stands_in_nobody_s_way(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    jit = Jit(host_target(), DiskCache(None))
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, then_press(getattr(owner, name)))
        if owner is JITLibraryBuilder:
            patch.setattr(jit_module, "load_image", refuse)
        with pytest.raises(KeyboardInterrupt):
            jit.kernel(SQUARE)
    assert jit.kernel(SQUARE).addresses
    assert jit.kernel(CUBE).addresses


def test_an_object_that_cannot_be_linked_is_compiled_again(tmp_path: Path) -> None:
    make(tmp_path)
    (entry,) = entries(tmp_path)
    good = entry.read_bytes()
    DiskCache(tmp_path).store(entry.stem, b"no object file, with a sound checksum")
    assert entry.read_bytes() != good
    again = make(tmp_path)
    assert (again.hits, again.misses) == (1, 0)
    assert entry.read_bytes() == good
    make(tmp_path)


def test_an_error_of_linking_what_was_just_compiled_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnc.backends.llvm.run.object_code.compile_source", lambda source, target: b"no object file")
    with pytest.raises(RuntimeError):
        make(None)


def test_what_is_compiled_is_given_back_piece_by_piece(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pieces: list[list[int]] = []

    class Noted(Crew):
        def __init__(self, function: object, texts: tuple[str, ...], target: object) -> None:
            pieces.append([len(text) for text in texts])
            super().__init__(function, texts, target)

    given_back: list[int] = []
    monkeypatch.setattr("nnc.backends.llvm.run.object_code.Crew", Noted)
    monkeypatch.setattr(jit_module, "trim_free_memory", lambda: given_back.append(len(pieces)))
    powers = [
        Pointwise((32,), SQUARE.inputs, SQUARE.outputs, (Instruction("square", (0,)),) * (n + 1), (n + 1,))
        for n in range(40)
    ]
    kernels = Jit(host_target(), DiskCache(tmp_path)).make(powers)
    most = jit_module.PIECE * SETTINGS.worker_count()
    assert len({kernel.hash for kernel in kernels}) == len(powers) == sum(map(len, pieces))
    assert len(pieces) > 1
    assert all(sum(piece[:-1]) < most for piece in pieces)
    assert given_back == list(range(1, len(pieces) + 1))
    assert compilations(DiskCache(tmp_path, most_bytes=1 << 30)).batches == 1
