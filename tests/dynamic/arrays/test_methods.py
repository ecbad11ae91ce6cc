"""Methods that arrays share, against those of NumPy's arrays; gradients against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc
from nnc.core.values.dtype import F32, F64, I64
from nnc.errors import ArgumentError, AttributeValueError, NncError, ShapeError

RANDOM = np.random.default_rng(32)
CUBE = RANDOM.standard_normal((2, 3, 4))
# The call on both sides; `ddof` is NumPy's word, which is taken too.
CALLS: list[Callable[[Any], Any]] = [
    lambda x: x.sum(),
    lambda x: x.sum(1),
    lambda x: x.sum(axis=(0, -1), keepdims=True),
    lambda x: x.prod(0),
    lambda x: x.mean(-1),
    lambda x: x.var(ddof=1),
    lambda x: x.std(0),
    lambda x: x.max(2),
    lambda x: x.min(axis=0, keepdims=True),
    lambda x: x.cumsum(),
    lambda x: x.cumsum(1),
    lambda x: x.cumprod(-1),
    lambda x: x.reshape(4, -1),
    lambda x: x.reshape((-1, 2)),
    lambda x: x.ravel(),
    lambda x: x.flatten(),
    lambda x: x.transpose(),
    lambda x: x.transpose(2, 0, 1),
    lambda x: x.transpose((1, 0, 2)),
    lambda x: x.swapaxes(0, -1),
    lambda x: x.squeeze(),
    lambda x: x.repeat(3),
    lambda x: x.repeat(2, axis=1),
    lambda x: x.clip(-0.5, 0.5),
    lambda x: x.round(2),
    lambda x: x.conj(),
    lambda x: x.real,
    lambda x: x.copy(),
    lambda x: abs(x),
    lambda x: x.argsort(axis=None),
]
LOOKS: list[Callable[[Any], Any]] = [
    lambda x: x.argmax(),
    lambda x: x.argmax(1),
    lambda x: x.argmin(axis=-1, keepdims=True),
    lambda x: x.all(),
    lambda x: x.any(0),
    lambda x: x.argsort(0),
]


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_methods_are_those_of_numpy(call: Callable[[Any], Any]) -> None:
    for value in (CUBE, CUBE[:, :1], CUBE.T):
        want = call(value)
        got = call(nnc.tensor(value))
        assert got.shape == want.shape
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("call", LOOKS, ids=range(len(LOOKS)))
@pytest.mark.parametrize("value", [CUBE, np.round(CUBE).astype(np.int64), CUBE > 0], ids=["f64", "i64", "bool"])
def test_what_looks_at_elements(call: Callable[[Any], Any], value: np.ndarray) -> None:
    np.testing.assert_array_equal(call(nnc.tensor(value)).numpy(), call(value))


@pytest.mark.parametrize("call", [CALLS[place] for place in (0, 3, 4, 5, 6, 9, 11, 12, 15, 17, 19, 21, 22)])
def test_gradients_are_those_of_differences(call: Callable[[Any], Any]) -> None:
    weights = RANDOM.standard_normal(call(CUBE).shape)

    def loss(x: Any) -> Any:
        return (call(x) * weights).sum()

    step, way = 1e-6, RANDOM.standard_normal(CUBE.shape)
    want = (loss(CUBE + step * way) - loss(CUBE - step * way)) / (2 * step)
    np.testing.assert_allclose((nnc.grad(loss)(CUBE).numpy() * way).sum(), want, rtol=1e-6, atol=1e-8)


def test_integers_and_truth_values_are_counted_and_averaged() -> None:
    truth, count = nnc.tensor([True, False, True]), nnc.tensor(np.int8([100, 100]))
    assert (truth.sum().dtype, truth.sum().item(), count.sum().item(), count.prod().item()) == (I64, 2, 200, 10000)
    assert (truth.mean().dtype, count.mean().item(), count.std().item()) == (F32, 100.0, 0.0)
    assert (truth.max().item(), truth.min().item(), truth.argmin().item()) == (True, False, 1)
    assert (count.sum(dtype=float).dtype, count.exp().dtype, nnc.tensor(CUBE).exp().dtype) == (F64, F32, F64)
    assert np.isnan(nnc.tensor(np.ones((0, 2))).mean(0).numpy()).all()
    assert nnc.tensor(np.ones((0, 2))).mean(1).shape == (0,)


def test_element_by_element() -> None:
    x = nnc.tensor(np.abs(CUBE) + 0.5)
    names = ("exp", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "tanh", "square", "reciprocal", "abs")
    for name in names:
        np.testing.assert_allclose(getattr(x, name)().numpy(), getattr(np, name)(x.numpy()), rtol=1e-12)
    np.testing.assert_allclose(x.rsqrt().numpy(), x.numpy() ** -0.5)
    np.testing.assert_allclose(x.sigmoid().numpy(), 1 / (1 + np.exp(-x.numpy())))
    assert (x.nbytes, x.itemsize, x.to("f32").dtype, x.to("cpu").dtype, x.clone().shape) == (192, 8, F32, F64, x.shape)
    assert x.cpu().tolist() == x.tolist()
    z = nnc.tensor([3 + 4j])
    assert (z.abs().tolist(), z.conj().tolist(), z.real.tolist()) == ([5.0], [3 - 4j], [3.0])


def test_shapes_of_other_schools() -> None:
    x = nnc.tensor(CUBE)
    assert x.transpose(1, 2).shape == x.permute(0, 2, 1).shape == x.mT.shape == (2, 4, 3)
    assert x.view(-1, 4).shape == x.flatten(0, 1).shape == (6, 4)
    assert x.flatten(1).shape == x.view(2, 12).shape == (2, 12)
    assert x.expand_dims((0, -1)).squeeze((0, -1)).shape == x.shape
    assert (nnc.tensor(2.0).flatten().shape, x.sort(None).shape, x.sort(descending=True).shape) == (
        (1,),
        (24,),
        x.shape,
    )
    with pytest.raises(AttributeValueError, match="transpose: got axes .* need each axis once"):
        x.transpose(0, 0, 1)
    with pytest.raises(ShapeError, match="squeeze"):
        x.squeeze(0)
    with pytest.raises(AttributeValueError, match="flatten"):
        x.flatten(2, 1)


def test_dot() -> None:
    a, b = nnc.tensor(CUBE[0]), nnc.tensor(CUBE[1].T)
    np.testing.assert_allclose(a.dot(b).numpy(), CUBE[0].dot(CUBE[1].T))
    np.testing.assert_allclose(a[0].dot(a[1]).numpy(), CUBE[0, 0].dot(CUBE[0, 1]))
    np.testing.assert_allclose(a.dot(np.float64(2.0) + np.zeros(())).numpy(), CUBE[0] * 2)
    with pytest.raises(ShapeError, match="dot"):
        nnc.tensor(CUBE).dot(a)
    with pytest.raises(ShapeError, match="no array"):
        a.dot("b")  # type: ignore[arg-type]


def test_operators_as_methods() -> None:
    x, y = nnc.tensor(np.abs(CUBE[0])), np.abs(CUBE[1])
    for got, want in (
        (x.add(y), x + y),
        (x.sub(1), x - 1),
        (x.mul(y), x * y),
        (x.div(2), x / 2),
        (x.pow(2), x**2),
        (x.matmul(y.T), x @ y.T),
    ):
        np.testing.assert_array_equal(got, want)


def test_words_of_pytorch_are_taken_and_others_answered() -> None:
    x = nnc.tensor(CUBE)
    assert x.sum(dim=1, keepdim=True).shape == (2, 1, 4)
    assert x.argmax(dim=0).shape == (3, 4)
    with pytest.raises(ArgumentError, match=r"sum: got out=; .*Fix: nnc.sum\(x, out=z\)") as caught:
        x.sum(out=x)  # type: ignore[call-arg]
    assert caught.value.origin.startswith("test_methods.py")
    with pytest.raises(ArgumentError, match="got axes=.*Fix: axis="):
        x.mean(axes=1)  # type: ignore[call-arg]


def test_methods_in_compiled_and_batched_functions() -> None:
    def function(x: Any) -> Any:
        return (x.flatten(1).transpose().std(0) + x.mean((1, 2)).exp()).clip(0.5, 2.0)

    want = function(nnc.tensor(CUBE)).numpy()
    np.testing.assert_allclose(nnc.compile(function)(CUBE).numpy(), want, rtol=1e-12)
    one = nnc.vmap(lambda x: x.ravel().argsort().sum() + x.swapaxes(0, 1).max())(CUBE)
    np.testing.assert_allclose(one.numpy(), [66 + CUBE[0].max(), 66 + CUBE[1].max()])


def test_errors_of_methods_say_the_method_and_none_of_the_classes_that_it_is_of() -> None:
    x: Any = nnc.ones((2, 3))
    for name, arguments in (
        ("sum", ("q",)),
        ("max", ("a",)),
        ("clip", ("a",)),
        ("topk", ("a",)),
        ("gather", ("a", x)),
        ("uniform_", ("a",)),
        ("uniform_", (3, 1)),
        ("uniform_", (np.float32(0.5), -1e308)),
        ("uniform_", (-1e308, 1e308)),
    ):
        with pytest.raises(NncError, match=f"^{name}: got "):
            getattr(x, name)(*arguments)
    with pytest.raises(NncError, match=r"^resize: got size='a'"):
        nnc.keras.ops.image.resize(np.ones((1, 2, 2, 1)), "a")
