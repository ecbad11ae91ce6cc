"""What an evaluation of a model gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from nnc.classes import dataclass


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Mean loss and mean score (accuracy, for classes) over `count` examples."""

    loss: float
    score: float
    count: int
    metrics: Mapping[str, float] = field(default_factory=dict)

    def __iter__(self) -> Iterator[float]:
        """`loss, score = model.evaluate(x, y)`, and behind them the metrics."""
        return iter((self.loss, self.score, *self.metrics.values()))

    def of_validation(self) -> dict[str, float]:
        """The same as `fit` names it in its rows."""
        metrics = {f"val_{name}": value for name, value in self.metrics.items()}
        return {"val_loss": self.loss, "val_score": self.score} | metrics
