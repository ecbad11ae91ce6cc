"""Training: epochs over batches, with a say after each batch and a clean stop at any of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from numpy.typing import ArrayLike

from nnc.arguments import Size, checked
from nnc.nn.data import Batches


class Trainable(Protocol):
    """What training needs of a model."""

    def train_on_batch(
        self, inputs: ArrayLike, target: ArrayLike, *, done: Callable[[], object] = ...
    ) -> tuple[float, float]:
        """One update, and a call of `done`, both or neither of them; the batch's mean loss and summed score."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """After one update: where training stands and how this epoch has gone so far (since training was taken up).

    `epoch` is counted from the first that the batches ever gave, and `epochs` is how many there will be at the end.
    """

    epoch: int
    epochs: int
    batch: int
    batches: int
    examples: int
    loss: float
    score: float
    epoch_done: bool


Listener = Callable[[Progress], None]


@checked
def fit(
    model: Trainable,
    batches: Batches,
    epochs: Size = 1,
    *,
    listener: Listener | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Train for `epochs` more epochs from wherever `batches` stands; True when all were done.

    An epoch that was begun counts as one: after a stop, the same call trains what was left. Called again after the end
    it trains as much again, on the orders of the next epochs.

    `stop` is asked after each update; when it says so, training ends there and can be taken up again from
    `batches.state()` with the same result as without the stop. The same holds after Ctrl-C, and after an error of
    `listener` or `stop`: the position moves on with the update.
    """
    last = batches.state().epoch + epochs
    while batches.state().epoch < last:
        epoch, loss, score, examples = batches.state().epoch, 0.0, 0.0, 0
        while batches.state().epoch == epoch:
            batch = batches.next_batch()
            batch_loss, batch_score = model.train_on_batch(batch.inputs, batch.labels, done=batches.advance)
            loss += batch_loss * len(batch)
            score += batch_score
            examples += len(batch)
            if listener is not None:
                done = batches.state().epoch > epoch
                count = len(batches) if done else batches.state().position // batches.size
                listener(Progress(epoch, last, count, len(batches), examples, loss / examples, score / examples, done))
            if stop():
                return batches.state().epoch >= last
    return True
