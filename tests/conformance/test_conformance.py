"""Every usable backend agrees with the reference, on every row, element type, memory layout and in-place pair."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.conformance.cases import CASES, Case

import nnc
from nnc.backends.reference.backend import ReferenceBackend
from nnc.core.running.dispatch import DISPATCHER, Backend, Call
from nnc.core.values.command import Command
from nnc.core.values.dtype import F16, F32, TOLERANCE, U8, DType
from nnc.core.values.spec import TensorSpec, contiguous_strides
from nnc.core.values.tensor import Tensor
from nnc.ops.operators import OPERATORS
from nnc.ops.rules import INPLACE, infer

# Importing the package puts its backends into the dispatcher.
assert nnc.__name__ == "nnc"

Array = NDArray[Any]
Pairs = tuple[tuple[int, int], ...]

IS_CAMPAIGN = "NNC_EXAMPLES" in os.environ
FULL_ROWS = 2
MOST_CHOICES = 16
REFERENCE = ReferenceBackend()
BACKENDS: dict[str, Backend] = {
    REFERENCE.name: REFERENCE,
    **{name: backend for name, backend in DISPATCHER.backends.items() if not backend.absence()},
}


def contiguous(spec: TensorSpec) -> Tensor:
    """Fresh row-major memory, every byte 0xff: nan for floats."""
    tensor = Tensor.empty(spec)
    tensor.storage.bytes.fill(0xFF)
    return tensor


def strided(spec: TensorSpec) -> Tensor:
    """Every second element along each axis of memory in which the axes are in reverse order, one element in."""
    sizes = tuple(2 * max(size, 1) for size in reversed(spec.shape))
    whole = contiguous(TensorSpec((math.prod(sizes) + 1,), spec.dtype))
    strides = tuple(2 * stride for stride in reversed(contiguous_strides(sizes)))
    return whole.view(spec, 1, strides)


LAYOUTS = {"contiguous": contiguous, "strided": strided}


def filled(layout: str, spec: TensorSpec | None, array: Array | None) -> Tensor | None:
    if spec is None or array is None:
        return None
    tensor = LAYOUTS[layout](spec)
    np.copyto(tensor.numpy(), array)
    return tensor


def inplace_choices(case: Case, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> list[Pairs]:
    """Ways to put outputs into the memory of inputs that the operator's rule allows, each input used once.

    All of them where they are few; else each pair by itself, and those with as many pairs as can be.
    """
    rule = INPLACE[case.op](case.attrs)
    choices: list[Pairs] = [()]
    for source, target in rule.allowed:
        if inputs[source] == outputs[target]:
            fitting = [pairs for pairs in choices if all(source != s and target != t for s, t in pairs)]
            choices.extend((*pairs, (source, target)) for pairs in fitting)
    if len(choices) <= MOST_CHOICES:
        return choices
    most = max(map(len, choices))
    return [pairs for pairs in choices if len(pairs) in (0, 1, most)]


def run(backend: Backend, case: Case, dtype: DType, layout: str, pairs: Pairs, variant: str = "") -> list[Array]:
    """The outputs of one row, computed with the outputs of `pairs` in the memory of their inputs."""
    specs = case.specs(dtype)
    results = infer(case.op, case.attrs, specs)
    inputs = [filled(layout, spec, array) for spec, array in zip(specs, case.arrays(dtype), strict=True)]
    shared = {target: inputs[source] for source, target in pairs}
    outputs = [shared.get(index) or LAYOUTS[layout](spec) for index, spec in enumerate(results)]
    command = Command(case.op, case.attrs)
    made = backend.variants(command, specs, results)[variant] if variant else backend.kernel(command, specs, results)
    scratch = made.workspace_bytes
    workspace = contiguous(TensorSpec((scratch,), U8)) if scratch else None
    backend.program([Call(made, tuple(inputs), tuple(outputs), workspace)])()
    return [tensor.numpy() for tensor in outputs if tensor is not None]


def check_agreement(got: Array, want: Array, dtype: DType, place: str) -> None:
    """|got - want| ≤ absolute + relative · |want|; infinities and nan at the same places."""
    row = TOLERANCE[dtype]
    if dtype.is_float:
        got, want = got.astype(np.float64), want.astype(np.float64)
        np.testing.assert_allclose(got, want, row.relative, row.absolute, equal_nan=True, err_msg=place)
    else:
        np.testing.assert_array_equal(got, want, err_msg=place)


def arrangements(case: Case, dtype: DType, place: int) -> Iterator[tuple[str, Pairs]]:
    """Layouts and pairs in place for the element type at this place among those of a row.

    The first rows of an operator meet all of them in the first type, the plainest or the fullest in each other type.
    The rest take turns: every second one is only strided in the first type, and of other types each meets every second.
    A campaign has all for all: NNC_EXAMPLES=1 pytest tests/conformance
    """
    specs = case.specs(dtype)
    results = infer(case.op, case.attrs, specs)
    choices = inplace_choices(case, specs, results)
    number = ROW[case]
    if place == 0 or IS_CAMPAIGN:
        layouts = tuple(LAYOUTS) if number < FULL_ROWS or number % 2 == 0 or IS_CAMPAIGN else ("strided",)
        yield from ((layout, pairs) for layout in layouts for pairs in choices)
    elif number < FULL_ROWS or (number // 2 + place) % 2:
        is_plain = (number + place) % 2
        yield ("contiguous", ()) if is_plain else ("strided", max(choices, key=len))


def refusals(backend: Backend, case: Case) -> dict[DType, str]:
    """Why the backend does not claim the row, per element type; empty text where it does."""
    found = {}
    for dtype in case.dtypes:
        specs = case.specs(dtype)
        found[dtype] = backend.refusal(Command(case.op, case.attrs), specs, infer(case.op, case.attrs, specs))
    return found


# The number of each row among those of its operator, of which there are three or more.
ROW = {case: number for op in OPERATORS for number, case in enumerate(one for one in CASES if one.op is op)}
CLAIMS = [
    pytest.param(name, case, id=f"{name}-{case}")
    for name, backend in BACKENDS.items()
    for case in CASES
    if not all(refusals(backend, case).values())
]


@pytest.mark.parametrize(("name", "case"), CLAIMS)
def test_a_backend_agrees_with_the_reference(name: str, case: Case) -> None:
    backend = BACKENDS[name]
    claimed = [dtype for dtype, refusal in refusals(backend, case).items() if not refusal]
    for place, dtype in enumerate(claimed):
        results = infer(case.op, case.attrs, case.specs(dtype))
        wanted = run(REFERENCE, case, dtype, "contiguous", ())
        for layout, pairs in arrangements(case, dtype, place):
            got = run(backend, case, dtype, layout, pairs)
            for index, (one, other) in enumerate(zip(got, wanted, strict=True)):
                where = f"output {index}, {dtype}, {layout}, in place {pairs}"
                check_agreement(one, other, results[index].dtype, where)


def variants(backend: Backend, case: Case, dtype: DType) -> tuple[str, ...]:
    """The names of a backend's other kernels for a row."""
    specs, command = case.specs(dtype), Command(case.op, case.attrs)
    results = infer(case.op, case.attrs, specs)
    return () if backend.refusal(command, specs, results) else tuple(backend.variants(command, specs, results))


