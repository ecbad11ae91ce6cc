"""Arrays made of numbers, of other arrays, and of nothing, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numerics.agreement import Call, agree, agree_compiled, same, slopes_agree

import nnc
from nnc.core.values.dtype import BF16, BOOL, F32, F64, I32, I64
from nnc.errors import ArgumentError, AttributeValueError, DeviceError, DTypeError, ShapeError, UsageError

X = np.random.default_rng(7).standard_normal((3, 4))
OF_ARRAYS: list[Call] = [
    lambda xp, x: xp.diag(x),
    lambda xp, x: xp.diag(x, 1),
    lambda xp, x: xp.diag(x[0], -2),
    lambda xp, x: xp.diag(x[0], 1),
    lambda xp, x: xp.diagflat(x[:2, :2]),
    lambda xp, x: xp.diagonal(x, offset=-1),
    lambda xp, x: xp.diagonal(xp.stack([x, x, x]), 0, 0, 2),
    lambda xp, x: xp.tril(x),
    lambda xp, x: xp.triu(x, 1),
    lambda xp, x: xp.vander(x[0]),
    lambda xp, x: xp.vander(x[0], 3, increasing=True),
    lambda xp, x: xp.meshgrid(x[0], x[1, :2]),
    lambda xp, x: xp.meshgrid(x[0], x[1, :2], indexing="ij"),
    lambda xp, x: xp.full((2, 3, 4), x),
    lambda xp, x: xp.zeros_like(x),
    lambda xp, x: xp.full_like(x, 2.5),
    lambda xp, x: xp.copy(x),
]
OF_NUMBERS: list[Call] = [
    lambda xp: xp.zeros((2, 3)),
    lambda xp: xp.ones(4),
    lambda xp: xp.zeros(()),
    lambda xp: xp.zeros((0, 3)),
    lambda xp: xp.zeros((2, 3), xp.int32),
    lambda xp: xp.ones((2,), dtype=bool),
    lambda xp: xp.full((2, 2), 7),
    lambda xp: xp.full((2, 2), 0.5),
    lambda xp: xp.arange(5),
    lambda xp: xp.arange(1, 10, 3),
    lambda xp: xp.arange(0.0, 1.0, 0.25),
    lambda xp: xp.arange(5, 0, -2),
    lambda xp: xp.linspace(0, 1, 5),
    lambda xp: xp.linspace(0, 1, num=4, endpoint=False),
    lambda xp: xp.linspace(2.0, 3.0),
    lambda xp: xp.logspace(0, 2, 5),
    lambda xp: xp.geomspace(1, 16, 5),
    lambda xp: xp.eye(3),
    lambda xp: xp.eye(2, 4, k=1),
    lambda xp: xp.identity(2),
    lambda xp: xp.tri(3, 4, -1),
    lambda xp: xp.tril_indices(3),
    lambda xp: xp.triu_indices(3, 1, 4),
    lambda xp: xp.diag_indices(3),
    lambda xp: xp.indices((2, 3)),
    lambda xp: xp.array([[1, 2], [3, 4]]),
    lambda xp: xp.array([1.5, 2]),
    lambda xp: xp.array([True, False]),
    lambda xp: xp.array([1, 2], dtype=float),
    lambda xp: xp.asarray([1 + 2j]),
    lambda xp: xp.array(3),
    lambda xp: xp.hanning(7),
    lambda xp: xp.hamming(7),
    lambda xp: xp.blackman(7),
    lambda xp: xp.bartlett(7),
]


def test_of_numbers() -> None:
    for place, call in enumerate(OF_NUMBERS):
        same(call(nnc), call(np), 1e-6, place)


def test_of_arrays() -> None:
    agree(OF_ARRAYS, X)
    agree_compiled(OF_ARRAYS, X)
    slopes_agree(OF_ARRAYS[:14], X)
    agree([call for place, call in enumerate(OF_ARRAYS) if place != 15], (X * 4).astype(np.int64))


def test_numbers_are_of_the_types_that_python_s_are_here() -> None:
    assert (nnc.zeros(2).dtype, nnc.arange(2).dtype, nnc.arange(2.0).dtype, nnc.array(1.5).dtype) == (
        F32,
        I64,
        F32,
        F32,
    )
    assert (nnc.array(X).dtype, nnc.array(np.float64(1)).dtype, nnc.array([True]).dtype) == (F64, F64, BOOL)
    assert nnc.zeros(2, "bf16").dtype is nnc.zeros(2, dtype=nnc.bfloat16).dtype is BF16
    assert nnc.zeros(2, 3, dtype=nnc.int32).dtype is nnc.zeros((2, 3), I32).dtype is I32
    assert nnc.zeros(2, 3).shape == nnc.zeros((2, 3)).shape == nnc.empty([2, 3]).shape == (2, 3)


def test_sharing_and_copies() -> None:
    memory = np.ones(3)
    shared, copied = nnc.from_numpy(memory), nnc.array(memory)
    memory[0] = 5.0
    assert (shared[0].item(), copied[0].item()) == (5.0, 1.0)
    assert nnc.asarray(shared) is shared
    assert nnc.array(shared) is not shared
    assert nnc.from_dlpack(memory).tolist() == memory.tolist()
    assert nnc.astype([1, 2], "f32").dtype is nnc.as_tensor([1, 2], dtype=nnc.float32).dtype is F32
    np.testing.assert_array_equal(nnc.grad(lambda x: (nnc.array([x, 2 * x]) * 3).sum())(1.0), 9.0)


def test_the_cpu_is_where_arrays_are() -> None:
    assert nnc.zeros(2, device="cpu").shape == nnc.arange(2, device="cpu").shape == (2,)
    with pytest.raises(DeviceError):
        nnc.zeros(2, device="cuda")


def test_refusals() -> None:
    for refused, error, text in (
        (lambda: nnc.diag(np.ones((2, 2, 2))), ShapeError, "a vector or a matrix"),
        (lambda: nnc.diagonal(np.ones(3)), ShapeError, "two axes"),
        (lambda: nnc.diagonal(X, 0, 1, 1), AttributeValueError, "two axes"),
        (lambda: nnc.vander(X), ShapeError, "a vector"),
        (lambda: nnc.zeros((2, -1)), ShapeError, "-1"),
        (lambda: nnc.Tensor(10**20), ShapeError, "at most 2\\^62 bytes"),
        (lambda: nnc.zeros(2, "f31"), DTypeError, "f31"),
        (lambda: nnc.arange(0, 1, 0), ArgumentError, "arange"),
        (lambda: nnc.eye(2, requires_grad=True), ArgumentError, "nnc.variable"),
        (lambda: nnc.arange(3, requires_grad=True), UsageError, r"got i64\[3\]; need floating-point elements"),
        (lambda: nnc.zeros(2, dtype=nnc.i32, requires_grad=True), UsageError, "need floating-point elements"),
        (lambda: nnc.zeros((2,), order="C"), ArgumentError, "row-major"),
    ):
        with pytest.raises(error, match=text):
            refused()


def test_what_is_made_may_ask_for_gradients() -> None:
    for made in (
        nnc.zeros(2, requires_grad=True),
        nnc.ones((2,), requires_grad=True),
        nnc.arange(2.0, requires_grad=True),
        nnc.linspace(0, 1, 2, requires_grad=True),
        nnc.full((2,), 3.0, requires_grad=True),
        nnc.rand(2, requires_grad=True),
        nnc.randn(2, requires_grad=True),
        nnc.tensor([1.0, 2.0], requires_grad=True),
        nnc.variable([1.0, 2.0], requires_grad=True),
    ):
        assert made.requires_grad
        (made * 3).sum().backward()
        np.testing.assert_array_equal(made.grad, [3.0, 3.0])
    for constant in (nnc.zeros(2), nnc.tensor([1.0]), nnc.variable([1.0], requires_grad=False), made.detach()):
        assert not constant.requires_grad
        constant.requires_grad = True
        assert constant.requires_grad
    with pytest.raises(UsageError, match="give it as an argument of nnc.grad"):
        nnc.compile(lambda x: x * nnc.randn(2, requires_grad=True))(np.ones(2, np.float32))
