"""Products by AMX: the kernels run with the instructions done in NumPy, are assembled, and run where there are some."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from tests.backends.llvm.harness import Array, extent, pool
from tests.backends.llvm.matrix_machine import MatrixMachine
from tests.backends.llvm.test_pairs import operands
from tests.codegen.kernels.quantization.test_integer_products import drawn, generator_of

from nnc.backends.llvm.run import host, object_code
from nnc.backends.llvm.run.host import host_target, tiles_absence
from nnc.backends.llvm.run.jit import Jit
from nnc.backends.llvm.run.object_code import assembly
from nnc.backends.llvm.run.runtime import NativeProgram, ZeroedMemory
from nnc.backends.llvm.run.steps import Launch
from nnc.codegen.frame.epilogue import Epilogue
from nnc.codegen.frame.row import view_of
from nnc.codegen.frame.tile import Tile
from nnc.codegen.ir.builder import BF16, F32, Module
from nnc.codegen.ir.expression import Instruction
from nnc.codegen.ir.target import TILE_FEATURES, ByteDots, TargetDescription, describe
from nnc.codegen.kernels.products.gemm import Gemm
from nnc.codegen.kernels.products.gemm_plan import MatrixProduct
from nnc.codegen.kernels.table import ROWS
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.running.llvm_library import facts, llvm
from nnc.core.settings import SETTINGS
from nnc.core.values import dtype
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.spec import Blocked
from nnc.core.values.tensor import Tensor
from nnc.ops.composed.fused import FUSED_OUTPUT, FusedAttrs, FusedStep
from nnc.ops.convolutions.window import window_of
from nnc.ops.quantization.quantization import (
    DEQUANTIZE,
    INTEGER_CONVOLUTION,
    INTEGER_PRODUCT,
    IntegerConvolutionAttrs,
    IntegerProductAttrs,
)
from nnc.ops.rules import NoAttrs, infer

HOST = Jit(replace(host_target(), tiles=False), DiskCache(SETTINGS.cache_folder))
COMPILED = object_code.compile_source
WIDE = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni", "avx512bf16"})
FLIPS = tuple(product((False, True), repeat=2))
CASES = (
    *product([(17, 33, 31), (32, 48, 64)], FLIPS), ((2, 5, 7), FLIPS[0]), *product([(65, 130, 129)], FLIPS[::3]),
)  # fmt: skip


@dataclass(frozen=True)
class Emulated:
    """A JIT whose kernels call the machine."""

    machine: MatrixMachine
    jit: Jit


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulated]:
    machine = MatrixMachine()
    monkeypatch.setattr(object_code, "compile_source", lambda source, target: COMPILED(machine.instead(source), target))
    yield Emulated(machine, Jit(replace(host_target(), tiles=True), DiskCache(None)))
    assert machine.faults == []
    assert machine.left == {}, "tiles were not released"


def product_of(a: Array, b: Array, flips: tuple[bool, bool]) -> Gemm:
    """c = a b, each operand read transposed where it is flipped."""
    (rows, inner), columns = a.shape[:: -1 if flips[0] else 1], b.shape[0 if flips[1] else 1]
    a_strides = (1, rows) if flips[0] else (inner, 1)
    b_strides = (1, inner) if flips[1] else (columns, 1)
    return Gemm(MatrixProduct(BF16, (), rows, columns, inner, (), *a_strides, (), *b_strides, (), columns))


def run(jit: Jit, product: Gemm, *inputs: Array, workers: int = 1) -> Array:
    """c, of operands of 16 bits."""
    c = np.full((*product.problem.batch, product.problem.rows, product.problem.columns), np.nan, ml_dtypes.bfloat16)
    words = [one.view(np.uint16) for one in (*inputs, c)]
    reads, writes = tuple(map(extent, words[:-1])), (extent(words[-1]),)
    launch = Launch(jit.kernel(product), tuple(one.ctypes.data for one in words), reads, writes)
    NativeProgram(pool(), [launch], workers).run()
    return c


def check(found: Array, want: Array) -> None:
    """Within what bf16 may differ."""
    tolerance = dtype.TOLERANCE[dtype.BF16]
    np.testing.assert_allclose(found.astype(np.float64), want, tolerance.relative, tolerance.absolute)


def wide(*arrays: Array) -> list[Array]:
    """In f64."""
    return [one.astype(np.float64) for one in arrays]


@pytest.mark.parametrize(("sizes", "flips"), CASES, ids=str)
def test_products_of_any_size_and_order(
    sizes: tuple[int, int, int], flips: tuple[bool, bool], emulated: Emulated
) -> None:
    a, b = operands(*sizes, flips)
    left, right = wide(a, b)
    found = run(emulated.jit, product_of(a, b, flips), a, b)
    assert emulated.machine.products > 0
    check(found, (left.T if flips[0] else left) @ (right.T if flips[1] else right))
    assert run(emulated.jit, product_of(a, b, flips), a, b, workers=2).tobytes() == found.tobytes()


@pytest.mark.parametrize("inner", [64, 50])
def test_matrices_of_a_batch_with_a_bias_and_an_epilogue(inner: int, emulated: Emulated) -> None:
    """c = relu((a b + bias) * scale), of rows that lie apart; with 64 steps a is read where it is."""
    a, _ = operands(64, 1, inner + 6, (False, False))
    _, b = operands(1, 36, 2 * inner, (False, False))
    bias, scale = operands(36, 36, 1, (False, False))
    chain = (Instruction("multiply", (0, 1)), Instruction("relu", (2,)))
    sizes = MatrixProduct(
        BF16, (2,), 32, 36, inner, (32 * (inner + 6),), inner + 6, 1, (inner * 36,), 36, 1, (32 * 36,), 36,
        bias=True,
    )  # fmt: skip
    product = Gemm(sizes, Epilogue(BF16, (True,), chain, 3))
    added, factor = np.ascontiguousarray(bias[:, 0]), scale[0]
    left, right, *sides = wide(a.reshape(2, 32, -1)[..., :inner], b.reshape(2, inner, 36), added, factor)
    want = np.maximum((left @ right + sides[0]) * sides[1], 0)
    check(run(emulated.jit, product, a, b, added, factor), want)
    assert emulated.machine.products > 0


def test_weights_in_blocks_are_read_as_they_lie(emulated: Emulated) -> None:
    a, b = operands(40, 50, 96, (False, False))
    product = product_of(a, b, (False, False))
    found = product.packing(emulated.jit.target)
    assert found is not None
    layout = Blocked((96, 50), 1, found[0].width, found[0].steps)
    assert layout.shape == (2, 48, 32, 2)
    filled = np.zeros((96, 64), b.dtype)
    filled[:, :50] = b
    blocks = np.ascontiguousarray(filled.reshape(48, 2, 2, 32).transpose(2, 0, 3, 1))
    in_blocks = product.in_blocks(layout)
    assert run(emulated.jit, in_blocks, a, blocks).tobytes() == run(emulated.jit, product, a, b).tobytes()
    assert product_of(*operands(40, 50, 90, (False, False)), (False, False)).packing(emulated.jit.target) is None


def test_vectors_are_an_alternative_but_for_weights_in_blocks_of_pairs(emulated: Emulated) -> None:
    a, b = operands(40, 50, 96, (False, False))
    product = product_of(a, b, (False, False))
    others = product.alternatives(emulated.jit.target)
    assert "vectors" in others
    assert "vectors" not in product.alternatives(HOST.target)
    for other in others.values():
        assert isinstance(other, Gemm)
        check(run(emulated.jit, other, a, b), np.matmul(*wide(a, b)))
    assert emulated.machine.products == 0
    assert product.in_blocks(Blocked((96, 50), 1, 32, 2)).alternatives(emulated.jit.target) == {}


def test_infinities_and_nan_go_where_they_belong(emulated: Emulated) -> None:
    a, b = (one.copy() for one in operands(20, 40, 33, (False, False)))
    a[3, 32], a[5, 0], b[7, 11] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        want = np.matmul(*wide(a, b))
    (found,) = wide(run(emulated.jit, product_of(a, b, (False, False)), a, b))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
    np.testing.assert_array_equal(found[np.isinf(want)], want[np.isinf(want)])


def sapphire_rapids() -> TargetDescription:
    """Whatever is here."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    found = describe("x86_64", "sapphirerapids", WIDE | TILE_FEATURES, "")
    return replace(found, triple="x86_64-unknown-linux-gnu")


