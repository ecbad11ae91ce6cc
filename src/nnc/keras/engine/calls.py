"""What calls of layers are told by what runs them: whether they are those of training, and where losses are added."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# Whether the calls that are running are those of training; None outside of all.
TRAINING: ContextVar[bool | None] = ContextVar("training", default=None)
# What layers add to the loss while they are called.
LOSSES: ContextVar[list[Any] | None] = ContextVar("losses", default=None)


@contextmanager
def called_for(training: bool | None) -> Iterator[None]:
    """Inside, layers are called for training or for use; None changes nothing."""
    token = TRAINING.set(TRAINING.get() if training is None else training)
    try:
        yield
    finally:
        TRAINING.reset(token)


@contextmanager
def collected_losses() -> Iterator[list[Any]]:
    """What layers add to the loss inside."""
    losses: list[Any] = []
    token = LOSSES.set(losses)
    try:
        yield losses
    finally:
        LOSSES.reset(token)
