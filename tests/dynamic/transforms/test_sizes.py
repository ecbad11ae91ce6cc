"""Compiled functions at many sizes: recorded once with open sizes, with the bits of a record of each size alone."""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.core.values.spec import spec
from nnc.dynamic.transforms.recording import FunctionTemplate
from nnc.errors import NncError, ShapeError, UsageError


def rows(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def attention(x: Any, w: Any) -> Any:
    n, t, d = x.shape
    q, k, v = ((x @ w[part]).reshape((n, t, 2, d // 2)).transpose((0, 2, 1, 3)) for part in range(3))
    scores = q @ k.transpose((0, 1, 3, 2)) * (1 / t)
    return (nnc.softmax(scores) @ v).transpose((0, 2, 1, 3)).reshape((n, t, d))


def sliced(x: Any, w: Any) -> Any:
    half = x.shape[1] // 2
    return nnc.concatenate([x[:, :half], x[:, half:] * 2.0, x[::2, -1:].sum() + x[:, :1] * 0.0], 1) @ w[
        0, 0, :1
    ].reshape((1, 1))


def steps(x: Any, w: Any) -> Any:
    return nnc.scan(lambda state, row: (nnc.tanh(state @ w[0] + row), state), nnc.zeros((x.shape[1], 8)), x)


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "mean": lambda x, w: ((x @ w[0]).mean(0) / x.shape[0], x.sum((0, 1)) * x.shape[1]),
    "attention": attention,
    "slices": lambda x, w: (x[:, : x.shape[1] // 2] * 2.0, x[1:, ::2], x[..., -1], x[:, None]),
    "joined": lambda x, w: nnc.concatenate([x, x[:1] * 3.0], 0).reshape((-1, 8)) @ w[1],
    "branches": lambda x, w: x * 2.0 if x.shape[0] > 5 else x * 3.0,
    "counted": lambda x, w: nnc.arange(x.shape[1]).reshape((-1, 1)) * x,
    "steps": steps,
}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether a template served, each time that one was asked."""
    outcomes: list[bool] = []
    at = FunctionTemplate.at

    def noting(template: FunctionTemplate, shapes: dict[str, tuple[int, ...]]) -> object:
        draft = at(template, shapes)
        outcomes.append(draft is not None)
        return draft

    monkeypatch.setattr(FunctionTemplate, "at", noting)
    return outcomes


def bytes_of(result: Any) -> list[bytes]:
    return [np.asarray(one).tobytes() for one in (result if isinstance(result, tuple | list) else (result,))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_at_any_size_are_those_of_a_record_of_that_size_alone(name: str) -> None:
    function, w, numbers = FUNCTIONS[name], rows(3, 8, 8), random.Random(name)
    compiled = nnc.compile(function)
    for pair in [(3, 4), (4, 6), *[(numbers.randint(2, 12), numbers.randint(2, 12)) for _ in range(6)]]:
        x = rows(*pair, 8)
        assert bytes_of(compiled(x, w)) == bytes_of(nnc.compile(function)(x, w)), pair


@pytest.mark.parametrize("name", ["mean", "attention", "slices", "joined"])
def test_a_function_is_recorded_for_few_sizes(name: str) -> None:
    compiled = nnc.compile(FUNCTIONS[name])
    for size in range(2, 12):
        compiled(rows(size, 4 + size, 8), rows(3, 8, 8))
    assert compiled.recorded <= 4
    assert len(compiled.signatures) == 10


def test_gradients_flow_at_sizes_that_templates_serve(served: list[bool]) -> None:
    compiled = nnc.compile(lambda x, w: nnc.tanh(x @ w).mean() / x.shape[0])
    for size in (3, 4, 5, 6, 7):
        found, wanted = (nnc.tensor(rows(8, 2), requires_grad=True) for _ in range(2))
        compiled(rows(size, 8), found).backward()
        (nnc.tanh(nnc.tensor(rows(size, 8)) @ wanted).mean() / size).backward()
        np.testing.assert_allclose(found.grad.numpy(), wanted.grad.numpy(), rtol=1e-5)
    assert sum(served) >= 3


def test_parameters_and_modes_are_those_of_the_call(served: list[bool]) -> None:
    net = nn.Sequential(nn.Dense(4), nn.Dropout(0.5), nn.BatchNorm())
    net(nnc.tensor(rows(3, 6)))
    compiled = nnc.compile(lambda x: net(x))
    net.eval()
    for size in (3, 4, 5):
        x = rows(size, 6)
        np.testing.assert_allclose(compiled(x).numpy(), net(nnc.tensor(x)).numpy(), rtol=1e-5, atol=1e-6)
    with nnc.no_grad():
        for parameter in net.parameters():
            parameter *= 2.0
    x = rows(6, 6)
    np.testing.assert_allclose(compiled(x).numpy(), net(nnc.tensor(x)).numpy(), rtol=1e-5, atol=1e-6)
    assert any(served)
    net.train()
    assert not np.allclose(compiled(rows(7, 6)).numpy(), net.eval()(nnc.tensor(rows(7, 6))).numpy())


def test_draws_at_further_sizes_are_new_each_time() -> None:
    compiled = nnc.compile(lambda x: x + nnc.random.normal(x.shape))
    results = [compiled(np.zeros((size, 3), np.float32)).numpy() for size in (2, 3, 4, 4, 5)]
    assert not np.array_equal(results[2], results[3])


def test_sizes_that_a_function_gives_back_are_those_of_the_call() -> None:
    compiled = nnc.compile(lambda x: (x * 2.0, x.shape[0], {"half": x.shape[0] / 2, "shape": x.shape}))
    for size in (2, 3, 4, 5):
        _, count, rest = compiled(rows(size, 3))
        assert (count, rest) == (size, {"half": size / 2, "shape": (size, 3)})
        assert type(count) is int


def test_what_may_hold_sizes_unseen_is_recorded_for_each() -> None:
    class Box:
        def __init__(self, size: int) -> None:
            self.size = size

    compiled = nnc.compile(lambda x: (x * 2.0, Box(x.shape[0])))
    for size in (2, 3, 4):
        assert compiled(rows(size, 3))[1].size == size
    assert compiled.recorded == 3


def test_a_size_that_is_refused_is_told_as_before() -> None:
    compiled = nnc.compile(lambda x: x.reshape((-1, 4)))
    for size in (4, 8, 12):
        assert compiled(rows(size, 3)).shape == (size * 3 // 4, 4)
    with pytest.raises(NncError, match="reshape"):
        compiled(rows(5, 3))
    assert compiled(rows(16, 3)).shape == (12, 4)


def test_named_sizes_are_open_at_once() -> None:
    compiled = nnc.compile(lambda x, y: x + y, sizes={"x": ("n", 3), "y": ("n", None)})
    for size in (2, 3, 4, 5):
        np.testing.assert_array_equal(compiled(rows(size, 3), rows(size, 3)), rows(size, 3) * 2)
    assert compiled.recorded == 1


WRONG = [
    ((rows(2, 3), rows(4, 3)), r"axis 0 of y of size 4; need n=2, the size of axis 0 of x"),
    ((rows(2, 4), rows(2, 4)), r"axis 1 of x of size 4; need 3"),
    ((rows(9, 3), rows(9, 3)), r"axis 0 of x of size 9; need n from 1 to 8"),
    ((np.zeros((0, 3)), np.zeros((0, 3))), r"axis 0 of x of size 0; need n from 1 to 8"),
    ((rows(3), rows(3)), r"x of shape \[3\]; need 2 axes: \[n, 3\]"),
]


@pytest.mark.parametrize(("arguments", "told"), WRONG, ids=[row[1][:20] for row in WRONG])
def test_sizes_that_are_not_as_named_are_told(arguments: tuple[np.ndarray, ...], told: str) -> None:
    sizes = {"x": ("n", 3), "y": ("n", None), "n": range(1, 9)}
    compiled = nnc.compile(lambda x, y: x + y, sizes=sizes)
    with pytest.raises(ShapeError, match=told):
        compiled(*arguments)
    compiled(rows(8, 3), rows(8, 3))
    with pytest.raises(ShapeError, match="from 1 to 8"):
        compiled.memory(spec((1 << 40, 3), "f32"), spec((1 << 40, 3), "f32"))


@pytest.mark.parametrize(
    "sizes",
    [{"x": "n"}, {"x": 3}, {"x": (1.5,)}, {"n": range(3)}, {"x": ("n",), "n": range(0)}, {"x": (True,)}],
    ids=str,
)
def test_sizes_that_say_nothing_are_told(sizes: Any) -> None:
    with pytest.raises(UsageError, match="compile: got"):
        nnc.compile(lambda x: x, sizes=sizes)


def test_sizes_of_no_argument_are_told() -> None:
    with pytest.raises(UsageError, match="sizes of z; need arrays among the arguments: x"):
        nnc.compile(lambda x: x, sizes={"z": ("n",)})(rows(3))


def test_threads_that_ask_for_sizes_at_once_get_theirs() -> None:
    compiled, results = nnc.compile(FUNCTIONS["mean"]), {}
    w = rows(3, 8, 8)

    def ask(size: int) -> None:
        results[size] = bytes_of(compiled(rows(size, 5, 8), w))

    threads = [threading.Thread(target=ask, args=(size,)) for size in range(2, 12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {size: bytes_of(nnc.compile(FUNCTIONS["mean"])(rows(size, 5, 8), w)) for size in range(2, 12)}


def double(x: Any) -> Any:
    return x * 2.0


def test_a_copy_has_the_sizes_that_were_named() -> None:
    assert pickle.loads(pickle.dumps(nnc.compile(double, sizes={"x": ("n",)}))).options.sizes == {"x": ("n",)}
