from __future__ import annotations

import pytest

from nnc.errors import AttributeValueError
from nnc.nn import SGD, Adam, Constant, Cosine


def test_a_constant_stays() -> None:
    assert {Constant(0.1).rate(step) for step in range(1, 50)} == {0.1}


def test_a_cosine_goes_from_start_to_end_and_stays_there() -> None:
    schedule = Cosine(1.0, steps=10, end=0.2)
    rates = [schedule.rate(step) for step in range(1, 14)]
    assert rates[0] == 1.0
    assert rates[5] == pytest.approx(0.6)
    assert rates[10:] == [0.2] * 3
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("steps", [0, -1])
def test_a_cosine_takes_steps(steps: int) -> None:
    with pytest.raises(AttributeValueError, match="steps"):
        Cosine(1.0, steps=steps)


def test_optimizers_hand_the_rate_of_the_step_to_their_command() -> None:
    optimizer = Adam(Cosine(1.0, steps=10))
    assert optimizer.scalars(1) == {"rate": 1.0, "step": 1.0}
    assert optimizer.scalars(11) == {"rate": 0.0, "step": 11.0}
    assert SGD(0.5).scalars(7) == {"rate": 0.5}
