"""A slice of the campaign of `scripts/fuzz graphs`, and that its checks would see what they look for."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.fuzz.graphs.campaign import CAMPAIGNS, Campaign, case_of_seed, run_graphs
from tests.fuzz.graphs.case import Case, Fault
from tests.fuzz.graphs.checks import CHECKS
from tests.fuzz.graphs.reduce import reduce
from tests.symbolic.interpreter import Noise, interpret
from tests.symbolic.programs import Program, build, random_program
from tests.symbolic.rows.control import ALL
from tests.symbolic.rows.scope import Step

from nnc.core.values.dtype import F32
from nnc.core.values.spec import TensorSpec


@pytest.mark.parametrize(
    ("campaign", "count"),
    [
        (CAMPAIGNS["plans"], 24),
        (Campaign((), tuple(name for name in CHECKS if name not in ("planned", "llvm"))), 16),
        (Campaign(("llvm",)), 10),
    ],
    ids=["plans", "passes", "llvm"],
)
def test_random_graphs(campaign: Campaign, count: int) -> None:
    report = run_graphs(range(count), campaign)
    assert [str(failure) for failure in report.failures] == []
    assert report.graphs == count
    assert report.commands > 8 * count
    assert min(report.outcomes[name] for name in ("loop", "branches", "ranges", "strided", "in place")) > count // 10


def test_random_graphs_take_no_more_as_branches_and_iterations() -> None:
    report = run_graphs(range(20), CAMPAIGNS["moved"])
    assert [str(failure) for failure in report.failures] == []
    assert min(report.outcomes[f"{name}: equal"] for name in ("branch", "iteration")) > 12


def test_the_report_is_a_line_of_json() -> None:
    report = run_graphs(range(2), Campaign(("planned",), ("texts", "unrolled")))
    read = json.loads(str(report))
    assert (read["graphs"], read["failures"]) == (2, [])
    assert read["checks"] == {"planned": 2, "texts": 1, "unrolled": 1}
    assert read["outcomes"]["in place"] == 2


def test_programs_use_every_row() -> None:
    used: Counter[str] = Counter()
    for seed in range(200):
        used.update(build(random_program(seed)).rows)
    assert used.keys() == {row.name for row in ALL}
    assert min(used[name] for name in ("loop", "branches", "ranges", "slope", "strided")) > 40


def test_a_seed_is_a_program() -> None:
    one, other = build(random_program(5)), build(random_program(5))
    assert str(one.graph) == str(other.graph)
    assert str(one.graph) != str(build(random_program(6)).graph)


def test_most_values_are_settled() -> None:
    """Noise would excuse everything if single roundings changed most values."""
    settled = total = 0
    for seed in range(0, 80, 4):
        case = case_of_seed(seed, "llvm")
        for place, want in enumerate(case.expected):
            if want.dtype.kind == "f" and np.isfinite(want).all():
                beside = [values[place].astype(np.float64) for values in case.disturbed(F32)]
                spread = np.max([np.abs(values - want) for values in beside], axis=0)
                settled += int((spread <= 1e-4 * (1 + np.abs(want))).sum())
                total += want.size
    assert settled > 0.9 * total > 0


def test_a_wrong_value_is_a_fault() -> None:
    case = Case(Program((TensorSpec((4,)),), (), (0,)))
    wrong = [values + np.float32(1e-3) for values in case.expected]
    for require in (case.require_bits, case.require_close):
        require(case.expected, "right")
        with pytest.raises(Fault, match="wrong"):
            require(wrong, "wrong")


def test_a_failing_program_is_made_small() -> None:
    program = random_program(3)
    guilty = Step(1 << 19, 3, 1, 7, (Step(2, 2, 2, 2),))
    found = reduce(
        replace(program, steps=(*program.steps, guilty)), lambda one: any(s.operator == 1 << 19 for s in one.steps)
    )
    assert found.steps == (Step(1 << 19, 0, 0, 0),)
    assert (len(found.specs), len(found.wanted)) == (1, 1)


def test_noise_moves_values_a_little() -> None:
    case = case_of_seed(0)
    values = case.values(case.built)
    again = interpret(case.built.graph, case.built.wanted, values)
    moved = interpret(case.built.graph, case.built.wanted, values, Noise(np.random.default_rng(0)))
    assert [one.tobytes() for one in again] == [one.tobytes() for one in case.expected]
    assert any(one.tobytes() != other.tobytes() for one, other in zip(moved, again, strict=True))
