"""Modules as functions of their parameters, under derivatives, mapping and compilation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc
from nnc import func, nn
from nnc.errors import ArgumentError, ShapeError

X = nnc.tensor(np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(4, 3))


def net() -> Any:
    nnc.seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def test_gradients_by_parameters_are_those_of_the_module() -> None:
    model = net()
    params = dict(model.named_parameters())
    by_function = func.grad(lambda p: func.functional_call(model, p, (X,)).sum())(params)
    by_module = nnc.grad(model, lambda: model(X).sum())()
    for path, slope in by_module.items():
        np.testing.assert_allclose(by_function[path], slope, rtol=1e-5)
    compiled = nnc.compile(lambda p, x: func.functional_call(model, p, (x,)))
    twice = {path: value.detach() * 2.0 for path, value in params.items()}
    np.testing.assert_allclose(compiled(twice, X), func.functional_call(model, twice, (X,)), rtol=1e-5)


def test_gradients_of_each_example() -> None:
    model = net()
    params = dict(model.named_parameters())
    each = func.vmap(func.grad(lambda p, x: func.functional_call(model, p, (x,)).sum()), in_dims=(None, 0))(params, X)
    total = func.grad(lambda p: func.functional_call(model, p, (X,)).sum())(params)
    for path, slopes in each.items():
        assert slopes.shape == (4, *total[path].shape)
        np.testing.assert_allclose(slopes.sum(0), total[path], rtol=1e-4, atol=1e-6)


def test_several_models_at_once() -> None:
    models = [net(), net()]
    for parameter in models[1].parameters():
        parameter.data.mul_(0.5)
    params, buffers = func.stack_module_state(models)
    outputs = nnc.vmap(lambda p, b, x: func.functional_call(models[0], (p, b), (x,)), (0, 0, None))(params, buffers, X)
    for place, model in enumerate(models):
        np.testing.assert_allclose(outputs[place], model(X), rtol=1e-5)
    assert func.grad_and_value(lambda x: x * x)(nnc.tensor(3.0))[0].item() == 6.0


def test_own_tensors_are_there_again() -> None:
    model = net()
    before = model(X).tolist()
    for _ in range(3):
        func.functional_call(model, {path: p * 0.0 for path, p in model.named_parameters()}, (X,))
    with pytest.raises(ShapeError):
        func.functional_call(model, {}, (nnc.ones((2, 5)),))
    assert model(X).tolist() == before
    with pytest.raises(ArgumentError, match="got a text of 3|got 'out'|got 'abc'|need 0.weight"):
        func.functional_call(model, {"abc": X}, (X,))
    with pytest.raises(ShapeError, match=r"w\.T: nn.Linear"):
        func.functional_call(model, {"0.weight": nnc.ones((3, 4))}, (X,))
    with pytest.raises(ArgumentError, match="models of other tensors"):
        func.stack_module_state([net(), nn.Linear(2, 2)])
