"""What holds functions of users' is pickled by their names; one without a name is told of, and copied."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle  # type: ignore[import-untyped]  # has no types
import pytest

import nnc
from nnc import keras, nn, optim
from nnc.errors import UsageError
from nnc.nn.optimization.metrics import METRICS, top_k
from nnc.utils.data import DataLoader


def named(value: Any, *_: Any) -> Any:
    return value


def hooked(function: Callable[..., Any]) -> nn.Layer:
    layer = nn.Flatten()
    layer.register_forward_hook(function)
    return layer


def compiled(function: Callable[..., Any]) -> keras.Model:
    model = keras.Sequential([keras.Input((3,))])
    model.compile("sgd", "mse", metrics=[function])
    return model


HOLDERS: dict[str, Callable[[Callable[..., Any]], object]] = {
    "a Lambda": nn.Lambda,
    "a layer in layers": lambda function: nn.Sequential(nn.Lambda(function)),
    "a layer's hooks": hooked,
    "a loss": lambda function: nn.Model(nn.Flatten(), (3,), loss=function),
    "a metric": lambda function: nn.metrics.Metric("x", function, named),
    "a schedule": lambda function: optim.lr_scheduler.LambdaLR(optim.SGD([nn.Parameter([1.0])], 0.1), function),
    "a loader": lambda function: DataLoader([1, 2], collate_fn=function),
    "custom_vjp": nnc.custom_vjp,
    "Keras' Lambda": keras.layers.Lambda,
    "Keras' activation": lambda function: keras.layers.Dense(2, activation=function),
    "Keras' callback": lambda function: keras.callbacks.LambdaCallback(on_epoch_end=function),
    "Keras' metric": compiled,
}


@pytest.mark.parametrize("name", HOLDERS)
def test_a_function_without_a_name_is_told_of_and_copied(name: str) -> None:
    """These were PicklingErrors and AttributeErrors of Python's."""
    holder = HOLDERS[name](lambda value, *_: value)
    with pytest.raises(UsageError, match=r"<lambda>, which no module has.*def it there, or cloudpickle"):
        pickle.dumps([holder])
    assert type(copy.copy(holder)) is type(copy.deepcopy(holder)) is type(holder)
    assert type(pickle.loads(pickle.dumps(HOLDERS[name](named)))) is type(holder)


def test_who_keeps_functions_by_value_keeps_these() -> None:
    layer = pickle.loads(cloudpickle.dumps(nn.Lambda(lambda x: x * 2)))
    assert layer([[3.0]]).item() == 6.0


@nnc.custom_vjp
def doubled(x: Any) -> Any:
    return x * 2


def test_a_decorated_function_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(doubled)) is doubled


def test_metrics_and_schedules_of_ours_are_pickled() -> None:
    """Most were lambdas, or functions inside of functions: a model that had one was not to be pickled."""
    for metric in (*METRICS.values(), top_k(2)):
        assert pickle.loads(pickle.dumps(metric)) is not None
    schedulers = optim.lr_scheduler
    optimizer = optim.SGD([nn.Parameter([1.0])], 0.1)
    parts = [
        schedulers.ConstantLR(optimizer), schedulers.LinearLR(optimizer), schedulers.PolynomialLR(optimizer),
        schedulers.CosineAnnealingLR(optimizer, 5),
    ]  # fmt: skip
    schedule = schedulers.SequentialLR(optimizer, parts, [2, 4, 6])
    rates = list(map(pickle.loads(pickle.dumps(schedule)).rates[0], range(8)))
    assert rates == list(map(schedule.rates[0], range(8)))
