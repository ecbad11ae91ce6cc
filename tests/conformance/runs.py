"""Rows of the conformance table as runs of a backend: layouts, in-place pairs, any device, and what agreement is."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.conformance.cases import CASES, Case

import nnc
from nnc.backends.reference.backend import ReferenceBackend
from nnc.core.running.dispatch import DISPATCHER, Backend, Call
from nnc.core.values.command import Command
from nnc.core.values.device import CPU, Device
from nnc.core.values.dtype import F32, TOLERANCE, U8, DType
from nnc.core.values.spec import TensorSpec, contiguous_strides
from nnc.core.values.storage import memory_of
from nnc.core.values.tensor import Tensor
from nnc.ops.operators import OPERATORS
from nnc.ops.rules import INPLACE, infer

Array = NDArray[Any]
Pairs = tuple[tuple[int, int], ...]

IS_CAMPAIGN = "NNC_EXAMPLES" in os.environ
MOST_CHOICES = 16
REFERENCE = ReferenceBackend()
# Importing the package puts its backends into the dispatcher.
assert nnc.__name__ == "nnc"
BACKENDS: dict[str, Backend] = {
    REFERENCE.name: REFERENCE,
    **{backend.name: backend for backend in DISPATCHER.candidates()},
}
# The number of each row among those of its operator, of which there are three or more.
ROW = {case: number for op in OPERATORS for number, case in enumerate(one for one in CASES if one.op is op)}


def refusals(backend: Backend, case: Case) -> dict[DType, str]:
    """Why the backend does not claim the row, per element type; empty text where it does."""
    reasons = {}
    for dtype in case.dtypes:
        specs = case.specs(dtype)
        reasons[dtype] = backend.refusal(Command(case.op, case.attrs), specs, infer(case.op, case.attrs, specs))
    return reasons


def contiguous(spec: TensorSpec) -> Tensor:
    """Fresh row-major memory, every byte 0xff: nan for floats."""
    tensor = Tensor.empty(spec)
    if spec.device.is_host:
        tensor.storage.bytes.fill(0xFF)
    elif spec.nbytes:
        memory_of(spec.device).fill(spec.device, tensor.address, spec.nbytes, 0xFF)
    return tensor


def strided(spec: TensorSpec) -> Tensor:
    """Every second element along each axis of memory in which the axes are in reverse order, one element in."""
    sizes = tuple(2 * max(size, 1) for size in reversed(spec.shape))
    whole = contiguous(TensorSpec((math.prod(sizes) + 1,), spec.dtype, device=spec.device))
    strides = tuple(2 * stride for stride in reversed(contiguous_strides(sizes)))
    return whole.view(spec, 1, strides)


LAYOUTS = {"contiguous": contiguous, "strided": strided}


def filled(layout: str, spec: TensorSpec | None, array: Array | None) -> Tensor | None:
    if spec is None or array is None:
        return None
    tensor = LAYOUTS[layout](spec)
    if spec.device.is_host:
        np.copyto(tensor.numpy(), array)
    else:
        tensor.copy_from(Tensor.from_numpy(array))
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


def on_device(specs: Sequence[TensorSpec | None], device: Device) -> tuple[TensorSpec | None, ...]:
    """The same on a device."""
    return tuple(None if spec is None else spec.on(device) for spec in specs)


def run(
    backend: Backend, case: Case, dtype: DType, layout: str, pairs: Pairs, variant: str = "", device: Device = CPU
) -> list[Array]:
    """The outputs of one row, computed with the outputs of `pairs` in the memory of their inputs."""
    specs = on_device(case.specs(dtype), device)
    results = tuple(spec.on(device) for spec in infer(case.op, case.attrs, specs))
    inputs = [filled(layout, spec, array) for spec, array in zip(specs, case.arrays(dtype), strict=True)]
    shared = {target: inputs[source] for source, target in pairs}
    outputs = [shared.get(index) or LAYOUTS[layout](spec) for index, spec in enumerate(results)]
    command = Command(case.op, case.attrs)
    made = backend.variants(command, specs, results)[variant] if variant else backend.kernel(command, specs, results)
    scratch = made.workspace_bytes
    workspace = contiguous(TensorSpec((scratch,), U8, device=device)) if scratch else None
    backend.program([Call(made, tuple(inputs), tuple(outputs), workspace)])()
    return [tensor.to(CPU).numpy() for tensor in outputs if tensor is not None]


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

    An operator's first row meets all of them in the first type, and the plainest or the fullest in each other type.
    The rest take turns: one layout each in the first type, every fourth row in f32, every eighth in
    each other type.
    A campaign has all for all: NNC_EXAMPLES=1 pytest tests/conformance
    """
    specs = case.specs(dtype)
    results = infer(case.op, case.attrs, specs)
    choices = inplace_choices(case, specs, results)
    number = ROW[case]
    if place == 0 or IS_CAMPAIGN:
        layouts = tuple(LAYOUTS) if number == 0 or IS_CAMPAIGN else (tuple(LAYOUTS)[number % 2],)
        yield from ((layout, pairs) for layout in layouts for pairs in choices)
    elif number == 0 or (number // 2 + place) % (4 if dtype is F32 else 8) == 1:
        is_plain = (number + place) % 2
        yield ("contiguous", ()) if is_plain else ("strided", max(choices, key=len))
