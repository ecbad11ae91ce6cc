"""SPIR-V of kernels: every generator's module is valid for Vulkan 1.2, where its validator is installed."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from tests.codegen.test_cross_targets import generators

from nnc.codegen.device.device_targets import vulkan_target
from nnc.codegen.device.launch import device_kernel
from nnc.codegen.device.spirv.assembler import MAGIC, SpirvAssembler, float_pattern, text_words
from nnc.codegen.device.spirv.module import spirv_module
from nnc.codegen.device.spirv.structured import SpirvFlow
from nnc.codegen.device.spirv.translations import InstructionWriter
from nnc.codegen.device.text import Kind, parse

VALIDATOR = shutil.which("spirv-val")
NESTED = """define void @f(i1 %a) #0 {
entry:
br label %outer
outer:
br i1 %a, label %end, label %inside
inside:
br label %inner
inner:
%n = add i64 1, 2
br i1 %a, label %inner, label %behind
behind:
br label %outer
end:
ret void
}"""


@pytest.mark.skipif(VALIDATOR is None, reason="no spirv-val")
@pytest.mark.parametrize("threads", [1, 8, 64])
def test_every_generator_becomes_a_valid_module(threads: int, tmp_path: Path) -> None:
    target, files = vulkan_target(threads), []
    for number, (name, _, generator) in enumerate(generators()):
        if name.endswith("of blocks") and threads > 32:
            continue  # blocks of another processor have fewer columns than a register elements
        if threads < 32 and (number + (threads > 1)) % 2:
            continue  # few threads take turns: a generator's kinds of elements are neighbours
        kernel = device_kernel(generator, target, "kernel")
        made = spirv_module(kernel)
        assert set(made.entries) == {phase.entry for phase in kernel.phases}, name
        files.append(tmp_path / f"{number}.spv")
        files[-1].write_bytes(made.code)
    assert len(files) > (150 if threads > 32 else 75)
    for file in files:
        checked = subprocess.run(
            [str(VALIDATOR), "--target-env", "vulkan1.2", str(file)], capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_loops_are_known_by_their_ends() -> None:
    flow = SpirvFlow.of(parse(NESTED).functions["f"])
    assert {label: (loop.exit, loop.breaks) for label, loop in flow.headers.items()} == {
        "outer": ("end", True),
        "inner": ("behind", False),
    }
    assert flow.broken(1, "end") is flow.headers["outer"]
    assert flow.broken(1, "inside") is None


def test_constants_and_types_are_made_once() -> None:
    module = SpirvAssembler()
    assert module.constant(Kind("float"), "0x3FF0000000000000") == module.constant(Kind("float"), "1.0")
    assert module.number(-1, "i64") == module.constant(Kind("i64"), "-1")
    assert module.constant(Kind("i1"), "true") != module.constant(Kind("i1"), "0")
    assert struct.unpack_from("<I", module.assembled())[0] == MAGIC


def test_words_of_text_and_floats() -> None:
    assert text_words("main") == [0x6E69616D, 0]
    assert float_pattern("half", "0xH3C00") == float_pattern("half", "1.0") == 0x3C00
    assert float_pattern("double", "0x7FF0000000000000") == 0x7FF0000000000000


def test_indices_are_divided_by_products_and_shifts() -> None:
    body = "%q = udiv i64 %x, 12\n%r = urem i64 %x, 12\n%s = urem i64 %x, 8"
    text = f"define void @f(i64 %x) #0 {{\nentry:\n{body}\nret void\n}}"
    module = SpirvAssembler()
    writer = InstructionWriter(module, {}, {}, {})
    for i in list(parse(text).functions["f"].instructions())[:-1]:
        writer.translate(i)
    opcodes = {word & 0xFFFF for word in module.functions if word >> 16 in (5, 6)}
    assert not opcodes & {134, 137}
    for divisor in (3, 5, 12, 1000003):
        factor = ((1 << 64) - 1) // divisor
        for x in (0, 1, divisor - 1, divisor, 10**12 + 7, (1 << 64) - 1):
            assert x // divisor - (x * factor >> 64) in (0, 1)