def test_sums_of_few_steps_and_products_of_f32_use_vectors() -> None:
    sizes = product_of(*operands(64, 64, 1, (False, False)), (False, False)).problem
    for other in (sizes, replace(sizes, scalar=F32, inner=64), replace(sizes, inner=64, tile=Tile(14, 2, 16))):
        module = Module(sapphire_rapids())
        Gemm(other).emit(module, "kernel")
        assert "llvm.x86.t" not in str(module)


def test_kernels_for_sapphire_rapids_are_assembled() -> None:
    target = sapphire_rapids()
    assert target.tiles
    assert not describe("x86_64", "emeraldrapids", WIDE, "").tiles
    module = Module(target)
    product_of(*operands(64, 64, 64, (False, False)), (False, False)).emit(module, "kernel")
    text = assembly(str(module), target)
    found = [line.split()[0] for line in text.splitlines() if line.startswith("\tt") or "ldtilecfg" in line]
    assert found[0] == "ldtilecfg"
    assert found[-1] == "tilerelease"
    assert found.count("tdpbf16ps") == found.count("tileloadd") == found.count("tilestored") == 4


PRODUCT, WINDOW = IntegerProductAttrs(), window_of(3, padding="same")
Whole = tuple[AnyCommand, tuple[Array | None, ...]]


