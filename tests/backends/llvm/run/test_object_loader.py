"""Objects are loaded without LLVM: the code that its linker loads, in memory that is run or read; damage is refused."""

from __future__ import annotations

import ctypes
import math
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.backends.llvm.run.test_jit import refuse

from nnc.backends.llvm.object_files import object_file
from nnc.backends.llvm.run import jit as jit_module
from nnc.backends.llvm.run.host import host_target
from nnc.backends.llvm.run.jit import Code, Jit
from nnc.backends.llvm.run.object_code import compile_source
from nnc.backends.llvm.run.object_loader import (
    AARCH64,
    LOW_TWELVE,
    X86_64,
    CodeImage,
    LoadedImage,
    Relocation,
    UnsupportedObjectError,
    elf_machine,
    load_image,
)
from nnc.codegen.ir.targets import library_target
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.running import llvm_library

BASE = 0x7F00_0000_0000


def text_of(triple: str = "") -> str:
    """A function that calls another one elsewhere, with constants in memory."""
    head = f'target triple = "{triple}"\n' if triple else ""
    return head + (
        "@table = private constant [3 x float] [float 2.0, float 3.0, float 5.0]\n"
        "declare float @cosf(float)\n"
        "define float @kernel_first(float %x, i64 %i) nounwind {\n"
        "  %place = getelementptr [3 x float], ptr @table, i64 0, i64 %i\n"
        "  %factor = load float, ptr %place\n"
        "  %y = call float @cosf(float %x)\n"
        "  %z = fmul float %y, %factor\n"
        "  ret float %z\n"
        "}\n"
        "define float @kernel_second(float %x) nounwind {\n"
        "  %y = call float @kernel_first(float %x, i64 2)\n"
        "  ret float %y\n"
        "}\n"
    )


@pytest.fixture(scope="module")
def content() -> bytes:
    return compile_source(text_of(), host_target())


@pytest.mark.parametrize("way", ["own", "llvm"])
def test_code_is_called_whoever_loads_it(way: str, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "llvm":
        monkeypatch.setattr(jit_module, "load_image", refuse)
    code = Code("key", "stored", ("kernel_second", "kernel_first"), str, content)
    (loaded,) = Jit(host_target(), DiskCache(None))._load((code,))
    assert isinstance(loaded.library, LoadedImage) == (way == "own")
    second = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(loaded.addresses[0])
    first = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float, ctypes.c_int64)(loaded.addresses[1])
    assert first(0.5, 1) == pytest.approx(3 * math.cos(0.5), rel=1e-6)
    assert second(0.25) == pytest.approx(5 * math.cos(0.25), rel=1e-6)


def test_memory_is_run_or_read_and_never_written(content: bytes) -> None:
    loaded, ((first, second),) = load_image([content], [("kernel_first", "kernel_second")])
    image, modes = CodeImage.of([content], elf_machine()), []
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, _, end = line.split()[0].partition("-")
        if int(end, 16) > loaded.address and int(begin, 16) < loaded.address + image.nbytes:
            modes.append(line.split()[1])
    assert loaded.address <= first < second < loaded.address + image.run_bytes < loaded.address + image.nbytes
    assert modes == ["r-xp", "r--p"]


def test_a_damaged_object_is_refused_and_nothing_is_written_elsewhere(content: bytes) -> None:
    machine, refused, rng = elf_machine(), 0, random.Random(0)
    for _ in range(1500):
        damaged = bytearray(content)
        if rng.random() < 0.3:
            del damaged[rng.randrange(len(damaged)) :]
        else:
            for _ in range(rng.choice((1, 2, 8))):
                damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
        try:
            image = CodeImage.of([bytes(damaged)], machine)
            if image.nbytes < 1 << 20:
                memory = bytearray(image.nbytes)
                image.write(memory, BASE, lambda name: 1)
                assert len(memory) == image.nbytes
        except UnsupportedObjectError:
            refused += 1
    assert refused > 300


def test_what_is_of_another_processor_or_format_is_refused(content: bytes) -> None:
    other = AARCH64 if elf_machine() == X86_64 else X86_64
    for wrong, machine in ((content, other), (b"", X86_64), (b"MZ" + content, X86_64), (b"\x7fELF" * 30, X86_64)):
        with pytest.raises(UnsupportedObjectError):
            CodeImage.of([wrong], machine)
    with pytest.raises(UnsupportedObjectError, match="no symbol absent"):
        CodeImage.of([content], elf_machine()).offsets(0, ["absent"])


def test_branches_and_pages_of_aarch64_meet_their_symbols() -> None:
    content = object_file(text_of(), library_target("aarch64"), {}).content
    image = CodeImage.of([content], AARCH64)
    memory = bytearray(image.nbytes)
    image.write(memory, BASE, lambda name: 0x1122334455667788)
    kinds = set()
    for start, relocation, symbol in image._relocations(BASE):
        kinds.add(relocation.kind)
        word = int.from_bytes(memory[start : start + 4], "little")
        assert landed(word, relocation, BASE + start) == target_of(relocation, symbol + relocation.addend)
    assert {283, 275} <= kinds
    stub = image.stubs["cosf"]
    assert memory[stub + 8 : stub + 16] == bytes.fromhex("8877665544332211")


def landed(word: int, relocation: Relocation, address: int) -> int:
    """Where an instruction leads, by the reference of the processor."""
    if relocation.kind in (282, 283):
        distance = word & 0x3FFFFFF
        return address + 4 * (distance - (1 << 26) * (distance >> 25))
    if relocation.kind == 275:
        pages = (word >> 5 & 0x7FFFF) << 2 | (word >> 29 & 3)
        return (address >> 12) + pages - (1 << 21) * (pages >> 20)
    return (word >> 10 & 0xFFF) << LOW_TWELVE[relocation.kind]


def target_of(relocation: Relocation, value: int) -> int:
    if relocation.kind in (282, 283):
        return value
    return value >> 12 if relocation.kind == 275 else value & 0xFFF


SECOND = """
import sys
import nnc
from nnc.core.settings import SETTINGS
from pathlib import Path
SETTINGS.cache_folder = Path(sys.argv[1])
x = nnc.ones((8, 8)) * 0.5
print((nnc.exp(x) @ x.T).sum().item(), "llvmlite.binding" in sys.modules)
"""


def test_a_process_that_finds_its_kernels_does_not_load_llvm(tmp_path: Path) -> None:
    def told() -> list[str]:
        run = subprocess.run([sys.executable, "-c", SECOND, str(tmp_path)], capture_output=True, text=True, check=True)
        return run.stdout.split()

    first, second = told(), told()
    assert first == [second[0], "True"]
    assert second[1] == "False"
    # What is said of the processor, damaged: it is asked for again.
    for entry in (tmp_path / "hosts").iterdir():
        entry.write_bytes(entry.read_bytes()[:-1])
    assert told() == first


def test_facts_of_another_form_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(tmp_path, "host", ".json")
    monkeypatch.setattr(llvm_library, "_cache", lambda: cache)
    monkeypatch.setattr(llvm_library, "_key", lambda: "key")
    monkeypatch.delitem(sys.modules, "llvmlite.binding")
    for content in (
        b"[]",
        b"{",
        b'{"version": 1}',
        b'{"version":"","triple":"","processor":1,"features":{},"flags":""}',
    ):
        cache.store("key", content)
        assert llvm_library._kept_facts.__wrapped__() is None
    cache.store("key", b'{"version":"v","triple":"t","processor":"p","features":{"avx":true},"flags":"+avx"}')
    kept = llvm_library._kept_facts.__wrapped__()
    assert kept is not None
    assert kept.features == {"avx": True}
