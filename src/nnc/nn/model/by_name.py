"""Optimizers and losses by the names that Keras has for them: `model.compile(optimizer="adam", loss="mse")`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from nnc.errors import ArgumentError, ArityError
from nnc.nn.layers.functional import Functional
from nnc.nn.layers.layer import Layer
from nnc.nn.optimization import losses, optimizers
from nnc.nn.optimization.joint_losses import FunctionLoss, JointLoss, LossFunction
from nnc.nn.optimization.losses import Loss, PointwiseLoss, SoftmaxCrossEntropy, Weighted
from nnc.nn.optimization.optimizer_base import Optimizer

N = TypeVar("N")
# Of each output, of one network for all of them, or by the names of a Functional's outputs.
LossChoice: TypeAlias = str | Loss | JointLoss | LossFunction | Sequence[str | Loss] | Mapping[str, str | Loss]
LossWeights: TypeAlias = Sequence[float] | Mapping[str, float]

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
        **dict.fromkeys(("binary_crossentropy", "binary_cross_entropy"), losses.BinaryCrossEntropy),
        "hinge": losses.Hinge,
        "huber": losses.Huber,
        **dict.fromkeys(("kl_divergence", "kld"), losses.KLDivergence),
        **dict.fromkeys(("log_cosh", "logcosh"), losses.LogCosh),
        **dict.fromkeys(("sparse_categorical_crossentropy", "cross_entropy"), losses.SoftmaxCrossEntropy),
    }
)


def optimizer_of(value: str | Optimizer) -> Optimizer:
    """The optimizer itself, or that of a name with its usual options."""
    return value if isinstance(value, Optimizer) else _made("compile", "optimizer", value, OPTIMIZERS)


def loss_of(subject: str, value: str | Loss) -> Loss:
    """The loss itself, or that of a name."""
    return value if isinstance(value, Loss) else _made(subject, "loss", value, LOSSES)


def losses_of(
    subject: str, layer: Layer, count: int, choice: LossChoice, weights: LossWeights | None
) -> tuple[tuple[Loss, ...], JointLoss | None]:
    """The loss of each of `count` outputs, or the one of all; a single one that is of one output serves each of them.

    No choice is cross entropy of each.
    """
    if isinstance(choice, JointLoss) or (callable(choice) and not isinstance(choice, Loss)):
        if weights is not None:
            raise ArgumentError(subject, got="loss_weights beside one loss of all outputs", need="weights within it")
        return (), choice if isinstance(choice, JointLoss) else FunctionLoss(choice)
    if isinstance(choice, Mapping):
        given = _by_output(subject, "loss", layer, count, choice)
    elif isinstance(choice, str | Loss):
        given = [choice] * count
    else:
        given = list(choice) or [SoftmaxCrossEntropy()] * count
    if len(given) != count:
        raise ArityError(subject, got=f"{len(given)} losses", need=f"{count}, one for each output")
    chosen = tuple(loss_of(subject, loss) for loss in given)
    return (chosen if weights is None else _weighted(subject, layer, chosen, weights)), None


def _weighted(subject: str, layer: Layer, chosen: tuple[Loss, ...], weights: LossWeights) -> tuple[Loss, ...]:
    """Each loss times its weight."""
    if isinstance(weights, Mapping):
        named = dict.fromkeys(_output_names(subject, layer, len(chosen)), 1.0) | dict(weights)
        weights = _by_output(subject, "loss_weights", layer, len(chosen), named)
    if len(weights) != len(chosen):
        raise ArityError(subject, got=f"{len(weights)} loss_weights", need=f"{len(chosen)}, one for each output")
    weighted = list[Loss]()
    for loss, weight in zip(chosen, weights, strict=True):
        if not isinstance(loss, PointwiseLoss):
            got, need = f"loss_weights beside {type(loss).__name__}", "a PointwiseLoss, or a loss that has its weight"
            raise ArgumentError(subject, got=got, need=need)
        weighted.append(loss if weight == 1.0 else Weighted(loss, weight))
    return tuple(weighted)


def _by_output(subject: str, what: str, layer: Layer, count: int, given: Mapping[str, N]) -> list[N]:
    """The values in the order of the outputs."""
    names = _output_names(subject, layer, count)
    if given.keys() != set(names):
        got = f"{what} of {', '.join(map(str, given)) or 'no output'}"
        raise ArgumentError(subject, got=got, need=f"{what} of {', '.join(names)}")
    return [given[name] for name in names]


def _output_names(subject: str, layer: Layer, count: int) -> list[str]:
    """Names of the layers that a Functional's outputs come from; ArgumentError where outputs have none of their own."""
    sources = layer.sources if isinstance(layer, Functional) else ()
    names = [layer.calls[step].name for step, _ in sources if step >= 0] if isinstance(layer, Functional) else []
    if len(set(names)) != count:
        fix = "give a list in the order of the outputs"
        raise ArgumentError(subject, got="a dictionary for outputs without names", need="a name for each", fix=fix)
    return names


def _made(subject: str, what: str, name: str, table: Mapping[str, Callable[[], N]]) -> N:
    make = table.get(name.lower())
    if make is None:
        close = get_close_matches(name.lower(), table, n=1)
        fix = f"did you mean {close[0]!r}?" if close else ""
        raise ArgumentError(subject, got=f"{what}={name!r}", need=f"one of {', '.join(table)}", fix=fix)
    return make()
