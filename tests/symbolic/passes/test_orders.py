"""Passes alone and all together in any order: random programs with gradients keep their values."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.symbolic.passes.equality import check_program
from tests.symbolic.programs import Program, programs

from nnc.symbolic.passes import Pass

EXAMPLES = settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
# Those that round to 16 bits on purpose have tolerances of their own.
PASSES = tuple(one for one in Pass if one not in (Pass.BFLOAT16, Pass.FLOAT16))

pytestmark = pytest.mark.usefixtures("debug")


@EXAMPLES
@given(programs(most=10), st.permutations(PASSES))
def test_all_together_in_any_order(program: Program, passes: Sequence[Pass]) -> None:
    check_program(program, passes)


@EXAMPLES
@given(programs(most=10), st.sampled_from(PASSES))
def test_each_alone(program: Program, one: Pass) -> None:
    check_program(program, [one])
