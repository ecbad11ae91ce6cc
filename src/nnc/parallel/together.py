"""Work that counts only if every rank did its part, and programs that all ranks run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from nnc.arguments import explained
from nnc.errors import RanksError
from nnc.parallel.communicator import Communicator
from nnc.symbolic.sharing.rank_programs import TEXTS, ProgramText

R = TypeVar("R")
SUBJECT, UNKNOWN = "the program", ProgramText("", "", "")
FIX = "call the same functions on every rank; what differs from rank to rank is an argument, not a number in one"


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


def compare_programs(ranks: Communicator, name: str) -> None:
    """DisagreementError where the ranks have come with programs of other operators.

    So it is for ones of other attributes where their inputs are of the same sizes.
    """
    text = TEXTS.get(name, UNKNOWN)
    ranks.agree(SUBJECT, text.operators or name, fix=FIX)
    if ranks.all_the_same("inputs of a program", text.inputs) and not ranks.any(asked=not text.graph):
        ranks.agree(SUBJECT, text.graph, fix=FIX)