def integers() -> Iterator[Whole]:
    """Every kind of bytes, order of weights and fold of pixels."""
    u8, i8 = np.uint8, np.int8
    for left, right in product((u8, i8), repeat=2):
        a, b = drawn(left, 40, 70), drawn(right, 70, 40)
        yield Command(INTEGER_PRODUCT, PRODUCT), (a, b, None, None)
        yield Command(INTEGER_PRODUCT, PRODUCT), (a, b, drawn(left, 40, 1), drawn(right, 40))
    yield Command(INTEGER_PRODUCT, PRODUCT), (drawn(u8, 32, 128), drawn(i8, 128, 64), None, None)
    flipped = IntegerProductAttrs(transpose_a=True, transpose_b=True)
    yield Command(INTEGER_PRODUCT, flipped), (drawn(u8, 2, 70, 33), drawn(i8, 2, 20, 70), None, None)
    quads = Command(INTEGER_PRODUCT, IntegerProductAttrs(quads=True))
    yield quads, (drawn(i8, 3, 20, 64), drawn(i8, 16, 30, 4), None, None)
    steps = (FusedStep(quads, (0, 1)), FusedStep(Command(DEQUANTIZE, NoAttrs()), (4, 2, 3)))
    scale = np.linspace(0.01, 0.02, 33, dtype=np.float32)
    operands = drawn(u8, 40, 72), drawn(i8, 18, 33, 4), scale, drawn(i8, 33).astype(np.int32)
    yield Command(FUSED_OUTPUT, FusedAttrs(4, steps)), operands
    for x, w, window, groups, zeros in (
        ((2, 9, 33, 20), (3, 3, 20, 24), WINDOW, 1, True),
        ((1, 7, 7, 64), (3, 3, 32, 40), WINDOW, 2, False),
        ((1, 14, 14, 8), (5, 5, 8, 17), window_of(5, stride=2, padding=2), 1, True),
        ((1, 12, 20, 64), (1, 1, 64, 32), window_of(1), 1, False),
    ):
        sides = (np.array(7, u8), drawn(i8, w[-1])) if zeros else (None, None)
        command = Command(INTEGER_CONVOLUTION, IntegerConvolutionAttrs(window, groups))
        yield command, (drawn(u8, *x), drawn(i8, *w), *sides)


