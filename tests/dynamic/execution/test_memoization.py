"""Equal work on equal elements is done once, within a budget of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.symbolic.programs import random_program, run
from tests.symbolic.rows.control import FLOATS

import nnc
from nnc import ops
from nnc.dynamic import ResultCache
from nnc.errors import ArgumentError
from nnc.ops.composed.custom import custom_operator
from nnc.ops.operand import apply
from nnc.ops.rules import NoAttrs

X = np.linspace(-1.0, 1.0, 64, dtype=np.float32).reshape(8, 8)


def work(x: Any) -> Any:
    return ops.tanh(x @ x.T).sum(axis=0)


def test_equal_work_on_equal_elements_is_done_once() -> None:
    want = work(nnc.tensor(X)).numpy()
    with nnc.memoized() as cache:
        first = work(nnc.tensor(X))
        assert (cache.hits, cache.misses) == (0, 4)
        second = work(nnc.tensor(X.copy()))
        assert (cache.hits, cache.misses) == (4, 4)
        assert second.tensor is first.tensor
        np.testing.assert_array_equal(first, want)
    assert str(cache) == f"ResultCache: 4 results of {cache.nbytes} B, 4 found, 4 computed"


@pytest.mark.parametrize("other", [X + 1, X[:, ::-1], X.astype(np.float64), X.reshape(64)[:49].reshape(7, 7)])
def test_other_elements_shapes_and_types_are_other_work(other: Any) -> None:
    with nnc.memoized() as cache:
        for one in (X, other):
            np.testing.assert_array_equal(nnc.tensor(one) * 2, one * 2)
    assert cache.hits == 0


def test_other_parts_of_a_tensor_are_other_work() -> None:
    with nnc.memoized() as cache:
        x = nnc.tensor(X)
        for row in (0, 1, 0):
            np.testing.assert_array_equal(x[row] * 2, X[row] * 2)
    assert cache.hits == 1


def test_shared_memory_is_looked_at_each_time() -> None:
    buffer = X.copy()
    shared = nnc.tensor(buffer, share=True)
    with nnc.memoized():
        for _ in range(3):
            np.testing.assert_array_equal(shared * 2, buffer * 2)
            buffer += 1


def test_results_stay_within_the_budget_and_what_is_used_last_stays() -> None:
    with nnc.memoized(most_bytes=2 * X.nbytes) as cache:
        x = nnc.tensor(X)
        for factor in (2.0, 3.0, 2.0, 4.0, 2.0, 3.0):
            np.testing.assert_array_equal(x * factor, X * np.float32(factor))
            assert cache.nbytes <= 2 * X.nbytes
    # 2 is found twice; 3 went for 4.
    assert (cache.hits, cache.misses, len(cache)) == (2, 4, 2)


def test_results_of_much_work_outlive_cheap_ones_if_asked() -> None:
    def found(policy: Any) -> int:
        with nnc.memoized(most_bytes=4 * X.nbytes, policy=policy) as cache:
            x = nnc.tensor(X)
            x @ x
            for factor in range(10):
                x * (factor + 2.0)
            before = cache.hits
            x @ x
            return cache.hits - before

    assert (found("recent"), found("work")) == (0, 1)


def test_what_was_forgotten_is_computed_again_and_what_depends_on_it_is_found() -> None:
    with nnc.memoized(most_bytes=X.nbytes + 8, policy="work") as cache:
        x = nnc.tensor(X)
        total = (x * 2.0).sum()
        x * 3.0  # takes the place of the product
        assert (x * 2.0).sum().tensor is total.tensor
    assert (cache.hits, cache.misses) == (1, 4)


def test_a_budget_of_nothing_keeps_nothing() -> None:
    with nnc.memoized(0) as cache:
        for _ in range(2):
            work(nnc.tensor(X))
    assert (cache.hits, len(cache)) == (0, 0)
    for wrong in ({"most_bytes": -1}, {"policy": "oldest"}):
        with pytest.raises(ArgumentError):
            nnc.memoized(**wrong)  # type: ignore[arg-type]  # what the test is about


def test_a_cache_goes_on_in_another_block_and_is_not_used_outside() -> None:
    cache = ResultCache()
    for _ in range(2):
        with nnc.memoized(cache=cache):
            work(nnc.tensor(X))
        work(nnc.tensor(X))
    assert (cache.hits, cache.misses) == (4, 4)


def test_gradients_and_draws_are_those_of_plain_code() -> None:
    def step() -> list[bytes]:
        nnc.seed(1)
        value, slope = nnc.value_and_grad(lambda x: (nnc.dropout(work(x), 0.5) ** 2).sum())(X)
        return [value.numpy().tobytes(), slope.numpy().tobytes(), nnc.uniform((3,)).numpy().tobytes()]

    want = step()
    with nnc.memoized() as cache:
        assert step() == want
        assert step() == want
        assert cache.hits > 4
        assert nnc.uniform((3,)).numpy().tobytes() != nnc.uniform((3,)).numpy().tobytes()


def test_what_is_written_over_is_nobody_elses() -> None:
    renew = ops.batch_norm  # the running statistics are written over their inputs
    scale, shift = np.ones(8, np.float32), np.zeros(8, np.float32)
    with nnc.memoized():
        means = [nnc.tensor(shift) * 2.0 for _ in range(2)]
        assert means[0].tensor is means[1].tensor
        renew(nnc.tensor(X), *(nnc.tensor(one) for one in (scale, shift)), means[0], nnc.tensor(scale))
        np.testing.assert_array_equal(means[1], shift)


def test_custom_commands_run_each_time() -> None:
    runs = []

    def kernel(attrs: Any, inputs: Any, outputs: Any) -> None:
        runs.append(1)
        outputs[0][...] = inputs[0]

    seen = custom_operator("seen_by_a_cache", infer=lambda attrs, specs: specs, kernel=kernel)
    with nnc.memoized():
        for _ in range(3):
            apply(seen, NoAttrs(), nnc.tensor(X))
    assert len(runs) == 3


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_give_the_same_bits(seed: int) -> None:
    program = random_program(seed, table=FLOATS, most=12)
    generator = np.random.default_rng(seed)
    inputs = [nnc.tensor(generator.uniform(-1.5, 1.5, one.shape).astype(one.dtype.numpy)) for one in program.specs]
    want = [one.numpy().tobytes() for one in run(program, inputs)[1]]  # type: ignore[attr-defined]  # eager values
    with nnc.memoized(most_bytes=400), nnc.lazy():
        for _ in range(3):
            got = run(program, inputs)[1]
            assert [one.numpy().tobytes() for one in got] == want  # type: ignore[attr-defined]  # as above