# Elements that kernels compute in as they are, and elements that they convert.
VARIED_DTYPES = (F32, F16)
VARIED = [
    pytest.param(name, case, dtype, id=f"{name}-{case}-{dtype}")
    for name, backend in BACKENDS.items()
    for case in CASES
    for dtype in VARIED_DTYPES
    if dtype in case.dtypes and variants(backend, case, dtype)
]


@pytest.mark.parametrize(("name", "case", "dtype"), VARIED)
def test_every_variant_agrees_with_the_reference(name: str, case: Case, dtype: DType) -> None:
    backend = BACKENDS[name]
    (wanted,) = run(REFERENCE, case, dtype, "contiguous", ())
    for place, variant in enumerate(variants(backend, case, dtype)):
        # Neighbouring rows meet each variant in the other layout, and so do the two element types.
        layout = tuple(LAYOUTS)[(ROW[case] + place + VARIED_DTYPES.index(dtype)) % len(LAYOUTS)]
        (got,) = run(backend, case, dtype, layout, (), variant)
        check_agreement(got, wanted, dtype, f"{variant}, {layout}")


@pytest.mark.skipif("llvm" not in BACKENDS, reason="LLVM is absent")
def test_products_and_convolutions_have_variants_of_every_kind() -> None:
    llvm = BACKENDS["llvm"]
    names: dict[str, set[str]] = {}
    for _, case, dtype in (row.values for row in VARIED):
        names.setdefault(case.op.name, set()).update(variant.split("-")[0] for variant in variants(llvm, case, dtype))
    assert names["gemm"] >= {"tile", "matrix"}
    assert names["convolution"] >= {"direct", "winograd"}
    assert names["convolution_data_gradient"] >= {"direct", "winograd"}
    assert names["convolution_weight_gradient"] >= {"tile"}
    assert names["fused_output"] >= {"direct", "winograd"}


@pytest.mark.skipif("llvm" not in BACKENDS, reason="LLVM is absent")
def test_the_native_backend_claims_the_operators_of_a_training_step() -> None:
    claimed = {parameters.values[1].op.name for parameters in CLAIMS if parameters.values[0] == "llvm"}
    assert claimed >= {
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
