"""Frames: which module's `forward` runs in this thread, and where its layers and parameters come from.

In a model the scope gives symbols, and `forward` sees traced values over them, which have all that arrays have; outside
of models it sees eager values, or those of the function that is being compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from nnc.classes import dataclass
from nnc.core.values.device import CPU
from nnc.core.values.tensor import Tensor
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.state import current
from nnc.dynamic.traced import FunctionTrace, TracedValue
from nnc.dynamic.variable import Variable
from nnc.errors import UsageError
from nnc.nn.state.layer_state import LayerState, dotted
from nnc.nn.state.nested_outputs import hung_together
from nnc.nn.state.own_scope import Content, CopyOf, operand_of
from nnc.nn.state.scope import Scope
from nnc.symbolic import Symbol


class ModuleTrace(FunctionTrace):
    """What a `forward` does, in the graph of the model that it is a part of."""

    def __init__(self, first: Symbol, scope: Scope[Any]) -> None:
        super().__init__("module")
        self.graph = self.current = first.graph
        self._scope = scope
        self._constants = 0

    def constant(self, tensor: Tensor) -> Symbol:
        """An array that the function brings along stands among the statistics of the model."""
        self._constants += 1
        name, copy = f"constant{self._constants}", Content(np.array(tensor.to(CPU).numpy()))
        return self._scope.statistic(name, tensor.shape, tensor.dtype, copy)  # type: ignore[no-any-return]  # of symbols

    def draw(self) -> tuple[TracedValue, int]:
        """As layers draw; in training alone."""
        stream = self._scope.stream()
        if stream is None:
            got, fix = "random numbers in a prediction", "nn.Dropout, or draw where self.training"
            raise UsageError("forward", got=got, need="what gives the same each time", fix=fix)
        counter, seed = stream
        return self.value(counter), seed


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A module whose `forward` runs: in this scope, and in a trace where that gives symbols."""

    module: LayerState
    scope: Scope[Any]
    trace: ModuleTrace | None
    names: dict[int, str]

    def value(self, operand: Any) -> Any:  # noqa: ANN401  # of any world
        """What `forward` sees of an operand."""
        return self.trace.value(operand) if self.trace is not None and isinstance(operand, Symbol) else operand

    def operand(self, layer: LayerState, value: Any) -> Any:  # noqa: ANN401  # of any world
        """What layers are built on."""
        if self.trace is None:
            return operand_of(layer, value)
        return value if isinstance(value, Symbol) else self.trace.symbol(value)

    def scope_of(self, layer: LayerState) -> Scope[Any] | None:
        """Where the tensors of the module stand; over symbols those of a layer below it too, which has none at hand."""
        if layer is self.module:
            return self.scope
        if self.trace is None:
            return None
        path = next((path for path, below in self.module.named_modules() if below is layer), None)
        return None if path is None else self.scope.inside(path).owned(type(layer).__name__)

    def named(self, layer: LayerState) -> str | None:
        """The attribute of the module that a layer is."""
        if id(layer) not in self.names:
            # Attributes may be set, and lists grow, in `forward` too.
            for name, child in self.module.named_children():
                self.names.setdefault(id(child), name)
        return self.names.get(id(layer))


_FRAME: ContextVar[Frame | None] = ContextVar("frame", default=None)


@contextmanager
def running(module: LayerState, scope: Scope[Any], inputs: tuple[Any, ...]) -> Iterator[tuple[Frame, tuple[Any, ...]]]:
    """Inside, the module's layers and parameters are those of the scope; gives the inputs as `forward` sees them."""
    symbols = [entry for entry in inputs if isinstance(entry, Symbol)]
    trace = ModuleTrace(symbols[0], scope) if symbols else None
    frame = Frame(module, scope, trace, {})
    token = _FRAME.set(frame)
    try:
        if trace is None:
            yield frame, inputs
        else:
            with trace.active():
                yield frame, tuple(map(frame.value, inputs))
    finally:
        _FRAME.reset(token)


def called_inside(layer: Any, values: tuple[Any, ...]) -> Any:  # noqa: ANN401  # what the layer gives
    """What a layer that a `forward` calls gives; None where none runs, or where the layer is none of its module's."""
    frame = _FRAME.get()
    if frame is None:
        return None
    name = frame.named(layer)
    if name is None:
        if frame.trace is None:
            return None
        kind, got = type(frame.module).__name__, f"{type(layer).__name__} that is no attribute"
        fix = "make it in __init__: self.name = …"
        raise UsageError(f"{kind}.forward", got=got, need="layers that are attributes of the module", fix=fix)
    operands = tuple(frame.operand(layer, value) for value in values)
    token = _FRAME.set(None)
    try:
        outputs = layer.build_many(frame.scope.inside(name), operands)
    finally:
        _FRAME.reset(token)
    return hung_together(outputs, list(map(frame.value, outputs)))


def is_plain() -> bool:
    """Whether a layer that is called here has its own tensors as they are: in no `forward`, or in an eager one."""
    frame = _FRAME.get()
    return frame is None or (frame.trace is None and frame.scope.gives_own)


def value_of(module: LayerState, name: str, variable: Variable, *, statistic: bool) -> ArrayOperand:
    """A tensor of a module, or of a layer below it (`self.embed.weight`), as the code that asks sees it."""
    frame = _FRAME.get()
    scope = None if frame is None else frame.scope_of(module)
    if frame is None or scope is None:
        return current(variable)
    spec = variable.spec
    if statistic:
        value = scope.statistic(name, spec.shape, spec.dtype, CopyOf(variable))
    else:
        value = scope.parameter_of(name, spec, CopyOf(variable))
    return frame.value(value)  # type: ignore[no-any-return]  # of the world of `forward`


def renewed_in_frame(module: LayerState, name: str, value: Any) -> bool:  # noqa: ANN401  # of any world
    """Give a statistic of the running module another value; False where the module does not run."""
    frame = _FRAME.get()
    if frame is None or frame.module is not module:
        return False
    frame.scope.renew_statistic(name, frame.operand(module, value))
    return True


def in_training(module: LayerState) -> bool | None:
    """Whether the running module is being trained; None where it does not run."""
    frame = _FRAME.get()
    return None if frame is None or frame.module is not module else frame.scope.training


def path_below(path: str, name: object) -> str:
    """The path of what stands under a key or position."""
    return dotted(path, str(name))
