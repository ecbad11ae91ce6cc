"""A search for the learning rate: the loss while the rate rises from update to update (Smith 2017)."""

from __future__ import annotations

import copy
import math

from nnc.arguments import Count, Positive, checked
from nnc.classes import dataclass
from nnc.errors import ArgumentError, DataError
from nnc.nn.data import BatchSource
from nnc.nn.model.model import Model
from nnc.nn.optimization.schedules import Exponential
from nnc.nn.steps.model_step import Values
from nnc.nn.training.sources import Data
from nnc.nn.training.training import Callback, Progress, Run

__all__ = ["find_rate", "RateSweep"]

# The loss is followed as loss' = 0.95 · loss' + 0.05 · batch, free of its start at 0.
SMOOTHING = 0.95
# Above this multiple of its least, the loss has diverged.
DIVERGED = 4.0


@dataclass(frozen=True, slots=True)
class RateSweep:
    """The smoothed loss at each rate; `best` is a tenth of the rate of the least, where it still falls surely."""

    rates: tuple[float, ...]
    losses: tuple[float, ...]

    @property
    def best(self) -> float:
        """The rate to begin with."""
        return self.rates[self.losses.index(min(self.losses))] / 10.0


class _Sweep(Callback):
    def __init__(self, schedule: Exponential, steps: int) -> None:
        self.schedule, self.steps = schedule, steps
        self.rates: list[float] = []
        self.losses: list[float] = []
        self._mean, self._before = 0.0, (0, 0.0)

    def on_batch_end(self, run: Run, progress: Progress) -> None:
        count, total = self._before if progress.batch > 1 else (0, 0.0)
        loss = (progress.loss * progress.examples - total) / max(progress.examples - count, 1)
        self._before = (progress.examples, progress.loss * progress.examples)
        step = len(self.rates) + 1
        self._mean = SMOOTHING * self._mean + (1.0 - SMOOTHING) * loss
        smooth = self._mean / (1.0 - SMOOTHING**step)
        if not math.isfinite(smooth) or (self.losses and smooth > DIVERGED * min(self.losses)):
            run.stop("the loss diverged")
            return
        self.rates.append(self.schedule.rate(step))
        self.losses.append(smooth)
        if step >= self.steps:
            run.stop("all rates were tried")


@checked
def find_rate(
    model: Model,
    data: Data,
    targets: Values | None = None,
    *,
    low: Positive = 1e-6,
    high: Positive = 1.0,
    steps: Count = 100,
    batch_size: Count | None = None,
) -> RateSweep:
    """Train a copy of the model with rates from `low` to `high`; neither the model nor batches or a frame are moved."""
    # NumPy would compare in the narrower type of its own numbers.
    low, high = float(low), float(high)
    if low >= high:
        raise ArgumentError("find_rate", got=f"low={low:g}, high={high:g}", need="low < high")
    if isinstance(data, BatchSource):
        data = copy.copy(data)
    trial = copy.deepcopy(model)
    schedule = Exponential(low, steps, high)
    trial.optimizer = trial.optimizer.at_rate(schedule)
    sweep = _Sweep(schedule, steps)
    trial.fit(data, targets, epochs=steps, batch_size=batch_size, callbacks=[sweep])
    if not sweep.rates:
        raise DataError("find_rate", got="a loss that is not finite at the lowest rate", need="a finite loss")
    return RateSweep(tuple(sweep.rates), tuple(sweep.losses))
