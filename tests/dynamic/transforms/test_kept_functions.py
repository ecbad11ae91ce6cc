"""Compiled functions from the disk: the bits of those that were planned, for the same graph alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.program_folder import entries, folder

import nnc
from nnc import nn, ops
from nnc.core.settings import SETTINGS
from nnc.dynamic.transforms.recording import FunctionDraft
from nnc.errors import IndexRangeError
from nnc.symbolic import Compiled
from nnc.symbolic.kept.kept_graphs import CachedGraph

__all__ = ["folder"]
RANDOM = np.random.default_rng(7)
X = RANDOM.standard_normal((6, 16)).astype(np.float32)
WEIGHTS = [RANDOM.standard_normal((16, 16)).astype(np.float32) for _ in range(3)]
FACTOR = 0.5


def network(scale: float = 1.0, weights: list[np.ndarray] | None = None) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        for weight in weights or WEIGHTS:
            x = ops.tanh(x @ weight) * scale + FACTOR
        return x, (x * x).sum(), {"mean": x.mean(axis=0)}

    return function


def answer(function: Any, *arrays: Any) -> list[bytes]:
    x, total, rest = function(*(arrays or (X,)))
    return [value.numpy().tobytes() for value in (x, total, rest["mean"])]


def programs(function: Any) -> list[type]:
    return [type(entry.program) for entry in function._programs.values()]


def test_a_second_function_of_the_same_graph_runs_neither_passes_nor_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    first = nnc.compile(network())
    wanted = answer(first)
    assert programs(first) == [Compiled]

    def refuse(*_: object) -> None:
        raise AssertionError("it is planned")

    with monkeypatch.context() as patch:
        patch.setattr(FunctionDraft, "simplified", refuse)
        second = nnc.compile(network())
        assert answer(second) == wanted
        assert answer(second) == wanted
    assert programs(second) == [CachedGraph]
    assert second.memory() == first.memory().as_loaded()
    assert isinstance(second.program(), Compiled)
    assert second.program().memory().as_loaded() == second.memory()
    assert answer(second) == wanted


def test_what_a_function_reads_makes_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = answer(nnc.compile(network()))
    other = [weight.astype(np.float32) * 2 for weight in WEIGHTS]
    narrow = [*WEIGHTS[:2]]

    def asked() -> list[list[bytes]]:
        functions = [network(2.0), network(weights=other), network(weights=narrow), network()]
        answers = [answer(nnc.compile(function)) for function in functions]
        answers.append(answer(nnc.compile(network()), X.astype(np.float64)))
        answers.append(answer(nnc.compile(network()), X[:3]))
        return answers

    first = asked()
    assert first[3] == wanted
    assert wanted not in first[:3]
    assert asked() == first
    with monkeypatch.context() as patch:
        patch.setattr(SETTINGS, "cache_folder", None)
        assert asked() == first
    monkeypatch.setitem(globals(), "FACTOR", 0.25)
    changed = asked()
    assert not [each for each in changed if each in first]
    monkeypatch.setattr(SETTINGS, "cache_folder", None)
    assert asked() == changed


def test_arrays_that_a_function_holds_are_those_of_now() -> None:
    first, second = nnc.compile(network()), nnc.compile(network(weights=[2 * weight for weight in WEIGHTS]))
    answer(first)
    twice = answer(second)
    assert programs(second) == [CachedGraph]
    planned = [value.numpy() for value in network(weights=[2 * weight for weight in WEIGHTS])(nnc.variable(X))[:1]]
    np.testing.assert_allclose(np.frombuffer(twice[0], np.float32).reshape(6, 16), planned[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [{"memory_limit": 1 << 20}, {"deterministic": True}, {"backend": "llvm"}], ids=str)
def test_other_options_are_another_program(options: dict[str, Any]) -> None:
    answer(nnc.compile(network()))
    function = nnc.compile(network(), **options)
    answer(function)
    assert programs(function) == [Compiled]
    again = nnc.compile(network(), **options)
    assert answer(again) == answer(function)
    assert programs(again) == [CachedGraph]


def test_gradients_and_further_sizes_are_those_of_a_planned_program() -> None:
    def values(function: Any) -> list[bytes]:
        x = nnc.variable(X)
        gradient = nnc.grad(lambda x: function(x)[1])(x).numpy().tobytes()
        return [gradient, *(part for rows in (X[:4], X[:2], X) for part in answer(function, rows))]

    first = nnc.compile(network())
    answer(first)
    wanted = values(first)
    second = nnc.compile(network())
    answer(second)
    assert programs(second) == [CachedGraph]
    assert values(second) == wanted


def test_an_index_outside_its_axis_is_told_as_before() -> None:
    def lookup(table: Any, places: Any) -> Any:
        rows = nnc.take(table, places, 0)
        for _ in range(12):
            rows = ops.tanh(rows @ WEIGHTS[0]) + rows
        return rows

    good, bad = np.array([0, 5]), np.array([0, 50])
    told, values = [], []
    for _ in range(2):
        function = nnc.compile(lookup)
        values.append(function(X, good).numpy().tobytes())
        with pytest.raises(IndexRangeError) as error:
            function(X, bad)
        told.append(str(error.value))
        assert function(X, good).numpy().tobytes() == values[0]
    assert values[0] == values[1]
    assert told[0] == told[1]
    assert programs(function) == [CachedGraph]


def test_a_step_of_a_module_that_draws_and_renews_is_found_again() -> None:
    def losses() -> tuple[list[float], list[type]]:
        nnc.seed(3)
        layers = nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        optimizer = nn.optim.SGD(layers.parameters(), lr=0.1)

        @nnc.compile
        def step(x: Any) -> Any:
            loss = (layers(x) * layers(x)).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        return [float(step(X).numpy()) for _ in range(3)], programs(step)

    first, second = losses(), losses()
    assert first[0] == second[0]
    assert first[1] == [Compiled]
    assert second[1] == [CachedGraph]


def test_who_looks_at_commands_sees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = answer(nnc.compile(network()))
    function = nnc.compile(network())
    assert answer(function) == wanted
    with nnc.profile() as profile:
        assert answer(function) == wanted
    assert "gemm" in str(profile.tables()).lower()
    for _ in range(3):
        assert answer(function) == wanted
    monkeypatch.setattr(SETTINGS, "debug", True)
    assert answer(function) == wanted
    monkeypatch.setattr(SETTINGS, "debug", False)
    for _ in range(3):
        assert answer(function) == wanted


def test_small_functions_and_calls_of_python_are_not_kept(folder: Any) -> None:
    def loop(x: Any) -> Any:
        for _ in range(12):
            x = ops.tanh(x)
        return nnc.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), np.int64(0), x)[1]

    assert nnc.compile(lambda x: x + 1.0)(X).shape == X.shape
    assert nnc.compile(loop)(X).shape == X.shape
    assert entries(folder) == []
