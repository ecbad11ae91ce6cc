"""Work that counts only if every rank did its part."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from nnc.arguments import explained
from nnc.errors import RanksError
from nnc.parallel.communicator import Communicator

R = TypeVar("R")


@explained
def all_or_none(ranks: Communicator, subject: str, work: Callable[[], R]) -> R:
    """What `work` gives, once all ranks have done theirs; where some fail, the others are told which (RanksError)."""
    failure: Exception | None = None
    try:
        result = work()
    except Exception as error:  # whatever it is: the others are told first
        failure = error
    failed = ranks.all_gather(np.array([failure is not None], np.uint8))
    if failure is not None:
        raise failure
    if failed.any():
        got = f"a failure on rank {', '.join(map(str, np.flatnonzero(failed)))}"
        raise RanksError(subject, got=got, need="every rank to finish", fix="look at the error of that rank")
    return result
