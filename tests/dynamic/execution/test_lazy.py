"""Commands that wait: what they give is what plain eager code gives, bit for bit, errors and draws included."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.symbolic.programs import random_program, run
from tests.symbolic.rows.control import FLOATS

import nnc
from nnc import ops
from nnc.dynamic.execution.lazy import PendingTensor
from nnc.dynamic.graph import default_graph
from nnc.errors import ArgumentError, IndexRangeError, ShapeError

# A campaign tries more: NNC_EXAMPLES=10000 pytest tests/dynamic/execution/test_lazy.py -k random_programs
EXAMPLES = int(os.environ.get("NNC_EXAMPLES", "8"))
X = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(3, 4)


def line_of(text: str) -> str:
    lines = Path(__file__).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return f"{Path(__file__).name}:{number}"


def chain(x: Any) -> Any:
    y = ops.tanh(x * 2.0 + 1.0)
    return (y @ y.T)[:, 1:3] - y.sum()


def test_commands_wait_until_a_value_is_looked_at() -> None:
    want = chain(nnc.tensor(X)).numpy()
    with nnc.lazy() as report:
        y = chain(nnc.tensor(X))
        assert isinstance(y.tensor, PendingTensor)
        assert (y.shape, report.runs) == ((3, 2), 0)
        np.testing.assert_array_equal(y, want)
        assert report.runs == 1
    assert report.runs == 1
    assert str(report).startswith(f"{report.commands} commands in 1 runs")


def test_a_loop_runs_one_program_per_turn() -> None:
    want = chain(nnc.tensor(X.T)).numpy()
    with nnc.lazy() as report:
        for _ in range(5):
            assert chain(nnc.tensor(X.T)).numpy().tobytes() == want.tobytes()
    assert (report.runs, report.programs) == (5, 4)


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_random_programs_give_the_same_bits(seed: int) -> None:
    program = random_program(seed, table=FLOATS, most=12)
    generator = np.random.default_rng(seed)
    inputs = [nnc.tensor(generator.uniform(-1.5, 1.5, one.shape).astype(one.dtype.numpy)) for one in program.specs]
    want = [one.numpy().tobytes() for one in run(program, inputs)[1]]  # type: ignore[attr-defined]  # eager values
    with nnc.lazy():
        for _ in range(2):
            got = run(program, inputs)[1]
            assert [one.numpy().tobytes() for one in got] == want  # type: ignore[attr-defined]  # as above


def test_gradients_are_those_of_plain_eager_code_bit_for_bit() -> None:
    w = nnc.variable(X)
    value, slope = nnc.value_and_grad(lambda w: (chain(w) ** 2).sum())(w)
    want = value.numpy().tobytes(), slope.numpy().tobytes()
    for _ in range(3):
        with nnc.lazy():
            value, slope = nnc.value_and_grad(lambda w: (chain(w) ** 2).sum())(w)
        assert (value.numpy().tobytes(), slope.numpy().tobytes()) == want


def test_random_numbers_are_those_of_plain_eager_code() -> None:
    def draws() -> bytes:
        nnc.seed(5)
        first = nnc.dropout(nnc.tensor(X), 0.5) + nnc.normal((3, 4))
        return (first * nnc.uniform((3, 4))).numpy().tobytes()

    want = draws()
    for _ in range(3):
        with nnc.lazy():
            assert draws() == want


def test_a_branch_on_a_value_goes_the_way_of_plain_eager_code() -> None:
    with nnc.lazy() as report:
        x, turns = nnc.tensor(1.0), 0
        while x < 100:
            x, turns = x * 3, turns + 1
    assert (x.item(), turns) == (243.0, 5)
    assert report.runs == 6


def test_what_nobody_holds_is_not_computed() -> None:
    with nnc.lazy() as report:
        for _ in range(3):
            chain(nnc.tensor(X))
    assert report.runs == 1
    with nnc.lazy():
        x = nnc.tensor(X)
        waiting = [x + number for number in range(4)]
        (last,) = waiting[-1:]
        waiting.clear()
        np.testing.assert_array_equal(last, X + 3)


def test_a_wrong_shape_is_an_error_at_its_own_line() -> None:
    with nnc.lazy(), pytest.raises(ShapeError) as info:
        nnc.tensor(X) @ nnc.tensor(X)  # the wrong product
    assert info.value.origin == line_of("the wrong product")


def test_a_plain_error_while_running_has_its_line_too() -> None:
    with pytest.raises(IndexRangeError) as info:
        ops.index_select(nnc.tensor(X), nnc.tensor([7]))  # the plain wrong index
    assert info.value.origin == line_of("the plain wrong index")


@pytest.mark.parametrize("turn", [1, 3])
def test_an_error_while_running_has_the_line_of_its_command(turn: int) -> None:
    x = nnc.tensor(X)
    for _ in range(turn):
        with nnc.lazy():
            before = x + 1
            wrong = ops.index_select(x, nnc.tensor([7]))  # the wrong index
            depends, apart = wrong * 2, before * 3
            with pytest.raises(IndexRangeError) as info:
                depends.numpy()
            assert info.value.origin == line_of("the wrong index")
            # What does not depend on it is there; what does stays an error.
            np.testing.assert_array_equal(apart, (X + 1) * 3)
            with pytest.raises(IndexRangeError):
                wrong.numpy()
            with pytest.raises(IndexRangeError):
                wrong + 1


def test_an_error_of_a_result_that_nobody_looks_at_is_raised_at_the_end() -> None:
    with pytest.raises(IndexRangeError), nnc.lazy():
        ops.index_select(nnc.tensor(X), nnc.tensor([7]))


def test_an_error_in_the_block_leaves_values_that_run_when_they_are_looked_at() -> None:
    found = []

    def broken() -> None:
        with nnc.lazy():
            found.append(nnc.tensor(X) + 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    (y,) = found
    np.testing.assert_array_equal(y, X + 1)


def test_memory_that_others_write_to_is_read_when_the_command_is_made() -> None:
    buffer = X.copy()
    shared = nnc.tensor(buffer, share=True)
    with nnc.lazy():
        first = shared + 1
        buffer += 10
        second = shared + 1
    np.testing.assert_array_equal(first, X + 1)
    np.testing.assert_array_equal(second, X + 11)


def test_what_waits_is_bounded_by_count_and_bytes() -> None:
    with nnc.lazy(most_commands=10) as report:
        x = nnc.tensor(X)
        for _ in range(45):
            x = x + 1
    assert report.runs == 5
    with nnc.lazy(most_bytes=10 * X.nbytes) as report:
        x = nnc.tensor(X)
        for _ in range(45):
            x = x + 1
    assert report.runs == 5
    for wrong in ({"most_commands": 0}, {"most_bytes": -1}):
        with pytest.raises(ArgumentError):
            nnc.lazy(**wrong)


def test_another_thread_may_look() -> None:
    found = []
    with nnc.lazy() as report:
        y = chain(nnc.tensor(X))
        thread = threading.Thread(target=lambda: found.append(y.numpy().copy()))
        thread.start()
        thread.join()
        assert report.runs == 1
    np.testing.assert_array_equal(found[0], chain(nnc.tensor(X)))


def test_blocks_nest_and_leave_nothing_behind() -> None:
    gc.collect()
    before = len(default_graph().record.tensors)
    with nnc.lazy() as outer, nnc.lazy() as inner:
        w = nnc.variable(X)
        y = (w * w).sum()
        assert inner is outer
        (slope,) = default_graph().backward([y], [w])
    np.testing.assert_allclose(slope, 2 * X)
    del w, y, slope
    gc.collect()
    assert len(default_graph().record.tensors) == before


def test_views_of_what_waits_wait_too() -> None:
    with nnc.lazy() as report:
        y = nnc.tensor(X) * 2
        part = y[1:, ::2].T
        detached = part.detach()
        assert report.runs == 0
        np.testing.assert_array_equal(detached + part, 2 * (2 * X[1:, ::2]).T)
        np.testing.assert_array_equal(y[0], 2 * X[0])


def test_compiled_functions_batches_and_optimizers_do_not_mind() -> None:
    optimizer = nnc.nn.Adam(0.1)
    weights = {"w": nnc.tensor(X)}
    loss = lambda weights: (weights["w"] ** 2).sum()  # noqa: E731  # a loss of one line

    def steps() -> bytes:
        current, state = weights, optimizer.init(weights)
        for _ in range(3):
            current, state = optimizer.update(current, nnc.grad(loss)(current), state)
        each = nnc.vmap(lambda row: (row * row).sum())(current["w"])
        return bytes(nnc.compile(lambda x: x + 1)(each).numpy().tobytes())

    want = steps()
    for _ in range(2):
        with nnc.lazy():
            assert steps() == want


def test_one_command_is_run_as_it_is() -> None:
    x = nnc.tensor([1.0, 2.0])
    with nnc.lazy() as report:
        for turn in range(3):
            y = x * float(turn)
            assert y.tolist() == [1.0 * turn, 2.0 * turn]
    assert (report.commands, report.runs, report.programs) == (3, 3, 0)


def test_a_block_inside_a_block_goes_on_with_its_queue() -> None:
    x = nnc.tensor([1.0, 2.0])
    with nnc.lazy() as outer:
        y = x + x
        with nnc.lazy() as inner:
            z = y * y
        assert inner is outer
        assert outer.runs == 0
        with pytest.raises(ZeroDivisionError), nnc.lazy():
            raise ZeroDivisionError
        assert outer.runs == 0
    assert (outer.commands, outer.runs) == (2, 1)
    assert z.tolist() == [4.0, 16.0]
    assert (x + x).tolist() == [2.0, 4.0]
