"""What a generation keeps of earlier tokens, and the programs that are bound to it: handed on to the next one."""

from __future__ import annotations

from dataclasses import field

from nnc.classes import dataclass
from nnc.core.values.tensor import Tensor
from nnc.nn.steps.keys import CacheType, StepKey
from nnc.nn.steps.model_step import ModelStep, PlannedStep
from nnc.nn.steps.padding import MOST_STEPS


@dataclass(slots=True, eq=False)
class GenerationCaches:
    """Tensors by path for `batch` rows with room for `capacity` tokens, zeros at first, and steps bound to them.

    Keys and values are `held` in this type; `reach` is behind the last place that was written, and `newest` behind the
    last one of the text at hand. A tensor of fewer columns has the latest tokens alone, of which no more than
    `MOST_STEPS` may be forgotten.
    """

    batch: int
    capacity: int
    held: CacheType = "f32"
    tensors: dict[str, Tensor] = field(default_factory=dict)
    bound: dict[StepKey, tuple[PlannedStep, ModelStep]] = field(default_factory=dict)
    reach: int = 0
    newest: int = 0

    def writes(self, stop: int) -> None:
        """Note, before that is done, that places up to here are written."""
        self.reach, self.newest = max(self.reach, stop), max(self.newest, stop)

    def hold(self, count: int) -> bool:
        """Whether a text may go on behind its first `count` tokens: all that is seen from there is here."""
        least = min((tensor.shape[1] for tensor in self.tensors.values()), default=self.capacity)
        return least == self.capacity or self.newest <= least or self.newest - count <= MOST_STEPS

    def clear(self) -> None:
        """Zeros again: nothing of one text reaches another, not even what is no number."""
        for tensor in self.tensors.values():
            if tensor.spec.device.is_host:
                tensor.numpy()[:, : self.reach] = 0
            else:
                tensor.clear()
        self.reach = self.newest = 0
