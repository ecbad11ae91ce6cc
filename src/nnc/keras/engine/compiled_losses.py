"""The losses and metrics of `compile`, by output: what a step computes, and what is followed beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc.core.precautions.named_functions import HoldsFunctions
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.tree import flatten
from nnc.errors import ArgumentError, ArityError
from nnc.keras import losses, metrics
from nnc.keras.metric_states import beside, plain


class OutputLosses:
    """A loss for each output, with its weight: the total is their sum."""

    def __init__(self, given: Any, weights: Any, names: Sequence[str]) -> None:
        self.losses = [losses.get(value) for value in spread("loss", given, names)]
        self.weights = [1.0 if value is None else float(value) for value in spread("loss_weights", weights, names)]

    def parts(self, targets: Sequence[Any], outputs: Sequence[Any], weights: Sequence[Any]) -> list[Any]:
        """The loss of each output that has one; `weights` are those of the examples."""
        if len(targets) != len(outputs):
            got, need = f"{len(targets)} targets", f"{len(outputs)}, one for each output"
            raise ArityError("fit", got=got, need=need, origin=caller_origin())
        rows = zip(self.losses, targets, outputs, weights, strict=True)
        return [loss(target, output, weight) for loss, target, output, weight in rows if loss is not None]

    def total(self, parts: Sequence[Any]) -> Any:
        """The sum, by weights."""
        weights = [weight for loss, weight in zip(self.losses, self.weights, strict=True) if loss is not None]
        terms = [part if weight == 1.0 else part * weight for part, weight in zip(parts, weights, strict=True)]
        return sum(terms[1:], start=terms[0])


def aligned(names: Sequence[str], y: Any, outputs: list[Any], weights: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """Targets, outputs and weights of examples, one for each output."""
    targets = [y.get(name) for name in names] if isinstance(y, Mapping) else flatten(y)[0]
    each = [weights] * len(outputs)
    if isinstance(weights, Mapping):
        each = [weights.get(name) for name in names]
    elif isinstance(weights, list | tuple):
        each = list(weights)
    if len(targets) != len(outputs):
        got, need = f"{len(targets)} targets", f"{len(outputs)}, one for each output"
        raise ArgumentError("fit", got=got, need=need, origin=caller_origin())
    return targets, outputs, each


def spread(what: str, given: Any, names: Sequence[str]) -> list[Any]:
    """What is given for one output, in a list or by name, for each output."""
    if isinstance(given, Mapping):
        unknown = sorted(given.keys() - set(names))
        if unknown:
            got = f"{what} of {unknown[0]!r}"
            raise ArgumentError("compile", got=got, need=f"outputs {', '.join(names)}", origin=caller_origin())
        return [given.get(name) for name in names]
    if isinstance(given, list | tuple):
        if len(given) != len(names):
            got, need = f"{len(given)} in {what}", f"{len(names)}, one for each output"
            raise ArityError("compile", got=got, need=need, origin=caller_origin())
        return list(given)
    if given is None or len(names) == 1 or what == "loss":
        return [given] * len(names)
    raise ArityError("compile", got=f"one of {what}", need=f"{len(names)}, one for each output", origin=caller_origin())


class OutputMetrics:
    """The metrics of each output; "accuracy" is chosen by the first outputs and targets."""

    def __init__(self, given: Any, weighted: Any, names: Sequence[str]) -> None:
        self.names = list(names)
        self.rows: list[tuple[int, bool, Any]] = [
            (place, is_weighted, value)
            for is_weighted, values in ((False, given), (True, weighted))
            for place, row in enumerate(by_output(values, names))
            for value in row
        ]
        self.made: list[metrics.Metric | None] = [
            None if isinstance(value, str) and value in metrics.OF_OUTPUTS else metrics.get(value)
            for _, _, value in self.rows
        ]

    def reset(self) -> None:
        """Begin anew."""
        for metric in self.made:
            if metric is not None:
                metric.reset_state()

    def update(
        self, targets: Sequence[Any], outputs: Sequence[Any], weights: Sequence[Any], masks: Sequence[Any]
    ) -> None:
        """One more batch; steps that are masked count for nothing in means."""
        for number, (place, is_weighted, value) in enumerate(self.rows):
            metric = self.made[number]
            if metric is None:
                metric = self.made[number] = metrics.of_outputs(value, targets[place], outputs[place])
            weight, mask = weights[place] if is_weighted else None, masks[place]
            if mask is not None and isinstance(metric, metrics.MeanMetricWrapper):
                weight = mask if weight is None else beside(plain(weight), mask) * mask
            metric.update_state(targets[place], outputs[place], sample_weight=weight)

    def results(self) -> dict[str, float]:
        """The figures by name, those of one of several outputs behind its name."""
        figures: dict[str, float] = {}
        for (place, _, value), metric in zip(self.rows, self.made, strict=True):
            name = metric.name if metric is not None else str(value)
            result: Any = 0.0 if metric is None else metric.result()
            row = result if isinstance(result, dict) else {name: result}
            before = f"{self.names[place]}_" if len(self.names) > 1 else ""
            figures.update((f"{before}{key}", float(plain(number))) for key, number in row.items())
        return figures


def by_output(given: Any, names: Sequence[str]) -> list[list[Any]]:
    """Lists of metrics, one for each output."""
    if given is None:
        return [[] for _ in names]
    if isinstance(given, Mapping):
        return [_row(value) for value in spread("metrics", given, names)]
    if not isinstance(given, list | tuple):
        given = [given]
    if len(names) > 1:
        nested = any(isinstance(value, list | tuple) or value is None for value in given)
        if nested or len(given) == len(names):
            return [_row(value) for value in spread("metrics", list(given), names)]
        return [list(given), *([] for _ in names[1:])]
    return [flatten(list(given))[0]]


def _row(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


class Chosen(HoldsFunctions):
    """What `compile` was told, before outputs are known."""

    pickled_as = "what compile() was given"

    def __init__(self, loss: Any, loss_weights: Any, metrics: Any, weighted_metrics: Any) -> None:
        self.loss, self.loss_weights, self.metrics, self.weighted = loss, loss_weights, metrics, weighted_metrics

    def of(self, names: Sequence[str]) -> tuple[OutputLosses, OutputMetrics]:
        """Losses and metrics of outputs of these names."""
        return OutputLosses(self.loss, self.loss_weights, names), OutputMetrics(self.metrics, self.weighted, names)


class Means:
    """Means over examples, by name."""

    def __init__(self) -> None:
        self.sums: dict[str, NDArray[np.float64]] = {}

    def add(self, name: str, value: Any, count: int) -> None:
        """A mean over so many examples."""
        row = np.array([float(value) * count, count])
        self.sums[name] = self.sums.get(name, np.zeros(2)) + row

    def results(self) -> dict[str, float]:
        """The means."""
        return {name: float(total / count) for name, (total, count) in self.sums.items()}


def as_numbers(logs: Mapping[str, Any]) -> dict[str, float]:
    """Figures as Python's numbers."""
    return {name: float(plain(value)) for name, value in logs.items()}
