"""Passes alone and all together in any order: random programs with gradients keep their values."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.symbolic.passes.equality import check_program
from tests.symbolic.programs import Program, programs

from nnc.symbolic.passes import Pass

EXAMPLES = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

pytestmark = pytest.mark.usefixtures("debug")


@EXAMPLES
@given(programs(most=10), st.permutations(tuple(Pass)))
def test_all_together_in_any_order(program: Program, passes: Sequence[Pass]) -> None:
    check_program(program, passes)


@EXAMPLES
@given(programs(most=10), st.sampled_from(Pass))
def test_each_alone(program: Program, one: Pass) -> None:
    check_program(program, [one])
