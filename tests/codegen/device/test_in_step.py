"""What warps and groups compute, thread by thread, against the reference: without a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.codegen.device.in_step import run
from tests.codegen.device.test_groups import product, product_of
from tests.codegen.test_cross_targets import generator_of
from tests.conformance.cases import CASES, Case
from tests.conformance.runs import check_agreement, contiguous, filled

from nnc.backends.reference.backend import ReferenceBackend
from nnc.codegen.device.device_targets import VULKAN_TRIPLE, cuda_target
from nnc.codegen.device.groups.attentions.attention_gradients import GroupAttentionGradient
from nnc.codegen.device.groups.device_rows import group_kernel
from nnc.codegen.device.groups.matrices import matrix_forms
from nnc.codegen.device.groups.matrices.group_attention import GroupAttention
from nnc.codegen.device.groups.matrices.matrix_correlations import MatrixGroupCorrelation
from nnc.codegen.device.groups.matrices.matrix_forms import FORMS
from nnc.codegen.frame.row import view_of
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.table import ROWS
from nnc.core.running.dispatch import Call
from nnc.core.values.command import Command
from nnc.core.values.dtype import BF16, BOOL, F16, F32, F64, DType
from nnc.core.values.spec import Shape, TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.graph import Op
from nnc.ops.convolutions.convolutions import CONVOLUTION_WEIGHT_GRADIENT, ConvolutionGradientAttrs
from nnc.ops.convolutions.window import Window
from nnc.ops.elementwise.pointwise import add, tanh
from nnc.ops.movement.broadcast import REDUCE_SUM, ReduceAttrs
from nnc.ops.movement.movement import TRANSPOSE, TransposeAttrs
from nnc.ops.normalization.normalization import BATCH_NORM, BATCH_NORM_GRADIENT, BatchNormAttrs, NormalizationAttrs
from nnc.ops.products.products import GemmAttrs
from nnc.ops.reduction.reduction import REDUCE_MAX, REDUCE_MEAN, REDUCE_NORM
from nnc.ops.rules import NoAttrs, infer
from nnc.ops.sequence.attention import ATTENTION, ATTENTION_GRADIENT, AttentionAttrs

CUDA = cuda_target(9, 0)
assert CUDA is not None
# The same threads, with entries that say what they ask of the device.
IN_STEP = replace(CUDA, triple=VULKAN_TRIPLE)
NUMPY = {F64: np.float64, F32: np.float32, F16: np.float16, BF16: ml_dtypes.bfloat16}


def first_cases() -> dict[str, Case]:
    found = {}
    for case in CASES:
        found.setdefault(case.op.name, case)
    return found


@pytest.mark.parametrize(
    "name",
    ["softmax", "layer_norm", "reduce_sum", "gemm", "attention", "argmax", "max_pool", "convolution", "transpose",
     "lstm", "sort", "dropout", "cumulative_sum", "rotary", "scatter_add", "gelu", "adam", "block_product"],
)  # fmt: skip
def test_warps_compute_what_the_reference_does(name: str) -> None:
    case = first_cases()[name]
    for dtype in case.dtypes[:2]:
        check(case, dtype)


def check(case: Case, dtype: DType) -> None:
    """What a device computes, and the reference."""
    if (generator := generator_of(case, dtype)) is not None:
        command, specs = Command(case.op, case.attrs), case.specs(dtype)
        results = infer(case.op, case.attrs, specs)
        tensors = [filled("contiguous", *pair) for pair in zip(specs, case.arrays(dtype), strict=True)]
        wanted, outputs = ([contiguous(each) for each in results] for _ in range(2))
        reference = ReferenceBackend()
        reference.program([Call(reference.kernel(command, specs, results), tuple(tensors), tuple(wanted), None)])()
        run(generator, IN_STEP, [tensor.numpy() for tensor in (*tensors, *outputs) if tensor is not None])
        for place, (got, want) in enumerate(zip(outputs, wanted, strict=True)):
            check_agreement(got.numpy(), want.numpy(), results[place].dtype, f"{case} {dtype} {place}")


CONVOLUTIONS = [
    case for case in CASES if case.op.name in ("convolution", "convolution_data_gradient") and "x0" not in str(case)
]


@pytest.mark.parametrize("number", range(8))
def test_groups_compute_convolutions(number: int) -> None:
    for case in CONVOLUTIONS[number::8]:
        check(case, F32 if F32 in case.dtypes else case.dtypes[0])


@pytest.mark.parametrize("dtype", [BF16, F16, F32, F64], ids=str)
@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, False), (True, True), (False, True)])
def test_groups_multiply_matrices(dtype: DType, transpose_a: bool, transpose_b: bool) -> None:
    check_product(dtype, (72, 40, 80), transpose_a, transpose_b, CUDA if dtype in (BF16, F16) else IN_STEP)


ALL_FORMS = [(processor, row) for processor in ("sm_80", "sm_90a") for row in FORMS[processor]]


# Some slices of whole chunks, more than are under way at once; and elements that lie anywhere.
@pytest.mark.turns(4)
@pytest.mark.parametrize("sizes", [(136, 200, 72), (9, 67, 41)])
@pytest.mark.parametrize("number", range(len(ALL_FORMS)))
def test_every_form_of_tiles_multiplies_matrices(
    number: int, sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    processor, row = ALL_FORMS[number]
    monkeypatch.setattr(matrix_forms, "FORMS", {processor: (row,)})
    transpose, uneven = number % 2 == 0, sizes[0] % 8 > 0
    dtype = F16 if uneven else BF16
    check_product(dtype, sizes, transpose, transpose, cuda_target(9 if processor == "sm_90a" else 8, 0))


@pytest.mark.parametrize("capability", [8, 9])
def test_matrices_of_16_bits_are_convolved(capability: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "IN_STEP", cuda_target(capability, 0))
    kernels = set()
    for case in CONVOLUTIONS:
        generator = generator_of(case, BF16) if BF16 in case.dtypes else None
        kernel = None if generator is None else group_kernel(generator, cuda_target(capability, 0))
        if isinstance(kernel, MatrixGroupCorrelation) and "none" in str(case):
            kernels.add(case.op.name)
            check(case, BF16)
    assert kernels == {"convolution"}


@pytest.mark.parametrize(
    ("q", "k", "values", "causal", "dtype"),
    [((1, 20, 2, 16), (1, 70, 1, 16), 16, False, BF16), ((1, 70, 1, 40), (1, 30, 1, 40), 24, True, F16)],
    ids=["shared keys", "causal"],
)
def test_warps_attend(q: Shape, k: Shape, values: int, causal: bool, dtype: DType) -> None:
    specs, attrs = [spec(q, dtype), spec(k, dtype), spec((*k[:3], values), dtype)], AttentionAttrs(0.3, causal)
    results, rng = infer(ATTENTION, attrs, [*specs, None]), np.random.default_rng(0)
    arrays = [rng.standard_normal(each.shape).astype(NUMPY[dtype]) for each in specs]
    tensors = [filled("contiguous", *pair) for pair in zip(specs, arrays, strict=True)]
    wanted, outputs = ([contiguous(each) for each in results] for _ in range(2))
    reference, command = ReferenceBackend(), Command(ATTENTION, attrs)
    kernel = reference.kernel(command, (*specs, None), results)
    reference.program([Call(kernel, (*tensors, None), tuple(wanted), None)])()
    views = [[view_of(each) for each in part] for part in (specs, results)]
    generator = ROWS[ATTENTION].generate(attrs, *views)
    assert isinstance(group_kernel(generator, CUDA), GroupAttention)
    run(generator, CUDA, [tensor.numpy() for tensor in (*tensors, *outputs)])
    for place, (got, want) in enumerate(zip(outputs, wanted, strict=True)):
        check_agreement(got.numpy(), want.numpy(), results[place].dtype, f"{place}")


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("q", "k", "values", "causal", "dtype", "target"),
    [
        ((1, 34, 1, 6), (1, 17, 1, 6), 5, True, F32, IN_STEP),
        ((1, 17, 1, 8), (1, 18, 1, 8), 8, True, BF16, CUDA),
    ],
    ids=["few bytes", "16 bits"],
)
def test_groups_differentiate_attention(
    q: Shape, k: Shape, values: int, causal: bool, dtype: DType, target: TargetDescription
) -> None:
    mask, attrs = spec((q[0], 1, q[1], k[1]), BOOL), AttentionAttrs(0.3, causal)
    given, rng = [spec(q, dtype), spec(k, dtype), spec((*k[:3], values), dtype)], np.random.default_rng(0)
    seen = rng.random(mask.shape) < 0.8
    seen[:, :, 3] = False
    arrays = [rng.standard_normal(each.shape).astype(NUMPY[dtype]) for each in (spec((*q[:3], values)), *given)]
    y, lse = computed(ATTENTION, attrs, [*given, mask], [*arrays[1:], seen])
    specs = [y.spec, *given, y.spec, lse.spec, mask]
    operands = [*arrays, y.numpy(), lse.numpy(), seen]
    results = infer(ATTENTION_GRADIENT, attrs, specs)
    views = [[view_of(each) for each in part] for part in (specs, results)]
    generator = ROWS[ATTENTION_GRADIENT].generate(attrs, *views)
    assert isinstance(group_kernel(generator, target), GroupAttentionGradient)
    made = [np.zeros_like(operand) for operand in operands[1:4]]
    run(generator, target, [*operands, *made])
    for place, want in enumerate(computed(ATTENTION_GRADIENT, attrs, specs, operands)):
        check_agreement(made[place], want.numpy(), dtype, f"{place}")


def computed(
    op: Op[Any], attrs: object, specs: Sequence[TensorSpec], arrays: Sequence[np.ndarray]
) -> tuple[Tensor, ...]:
    """Results of the reference."""
    results = infer(op, attrs, specs)
    tensors = tuple(filled("contiguous", *pair) for pair in zip(specs, arrays, strict=True))
    outputs = tuple(contiguous(each) for each in results)
    reference = ReferenceBackend()
    kernel = reference.kernel(Command(op, attrs), tuple(specs), results)
    reference.program([Call(kernel, tensors, outputs, None)])()
    return outputs


def test_groups_attend_over_caches_of_every_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "IN_STEP", CUDA)
    checked = 0
    for case in CASES:
        generator = generator_of(case, F32) if case.op.name == "cached_attention" and "300x" in str(case) else None
        if generator is not None and group_kernel(generator, CUDA) is not None:
            checked += 1
            check(case, F32)
        assert generator is None or not ("wrapped" in str(case) and group_kernel(generator, CUDA))
    assert checked == 6


def check_product(
    dtype: DType, sizes: tuple[int, int, int], transpose_a: bool, transpose_b: bool, target: TargetDescription
) -> None:
    """What a device computes, and what the sums are."""
    rows, inner, columns = sizes
    a, b = ((inner, rows) if transpose_a else (rows, inner)), ((columns, inner) if transpose_b else (inner, columns))
    generator = product(a, b, dtype, attrs=GemmAttrs(transpose_a=transpose_a, transpose_b=transpose_b))
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal(shape).astype(NUMPY[dtype]) for shape in (a, b))
    c = np.full((rows, columns), np.nan, NUMPY[dtype])
    run(generator, target, [left, right, c])
    whole = (left.T if transpose_a else left).astype(np.float64) @ (right.T if transpose_b else right).astype(
        np.float64
    )
    check_agreement(c, whole.astype(NUMPY[dtype]), dtype, "c")


@pytest.mark.turns(5)
@pytest.mark.parametrize("dtype", [F32, BF16, F64], ids=str)
@pytest.mark.parametrize("columns", [70, 1025, 2048, 9000, 33000])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "rms_norm"])
def test_groups_do_rows(name: str, columns: int, dtype: DType) -> None:
    case = first_cases()[name]
    x = spec((3, columns), dtype)
    beside = [] if "soft" in name else [spec((columns,), dtype)] * (2 if name == "layer_norm" else 1)
    attrs = case.attrs if "soft" in name else NormalizationAttrs((1,), (1,))
    specs = [x, *beside]
    check_groups(case.op, attrs, specs)


# Shapes: whole vectors and single elements, ragged tiles, parts of few outputs along and across.
MOVED: list[tuple[Op[Any], object, list[Shape]]] = [
    (add, NoAttrs(), [(64, 128), (64, 128)]),
    (add, NoAttrs(), [(67, 101), (101,)]),
    (tanh, NoAttrs(), [(5, 1024)]),
    (add, NoAttrs(), [(513, 256), (256,)]),
    (TRANSPOSE, TransposeAttrs((1, 0)), [(40, 70)]),
    (TRANSPOSE, TransposeAttrs((0, 2, 1)), [(3, 64, 33)]),
    (REDUCE_SUM, ReduceAttrs((0, 1)), [(64, 200)]),
    (REDUCE_SUM, ReduceAttrs((1,)), [(2, 1100)]),
    (REDUCE_MAX, ReduceAttrs((0,)), [(200, 70)]),
    (REDUCE_MEAN, ReduceAttrs((0, 2)), [(20, 3, 200)]),
    (REDUCE_NORM, ReduceAttrs((0, 1)), [(65, 200)]),
]


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize(("op", "attrs", "shapes"), MOVED, ids=str)
def test_groups_move_and_combine(op: Op[Any], attrs: object, shapes: list[Shape], dtype: DType) -> None:
    check_groups(op, attrs, [spec(shape, dtype) for shape in shapes])


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize("op", [BATCH_NORM, BATCH_NORM_GRADIENT], ids=str)
def test_groups_normalize_columns(op: Op[Any], dtype: DType) -> None:
    x, channels, statistic = spec((3, 50, 37), dtype), spec((37,), dtype), spec((37,))
    step = op is BATCH_NORM
    specs = [x, channels, channels, statistic, statistic] if step else [x, x, statistic, statistic, channels]
    check_groups(op, BatchNormAttrs(1e-5, 0.9), specs)


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize(
    ("a", "b", "transpose_b"),
    [
        ((1, 70), (70, 33), False),
        ((1, 200), (1030, 200), True),
        ((1, 2100), (5, 2100), True),
        ((33, 100), (100, 1), False),
    ],
)
def test_groups_multiply_vectors(a: Shape, b: Shape, transpose_b: bool, dtype: DType) -> None:
    generator = product_of(a, b, dtype, attrs=GemmAttrs(transpose_b=transpose_b))
    left, right = (np.random.default_rng(0).standard_normal(shape).astype(NUMPY[dtype]) for shape in (a, b))
    c = np.full((a[0], b[0] if transpose_b else b[1]), np.nan, NUMPY[dtype])
    kernel = run(generator, IN_STEP, [left, right, c])
    assert {phase.worker for phase in kernel.phases} == {256}
    whole = left.astype(np.float64) @ (right.T if transpose_b else right).astype(np.float64)
    check_agreement(c, whole.astype(NUMPY[dtype]), dtype, "c")


@pytest.mark.turns(4)
@pytest.mark.parametrize("groups", [1, 2])
def test_groups_sum_weight_gradients_in_parts(groups: int) -> None:
    attrs = ConvolutionGradientAttrs(Window((1, 2), ((1, 1), (1, 1)), (1, 1)), groups, (3, 3))
    check_groups(CONVOLUTION_WEIGHT_GRADIENT, attrs, [spec((3, 20, 21, 6)), spec((3, 20, 11, 10))])


def check_groups(op: Op[Any], attrs: object, specs: list[TensorSpec]) -> None:
    """What groups of 256 threads compute, and the reference."""
    command = Command(op, attrs)
    results, rng = infer(op, attrs, specs), np.random.default_rng(0)
    arrays = [rng.standard_normal(each.shape).astype(NUMPY[each.dtype]) for each in specs]
    tensors = [filled("contiguous", *pair) for pair in zip(specs, arrays, strict=True)]
    wanted, outputs = ([contiguous(each) for each in results] for _ in range(2))
    reference = ReferenceBackend()
    reference.program([Call(reference.kernel(command, specs, results), tuple(tensors), tuple(wanted), None)])()
    generator = ROWS[op].generate(attrs, [view_of(each) for each in specs], [view_of(each) for each in results])
    kernel = run(generator, IN_STEP, [tensor.numpy() for tensor in (*tensors, *outputs)])
    assert {phase.worker for phase in kernel.phases} <= {32, 256, 512, 1024}
    for place, (got, want) in enumerate(zip(outputs, wanted, strict=True)):
        check_agreement(got.numpy(), want.numpy(), results[place].dtype, f"{op.name} {place}")
