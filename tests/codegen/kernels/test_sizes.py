"""One kernel serves many sizes, with the bits of kernels that are made for one size each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, jit, run
from tests.conformance.case import NONE, Case
from tests.conformance.cases import CASES

from nnc.codegen.frame.kernel import Generator, Phase, WithSizes
from nnc.codegen.frame.row import view_of
from nnc.codegen.frame.written import outline, write
from nnc.codegen.ir.builder import Module
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.table import ROWS
from nnc.core.values.spec import Shape, spec
from nnc.graph import Op
from nnc.ops.rules import infer

TARGET = TargetDescription("x86_64-unknown-linux-gnu", "x86-64-v4", "", 512, 32, fused=True)
SIZES = (1, 2, 7, 31, 64, 97)


@dataclass(frozen=True)
class Baked:
    """The same generator, whose sizes are part of the code."""

    inner: Generator

    def workspace(self, target: TargetDescription) -> int:
        return self.inner.workspace(target)

    def scratch(self, target: TargetDescription) -> int:
        return self.inner.scratch(target)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        return self.inner.emit(module, name)


@dataclass(frozen=True)
class Row:
    """An operator whose operands follow a size; how many texts serve all sizes."""

    name: str
    op: Op[Any]
    shapes: Callable[[int], tuple[Shape, ...]]
    attrs: Any = NONE
    texts: int = 1
    sizes: tuple[int, ...] = SIZES

    def __str__(self) -> str:
        return self.name


def op_of(name: str) -> Op[Any]:
    return next(case.op for case in CASES if case.op.name == name)


TABLE = [
    Row("flat", op_of("relu"), lambda n: ((n, 3, 5),), sizes=(0, *SIZES)),
    Row("long chains", op_of("gelu"), lambda n: ((5, n),)),
    Row("a value per column", op_of("add"), lambda n: ((n + 1, 5), (5,)), sizes=(1, 2, 7, 64)),
    Row("a value per row", op_of("multiply"), lambda n: ((6, n + 1), (6, 1))),
    Row("a value per image and channel", op_of("add"), lambda n: ((2, n + 1, 24), (2, 1, 24))),
    Row("an axis in the middle", op_of("subtract"), lambda n: ((3, n + 1, 2, 5), (3, 1, 2, 1))),
]


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_one_text_has_the_bits_of_all_sizes(row: Row) -> None:
    hashes = set()
    for size in row.sizes:
        inputs, results, generator = operands(row.op, row.attrs, row.shapes(size))
        again = [np.full_like(result, 3) for result in results]
        run(generator, inputs, results)
        run(Baked(generator), inputs, again)
        assert [one.tobytes() for one in results] == [one.tobytes() for one in again], size
        hashes.add(jit().kernel(generator).hash)
    assert len(hashes) <= row.texts


def operands(op: Op[Any], attrs: Any, shapes: Sequence[Shape]) -> tuple[list[Array], list[Array], Generator]:
    specs = [spec(shape, "f32") for shape in shapes]
    written = infer(op, attrs, tuple(specs))
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(shape, dtype=np.float32) for shape in shapes]
    results = [np.full(one.shape, 7, one.dtype.numpy) for one in written]
    views = [view_of(one) for one in specs], [view_of(one) for one in written]
    return inputs, results, ROWS[op].generate(attrs, *views)


def generator_of(case: Case) -> Generator | None:
    """The kernel of a row of the conformance table, for its first element type."""
    row, specs = ROWS.get(case.op), case.specs(case.dtypes[0])
    present = [one for one in specs if one is not None]
    if row is None or any(one.plain is not one for one in present):
        return None
    results = infer(case.op, case.attrs, specs)
    if row.refuse(case.attrs, present, results):
        return None
    return row.generate(case.attrs, [view_of(one) for one in present], [view_of(one) for one in results])


def test_formulas_tell_the_phases_that_are_written_without_them() -> None:
    found, differing = 0, []
    for case in CASES:
        generator = generator_of(case)
        if not isinstance(generator, WithSizes):
            continue
        found += 1
        _, written = write(generator, TARGET, "kernel")
        sized = written.at(outline(generator, TARGET)[1])
        if sized is None or sized.phases != generator.emit(Module(TARGET), "kernel"):
            differing.append(str(case))
    assert found > 100
    assert differing == []