def sums(jit: Jit, command: AnyCommand, arrays: tuple[Array | None, ...], workers: int = 1) -> Array:
    """Of bytes, in i32, or as what the last step of fused ones makes of them."""
    given = [one for one in arrays if one is not None]
    specs = infer(command.op, command.attrs, [None if one is None else Tensor.from_numpy(one).spec for one in arrays])
    views = [view_of(Tensor.from_numpy(one).spec) for one in given], [view_of(one) for one in specs]
    kernel = jit.kernel(ROWS[command.op].generate(command.attrs, *views))
    y, memory = np.full(specs[0].shape, -7, specs[0].dtype.numpy), ZeroedMemory.allocate(kernel.workspace)
    addresses, writes = [one.ctypes.data for one in (*given, y)], [extent(y)]
    if kernel.workspace:
        addresses.append(memory.address)
        writes.append(memory.extent)
    NativeProgram(pool(), [Launch(kernel, tuple(addresses), tuple(map(extent, given)), tuple(writes))], workers).run()
    return y


@pytest.mark.skipif(
    host_target().byte_dots is not ByteDots.MIXED or host_target().vector_bits != 512,
    reason="what is added to the sums of tiles is summed by vectors (AVX-512 VNNI)",
)
@pytest.mark.parametrize(
    "case", tuple(integers()), ids=lambda case: str([one.shape for one in case[1] if one is not None])
)
def test_sums_of_bytes_are_those_of_vectors(case: Whole, emulated: Emulated) -> None:
    want = sums(HOST, *case)
    np.testing.assert_array_equal(sums(emulated.jit, *case), want)
    assert emulated.machine.products > 0
    np.testing.assert_array_equal(sums(emulated.jit, *case, workers=2), want)


@pytest.mark.parametrize("left", [np.uint8, np.int8])
@pytest.mark.parametrize("right", [np.uint8, np.int8])
def test_sums_of_bytes_for_sapphire_rapids_are_assembled(left: type[np.generic], right: type[np.generic]) -> None:
    module = Module(sapphire_rapids())
    generator_of(drawn(left, 64, 64), drawn(right, 64, 64)).emit(module, "kernel")
    text = assembly(str(module), module.target)
    name = f"tdpb{'us'[left is np.int8]}{'us'[right is np.int8]}d"
    assert [name in text for name in ("ldtilecfg", name, "tilestored", "tilerelease", "vpdpbusd")] == [True] * 4 + [
        False
    ]


@pytest.mark.skipif(tiles_absence() != "", reason=f"tiles (AMX): {tiles_absence()}")
def test_tiles_of_this_processor_are_those_of_the_machine_in_numpy(emulated: Emulated) -> None:
    a, b = operands(65, 130, 129, (False, False))
    product = product_of(a, b, (False, False))
    want = run(emulated.jit, product, a, b)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(object_code, "compile_source", COMPILED)
        found = run(Jit(host_target(), DiskCache(None)), product, a, b, workers=2)
    assert found.tobytes() == want.tobytes()


def test_a_refused_permission_leaves_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    told = replace(facts(), features=dict.fromkeys(WIDE | TILE_FEATURES, True))
    monkeypatch.setattr(host, "facts", lambda: told)
    for refusal in ("the system refuses: No space left on device", ""):
        monkeypatch.setattr(host, "_refusal", lambda answer=refusal: answer)
        assert host.tiles_absence() == refusal
        assert (host._present() >= TILE_FEATURES) == (not refusal)
        assert host._present() >= WIDE
    told = replace(told, features=dict.fromkeys(WIDE, True))
    assert host.tiles_absence() == "the processor has none"


def test_the_system_answers_with_words_or_with_nothing() -> None:
    answer = host._refusal()
    assert answer == "" or answer.startswith(("the system refuses: ", "only Linux"))
