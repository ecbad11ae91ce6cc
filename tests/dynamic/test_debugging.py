"""Looking at commands as they run: NaN at its operator and line, shapes as they flow, compiled code as written."""

from __future__ import annotations

import io
from threading import Thread

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.core.running.inspectors import INSPECTORS
from nnc.core.values.recorder import PROFILER
from nnc.errors import NotFiniteError


@pytest.fixture(autouse=True)
def _nobody_looks_afterwards() -> object:
    yield
    assert not INSPECTORS.active
    assert not INSPECTORS.eager
    assert not PROFILER.recorders


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_the_command_that_makes_a_nan_is_named(dtype: str) -> None:
    x = nnc.tensor([[1.0, 4.0], [-9.0, 16.0]], dtype)
    with nnc.debug(), pytest.raises(NotFiniteError) as caught:
        nnc.sqrt(x) + 1
    error = caught.value
    assert error.subject == "sqrt"
    assert f"nan in 1 of 4 elements of {dtype}[2, 2], first at [1, 0]" in error.got
    assert f"input 0: {dtype}[2, 2] from -9 to 16" in error.got
    assert error.origin.startswith("test_debugging.py:")


def test_infinities_are_refused_when_asked() -> None:
    x = nnc.tensor([0.0, 1.0])
    with nnc.debug():
        assert np.isneginf(nnc.log(x).numpy()[0])
    with nnc.debug(inf=True), pytest.raises(NotFiniteError, match="log: got -inf in 1 of 2"):
        nnc.log(x)
    with nnc.debug(nan=False):
        assert np.isnan(nnc.log(x - 1).numpy()[0])


def test_inputs_that_are_nan_themselves_are_told() -> None:
    x = nnc.tensor([np.nan, 1.0])
    with nnc.debug(), pytest.raises(NotFiniteError, match=r"input 0: f32\[2\] with 1 such elements itself"):
        x * 2


def test_compiled_functions_run_as_they_are_written() -> None:
    seen = []

    @nnc.compile
    def function(x: nnc.Variable) -> nnc.Variable:
        seen.append(isinstance(x, nnc.Variable))
        return nnc.log(x).sum()

    x = nnc.tensor([1.0, 2.0])
    plain = function(x)
    with nnc.debug() as report:
        looked_at = function(x)
    assert seen == [False, True]
    assert report.commands == 2
    assert np.array_equal(plain.numpy(), looked_at.numpy())
    with nnc.debug(eager=False), pytest.raises(NotFiniteError, match="test_debugging.py"):
        function(nnc.tensor([-1.0, 2.0]))
    assert seen == [False, True]
    assert np.array_equal(function(x).numpy(), plain.numpy())


def test_shapes_are_printed_as_they_flow() -> None:
    text = io.StringIO()
    with nnc.debug(shapes=True, file=text):
        (nnc.tensor(np.ones((2, 3), np.float32)) @ nnc.tensor(np.ones((3, 4), np.float32))).sum()
        nnc.tensor(np.zeros((0, 3), np.float32)) + 1
    lines = text.getvalue().splitlines()
    assert "gemm             f32[2, 3], f32[3, 4], – → f32[2, 4]  from 3 to 3" in lines[0]
    assert lines[0].startswith("test_debugging.py:")
    assert lines[1].endswith("f32[2, 4] → f32[]  from 24 to 24")
    assert lines[2].endswith("f32[0, 3] → f32[0, 3]")


def test_a_step_of_training_names_its_layer_and_changes_nothing() -> None:
    model = nn.Model(nn.Sequential(nn.Dense(8, activation="relu"), nn.Dense(3)), (4,))
    x, y = np.random.default_rng(0).random((16, 4), np.float32), np.zeros(16, np.int64)
    before = {name: value.numpy().copy() for name, value in model.tensors().items()}
    hostile = x.copy()
    hostile[3, 1] = np.nan
    with nnc.debug(), pytest.raises(NotFiniteError) as caught:
        model.train_on_batch(hostile, y)
    assert caught.value.place.startswith("0")
    assert all(np.array_equal(value.numpy(), before[name]) for name, value in model.tensors().items())
    with nnc.debug() as report:
        watched = model.train_on_batch(x, y)
    assert report.commands > 5
    again = nn.Model(nn.Sequential(nn.Dense(8, activation="relu"), nn.Dense(3)), (4,))
    assert again.train_on_batch(x, y) == watched


def test_blocks_are_nested_and_see_all_threads() -> None:
    errors = []

    def work() -> None:
        try:
            nnc.log(nnc.tensor([-1.0]))
        except NotFiniteError as error:
            errors.append(error)

    with nnc.debug(nan=False) as outer, nnc.debug() as inner:
        thread = Thread(target=work)
        thread.start()
        thread.join()
    assert len(errors) == 1
    assert outer.commands == inner.commands == 1


def test_gradients_are_looked_at() -> None:
    w = nnc.variable([0.0, 1.0])
    with nnc.debug(inf=True), pytest.raises(NotFiniteError):
        nnc.sqrt(w).sum().backward()


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(nnc.errors.ArgumentError, match="nan"), nnc.debug(nan="yes"):  # type: ignore[arg-type]
        pass
