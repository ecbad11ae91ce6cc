"""Distributions: answers of torch 2.13, moments of draws, and gradients through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import distributions as d
from nnc import nn
from nnc.errors import ArgumentError

NORMAL = d.Normal(nnc.tensor([0.0, 1.0]), nnc.tensor([1.0, 2.0]))
LOGITS = nnc.tensor([[0.0, 1.0], [2.0, 0.0]])
ROWS: list[tuple[Callable[[], Any], Any]] = [
    (lambda: NORMAL.log_prob(0.5), [-1.0439385, -1.6433357]),
    (lambda: NORMAL.entropy(), [1.4189385, 2.1120857]),
    (lambda: NORMAL.cdf(nnc.tensor([0.0, 1.0])), [0.5, 0.5]),
    (lambda: d.kl_divergence(NORMAL, d.Normal(nnc.zeros(2), nnc.ones(2))), [0.0, 1.3068528]),
    (lambda: d.Independent(NORMAL, 1).log_prob(nnc.zeros(2)), -2.6560242),
    (lambda: d.Bernoulli(logits=nnc.tensor([0.0, 2.0])).log_prob(1.0), [-0.6931472, -0.126928]),
    (lambda: d.Bernoulli(logits=nnc.tensor([0.0, 2.0])).entropy(), [0.6931472, 0.36533403]),
    (lambda: d.Categorical(logits=LOGITS).entropy(), [0.5822031, 0.36533386]),
    (lambda: d.Categorical(logits=LOGITS).log_prob(nnc.tensor([1, 0])), [-0.31326166, -0.12692805]),
    (lambda: d.Categorical(probs=[1.0, 3.0]).log_prob(nnc.tensor([[0], [1]])), [[-1.3862944], [-0.2876821]]),
    (lambda: d.Uniform(0.0, 2.0).log_prob(nnc.tensor([1.0, 3.0])), [-0.6931472, -np.inf]),
    (lambda: d.Exponential(2.0).log_prob(1.0), -1.3068528),
    (lambda: d.Laplace(0.0, 1.0).log_prob(1.0), -1.6931472),
    (lambda: d.Laplace(0.0, 1.0).entropy(), 1.6931472),
    (lambda: d.kl_divergence(d.Bernoulli(0.5), d.Bernoulli(0.25)), 0.14384103),
]  # fmt: skip


@pytest.mark.parametrize(("call", "want"), ROWS, ids=range(len(ROWS)))
def test_answers_are_pytorch_s(call: Callable[[], Any], want: Any) -> None:
    np.testing.assert_allclose(call(), want, rtol=1e-5)


@pytest.mark.parametrize(
    "distribution",
    [
        d.Normal(1.0, 2.0), d.Laplace(1.0, 2.0), d.Uniform(-1.0, 3.0), d.Exponential(0.5), d.Bernoulli(0.25),
        d.Bernoulli(logits=-1.0),
    ],
    ids=lambda each: type(each).__name__,
)  # fmt: skip
def test_draws_have_the_mean_and_the_variance(distribution: d.Distribution) -> None:
    nnc.manual_seed(0)
    draws = distribution.sample((20_000,)).numpy()
    np.testing.assert_allclose(draws.mean(), distribution.mean.item(), atol=0.06)
    np.testing.assert_allclose(draws.var(), distribution.variance.item(), rtol=0.1)
    assert distribution.stddev.item() == pytest.approx(distribution.variance.item() ** 0.5)


def test_draws_of_places() -> None:
    nnc.manual_seed(0)
    draws = d.Categorical(probs=[0.1, 0.2, 0.7]).sample((10_000,))
    np.testing.assert_allclose(np.bincount(draws.numpy()) / 10_000, [0.1, 0.2, 0.7], atol=0.02)
    assert d.Categorical(logits=LOGITS).sample((3,)).shape == (3, 2)


def test_gradients_flow_through_draws_and_probabilities() -> None:
    w = nnc.variable([0.5])
    sample = d.Normal(w * 2.0, 1.0).rsample((4,))
    sample.sum().backward()
    assert w.grad is not None
    assert w.grad.item() == 8.0
    assert not d.Normal(w, 1.0).sample().requires_grad
    policy = d.Categorical(logits=nnc.variable([0.0, 0.0]))
    slope = nnc.grad(lambda logits: d.Categorical(logits=logits).log_prob(1))(nnc.zeros(2))
    np.testing.assert_allclose(slope, [-0.5, 0.5])
    np.testing.assert_allclose(policy.probs, [0.5, 0.5])


def test_a_module_gives_a_distribution() -> None:
    class Policy(nn.Module):
        def __init__(self) -> None:
            self.mean, self.log_std = nn.Linear(3, 2), nn.Parameter(nnc.zeros(2))

        def forward(self, x: Any) -> d.Distribution:
            return d.Normal(self.mean(x), self.log_std.exp())

    policy = Policy()
    for _ in range(3):
        given = policy(nnc.ones((4, 3)))
        given.log_prob(given.sample()).sum(-1).mean().backward()
    assert policy.log_std.grad is not None
    assert policy.mean.weight.grad is not None


def test_errors() -> None:
    with pytest.raises(ArgumentError, match="one of probs, logits"):
        d.Categorical()
    with pytest.raises(ArgumentError, match="continuous"):
        d.Bernoulli(0.5).rsample()
    with pytest.raises(ArgumentError, match="kl_divergence: got Normal and Laplace"):
        d.kl_divergence(d.Normal(0.0, 1.0), d.Laplace(0.0, 1.0))
    with pytest.raises(ArgumentError, match="Independent"):
        d.Independent(NORMAL, 2)
