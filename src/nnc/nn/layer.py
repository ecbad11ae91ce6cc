"""Layers: values that build operators on operands, symbols and eager variables alike.

A layer holds no tensors. It asks its scope for parameters by name; the scope decides what they are (symbols of a
graph that is compiled, or variables of a dynamic graph) and gives each a path such as `0.weight`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from nnc.core.dtype import DType
from nnc.core.spec import Shape, TensorSpec
from nnc.errors import ShapeError
from nnc.nn.initializers import Initializer
from nnc.ops.operand import Operand

T = TypeVar("T", bound=Operand)


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """A tensor of a model without its value: where it is, what it is, how it starts.

    Trainable ones are parameters and follow their gradients; the others are statistics, which layers renew.
    """

    path: str
    spec: TensorSpec
    initializer: Initializer
    trainable: bool = True


def _keep(path: str, value: Operand) -> None:
    """Outside training, statistics stay as they are."""


@dataclass(frozen=True, slots=True)
class Scope(Generic[T]):
    """Where a layer stands in the model: a path, the source of its tensors, and whether this is a training step."""

    resolve: Callable[[ParameterSpec], T]
    path: str = ""
    training: bool = False
    renew: Callable[[str, T], None] = _keep

    def parameter(self, name: str, shape: Shape, like: Operand, initializer: Initializer) -> T:
        """The parameter `name` of this layer, of `like`'s element type and device."""
        spec = TensorSpec(shape, like.spec.dtype, like.spec.layout, like.spec.device)
        return self.parameter_of(name, spec, initializer)

    def parameter_of(self, name: str, spec: TensorSpec, initializer: Initializer) -> T:
        """The parameter `name` of this layer, when its element type follows no operand's."""
        return self.resolve(ParameterSpec(self._join(name), spec, initializer))

    def statistic(self, name: str, shape: Shape, dtype: DType, initializer: Initializer) -> T:
        """The running statistic `name` of this layer: kept with the parameters, but not trained."""
        return self.resolve(ParameterSpec(self._join(name), TensorSpec(shape, dtype), initializer, trainable=False))

    def renew_statistic(self, name: str, value: T) -> None:
        """`value` takes the place of the statistic once the training step is done."""
        self.renew(self._join(name), value)

    def inside(self, name: str) -> Scope[T]:
        """The scope of a part of this layer."""
        return replace(self, path=self._join(name))

    def _join(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


class Layer(ABC):
    """A function of operands with parameters. Subclasses are frozen dataclasses: their fields are their options."""

    __slots__ = ()

    @abstractmethod
    def build(self, scope: Scope[T], x: T) -> T:
        """Apply this layer to `x`, with parameters from `scope`."""


def require_rank(layer: str, x: Operand, rank: int, axes: str) -> None:
    """ShapeError unless `x` has `rank` dimensions."""
    if x.spec.rank != rank:
        raise ShapeError(layer, got=str(x.spec), need=f"{rank} dimensions [{axes}]")
