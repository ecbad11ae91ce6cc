"""The array API standard on eager variables: a slice of `scripts/array-api` against NumPy, gradients, and edges."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.array_api.checks import FAMILIES
from tests.array_api.comparison import compare

import nnc
from nnc import array_api as xp
from nnc.errors import DTypeError, ShapeError, UsageError

# Of the checks one in so many, another one for each family.
SLICE = 13
A = np.random.default_rng(5).normal(size=(4, 3)) + 0.1
SQUARE = np.random.default_rng(6).normal(size=(3, 3)) + 3 * np.eye(3)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_functions_give_what_numpy_gives(family: Callable[..., Any]) -> None:
    report = compare(islice(family(), FAMILIES.index(family), None, SLICE), np)
    assert report.differed == {}
    assert not report.unasked


def test_every_name_is_there_and_has_a_line_of_its_own() -> None:
    for space in (xp, xp.linalg, xp.fft):
        for name in space.__all__:
            found = getattr(space, name)
            assert not callable(found) or isinstance(found, type) or found.__doc__, name
    assert len({*xp.__all__, *xp.linalg.__all__, *xp.fft.__all__}) > 180


def test_an_array_knows_its_namespace() -> None:
    x = xp.asarray([1.0, 2.0])
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(UsageError, match="2024.12"):
        x.__array_namespace__(api_version="1999.01")
    info = xp.__array_namespace_info__()
    assert info.default_dtypes() == {
        "real floating": xp.float32, "complex floating": xp.complex64, "integral": xp.int64, "indexing": xp.int64,
    }  # fmt: skip
    assert x.device == info.default_device() == info.devices()[0]
    assert x.to_device(x.device).tolist() == x.tolist()
    with pytest.raises(UsageError, match="to_device"):
        x.to_device("elsewhere")
    assert set(info.dtypes(kind=("bool", "real floating"))) == {"bool", "float32", "float64"}
    assert len(info.dtypes()) == 13


def test_types_promote_by_the_rules_of_the_standard() -> None:
    table = {
        (xp.int8, xp.uint8): xp.int16, (xp.uint16, xp.int8): xp.int32, (xp.uint32, xp.int64): xp.int64,
        (xp.float32, xp.complex64): xp.complex64, (xp.float64, xp.complex64): xp.complex128,
    }  # fmt: skip
    for (one, other), want in table.items():
        assert xp.result_type(one, other) is xp.result_type(xp.ones(1, dtype=other), one) is want
        assert (xp.ones(2, dtype=one) + xp.ones(2, dtype=other)).dtype is want
        assert xp.can_cast(one, want)
    assert xp.result_type(xp.ones(1), 2, 1j) is xp.complex64
    assert (xp.ones(2, dtype=xp.float64) * 2j).dtype is xp.complex128
    for pair in ((xp.uint64, xp.int8), (xp.int32, xp.float32), (xp.bool, xp.int8)):
        with pytest.raises(DTypeError, match="promote"):
            xp.result_type(*pair)
        with pytest.raises(DTypeError):
            xp.add(xp.ones(2, dtype=pair[0]), xp.ones(2, dtype=pair[1]))
    with pytest.raises(DTypeError, match="numbers of the array's kind"):
        xp.add(xp.ones(2, dtype=xp.int8), 0.5)


def test_limits_and_kinds() -> None:
    assert (xp.iinfo(xp.uint64).max, xp.iinfo(xp.ones(1, dtype=xp.int8)).min) == (2**64 - 1, -128)
    assert (xp.finfo(xp.complex64).dtype, xp.finfo(xp.float64).eps) == (xp.float32, 2.0**-52)
    assert xp.isdtype(xp.complex64, ("integral", "complex floating"))
    assert not xp.isdtype(xp.bool, "numeric")
    with pytest.raises(DTypeError, match="real floating"):
        xp.isdtype(xp.bool, "text")


# ---- gradients

# Real functions of A, each a sum of what a function of the namespace makes of it.
SMOOTH: dict[str, Callable[[Any], Any]] = {
    "acos": lambda x: xp.acos(x / 9),
    "asinh": xp.asinh,
    "acosh": lambda x: xp.acosh(xp.abs(x) + 2),
    "atan2": lambda x: xp.atan2(x, x * x + 1),
    "clip": lambda x: xp.clip(x, -0.5, 0.7) * x,
    "concat": lambda x: xp.concat([x, x * x], axis=None) ** 2,
    "copysign": lambda x: xp.copysign(x, -x) * x,
    "cumulative_prod": lambda x: xp.cumulative_prod(x, axis=0),
    "cumulative_sum": lambda x: xp.cumulative_sum(x, axis=1, include_initial=True) ** 2,
    "diff": lambda x: xp.diff(x, axis=0) ** 3,
    "fft": lambda x: xp.abs(xp.fft.fftn(xp.astype(x, xp.complex128))) ** 3,
    "hfft": lambda x: xp.fft.hfft(x, n=7) ** 2,
    "hypot": lambda x: xp.hypot(x, 2 * x + 1),
    "irfftn": lambda x: xp.fft.irfftn(xp.astype(x, xp.complex128) * (1 + 2j), s=(4, 5), axes=(0, 1)) ** 2,
    "logaddexp": lambda x: xp.logaddexp(x, -2 * x),
    "matrix_norm": lambda x: xp.linalg.matrix_norm(x, ord="nuc"),
    "moveaxis": lambda x: xp.moveaxis(x, 0, -1) @ x,
    "pinv": xp.linalg.pinv,
    "prod": lambda x: xp.prod(x, axis=1),
    "remainder": lambda x: xp.remainder(x, 1.7),
    "repeat": lambda x: xp.repeat(x, xp.asarray([2, 0, 1]), axis=1) ** 2,
    "rfft": lambda x: xp.real(xp.fft.rfft(x, n=5)) * xp.imag(xp.fft.rfft(x, n=5)),
    "roll": lambda x: xp.roll(x, (1, 2), axis=(0, 1)) * x,
    "setitem": lambda x: assigned(x),
    "sort": lambda x: xp.sort(x, axis=0) * xp.arange(3, dtype=xp.float64),
    "std": lambda x: xp.std(x, axis=0, correction=1),
    "svd": lambda x: xp.linalg.svd(x).S ** 3,
    "take": lambda x: xp.take(x, xp.asarray([2, 0, 2]), axis=1) ** 2,
    "take_along_axis": lambda x: xp.take_along_axis(x, xp.argsort(x, axis=0), axis=0)[:2] ** 2,
    "tensordot": lambda x: xp.tensordot(x, x, axes=((0,), (0,))),
    "tile": lambda x: xp.tile(x, (2, 1)) ** 2,
    "trace": lambda x: xp.linalg.trace(x, offset=-1) ** 2,
    "tril": lambda x: xp.tril(x, k=-1) ** 2,
    "unique": lambda x: xp.unique_values(x) ** 2,
    "vecdot": lambda x: xp.vecdot(x, x**2, axis=-2),
    "vector_norm": lambda x: xp.linalg.vector_norm(x, ord=3, axis=0),
    "where": lambda x: xp.where(x > 0.2, x**2, 0.5 * x),
}
SMOOTH["asarray"] = lambda x: xp.asarray([[x[0, 0], 2.0], [x[1, 2] ** 2, x[0, 1]]]) ** 2
SQUARES: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda a: xp.linalg.cholesky(a @ a.mT, upper=True),
    "cross": lambda a: xp.linalg.cross(a, a.mT) ** 2,
    "det": xp.linalg.det,
    "eigh": lambda a: xp.linalg.eigh(a).eigenvectors ** 2 * xp.asarray([1.0, 2.0, 4.0], dtype=xp.float64),
    "eigvalsh": lambda a: xp.linalg.eigvalsh(a) ** 2,
    "inv": xp.linalg.inv,
    "matrix_power": lambda a: xp.linalg.matrix_power(a, -3),
    "qr": lambda a: xp.linalg.qr(a, mode="complete").R ** 2,
    "slogdet": lambda a: xp.linalg.slogdet(a).logabsdet,
    "solve": lambda a: xp.linalg.solve(a, a.mT),
}


def assigned(x: Any) -> Any:
    y = xp.zeros((4, 3), dtype=xp.float64)
    y[1:, 0] = x[:3, 1] ** 2
    y += x
    y[x > 1] = 0.0
    return y**2


@pytest.mark.parametrize("name", [*SMOOTH, *SQUARES])
def test_gradients_are_those_of_central_differences(name: str) -> None:
    function, point = (SMOOTH[name], A) if name in SMOOTH else (SQUARES[name], SQUARE)
    loss = lambda x: xp.sum(function(x))  # noqa: E731  # a formula
    slope, step = nnc.grad(loss)(point), 1e-6
    for seed in range(2):
        way = np.random.default_rng(seed).normal(size=point.shape)
        ends = [float(loss(nnc.tensor(point + sign * step * way))) for sign in (1, -1)]
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(float((slope.numpy() * way).sum()), rel=1e-6, abs=1e-7)


def test_the_gradient_by_complex_numbers_is_that_of_their_parts() -> None:
    z = np.array([1 + 2j, -0.5 + 0.3j])
    slope = nnc.grad(lambda z: xp.sum(xp.abs(xp.exp(z) * z) ** 2))(z).numpy()
    value = lambda z: float((np.abs(np.exp(z) * z) ** 2).sum())  # noqa: E731  # a formula
    for place in range(2):
        for way in (1.0, 1j):
            move = 1e-6 * way * np.eye(2)[place]
            assert (value(z + move) - value(z - move)) / 2e-6 == pytest.approx((slope[place] * way).real, rel=1e-6)
    assert nnc.grad(lambda z: xp.sum(z**3 / 3))(z).numpy() == pytest.approx(z**2)


WAYS = {
    "batched": lambda function: lambda x: nnc.vmap(function)(np.stack([x, x]))[1],
    "compiled gradient": lambda function: nnc.compile(nnc.grad(lambda x: xp.sum(function(x)))),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", sorted({*SMOOTH} - {"unique", "setitem"}))
def test_functions_are_the_same_compiled_and_batched(name: str, way: str) -> None:
    want = SMOOTH[name](nnc.tensor(A)) if way != "compiled gradient" else nnc.grad(lambda x: xp.sum(SMOOTH[name](x)))(A)
    np.testing.assert_allclose(WAYS[way](SMOOTH[name])(A), want.numpy(), rtol=1e-9, atol=1e-12)


# ---- what a user does beside it


def test_nothing_and_single_elements_have_all_functions() -> None:
    empty, number = xp.zeros((0, 3)), xp.asarray(2.0)
    assert xp.sum(empty, axis=0).tolist() == [0, 0, 0]
    assert math.isnan(float(xp.mean(empty)))
    assert bool(xp.all(empty))
    assert not bool(xp.any(empty))
    assert xp.concat([empty, xp.ones((1, 3))]).shape == (1, 3)
    assert xp.unique_values(empty).shape == (0,)
    assert (number[()].shape, number[None].shape, xp.reshape(number, (1, 1)).shape) == ((), (1,), (1, 1))
    with pytest.raises(ShapeError, match="at least one element"):
        xp.max(empty)


def test_integers_wrap_and_numbers_that_do_not_fit_are_errors() -> None:
    top = xp.asarray([2**64 - 1], dtype=xp.uint64)
    assert (top + 1).tolist() == [0]
    assert xp.sum(xp.asarray([127, 1], dtype=xp.int8)).tolist() == 128
    assert (xp.asarray([127], dtype=xp.int8) + xp.asarray([1], dtype=xp.int8)).tolist() == [-128]
    assert xp.full(2, 2**64 - 1, dtype=xp.uint64).tolist() == [2**64 - 1] * 2
    with pytest.raises(DTypeError, match="300"):
        xp.asarray([300], dtype=xp.uint8)


def test_values_are_copied_shared_and_pickled_as_it_is_said() -> None:
    buffer = np.array([1.0, 2.0])
    copied, shared = xp.asarray(buffer), xp.asarray(buffer, copy=False)
    handed = xp.from_dlpack(buffer)
    buffer[0] = 9.0
    assert (copied.tolist(), shared.tolist(), handed.tolist()) == ([1, 2], [9, 2], [9, 2])
    with pytest.raises(ValueError, match="cannot be shared"):
        xp.asarray([1.0], copy=False)
    twin, plain = xp.asarray(copied), copy.copy(copied)
    twin[0] = 5.0
    assert (copied.tolist(), plain.tolist(), np.from_dlpack(copied).tolist()) == ([1, 2], [1, 2], [1, 2])
    for dtype in (xp.uint16, xp.complex128):
        tensor = xp.ones(3, dtype=dtype).tensor
        assert pickle.loads(pickle.dumps(tensor)).numpy().tolist() == tensor.numpy().tolist()
    for one in (copied, nnc.variable([1.0, 2.0], "bf16"), nnc.tensor(3.0), nnc.tensor(np.ones((2, 3))).T * 2):
        other = pickle.loads(pickle.dumps(one))
        assert (other.spec, other.tolist(), other.place is None) == (one.spec, one.tolist(), one.place is None)


def test_threads_have_the_same_values() -> None:
    x = nnc.tensor(A)
    want = xp.sum(xp.fft.rfft(xp.linalg.pinv(x)) ** 2).item()
    found: list[complex] = []
    threads = [
        threading.Thread(target=lambda: found.append(xp.sum(xp.fft.rfft(xp.linalg.pinv(x)) ** 2).item()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [want] * 4


def test_complex_arrays_go_to_files_or_say_why_not(tmp_path: Any) -> None:
    path = tmp_path / "a.safetensors"
    nnc.save(path, {"z": xp.ones(2, dtype=xp.complex64) * 1j, "n": xp.ones(2, dtype=xp.uint64)})
    assert {name: one.tolist() for name, one in nnc.load(path).items()} == {"z": [1j, 1j], "n": [1, 1]}
    with pytest.raises(UsageError, match="element type of safetensors"):
        nnc.save(path, {"z": xp.ones(2, dtype=xp.complex128)})


def test_what_looks_at_values_says_so_in_a_compiled_function() -> None:
    for function in (xp.nonzero, xp.unique_values):
        with pytest.raises(UsageError, match="only in a run"):
            nnc.compile(function)(A)
    gc.collect()


@pytest.mark.parametrize(
    "call",
    [
        lambda: xp.sin(np.ones(2)),
        lambda: xp.asarray([[1, 2], [3]]),
        lambda: xp.add(1.0, 2.0),
        lambda: xp.where(xp.ones(2), 1.0, 2.0),
        lambda: xp.astype(xp.ones(2, dtype=xp.complex64), xp.float32),
        lambda: xp.fft.fft(xp.ones(3)),
        lambda: xp.linalg.cross(xp.ones(2), xp.ones(2)),
        lambda: xp.reshape(xp.ones(3), (2,)),
        lambda: xp.squeeze(xp.ones((2, 1)), axis=0),
        lambda: xp.take(xp.ones((2, 2)), xp.asarray([0])),
        lambda: xp.concat([xp.ones(2), xp.ones(2, dtype=xp.int64)]),
        lambda: xp.sort(xp.ones(2), axis=3),
        lambda: xp.linalg.vecdot(xp.ones(2), xp.ones(3)),
        lambda: xp.ones(2, device="cuda:0"),
        lambda: xp.bitwise_left_shift(xp.ones(2), xp.ones(2)),
        lambda: xp.zeros("a"),
        lambda: xp.zeros((-1,)),
        lambda: xp.ones(2, dtype="float33"),
        lambda: xp.concat(3),
        lambda: xp.sum(xp.ones(2), axis="a"),
        lambda: xp.fft.fftn(xp.ones(2, dtype=xp.complex64), axes=(5,)),
    ],
)
def test_what_cannot_be_asked_is_one_clear_error(call: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="need") as caught:
        call()
    assert Path(__file__).name in caught.value.origin
