"""Training: epochs over batches, with a say after each batch and a clean stop at any of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from numpy.typing import ArrayLike

from nnc.errors import AttributeValueError
from nnc.nn.data import Batches


class Trainable(Protocol):
    """What training needs of a model."""

    def train_on_batch(self, inputs: ArrayLike, target: ArrayLike) -> tuple[float, float]:
        """One update; the batch's mean loss and summed score."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """After one update: where training stands and how this epoch has gone so far (since training was taken up)."""

    epoch: int
    epochs: int
    batch: int
    batches: int
    examples: int
    loss: float
    score: float
    epoch_done: bool


Listener = Callable[[Progress], None]


def fit(
    model: Trainable,
    batches: Batches,
    epochs: int,
    *,
    listener: Listener | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Train until `epochs` epochs are done, from wherever `batches` stands; True when all were.

    `stop` is asked after each update; when it says so, training ends there and can be taken up again from
    `batches.state()` with the same result as without the stop.
    """
    if epochs < 0:
        raise AttributeValueError("fit", got=f"epochs={epochs}", need="epochs ≥ 0")
    while batches.state().epoch < epochs:
        epoch, loss, score, examples = batches.state().epoch, 0.0, 0.0, 0
        for batch in batches:
            batch_loss, batch_score = model.train_on_batch(batch.inputs, batch.labels)
            loss += batch_loss * len(batch)
            score += batch_score
            examples += len(batch)
            if listener is not None:
                done = batches.state().epoch > epoch
                count = len(batches) if done else batches.state().position // batches.size
                listener(
                    Progress(epoch, epochs, count, len(batches), examples, loss / examples, score / examples, done)
                )
            if stop():
                return batches.state().epoch >= epochs
    return True
