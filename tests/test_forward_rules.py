"""Functions whose derivatives are said as changes along tangents, or as MLX says them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import nnc
from nnc.errors import ArgumentError, UsageError


@nnc.custom_jvp
def log1pexp(x: Any) -> Any:
    return nnc.log(1.0 + nnc.exp(x))


@log1pexp.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return log1pexp(primals[0]), (1 - 1 / (1 + nnc.exp(primals[0]))) * tangents[0]


def test_the_rule_is_the_derivative_in_all_worlds() -> None:
    slope = nnc.grad(log1pexp)
    assert slope(100.0).item() == nnc.jit(slope)(100.0).item() == 1.0
    assert nnc.jvp(log1pexp, (100.0,), (2.0,))[1].item() == 2.0
    for mapped in (nnc.vmap(slope), nnc.jit(nnc.vmap(slope))):
        np.testing.assert_allclose(mapped(nnc.tensor([1.0, 100.0])).numpy(), [0.7310586, 1.0], rtol=1e-6)
    assert nnc.grad(slope)(1.0).item() == pytest.approx(0.19661194, rel=1e-5)


def test_static_arguments_and_a_rule_for_each_argument() -> None:
    @partial(nnc.custom_jvp, nondiff_argnums=(0,))
    def apply(f: Any, x: Any) -> Any:
        return f(x)

    apply.defjvp(lambda f, primals, tangents: (f(primals[0]), 2.0 * tangents[0]))
    assert nnc.grad(apply, 1)(lambda x: x**3, 3.0).item() == 2.0
    product = nnc.custom_jvp(lambda x, y: x * y)
    product.defjvps(lambda t, value, x, y: 10 * t * y, None)
    assert [slope.item() for slope in nnc.grad(product, (0, 1))(2.0, 3.0)] == [30.0, 0.0]
    with pytest.raises(UsageError, match="defjvp"):
        nnc.custom_jvp(nnc.exp)(1.0)
    wrong = nnc.custom_jvp(lambda x: x)
    wrong.defjvp(lambda primals, tangents: tangents[0])
    with pytest.raises(ArgumentError, match="tangent"):
        nnc.grad(wrong)(1.0)


def test_mlx_s_custom_function() -> None:
    square = nnc.custom_function(lambda x: x * x)
    assert nnc.grad(square)(3.0).item() == 6.0
    square.vjp(lambda primals, cotangent, output: 10 * primals * cotangent)
    assert nnc.grad(square)(3.0).item() == 30.0
    product = nnc.custom_function(lambda x, y: x * y)
    product.jvp(lambda primals, tangents: primals[1] * tangents[0] + 5 * tangents[1])
    assert [slope.item() for slope in nnc.grad(product, (0, 1))(2.0, 3.0)] == [3.0, 5.0]


def test_products_with_a_jacobian_by_lists() -> None:
    values, slopes = nnc.vjp(lambda x, y, z: (x * y, z), [nnc.ones(2)] * 3, [nnc.ones(2), nnc.zeros(2)])
    assert [value.tolist() for value in values] == [[1.0, 1.0], [1.0, 1.0]]
    assert [slope.tolist() for slope in slopes] == [[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]
    value, pullback = nnc.vjp(lambda x, y: x[0] * y[0], [nnc.ones(2)], [nnc.ones(2)])
    assert value.tolist() == pullback(nnc.ones(2))[0][0].tolist() == [1.0, 1.0]
