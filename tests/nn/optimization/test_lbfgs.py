"""L-BFGS goes the way of torch's, in steps of one length and with a search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc
from nnc import nn, optim
from nnc.errors import ArgumentError, FormatError, UsageError

DRAW = np.random.default_rng(0)
A, B = DRAW.standard_normal((8, 5)), DRAW.standard_normal(8)
# Of torch 2.13: losses before each of three steps, how often they were computed, and where the first parameter is then.
TORCH = {
    "plain": (
        {"lr": 0.1, "max_iter": 5},
        ((36.635960665790634, 19.684964136924712, 17.444740763689403), 15, (-1.0538671199147065, 1.0627145715803545)),
    ),
    "search": (
        {"line_search_fn": "strong_wolfe"},
        ((36.635960665790634, 11.274953642680412, 9.417756365621303), 62, (1.000002338547576, 1.0000040647334119)),
    ),
    "few": (
        {"line_search_fn": "strong_wolfe", "history_size": 3, "max_iter": 7},
        ((36.635960665790634, 14.22631199152643, 13.066101408138211), 24, (-0.5886330010177573, 0.3430310377903049)),
    ),
}


class Problem:
    """Rosenbrock's valley beside a problem of least squares."""

    def __init__(self, **options: Any) -> None:
        self.w, self.v = nnc.variable(np.array([-1.2, 1.0])), nnc.variable(np.zeros(5))
        self.optimizer, self.seen = optim.LBFGS([self.w, self.v], **options), 0

    def loss(self) -> Any:
        self.seen += 1
        self.optimizer.zero_grad()
        w, v = self.w, self.v
        loss = (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2 + ((nnc.tensor(A) @ v - nnc.tensor(B)) ** 2).sum()
        loss.backward()
        return loss


@pytest.mark.parametrize("name", TORCH)
def test_the_way_is_torchs(name: str) -> None:
    options, (losses, seen, place) = TORCH[name]
    problem = Problem(**options)
    np.testing.assert_allclose([problem.optimizer.step(problem.loss).item() for _ in range(3)], losses, rtol=1e-6)
    assert problem.seen == seen
    np.testing.assert_allclose(problem.w.numpy(), place, rtol=1e-6)


def test_it_goes_on_from_its_state_and_its_rate_is_set() -> None:
    first, second = Problem(lr=0.5, max_iter=3), Problem(lr=0.1, max_iter=3)
    first.optimizer.step(first.loss)
    second.w.data, second.v.data = first.w.data, first.v.data
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    assert second.optimizer.lr == 0.5
    for problem in (first, second):
        problem.optimizer.step(problem.loss)
    assert first.w.tolist() == second.w.tolist()
    first.optimizer.param_groups[0]["lr"] = 0.25
    assert first.optimizer.lr == 0.25


def test_a_network_in_f32_is_trained() -> None:
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = optim.LBFGS(net.parameters(), line_search_fn="strong_wolfe")
    x = nnc.tensor(DRAW.standard_normal((16, 2)).astype(np.float32))

    def closure() -> Any:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), x[:, :1] * x[:, 1:])
        loss.backward()
        return loss

    before = optimizer.step(closure).item()
    assert closure().item() < 0.2 * before


def test_what_it_needs() -> None:
    problem = Problem()
    with pytest.raises(ArgumentError, match=r"LBFGS.step: got no closure.*Fix: optimizer.step\(closure\)"):
        problem.optimizer.step()
    with pytest.raises(ArgumentError, match="2 groups"):
        optim.LBFGS([{"params": [problem.w]}, {"params": [problem.v]}])
    with pytest.raises(ArgumentError, match="'strong_wolfe' or None"):
        optim.LBFGS([problem.w], line_search_fn="wolfe")  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="no steps"):
        problem.optimizer.load_state_dict({})
    with pytest.raises(FormatError, match="of 7"):
        problem.optimizer.load_state_dict({**problem.optimizer.state_dict(), "direction": np.zeros(3)})
    with pytest.raises(UsageError, match="compiled"):
        nnc.compile(lambda: problem.optimizer.step(problem.loss))()


def test_closures_of_other_optimizers_give_the_loss_back() -> None:
    w = nnc.variable([1.0])
    optimizer = optim.SGD([w], lr=0.5)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    assert (optimizer.step(closure).item(), w.item()) == (1.0, 0.0)
