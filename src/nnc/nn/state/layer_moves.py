"""Layers whose tensors go to another device or element type, in PyTorch's words."""

from __future__ import annotations

from typing import Any, Self

from nnc.arguments import checked
from nnc.core.precautions.origin import caller_origin
from nnc.core.running.device_context import present
from nnc.core.values.device import AnyDevice, Device, device_of
from nnc.core.values.dtype import BF16, F16, F32, F64, DType
from nnc.errors import ArgumentError
from nnc.nn.state.layer_walks import LayerWalks


class LayerMoves(LayerWalks):
    """What moves and converts the tensors of a layer; they stay the same variables."""

    __slots__ = ()

    def modules(self) -> Any:  # noqa: ANN401  # layers, with what they own
        """This layer and those below it."""
        raise NotImplementedError

    def make_sized_tensors(self) -> None:
        """Make those whose sizes are known."""
        raise NotImplementedError

    @checked
    def to(self, device: AnyDevice | DType | None = None, dtype: DType | None = None) -> Self:
        """This layer with its tensors on a device, and its numbers in a floating-point type, as far as either is given.

        Gradients and an optimizer's states go to the device too; where the type becomes another, gradients are
        forgotten and states begin anew. Tensors that the first call is yet to make will be as its input is.

        >>> nn.Linear(2, 2).to(nnc.float64).weight.dtype
        f64
        """
        if isinstance(device, DType):
            device, dtype = None, device
        if dtype is not None and not dtype.is_float:
            raise ArgumentError("to", got=str(dtype), need="a floating-point type", origin=caller_origin())
        target = None if device is None else present(device_of(device))
        self.make_sized_tensors()
        owned = [layer.own for layer in self.modules()]
        if target is not None:
            for own in owned:
                _move(own, target)
        converted = [dtype is not None and _convert(own, dtype) for own in owned]
        for own in owned if any(converted) else ():
            own.optimizer_state.clear()
            own.optimizer_kinds.clear()
        return self

    def half(self) -> Self:
        """Numbers of 16 bits (f16)."""
        return self.to(F16)

    def bfloat16(self) -> Self:
        """Numbers in bf16."""
        return self.to(BF16)

    def double(self) -> Self:
        """Numbers of 64 bits."""
        return self.to(F64)

    def float(self) -> Self:
        """Numbers of 32 bits."""
        return self.to(F32)


def _move(own: Any, target: Device) -> None:  # noqa: ANN401  # tensors of a layer
    # The count of updates stays on the host, which asks for it at each of them.
    states = [state for name, state in own.optimizer_state.items() if name != "step"]
    for variable in (*own.variables.values(), *own.statistics.values(), *states):
        if variable.device != target:
            gradient = variable.grad
            variable.become(variable.detach().to(target))
            variable.grad = None if gradient is None else gradient.to(target)


def _convert(own: Any, dtype: DType) -> bool:  # noqa: ANN401  # tensors of a layer
    """Whether some were of another floating-point type."""
    held = (*own.variables.values(), *own.statistics.values())
    others = [variable for variable in held if variable.dtype.is_float and variable.dtype is not dtype]
    for variable in others:
        variable.become(variable.detach().astype(dtype))
        variable.grad = None
    return bool(others)
