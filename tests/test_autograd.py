"""Gradients of what was recorded, and functions with gradients of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import autograd
from nnc.errors import ArgumentError, ShapeError, SymbolError, UsageError


class Cube(autograd.Function):
    """k · x³."""

    @staticmethod
    def forward(ctx: Any, x: Any, k: float) -> Any:
        ctx.save_for_backward(x)
        ctx.k = k
        return x**3 * k

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (x,) = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False)
        return grad_output * 3 * x**2 * ctx.k, None


class Clipped(autograd.Function):
    """max(x, 0) with the gradient of x, and where it was cut, by `setup_context`."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x.clamp(min=0), x < 0

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.count = len(inputs)

    @staticmethod
    def backward(ctx: Any, grad_output: Any, _grad_mask: Any) -> Any:
        assert ctx.count == 1
        return grad_output


def test_gradients_of_what_was_recorded() -> None:
    x, w = nnc.variable([1.0, 2.0]), nnc.variable(3.0)
    y = w * (x**3).sum()
    by_x, by_w = autograd.grad(y, [x, w], create_graph=True)
    assert (by_x.tolist(), by_w.item()) == ([9.0, 36.0], 9.0)
    (second,) = autograd.grad(by_x, x, grad_outputs=nnc.ones_like(by_x))
    assert second.tolist() == [18.0, 36.0]
    assert not second.requires_grad
    assert x.grad is None
    with nnc.no_grad():
        assert autograd.grad((y, y), w, grad_outputs=[None, nnc.tensor(2.0)])[0].item() == 27.0
    assert autograd.grad(w * 2, x, allow_unused=True)[0].tolist() == [0.0, 0.0]


def test_inputs_may_be_any_iterable() -> None:
    values = {"a": nnc.variable(2.0), "b": nnc.variable(3.0)}
    product = values["a"] * values["b"]
    for inputs in (values.values(), iter(values.values()), list(values.values())):
        assert [slope.item() for slope in autograd.grad(product, inputs)] == [3.0, 2.0]


def test_a_gradient_penalty_as_of_wasserstein_gans() -> None:
    weight, x = nnc.variable([[2.0], [0.0]]), nnc.variable([[1.0, 1.0]])
    (slope,) = autograd.grad((x @ weight).sum(), x, create_graph=True)
    ((slope.norm(2, dim=1) - 1) ** 2).mean().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [[2.0], [0.0]]


def test_functions_have_gradients_of_their_own_to_any_order() -> None:
    x = nnc.variable(2.0)
    y = Cube.apply(x, 2.0)
    (slope,) = autograd.grad(y, x, create_graph=True)
    assert (slope.item(), autograd.grad(slope, x)[0].item()) == (24.0, 24.0)
    y.backward()
    assert x.grad is not None
    assert x.grad.item() == 24.0
    assert nnc.hessian(lambda x: Cube.apply(x, 1.0))(nnc.tensor(2.0)).item() == 12.0
    with nnc.no_grad():
        assert Cube.apply(x, 1.0).item() == 8.0
    v = nnc.variable([-1.0, 2.0])
    positive, mask = Clipped.apply(v)
    (positive * 5).sum().backward()
    assert (v.grad.tolist(), mask.tolist()) == ([5.0, 5.0], [True, False])  # type: ignore[union-attr]  # set above


def test_draws_come_again_for_the_gradient() -> None:
    class Noisy(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.noise = nnc.normal(x.shape)
            return x * ctx.noise

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            return grad_output * ctx.noise

    x = nnc.variable(np.ones(4, np.float32))
    y = Noisy.apply(x)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, y.numpy())  # type: ignore[arg-type]  # set above


