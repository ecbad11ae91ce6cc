"""Optimizers and losses by the names that Keras has for them: `model.compile(optimizer="adam", loss="mse")`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import TypeVar

from nnc.errors import ArgumentError
from nnc.nn.optimization import losses, optimizers
from nnc.nn.optimization.losses import Loss
from nnc.nn.optimization.optimizers import Optimizer

N = TypeVar("N")

# With the defaults of Keras where ours are others: its `sgd` has no momentum.
OPTIMIZERS: Mapping[str, Callable[[], Optimizer]] = MappingProxyType(
    {
        "adadelta": optimizers.Adadelta,
        "adafactor": optimizers.Adafactor,
        "adagrad": optimizers.Adagrad,
        "adam": optimizers.Adam,
        "adamax": optimizers.Adamax,
        "adamw": optimizers.AdamW,
        "lamb": optimizers.Lamb,
        "lion": optimizers.Lion,
        "muon": optimizers.Muon,
        "rmsprop": optimizers.RMSProp,
        "sgd": lambda: optimizers.SGD(momentum=0.0),
    }
)
# Of logits where Keras has probabilities: a network ends without softmax or sigmoid, as in PyTorch.
LOSSES: Mapping[str, Callable[[], Loss]] = MappingProxyType(
    {
        **dict.fromkeys(("mse", "mean_squared_error"), losses.MeanSquaredError),
        **dict.fromkeys(("mae", "mean_absolute_error"), losses.MeanAbsoluteError),
        "binary_crossentropy": losses.BinaryCrossEntropy,
        "hinge": losses.Hinge,
        "huber": losses.Huber,
        **dict.fromkeys(("kl_divergence", "kld"), losses.KLDivergence),
        **dict.fromkeys(("log_cosh", "logcosh"), losses.LogCosh),
        "sparse_categorical_crossentropy": losses.SoftmaxCrossEntropy,
    }
)


def optimizer_of(value: str | Optimizer) -> Optimizer:
    """The optimizer itself, or that of a name with its usual options."""
    return value if isinstance(value, Optimizer) else _made("optimizer", value, OPTIMIZERS)


def loss_of(value: str | Loss) -> Loss:
    """The loss itself, or that of a name."""
    return value if isinstance(value, Loss) else _made("loss", value, LOSSES)


def _made(what: str, name: str, table: Mapping[str, Callable[[], N]]) -> N:
    make = table.get(name.lower())
    if make is None:
        close = get_close_matches(name.lower(), table, n=1)
        fix = f"did you mean {close[0]!r}?" if close else ""
        raise ArgumentError("compile", got=f"{what}={name!r}", need=f"one of {', '.join(table)}", fix=fix)
    return make()
