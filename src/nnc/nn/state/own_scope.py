"""Calls of a layer by the tensors that it has of its own: which layer owns which path, and what a first call makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.values.device import CPU, Device
from nnc.core.values.dtype import F32, I64, dtype_of
from nnc.core.values.tensor import Tensor, as_array
from nnc.dynamic import eager
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.state import assign, constant_of, current, depends_on, parameter_over
from nnc.dynamic.transforms.randomness import counter_of_a_call, next_counter
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, UsageError
from nnc.nn.state.generators import generator_for
from nnc.nn.state.layer_state import LayerState, OwnTensors, dotted
from nnc.nn.state.scope import ParameterSpec, Randomness, Scope
from nnc.nn.state.weight_order import in_first


class LayerPaths:
    """The layers that a build goes through, by path."""

    def __init__(self, root: LayerState) -> None:
        self.root = root
        self.layers: dict[str, LayerState] = {"": root}

    def enter(self, path: str, layer: object) -> bool:
        """Remember a layer, unless one that is being built made it: then it is a part of that."""
        if not isinstance(layer, LayerState) or getattr(layer, "_inner", False):
            return False
        if layer is not self.root:
            self.layers[path] = layer
        return True

    def owner(self, path: str) -> tuple[LayerState, str]:
        """The nearest layer at or above a path, and the path seen from there."""
        place, below = path, ""
        while place not in self.layers:
            place, _, last = place.rpartition(".")
            below = dotted(last, below)
        return self.layers[place], below

    def start(self, parameter: ParameterSpec) -> ParameterSpec:
        """The parameter or statistic, which begins as what its layer has of it, where there is that."""
        owner, name = self.owner(parameter.path)
        own: OwnTensors | None = getattr(owner, "_own", None)
        known = None if own is None else own.variables.get(name, own.statistics.get(name))
        if known is not None and known.spec.shape == parameter.spec.shape:
            trained = parameter.trainable and known.place is not None
            return replace(parameter, initializer=CopyOf(known), trainable=trained)
        root: OwnTensors | None = getattr(self.root, "_own", None)
        if root is not None and parameter.path in root.pending:
            return replace(parameter, initializer=Content(root.pending[parameter.path]))
        return parameter


@dataclass(frozen=True, slots=True, eq=False)
class CopyOf:
    """An initializer: what a variable holds when it is asked."""

    variable: Variable

    def __call__(self, generator: np.random.Generator, values: NDArray[np.generic]) -> None:
        """Write it."""
        values[...] = self.variable.tensor.copied()


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """An initializer: these values."""

    content: NDArray[np.generic]

    def __call__(self, generator: np.random.Generator, values: NDArray[np.generic]) -> None:
        """Write them."""
        values[...] = self.content


class _Call:
    """One call of a layer on eager or traced values: which layer has which path, and what the call may make.

    Layers draw on the device `home`.
    """

    def __init__(self, root: LayerState, home: Device) -> None:
        self.root, self.home, self.paths = root, home, LayerPaths(root)
        self._seed: int | None = None

    def entered(self, scope: Scope[Any], layer: object) -> Scope[Any]:
        """Remember the layer's path, and build it as it is used: in training or not."""
        above, name = self.paths.owner(scope.path)
        if not self.paths.enter(scope.path, layer):
            return scope
        assert isinstance(layer, LayerState)
        if layer is not above:
            above.own.parts.setdefault(name, layer)
        layer.own.called = True
        depends_on(layer.own, layer.own.mode)
        training = layer.own.training
        if scope.training is training:
            return scope
        return replace(scope, training=training, randomness=self.randomness(training))

    def randomness(self, training: bool) -> Randomness[Any] | None:
        """Where layers draw from in training."""
        return Randomness(self._counter, 0) if training else None

    def _counter(self) -> ArrayOperand:
        counter = counter_of_a_call()
        if isinstance(counter, ArrayOperand):
            return counter.to(self.home)
        return eager.tensor(np.int64(counter), I64, device=self.home)

    def resolve(self, parameter: ParameterSpec) -> ArrayOperand:
        """The variable of this path as it is now; made where there is none."""
        owner, name = self.paths.owner(parameter.path)
        group = owner.own.statistics if parameter.statistic else owner.own.variables
        if name not in group:
            group.setdefault(name, self._made(parameter))
        value = current(group[name])
        if value.spec.shape != parameter.spec.shape or value.spec.dtype is not parameter.spec.dtype:
            got, need = f"{parameter.path} of {value.spec}", f"{parameter.spec} for these inputs"
            raise UsageError("layer", got=got, need=need, fix="call it on values like those of its first call")
        return value if parameter.trainable else constant_of(value)

    def _made(self, parameter: ParameterSpec) -> Variable:
        if self._seed is None:
            self._seed = int(next_counter())
        device = parameter.spec.device
        tensor = Tensor.empty(parameter.spec.on(CPU), "parameter")
        given = self.root.own.pending.pop(parameter.path, None)
        if given is None:
            parameter.initializer(generator_for(self._seed, parameter.path), tensor.numpy())
        else:
            tensor.copy_from(given)
        tensor = tensor.to(device)
        return eager.tensor(tensor, share=True) if parameter.statistic else in_first(parameter_over(tensor))

    def renew(self, path: str, value: ArrayOperand) -> None:
        """A statistic has another value from now on."""
        owner, name = self.paths.owner(path)
        assign(owner.own.statistics[name], constant_of(value))


def own_scope(layer: LayerState, values: tuple[Any, ...]) -> tuple[Scope[Any], tuple[ArrayOperand, ...]]:
    """The scope of a call by the layer's own tensors, and the values as operands."""
    operands, training = tuple([operand_of(layer, value) for value in values]), layer.own.training
    call = _Call(layer, operands[0].spec.device if operands else CPU)
    scope: Scope[Any] = Scope(
        call.resolve,
        training=training,
        renew=call.renew,
        randomness=call.randomness(training),
        entered=call.entered,
    )
    return scope, operands


def operand_of(layer: LayerState, value: Any) -> ArrayOperand:  # noqa: ANN401  # whatever somebody calls a layer on
    """An operand as it is; an array as a constant, floats in f32 as models take them."""
    if isinstance(value, ArrayOperand):
        return value
    if isinstance(value, type | str) or value is None:
        raise ArgumentError(type(layer).__name__, got=f"x={value!r}", need="an array, a variable or an Input")
    array = as_array(value)
    dtype = dtype_of(array.dtype)
    return eager.tensor(array, F32 if dtype.is_float and dtype.itemsize > 4 else dtype)
