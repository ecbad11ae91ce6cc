"""Updates that broke off: an error or a second Ctrl-C while weights and states were written in place.

Nothing keeps the old values, so nothing can be put back. What may be half renewed is refused until it is set anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.errors import InterruptedUpdateError, NotFiniteError
from nnc.nn.optimization.loss_scale import Scaling
from nnc.symbolic import Compiled
from nnc.symbolic.kept.kept_graphs import CachedGraph

R = TypeVar("R")


@dataclass(frozen=True, slots=True, eq=False)
class PassState:
    """What passes without an update change, as it was before them: so much of it as is not zero.

    Statistics and gradients are copies by path, `summed` the examples in the gradients, `draws` the count that random
    layers draw by, and `scaling` the scale of the loss.
    """

    statistics: Mapping[str, NDArray[np.generic]]
    gradients: Mapping[str, NDArray[np.generic]]
    summed: int
    draws: int
    scaling: Scaling


@dataclass(slots=True, eq=False)
class UpdateMark:
    """The update that is under way in the tensors of some models, or broke off there; 0 between two updates."""

    underway: int = 0
    running: bool = False
    # True where what is under way is an update, which writes weights; a pass without one writes sums and statistics.
    of_weights: bool = True

    def check(self, subject: str) -> None:
        """InterruptedUpdateError where an update broke off; one at work in a sharing model is the caller's to guard."""
        if self.underway and not self.running:
            got = f"tensors that update {self.underway} may have left half renewed: it broke off while it wrote them"
            fix = "load a checkpoint or a state, or accept_interrupted_update() to go on with what there is"
            error = InterruptedUpdateError(subject, got=got, need="tensors of one moment", fix=fix)
            error.step = self.underway
            raise error

    def during(
        self,
        number: int,
        compiled: Compiled | CachedGraph,
        update: Callable[[], R],
        done: Callable[[], object],
        *,
        of_weights: bool = True,
    ) -> R:
        """What the update with this number gives, which runs `compiled`; `done` is called when it is whole."""
        compiled.begun = False
        try:
            self.underway, self.running, self.of_weights = number, True, of_weights
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