def test_custom_vjp_takes_trees_and_static_arguments() -> None:
    @nnc.custom_vjp
    def f(parameters: Any, x: Any) -> Any:
        return {"y": (parameters["w"] * x).sum()}

    f.defvjp(lambda p, x: (f.fun(p, x), (p, x)), lambda kept, slope: ({"w": kept[1] * slope["y"] * 10}, None))
    w, x = nnc.ones(2), nnc.tensor([1.0, 3.0])
    slopes = nnc.grad(lambda p: f(p, x)["y"])({"w": w})
    assert slopes["w"].tolist() == [10.0, 30.0]
    power = autograd.custom_vjp(lambda x, n: x**n, nondiff_argnums=(1,))
    power.defvjp(lambda x, n: (x**n, x), lambda n, x, slope: (slope * n * x ** (n - 1),))
    assert nnc.grad(lambda x: power(x, 3))(2.0).item() == 12.0


class Brings(autograd.Function):
    """Its gradient is an array of its own."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, slope: Any) -> Any:
        return nnc.tensor([1.0, 2.0])


@nnc.custom_vjp
def slow_log(x: Any) -> Any:
    return nnc.log(x)


slow_log.defvjp(lambda x: (slow_log(x), x), lambda kept, slope: (slope / nnc.maximum(kept, 0.125),))


@nnc.custom_vjp
def both(a: Any, b: Any) -> Any:
    return a * b, a + b


both.defvjp(lambda a, b: (both(a, b), None), lambda kept, slopes: (slopes[0] * 100 + slopes[1], slopes[0] * 10))


def test_gradients_of_ones_own_are_part_of_programs() -> None:
    x, want = nnc.tensor([0.0625, 2.0]), [8.0, 0.5]

    def total(x: Any) -> Any:
        return slow_log(x).sum()

    def looped(x: Any) -> Any:
        return nnc.scan(lambda carry, row: (carry + slow_log(row), carry), nnc.zeros(()), x)[0]

    for slope in (
        nnc.jit(nnc.grad(total)),
        nnc.grad(nnc.jit(total)),
        nnc.vmap(nnc.grad(slow_log)),
        nnc.jit(nnc.vmap(nnc.grad(slow_log))),
        nnc.grad(lambda x: nnc.vmap(slow_log)(x).sum()),
        nnc.jit(nnc.grad(looped)),
    ):
        assert slope(x).tolist() == want
    hessian = nnc.jit(nnc.hessian(total))(nnc.tensor([0.5, 2.0]))
    assert hessian.tolist() == [[-4.0, 0.0], [0.0, -0.25]]
    pair = nnc.jit(nnc.grad(lambda a, b: both(a, b)[0].sum() + 2 * both(a, b)[1].sum(), argnums=(0, 1)))
    assert [slope.tolist() for slope in pair(nnc.ones(2), nnc.ones(2))] == [[102.0, 102.0], [10.0, 10.0]]
    compiled = nnc.jit(total)
    compiled(x)
    assert "own_gradient" not in str(compiled.program().planned.graph)


def test_what_has_no_meaning_is_refused() -> None:
    x, vector = nnc.variable(2.0), nnc.variable([1.0, 2.0])
    with pytest.raises(UsageError, match="gradient: got f32.2. that it brings along; need what the forward"):
        nnc.grad(nnc.compile(lambda x: Brings.apply(x).sum()))(nnc.ones(2))
    with pytest.raises(ShapeError, match=r"Brings\.apply: got a gradient f32\[2\]; need f32\[3\]"):
        nnc.compile(nnc.grad(lambda x: Brings.apply(x).sum()))(nnc.ones(3))
    with pytest.raises(UsageError, match=r"Fix: nnc\.grad\(f\)\(x\)"):
        nnc.compile(lambda x: autograd.grad(x * 2, x))(nnc.tensor(2.0))
    with pytest.raises(ShapeError, match="need a scalar"):
        autograd.grad(vector * 2, vector)
    with pytest.raises(ShapeError, match=r"got f32\[3\]; need f32\[2\]"):
        autograd.grad(vector * 2, vector, nnc.ones(3))
    with pytest.raises(ArgumentError, match="1 of 2 outputs"):
        autograd.grad([x * 2, x], x, [None])
    with pytest.raises(ArgumentError, match="need variables"):
        autograd.grad(3.0, x)
    with pytest.raises(SymbolError):
        autograd.grad(x * 2, nnc.tensor(1.0))
    with pytest.raises(UsageError, match="no forward"):
        autograd.Function.apply(x)
    with pytest.raises(UsageError, match=r"Fix: f\.defvjp"):
        autograd.custom_vjp(lambda x: x)(x)
    with pytest.raises(ArgumentError, match="need a function"):
        autograd.custom_vjp(3)  # type: ignore[arg-type]  # what is tested

    f = autograd.custom_vjp(lambda x: x * 2)
    with pytest.raises(ArgumentError, match="something to call"):
        f.defvjp(f.fun, 1)  # type: ignore[arg-type]  # as above
    f.defvjp(f.fun, lambda kept, slope: (slope,))
    with pytest.raises(ArgumentError, match="what is kept"):
        nnc.grad(f)(1.0)

    for slopes in ((1.0, 1.0), (), nnc.ones(1)):
        f = autograd.custom_vjp(lambda x: x * 2)
        f.defvjp(lambda x: (x * 2, None), lambda kept, slope, slopes=slopes: slopes)
        for gradient in (nnc.grad(f), nnc.compile(nnc.grad(f))):
            with pytest.raises(ArgumentError, match="need a tuple of 1, one for each argument"):
                gradient(1.0)

    class Short(Cube):
        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            return grad_output

    class Wide(Cube):
        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            return nnc.ones(3), None

    with pytest.raises(ArgumentError, match="one for each of 2 arguments"):
        Short.apply(x, 1.0).backward()
    with pytest.raises(ShapeError, match=r"a gradient f32\[3\]"):
        Wide.apply(x, 1.0).backward()


def test_norms_along_axes() -> None:
    x = nnc.tensor([[3.0, -4.0], [0.0, 0.0]])
    assert x.norm().item() == x.norm("fro").item() == 5.0
    assert x.norm(p=1, dim=1).tolist() == x.norm(1, 1).tolist() == [7.0, 0.0]
    assert x.norm(math.inf, dim=1, keepdim=True).tolist() == [[4.0], [0.0]]
    assert x.norm(-math.inf, dim=0).tolist() == [0.0, 0.0]
    assert x.norm(0, dim=0).tolist() == [1.0, 1.0]
    assert x.norm(3).item() == pytest.approx((27 + 64) ** (1 / 3))
    assert nnc.tensor([3.0 + 4.0j]).norm().item() == 5.0


@pytest.mark.parametrize("order", [1, 2, 3, math.inf])
def test_norms_of_zeros_have_gradients_of_zeros(order: float) -> None:
    for norm in (lambda x: x.norm(order), lambda x: nnc.linalg.norm(x, order)):
        zeros = nnc.zeros(3, requires_grad=True)
        norm(zeros).backward()
        assert zeros.grad is not None
        assert zeros.grad.tolist() == [0.0, 0.0, 0.0]


def test_gradcheck_compares_slopes_and_differences() -> None:
    x, w = (nnc.variable(np.random.default_rng(seed).standard_normal((2, 2))) for seed in (0, 1))
    assert autograd.gradcheck(lambda x, w: (x @ w, nnc.sin(x)), (x, w))
    assert autograd.gradcheck(Cube.apply, (x, 1.0)) is True

    class Wrong(Cube):
        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            return grad_output, None, None

    with pytest.raises(UsageError, match="gradient by input 0 that is up to"):
        autograd.gradcheck(Wrong.apply, (x, 1.0))
    assert not autograd.gradcheck(Wrong.apply, (x, 1.0), raise_exception=False)


def test_numbers_have_no_gradients_by_arrays_of_numpy() -> None:
    with pytest.raises(ArgumentError, match="need variables"):
        autograd.grad(0.5, np.array(0.49))  # type: ignore[arg-type]
