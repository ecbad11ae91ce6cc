"""Special functions and distributions against SciPy's, in values, gradients and element types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from nnc.scipy import stats
from nnc.scipy.special import gammaln
from nnc.scipy.stats import norm

import nnc
from nnc.errors import ArgumentError, DTypeError, ShapeError

sp, st = pytest.importorskip("scipy.special"), pytest.importorskip("scipy.stats")
X = np.concatenate([np.linspace(-6.3, 12, 60), [0.0, -1.0, -3.0, 1e-8, 100.0, 1e10, 1e300, np.inf, np.nan, 1.0, 2.0]])
FAR = np.linspace(-60.0, 10.0, 71)
SHARES = np.concatenate([np.linspace(0.0, 1.0, 41), [1e-300, 1e-20, 1 - 1e-10, -0.1, 1.1, np.nan]])
A, B = np.linspace(0.1, 9.0, 30), np.linspace(7.0, 0.2, 30)
SIGNS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [-1.0, 1.0], [1.0, -1.0]]).T
DRAW = np.random.default_rng(0).standard_normal((3, 4))
CLOSE = {"rtol": 1e-11, "atol": 1e-12}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_of_one_operand() -> None:
    for name in ("gammaln", "digamma", "gamma", "entr", "ndtr", "log_ndtr"):
        ours = getattr(nnc.special, name)
        np.testing.assert_allclose(ours(X).numpy(), getattr(sp, name)(X), err_msg=name, **CLOSE)
        assert ours(X.astype(np.float32)).dtype is nnc.f32
        assert ours([1, 2]).dtype is nnc.f32
    np.testing.assert_allclose(nnc.special.log_ndtr(FAR).numpy(), sp.log_ndtr(FAR), **CLOSE)
    np.testing.assert_allclose(nnc.special.ndtri(SHARES).numpy(), sp.ndtri(SHARES), **CLOSE)
    np.testing.assert_allclose(nnc.special.factorial(np.arange(-2.0, 10)).numpy(), sp.factorial(np.arange(-2.0, 10)))
    assert nnc.lgamma is nnc.special.gammaln is gammaln
    assert nnc.special.psi is nnc.digamma


def test_functions_of_two_operands() -> None:
    for name in ("beta", "betaln", "rel_entr", "kl_div", "xlog1py", "xlogy"):
        np.testing.assert_allclose(getattr(nnc.special, name)(A, B).numpy(), getattr(sp, name)(A, B), **CLOSE)
    for name in ("rel_entr", "kl_div"):
        np.testing.assert_array_equal(getattr(nnc.special, name)(*SIGNS).numpy(), getattr(sp, name)(*SIGNS))
    np.testing.assert_allclose(nnc.special.zeta(A + 1.01, B).numpy(), sp.zeta(A + 1.01, B), **CLOSE)
    for n in (0, 1, 5, 20):
        np.testing.assert_allclose(nnc.special.polygamma(n, A).numpy(), sp.polygamma(n, A), **CLOSE)
    np.testing.assert_allclose(nnc.special.multigammaln(A + 3, 4).numpy(), [sp.multigammaln(a, 4) for a in A + 3])
    assert nnc.special.beta(nnc.tensor([1.0], dtype="float64"), 2).dtype is nnc.f64


def test_sums_of_exponentials() -> None:
    ours = nnc.special.logsumexp(DRAW, axis=1, b=np.abs(DRAW)).numpy()
    np.testing.assert_allclose(ours, sp.logsumexp(DRAW, axis=1, b=np.abs(DRAW)))
    np.testing.assert_allclose(nnc.special.logsumexp(DRAW, keepdims=True).numpy(), sp.logsumexp(DRAW, keepdims=True))
    np.testing.assert_allclose(nnc.special.softmax(DRAW).numpy(), sp.softmax(DRAW))
    np.testing.assert_allclose(nnc.special.log_softmax(DRAW, axis=0).numpy(), sp.log_softmax(DRAW, axis=0))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_densities_and_shares() -> None:
    for name in ("norm", "expon", "laplace", "uniform"):
        for function in ("logpdf", "pdf", "cdf"):
            ours = getattr(getattr(stats, name), function)(DRAW, 0.1, 1.5)
            np.testing.assert_allclose(ours.numpy(), getattr(getattr(st, name), function)(DRAW, 0.1, 1.5), **CLOSE)
    for function in ("logcdf", "sf", "logsf"):
        ours = getattr(norm, function)(DRAW, 0.1, 1.5)
        np.testing.assert_allclose(ours.numpy(), getattr(st.norm, function)(DRAW, 0.1, 1.5), **CLOSE)
    for name, shapes in (("gamma", (2.5,)), ("beta", (2.5, 1.5)), ("t", (2.5,))):
        ours = getattr(stats, name).logpdf(DRAW, *shapes, 0.1, 1.5)
        np.testing.assert_allclose(ours.numpy(), getattr(st, name).logpdf(DRAW, *shapes, 0.1, 1.5), **CLOSE)
    shares = np.linspace(0.01, 0.99, 9)
    np.testing.assert_allclose(norm.ppf(shares, 1.0, 2.0).numpy(), st.norm.ppf(shares, 1.0, 2.0))
    np.testing.assert_allclose(norm.isf(shares, 1.0, 2.0).numpy(), st.norm.isf(shares, 1.0, 2.0))
    counts = np.array([0, 1, 2, -1, 3])
    np.testing.assert_allclose(stats.poisson.logpmf(counts, 2.5).numpy(), st.poisson.logpmf(counts, 2.5), rtol=1e-6)
    np.testing.assert_allclose(stats.bernoulli.pmf(counts, 0.3).numpy(), st.bernoulli.pmf(counts, 0.3), rtol=1e-6)
    spread = DRAW.T @ DRAW + np.eye(4)
    ours = stats.multivariate_normal.logpdf(DRAW, DRAW[0], spread)
    np.testing.assert_allclose(ours.numpy(), st.multivariate_normal.logpdf(DRAW, DRAW[0], spread))


def test_gradients_are_the_slopes() -> None:
    def slopes(function: Callable[..., Any], x: np.ndarray) -> np.ndarray:
        return nnc.grad(lambda y: function(y).sum())(nnc.tensor(x)).numpy()

    places = np.linspace(-3.3, 9.0, 20)
    np.testing.assert_allclose(slopes(nnc.lgamma, places), sp.digamma(places), **CLOSE)
    np.testing.assert_allclose(slopes(nnc.digamma, A), sp.polygamma(1, A), **CLOSE)
    shares = np.linspace(0.01, 0.99, 9)
    np.testing.assert_allclose(slopes(nnc.special.ndtri, shares), 1 / st.norm.pdf(sp.ndtri(shares)))
    away = np.exp(st.norm.logpdf(FAR) - sp.log_ndtr(FAR))
    np.testing.assert_allclose(slopes(nnc.special.log_ndtr, FAR), away, rtol=1e-9)
    np.testing.assert_allclose(nnc.jit(nnc.special.ndtr)(FAR).numpy(), sp.ndtr(FAR), **CLOSE)
    assert nnc.grad(lambda x: stats.expon.logpdf(x).sum())(nnc.tensor([-1.0, 1.0])).tolist() == [0.0, -1.0]


def test_wrong_operands_are_refused() -> None:
    with pytest.raises(DTypeError, match="gammaln.*real numbers"):
        nnc.lgamma(1j)
    with pytest.raises(ArgumentError, match="polygamma"):
        nnc.special.polygamma(-1, 1.0)
    with pytest.raises(ShapeError, match=r"covariance \[3, 3\]"):
        stats.multivariate_normal.logpdf([0.0] * 3, 0.0, np.eye(2))
