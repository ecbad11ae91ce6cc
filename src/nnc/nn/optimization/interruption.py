"""Updates that broke off: an error or a second Ctrl-C while weights and states were written in place.

Nothing keeps the old values, so nothing can be put back. What may be half renewed is refused until it is set anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from nnc.errors import InterruptedUpdateError, NotFiniteError
from nnc.symbolic import Compiled

R = TypeVar("R")


@dataclass(slots=True, eq=False)
class UpdateMark:
    """The update that is under way in the tensors of some models, or broke off there; 0 between two updates."""

    underway: int = 0
    running: bool = False

    def check(self, subject: str) -> None:
        """InterruptedUpdateError where an update broke off; one at work in a sharing model is the caller's to guard."""
        if self.underway and not self.running:
            got = f"tensors that update {self.underway} may have left half renewed: it broke off while it wrote them"
            fix = "load a checkpoint or a state, or accept_interrupted_update() to go on with what there is"
            error = InterruptedUpdateError(subject, got=got, need="tensors of one moment", fix=fix)
            error.step = self.underway
            raise error

    def during(self, number: int, compiled: Compiled, update: Callable[[], R], done: Callable[[], object]) -> R:
        """What the update with this number gives, which runs `compiled`; `done` is called when it is whole."""
        compiled.begun = False
        try:
            self.underway, self.running = number, True
            try:
                result = update()
            except BaseException as error:
                if isinstance(error, NotFiniteError) or not compiled.begun:
                    self.underway = 0
                raise
            try:
                done()
            except Exception:
                self.underway = 0
                raise
            self.underway = 0
            return result
        finally:
            self.running = False
