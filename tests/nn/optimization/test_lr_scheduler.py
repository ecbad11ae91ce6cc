"""Rates that are set as PyTorch sets them, and what a compiled step makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.errors import ArgumentError, ArityError, FormatError, UsageError
from nnc.nn import optim
from nnc.nn.optim import StepOptimizer, lr_scheduler
from nnc.nn.optimization.lr_scheduler import LRScheduler

X = np.ones((4, 3), np.float32)


def held(lr: float = 1.0) -> StepOptimizer:
    net = nn.Linear(3, 2)
    return optim.SGD(net.parameters(), lr=lr)


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        # torch 2.13: get_last_lr() before each of five steps, from a rate of 1.
        (lambda o: lr_scheduler.StepLR(o, 2, 0.5), [1.0, 1.0, 0.5, 0.5, 0.25]),
        (lambda o: lr_scheduler.MultiStepLR(o, [1, 3], 0.5), [1.0, 0.5, 0.5, 0.25, 0.25]),
        (lambda o: lr_scheduler.ExponentialLR(o, 0.5), [1.0, 0.5, 0.25, 0.125, 0.0625]),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, 4), [1.0, 0.85355339, 0.5, 0.14644661, 0.0]),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, 2, 0.5), [1.0, 0.75, 0.5, 0.75, 1.0]),
        (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2), [1.0, 0.5, 1.0, 0.5, 1.0]),
        (lambda o: lr_scheduler.LinearLR(o, 0.5, total_iters=2), [0.5, 0.75, 1.0, 1.0, 1.0]),
        (lambda o: lr_scheduler.LambdaLR(o, lambda step: 1 / (step + 1)), [1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5]),
        (lambda o: lr_scheduler.OneCycleLR(o, 1.0, 5), [0.04, 0.95048463, 0.61126202, 0.18825835, 4e-6]),
    ],
)
def test_rates_are_those_of_pytorch(make: Callable[[StepOptimizer], LRScheduler], wanted: list[float]) -> None:
    optimizer = held()
    schedule = make(optimizer)
    rates = []
    for _ in range(5):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    np.testing.assert_allclose(rates, wanted, rtol=1e-6, atol=1e-9)


def test_a_cycle_rises_at_the_step_behind_its_end_and_has_no_further_one() -> None:
    # torch 2.13: get_last_lr() at first and after each step.
    for steps, warm, wanted in (
        (5, 0.3, [0.04, 0.95048463, 0.61126202, 0.18825835, 4e-6, 0.18825835]),
        (2, 0.3, [0.81174565, 4e-6, 0.81174565]),
        (1, 0.3, [4e-6, 0.61126202]),
        (3, 0.0, [0.750001, 0.250003, 4e-6, 0.250003]),
    ):
        schedule = lr_scheduler.OneCycleLR(held(), 1.0, steps, pct_start=warm)
        rates = [schedule.get_last_lr()[0]]
        for _ in range(steps):
            schedule.step()
            rates += schedule.get_last_lr()
        np.testing.assert_allclose(rates, wanted, rtol=1e-5, err_msg=f"{steps} steps")
        with pytest.raises(ArgumentError, match=f"OneCycleLR: got step {steps + 1}.*total_steps={steps + 1}"):
            schedule.step()


def test_a_plateau_lowers_the_rate() -> None:
    optimizer = held()
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    for figure in (1.0, 1.0, 1.0, 0.5, 0.5, 0.5):
        schedule.step(figure)
    assert schedule.get_last_lr() == [0.25]


def test_a_schedule_goes_on_where_its_state_stood() -> None:
    schedule = lr_scheduler.StepLR(held(), 2)
    for _ in range(3):
        schedule.step()
    optimizer = held()
    other = lr_scheduler.StepLR(optimizer, 2)
    other.load_state_dict(schedule.state_dict())
    assert optimizer.lr == pytest.approx(0.1)


def test_one_compiled_program_serves_all_rates() -> None:
    weights = []
    for compiled in (False, True):
        nnc.seed(0)
        net = nn.Linear(3, 2)
        optimizer = optim.Adam(net.parameters(), lr=0.1)
        schedule = lr_scheduler.StepLR(optimizer, 1, 0.5)

        def step(net: nn.Layer = net, optimizer: StepOptimizer = optimizer) -> nnc.Variable:
            optimizer.zero_grad()
            loss = (net(X) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        run = nnc.compile(step) if compiled else step
        for _ in range(4):
            run()
            schedule.step()
        weights.append(net.state_dict()["weight"])
        if compiled:
            assert run.recorded == 1
            optimizer.rule = nn.SGD(0.1)
            run()
            assert run.recorded == 2
    np.testing.assert_allclose(weights[1], weights[0], rtol=1e-6)


def grouped(net: nn.Layer, rates: tuple[float, float] = (1.0, 0.5)) -> StepOptimizer:
    net(X)
    weights, biases = ([p for name, p in net.named_parameters() if (name == "bias") is side] for side in (False, True))
    groups = [{"params": weights, "lr": rates[0], "weight_decay": 0.1}, {"params": biases, "lr": rates[1]}]
    return optim.AdamW(groups, lr=9.0, weight_decay=0.0)


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        # torch 2.13: get_last_lr() before each of four steps, from rates of 1 and 0.5.
        (lambda o: lr_scheduler.StepLR(o, 2, 0.5), [[1.0, 0.5], [1.0, 0.5], [0.5, 0.25], [0.5, 0.25]]),
        (lambda o: lr_scheduler.LambdaLR(o, [lambda e: 0.5**e, lambda e: 1.0]), [[0.5**e, 0.5] for e in range(4)]),
        (lambda o: lr_scheduler.MultiplicativeLR(o, lambda e: 0.5), [[0.5**e, 0.5 * 0.5**e] for e in range(4)]),
        (
            lambda o: lr_scheduler.ChainedScheduler(
                [lr_scheduler.ConstantLR(o, 0.1, 2), lr_scheduler.ExponentialLR(o, 0.9)]
            ),
            [[0.1, 0.05], [0.09, 0.045], [0.81, 0.405], [0.729, 0.3645]],
        ),
        (
            lambda o: lr_scheduler.SequentialLR(
                o, [lr_scheduler.ConstantLR(o, 0.5), lr_scheduler.ExponentialLR(o, 0.5)], [2]
            ),
            [[0.5, 0.25], [0.5, 0.25], [1.0, 0.5], [0.5, 0.25]],
        ),
        (
            lambda o: lr_scheduler.OneCycleLR(o, [1.0, 0.1], 4),
            [[0.04, 0.004], [0.81174565, 0.081174565], [0.2830610, 0.0283061], [4e-6, 4e-7]],
        ),
    ],
)
def test_each_group_has_a_rate_of_its_own(
    make: Callable[[StepOptimizer], LRScheduler], wanted: list[list[float]]
) -> None:
    optimizer = grouped(nn.Linear(3, 2))
    schedule, rates = make(optimizer), []
    for _ in range(4):
        rates.append(schedule.get_last_lr())
        schedule.step()
    np.testing.assert_allclose(rates, wanted, rtol=1e-5)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.0]
    with pytest.raises(ArityError, match="LambdaLR: got 3 values; need one, or 2: one a group"):
        lr_scheduler.LambdaLR(optimizer, [lambda e: 1.0] * 3)


def test_plateaus_lower_the_rate_of_each_group_to_its_least() -> None:
    optimizer = grouped(nn.Linear(3, 2))
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, min_lr=[0.1, 0.2])
    for _ in range(3):
        schedule.step(1.0)
    assert schedule.get_last_lr() == [0.25, 0.2]
    other = lr_scheduler.ReduceLROnPlateau(grouped(nn.Linear(3, 2)))
    other.load_state_dict(schedule.state_dict())
    assert other.get_last_lr() == [0.25, 0.2]


def test_one_compiled_program_serves_all_rates_of_groups() -> None:
    weights = []
    for compiled in (False, True):
        nnc.seed(0)
        net = nn.Linear(3, 2)
        optimizer = grouped(net)
        schedule = lr_scheduler.ExponentialLR(optimizer, 0.5)

        def step(net: nn.Layer = net, optimizer: StepOptimizer = optimizer) -> nnc.Variable:
            optimizer.zero_grad()
            loss = (net(X) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        run = nnc.compile(step) if compiled else step
        for _ in range(4):
            run()
            schedule.step()
        weights.append({name: value.copy() for name, value in net.state_dict().items()})
        if compiled:
            assert run.recorded == 1
            optimizer.param_groups[0]["weight_decay"] = 0.2
            run()
            assert run.recorded == 2
    for name, value in weights[0].items():
        np.testing.assert_allclose(weights[1][name], value, rtol=1e-6)


def test_rates_of_groups_are_kept_with_the_state() -> None:
    optimizer, other = grouped(nn.Linear(3, 2), (0.3, 0.7)), grouped(nn.Linear(3, 2))
    other.load_state_dict(optimizer.state_dict())
    assert [group["lr"] for group in other.param_groups] == [0.3, 0.7]
    with pytest.raises(ArgumentError, match="param_groups: got 'momentum'; need 'lr', 'weight_decay', 'eps'"):
        other.param_groups[0]["momentum"] = 0.5


def test_a_rate_set_inside_a_compiled_function_is_refused() -> None:
    optimizer = held()
    with pytest.raises(UsageError, match="outside"):
        nnc.compile(lambda x: setattr(optimizer, "lr", 0.5))(X)


def test_schedules_one_after_the_other_start_from_the_first_rate() -> None:
    # The rates of PyTorch's page of SequentialLR, of 0.05.
    optimizer = held(0.05)
    constant = lr_scheduler.ConstantLR(optimizer, factor=0.1, total_iters=20)
    falling = lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    schedule = lr_scheduler.SequentialLR(optimizer, schedulers=[constant, falling], milestones=[20])
    rates = []
    for _ in range(23):
        rates.append(optimizer.lr)
        schedule.step()
    assert rates == pytest.approx([0.005] * 20 + [0.05, 0.045, 0.0405])
    for parts, milestones in (([constant], [20]), ([constant, falling, falling], [20, 10])):
        with pytest.raises(ArgumentError, match="SequentialLR: got"):
            lr_scheduler.SequentialLR(optimizer, parts, milestones)


def test_polynomials_end_at_zero() -> None:
    schedule = lr_scheduler.PolynomialLR(held(0.1), total_iters=4, power=2.0)
    assert [schedule.rates[0](step) for step in (0, 2, 4, 9)] == pytest.approx([0.1, 0.025, 0.0, 0.0])


@pytest.mark.parametrize("mode", ["min", "max"])
def test_plateaus_go_on_from_their_state(mode: Literal["min", "max"]) -> None:
    rates = []
    for interrupted in (False, True):
        optimizer = held()
        schedule = lr_scheduler.ReduceLROnPlateau(optimizer, mode, factor=0.5, patience=1, cooldown=1)
        for step, figure in enumerate([2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]):
            if interrupted and step == 3:
                state = {name: np.array(value) for name, value in schedule.state_dict().items()}
                optimizer = held()
                schedule = lr_scheduler.ReduceLROnPlateau(optimizer, mode, factor=0.5, patience=1, cooldown=1)
                schedule.load_state_dict(state)
            schedule.step(figure)
        rates.append(optimizer.lr)
        assert schedule.best == 2.0
    assert rates[0] == rates[1] < held().lr


def test_what_is_better_is_a_share_or_a_number() -> None:
    for threshold_mode, bad in (("rel", 0), ("abs", 1)):
        schedule = lr_scheduler.ReduceLROnPlateau(held(), threshold=0.1, threshold_mode=threshold_mode)  # type: ignore[arg-type]  # one of the two
        schedule.step(0.5)
        schedule.step(0.42)
        assert schedule.num_bad_epochs == bad


def test_what_is_no_number_is_told_of() -> None:
    """Each was an error of Python's own."""
    optimizer = held()
    plateau = lr_scheduler.ReduceLROnPlateau(optimizer)
    for call in (
        lambda: setattr(optimizer, "lr", "text"),
        lambda: lr_scheduler.LambdaLR(optimizer, lambda step: None),  # type: ignore[arg-type, return-value]  # what is tested
        lambda: plateau.step("text"),  # type: ignore[arg-type]  # as above
    ):
        with pytest.raises(ArgumentError, match="need a number"):
            call()
    for state in ({}, {"last_epoch": "text"}, {"best": 1.0}, None):
        for schedule in (lr_scheduler.StepLR(optimizer, 2), plateau):
            with pytest.raises(FormatError, match=r"as state_dict\(\) gives them"):
                schedule.load_state_dict(state)  # type: ignore[arg-type]  # as above
    assert optimizer.lr == 1.0
