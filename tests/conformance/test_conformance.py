"""Every usable backend agrees with the reference, on every row, element type, memory layout and in-place pair."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.conformance.case import names_of
from tests.conformance.cases import CASES, Case
from tests.conformance.runs import (
    BACKENDS,
    LAYOUTS,
    REFERENCE,
    ROW,
    arrangements,
    check_agreement,
    inplace_choices,
    refusals,
    run,
)

from nnc.core.running.dispatch import Backend
from nnc.core.values.command import Command
from nnc.core.values.dtype import F16, F32, DType
from nnc.core.values.spec import TensorSpec
from nnc.ops.operators import OPERATORS
from nnc.ops.rules import INPLACE, infer

# Of an operator the first row runs always, and those behind it take turns.
ROWS = [
    pytest.param(case, marks=pytest.mark.turns(1 if ROW[case] == 0 else 4), id=name)
    for case, name in names_of(CASES).items()
]


# What a backend claims of a row is asked when the row runs: asking for all rows took each worker 4 s of its collection.
@pytest.mark.parametrize("case", ROWS)
def test_backends_agree_with_the_reference(case: Case) -> None:
    for name, backend in BACKENDS.items():
        claimed = [dtype for dtype, refusal in refusals(backend, case).items() if not refusal]
        for place, dtype in enumerate(claimed):
            results = infer(case.op, case.attrs, case.specs(dtype))
            wanted = run(REFERENCE, case, dtype, "contiguous", ())
            for layout, pairs in arrangements(case, dtype, place):
                got = run(backend, case, dtype, layout, pairs)
                for index, (one, other) in enumerate(zip(got, wanted, strict=True)):
                    where = f"{name}, output {index}, {dtype}, {layout}, in place {pairs}"
                    check_agreement(one, other, results[index].dtype, where)


def variants(backend: Backend, case: Case, dtype: DType) -> tuple[str, ...]:
    """The names of a backend's other kernels for a row."""
    specs, command = case.specs(dtype), Command(case.op, case.attrs)
    results = infer(case.op, case.attrs, specs)
    return () if backend.refusal(command, specs, results) else tuple(backend.variants(command, specs, results))


# Elements that kernels compute in as they are, and elements that they convert.
VARIED_DTYPES = (F32, F16)
# All that have several kernels, which `test_no_other_operator_has_variants` says.
VARIED_OPERATORS = (
    "convolution",
    "convolution_data_gradient",
    "convolution_weight_gradient",
    "fused_output",
    "gemm",
)
VARIED = [case for case in CASES if case.op.name in VARIED_OPERATORS]


@pytest.mark.parametrize("dtype", VARIED_DTYPES, ids=str)
@pytest.mark.parametrize("case", VARIED, ids=str)
def test_every_variant_agrees_with_the_reference(case: Case, dtype: DType) -> None:
    if dtype not in case.dtypes:
        return
    for backend in BACKENDS.values():
        for place, variant in enumerate(variants(backend, case, dtype)):
            # Elements are converted alike by all variants: every second one, and the others in the next row.
            if dtype is F16 and (ROW[case] + place) % 2:
                continue
            (wanted,) = run(REFERENCE, case, dtype, "contiguous", ())
            # Neighbouring rows meet each variant in the other layout, and so do the two element types.
            layout = tuple(LAYOUTS)[(ROW[case] + place + VARIED_DTYPES.index(dtype)) % len(LAYOUTS)]
            (got,) = run(backend, case, dtype, layout, (), variant)
            check_agreement(got, wanted, dtype, f"{variant}, {layout}")


def test_no_other_operator_has_variants() -> None:
    others = [case for case in CASES if case.op.name not in VARIED_OPERATORS and ROW[case] == 0]
    assert [case for case in others for backend in BACKENDS.values() if variants(backend, case, case.dtypes[0])] == []


@pytest.mark.skipif("llvm" not in BACKENDS, reason="LLVM is absent")
def test_products_and_convolutions_have_variants_of_every_kind() -> None:
    llvm = BACKENDS["llvm"]
    names: dict[str, set[str]] = {}
    for case in VARIED:
        if F32 in case.dtypes:
            names.setdefault(case.op.name, set()).update(name.split("-")[0] for name in variants(llvm, case, F32))
    assert names["gemm"] >= {"tile", "matrix"}
    assert names["convolution"] >= {"direct", "winograd"}
    assert names["convolution_data_gradient"] >= {"direct", "winograd"}
    assert names["convolution_weight_gradient"] >= {"tile"}
    assert names["fused_output"] >= {"direct", "winograd"}


STEP = {
    "adam",
    "add",
    "convolution",
    "convolution_data_gradient",
    "convolution_weight_gradient",
    "gemm",
    "max_pool",
    "max_pool_gradient",
    "multiply",
    "reduce_mean",
    "reduce_sum",
    "relu",
    "sgd",
    "softmax_cross_entropy",
    "softmax_cross_entropy_gradient",
}


@pytest.mark.skipif("llvm" not in BACKENDS, reason="LLVM is absent")
def test_the_native_backend_claims_the_operators_of_a_training_step() -> None:
    rows = [case for case in CASES if case.op.name in STEP]
    assert {case.op.name for case in rows if not all(refusals(BACKENDS["llvm"], case).values())} == STEP


def test_every_operator_has_rows() -> None:
    rows = Counter(case.op for case in CASES)
    assert [op.name for op in OPERATORS if rows[op] < 3] == []
    assert set(rows) == set(OPERATORS)


def test_the_reference_refuses_no_row() -> None:
    for case in CASES:
        for dtype in case.dtypes:
            specs = case.specs(dtype)
            assert not REFERENCE.refusal(Command(case.op, case.attrs), specs, infer(case.op, case.attrs, specs)), case


def test_every_allowed_pair_is_used_by_some_row() -> None:
    used = {
        (case.op, pair)
        for case in CASES
        for pairs in inplace_choices(
            case, case.specs(case.dtypes[0]), infer(case.op, case.attrs, case.specs(case.dtypes[0]))
        )
        for pair in pairs
    }
    allowed = {(case.op, pair) for case in CASES for pair in INPLACE[case.op](case.attrs).allowed}
    assert used == allowed


def test_results_have_the_inferred_specs() -> None:
    for case in CASES:
        for dtype in case.dtypes:
            for spec in infer(case.op, case.attrs, case.specs(dtype)):
                assert isinstance(spec, TensorSpec), case
