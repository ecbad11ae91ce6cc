"""A slice of the campaign of scripts/fuzz, and that the campaign would see what it looks for."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable

import pytest
from tests.fuzz.campaign import CALLS, MEMORY, RETURNED, run_session, run_sessions
from tests.fuzz.limits import memory_limit
from tests.fuzz.surface import Target, targets
from tests.fuzz.world import World
from tests.fuzz.wrong_types import run_targets

from nnc import ops
from nnc.errors import ShapeError, VerificationError

CALLED = 4_000


def test_random_calls_raise_nothing_but_our_own_exceptions() -> None:
    with memory_limit(MEMORY):
        summary = run_sessions(range(CALLED // CALLS))
    assert [str(offence) for offence in summary.offences] == []
    assert summary.calls == CALLED
    assert summary.outcomes[RETURNED] > CALLED // 10
    assert sum(count for name, count in summary.outcomes.items() if name.endswith("Error")) > CALLED // 4


def test_values_of_wrong_types_are_told_of() -> None:
    with memory_limit(MEMORY):
        summary = run_targets(range(3, len(targets()), 80))
    assert [str(offence) for offence in summary.offences] == []
    assert summary.calls > 500


def test_the_table_covers_the_public_surface() -> None:
    names = {target.name for target in targets()}
    functions = dict(inspect.getmembers(ops, inspect.isfunction))
    on_operands = {name for name, function in functions.items() if "T" in inspect.get_annotations(function).values()}
    assert len(on_operands) > 90
    assert on_operands <= {name.rpartition(".")[2] for name in names}
    for wanted in (
        "SymbolicGraph.apply", "SymbolicGraph.alias", "ConcreteGraph.add", "ConcreteGraph.connect", "Tensor.view",
        "DynamicGraph.backward", "TensorSpec", "Problem", "Model", "Graph.add_edge", "Registry.op", "Model.predict",
        "nnc.symbolic.gradient.backward", "nnc.symbolic.compiler.lower.compile", "nnc.planning.portfolio.solve",
        "nnc.core.values.serialize.load_tensors", "apply gemm", "apply convolution",
    ):  # fmt: skip
        assert wanted in names
    (static,) = (target for target in targets() if target.name == "Registry.named")
    assert [parameter.name for parameter in static.parameters] == ["name"]


def test_a_session_is_fixed_by_its_number() -> None:
    table = targets()
    one, other = run_session(7, table), run_session(7, table)
    assert one.outcomes == other.outcomes
    assert one.targets == other.targets


def raising(error: BaseException) -> Callable[[World], Callable[..., object]]:
    def call() -> None:
        raise error

    return lambda world: call


@pytest.mark.parametrize("error", [KeyError("x"), AssertionError(), VerificationError("ours"), ShapeError("")])
def test_what_may_not_come_out_is_an_offence(error: Exception) -> None:
    summary = run_session(0, [Target("broken", raising(error), ())])
    assert len(summary.offences) == CALLS
    assert "broken" in str(summary)


def test_what_may_come_out_is_none() -> None:
    error = ShapeError("gemm", got="f32[2]", need="a matrix")
    assert run_session(0, [Target("sound", raising(error), ())]).offences == []


def test_a_warning_is_an_offence() -> None:
    table = [Target("loud", lambda world: lambda: warnings.warn("careless", stacklevel=1), ())]
    assert "careless" in run_session(0, table).offences[0].what
