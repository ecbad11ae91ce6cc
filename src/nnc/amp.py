"""PyTorch's `torch.amp`: loops that are written for mixed precision.

    scaler = nnc.amp.GradScaler()
    with nnc.amp.autocast("cpu", dtype=nnc.bfloat16):
        loss = criterion(net(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()

`autocast` changes nothing: an operator computes in the element type of its operands, and what is written for reduced
precision is right in f32. `nn.Model(…, precision=nnc.bf16)` trains in bf16. `GradScaler` scales and skips as PyTorch's.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any
from weakref import WeakSet

from nnc.arguments import Count, Positive, checked
from nnc.core.values.device import AnyDevice, device_of
from nnc.core.values.dtype import AnyDType
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, UsageError
from nnc.nn.optimization.step_optimizer import StepOptimizer

__all__ = ["GradScaler", "autocast"]


@checked
class autocast(ContextDecorator):  # noqa: N801  # PyTorch's name
    """A region whose operators PyTorch would run in another precision; here they keep that of their operands.

    >>> with nnc.amp.autocast("cpu", dtype=nnc.bfloat16):
    ...     nnc.ones(2).dtype
    f32
    """

    def __init__(
        self,
        device_type: AnyDevice = "cpu",
        dtype: AnyDType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        device_of(device_type)
        self.device_type, self.dtype, self.enabled = device_type, dtype, enabled

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def _recreate_cm(self) -> autocast:
        return self


@checked
class GradScaler:
    """Multiplies losses by a scale, divides gradients by it, and skips updates whose gradients are not finite.

    The scale is divided in two after such an update (`backoff_factor`), and doubled after `growth_interval` good ones.

    >>> scaler = nnc.amp.GradScaler(init_scale=4.0)
    >>> scaler.scale(nnc.tensor(2.0)).item()
    8.0
    """

    def __init__(
        self,
        device: AnyDevice = "cpu",
        init_scale: Positive = 65536.0,
        growth_factor: Positive = 2.0,
        backoff_factor: Positive = 0.5,
        growth_interval: Count = 2000,
        enabled: bool = True,
    ) -> None:
        device_of(device)
        self._scale, self._growth, self._backoff = float(init_scale), growth_factor, backoff_factor
        self._interval, self._enabled, self._good = growth_interval, enabled, 0
        self._unscaled: WeakSet[StepOptimizer] = WeakSet()
        self._overflowed: set[int] = set()

    def is_enabled(self) -> bool:
        """Whether it scales at all."""
        return self._enabled

    def get_scale(self) -> float:
        """The scale; 1 where it is not enabled."""
        return self._scale if self._enabled else 1.0

    def scale(self, outputs: Any) -> Any:  # noqa: ANN401  # an array, or several in a list or a tuple
        """The loss times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, list | tuple):
            return type(outputs)(self.scale(output) for output in outputs)
        return outputs * self._scale

    def unscale_(self, optimizer: StepOptimizer) -> None:
        """Divide the gradients by the scale, such as before they are clipped; `step` does it otherwise."""
        if not self._enabled:
            return
        if optimizer in self._unscaled:
            fix = "scaler.update() behind each step"
            raise UsageError("unscale_", got="gradients that are unscaled already", need="one call a step", fix=fix)
        finite = True
        for parameter in _parameters(optimizer):
            if parameter.grad is not None:
                parameter.grad = parameter.grad * (1.0 / self._scale)
                finite = finite and bool(parameter.grad.isfinite().all())
        self._unscaled.add(optimizer)
        if not finite:
            self._overflowed.add(id(optimizer))

    def step(self, optimizer: StepOptimizer) -> None:
        """One update of the optimizer, unless a gradient is not finite."""
        if not self._enabled:
            optimizer.step()
            return
        if optimizer not in self._unscaled:
            self.unscale_(optimizer)
        if id(optimizer) not in self._overflowed:
            optimizer.step()

    def update(self, new_scale: float | None = None) -> None:
        """The scale of the next step."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif self._overflowed:
            self._scale, self._good = self._scale * self._backoff, 0
        else:
            self._good += 1
            if self._good == self._interval:
                self._scale, self._good = self._scale * self._growth, 0
        self._unscaled, self._overflowed = WeakSet(), set()

    def state_dict(self) -> dict[str, float]:
        """The scale, and how many good updates there were in a row."""
        return {"scale": self.get_scale(), "_growth_tracker": self._good} if self._enabled else {}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Go on from what `state_dict` gave."""
        if not self._enabled:
            return
        if not {"scale", "_growth_tracker"} <= set(state):
            raise ArgumentError("load_state_dict", got=", ".join(state) or "nothing", need="scale, _growth_tracker")
        self._scale, self._good = float(state["scale"]), int(state["_growth_tracker"])


def _parameters(optimizer: StepOptimizer) -> list[Variable]:
    groups: Any = optimizer.param_groups
    return [parameter for group in groups for parameter in group["params"]]
