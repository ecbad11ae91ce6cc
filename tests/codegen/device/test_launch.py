"""Kernels of devices: every generator becomes PTX, and computes the same on one thread of this processor.

Of each generator and kind of element the first case of the conformance table is taken; all of them with
NNC_ALL_CROSS_TARGETS=1.
"""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from tests.codegen.device.on_host import run
from tests.codegen.test_cross_targets import ALL_CASES, generator_of, generators
from tests.conformance.cases import CASES, Case
from tests.conformance.runs import check_agreement, contiguous, filled

from nnc.backends.reference.backend import ReferenceBackend
from nnc.codegen.device.device_targets import cuda_target, vulkan_target
from nnc.codegen.device.launch import DeviceKernel, device_kernel
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.table import ROWS
from nnc.core.running.dispatch import Call
from nnc.core.values.command import Command
from nnc.core.values.device import Device
from nnc.core.values.dtype import F32, DType
from nnc.ops.composed.fused import FUSED_OUTPUT
from nnc.ops.rules import infer

PTXAS = shutil.which("ptxas")
CUDA = cuda_target(8, 0)
assert CUDA is not None


def compiled(kernel: DeviceKernel, machine: llvm.TargetMachine, level: int = 0) -> str:
    module = llvm.parse_assembly(kernel.text, llvm.create_context())
    module.verify()
    if level:
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=level))
        builder.getModulePassManager().run(module, builder)
    return str(machine.emit_assembly(module))


def machine(level: int = 3, target: TargetDescription = CUDA) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    processor = llvm.Target.from_triple(target.triple)
    return processor.create_target_machine(cpu=target.processor, features=target.features, opt=level)


def test_each_capability_has_the_row_of_the_newest_code_that_it_runs() -> None:
    names = [target.processor for target in map(cuda_target, (7, 7, 8, 8, 9, 9, 12), (0, 5, 0, 7, 0, 1, 0)) if target]
    assert names == ["sm_70", "sm_75", "sm_80", "sm_86", "sm_90a", "sm_90", "sm_90"]
    assert cuda_target(6, 1) is None
    assert vulkan_target(8).lanes(64) == 8


def test_every_generator_becomes_ptx_that_calls_nothing() -> None:
    # What a device cannot do, or would call, shows without optimization too.
    made, texts = machine(0), []
    for name, _, generator in generators():
        kernel = device_kernel(generator, CUDA, "kernel")
        assert kernel.missing == (), name
        texts.append(compiled(kernel, made))
        assert ".extern" not in texts[-1], name
        assert all(f".entry {phase.entry}(" in texts[-1] for phase in kernel.phases)
    assert len(texts) > 150


@pytest.mark.nightly("every generator becomes PTX in every run")
@pytest.mark.skipif(PTXAS is None, reason="no ptxas")
def test_the_assembler_of_the_device_takes_what_llvm_writes(tmp_path: Path) -> None:
    made, kinds = machine(), set()
    for _, _, generator in generators():
        if type(generator) in kinds:
            continue
        kinds.add(type(generator))
        source = tmp_path / f"{len(kinds)}.ptx"
        source.write_text(compiled(device_kernel(generator, CUDA, "kernel"), made, 2))
    for source in sorted(tmp_path.glob("*.ptx")):
        subprocess.run([str(PTXAS), "-arch=sm_80", "-O1", str(source), "-o", str(tmp_path / "out")], check=True)


@cache
def cases() -> dict[str, list[tuple[Case, DType]]]:
    """By operator: of each generator the first case, whose element types take turns."""
    kinds, chosen = set(), dict[str, list[tuple[Case, DType]]]()
    for number, case in enumerate(CASES):
        for dtype in case.dtypes if ALL_CASES else (case.dtypes[number % len(case.dtypes)],):
            generator = generator_of(case, dtype)
            kind = (type(generator), case.op)
            if generator is not None and (ALL_CASES or kind not in kinds):
                kinds.add(kind)
                chosen.setdefault(case.op.name, []).append((case, dtype))
    return chosen


@pytest.mark.turns(4)
@pytest.mark.parametrize("op", sorted(cases()))
def test_one_thread_computes_what_the_reference_does(op: str) -> None:
    reference = ReferenceBackend()
    for case, dtype in cases()[op]:
        command, specs = Command(case.op, case.attrs), case.specs(dtype)
        results = infer(case.op, case.attrs, specs)
        tensors = [
            None if spec is None or array is None else filled("contiguous", spec, array)
            for spec, array in zip(specs, case.arrays(dtype), strict=True)
        ]
        wanted, outputs = ([contiguous(spec) for spec in results] for _ in range(2))
        reference.program([Call(reference.kernel(command, specs, results), tuple(tensors), tuple(wanted), None)])()
        generator = generator_of(case, dtype)
        assert generator is not None
        run(generator, [tensor.numpy() for tensor in (*tensors, *outputs) if tensor is not None])
        for place, (got, want) in enumerate(zip(outputs, wanted, strict=True)):
            check_agreement(got.numpy(), want.numpy(), results[place].dtype, f"{case} {dtype} {place}")


def test_products_of_a_device_take_epilogues() -> None:
    case, device = next(case for case in CASES if case.op is FUSED_OUTPUT), Device("cuda")
    specs = [spec.on(device) for spec in case.specs(F32) if spec is not None]
    results = [spec.on(device) for spec in infer(case.op, case.attrs, specs)]
    assert ROWS[FUSED_OUTPUT].refuse(case.attrs, specs, results) == ""
