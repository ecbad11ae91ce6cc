"""Layers: values that build operators on operands, symbols and eager variables alike.

A layer holds no tensors. It asks its scope for parameters by name; the scope decides what they are (symbols of a
graph that is compiled, or variables of a dynamic graph) and gives each a path such as `0.weight`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field, replace
from functools import wraps
from typing import ClassVar, Generic, TypeVar

from nnc.arguments import Count, checked, shown
from nnc.classes import dataclass
from nnc.core.precautions.origin import caller_origin, inherited_origin
from nnc.core.values.dtype import DType
from nnc.core.values.spec import Shape, TensorSpec
from nnc.errors import ArgumentError, ArityError, ShapeError, UsageError
from nnc.nn.layers.initializers import Initializer
from nnc.ops.operand import Operand
from nnc.symbolic.scopes import opened_scopes, reopened
from nnc.vocabulary.answers import Answering
from nnc.vocabulary.network_names import LAYER

__all__ = ["Input", "Layer", "LayerValue", "MultiLayer", "ParameterSpec", "Scope", "UpTo"]

T = TypeVar("T", bound=Operand)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """A tensor of a model without its value: where it is, what it is, how it starts.

    Trainable ones are parameters and follow their gradients; the others are statistics, which layers renew. `owner` is
    the class of the layer that asked.
    """

    path: str
    spec: TensorSpec
    initializer: Initializer
    trainable: bool = True
    owner: str = ""


def _keep(path: str, value: Operand) -> None:
    """Outside training, statistics stay as they are."""


def _as_it_is(scope: Scope[T], x: T, y: T) -> T:
    """Nothing is added to products."""
    return y


@dataclass(frozen=True, slots=True)
class Randomness(Generic[T]):
    """Where layers draw from in training: `counter` is an i64 scalar, another one at each step of training."""

    counter: Callable[[], T]
    seed: int
    asked: Counter[str] = field(default_factory=Counter)

    def stream(self, path: str) -> tuple[T, int]:
        """A counter and a seed that no other layer has, nor the same layer applied once more."""
        self.asked[path] += 1
        digest = hashlib.sha256(f"{self.seed}:{path}:{self.asked[path]}".encode()).digest()
        return self.counter(), int.from_bytes(digest[:8], "little")


@dataclass(frozen=True, slots=True)
class StepCache(Generic[T]):
    """What generation gives to layers: `positions`[batch, steps] of the new steps, and what is kept of earlier ones.

    `extend(path, value)` puts a value[batch, steps, …] of the new steps among those of earlier ones and gives all of
    them, [batch, capacity, …]; places behind the newest step hold anything. `wanted` gives the steps, of values
    [batch, steps, features], whose outputs will be read.
    """

    positions: T
    extend: Callable[[str, T], T]
    wanted: Callable[[T], T]


@dataclass(frozen=True, slots=True)
class Scope(Generic[T]):
    """Where a layer stands in the model: a path, the source of its tensors, and whether this is a training step.

    `adapt` gives what becomes of a dense layer's product y of x, and `differentiated` says that a gradient will follow.
    """

    resolve: Callable[[ParameterSpec], T]
    path: str = ""
    training: bool = False
    renew: Callable[[str, T], None] = _keep
    outside: str = field(default_factory=opened_scopes)
    randomness: Randomness[T] | None = None
    owner: str = ""
    adapt: Callable[[Scope[T], T, T], T] = _as_it_is
    differentiated: bool = False
    cache: StepCache[T] | None = None

    def parameter(self, name: str, shape: Shape, like: Operand, initializer: Initializer) -> T:
        """The parameter `name` of this layer, of `like`'s element type and device."""
        spec = TensorSpec(shape, like.spec.dtype, like.spec.layout, like.spec.device)
        return self.parameter_of(name, spec, initializer)

    def parameter_of(self, name: str, spec: TensorSpec, initializer: Initializer) -> T:
        """The parameter `name` of this layer, when its element type follows no operand's."""
        return self._resolved(ParameterSpec(self._join(name), spec, initializer, owner=self.owner))

    def statistic(self, name: str, shape: Shape, dtype: DType, initializer: Initializer) -> T:
        """The running statistic `name` of this layer: kept with the parameters, but not trained."""
        spec = TensorSpec(shape, dtype)
        return self._resolved(ParameterSpec(self._join(name), spec, initializer, trainable=False, owner=self.owner))

    def renew_statistic(self, name: str, value: T) -> None:
        """`value` takes the place of the statistic once the training step is done."""
        self.renew(self._join(name), value)

    def stream(self) -> tuple[T, int] | None:
        """Counter and seed for a random operator of this layer; None outside of training, where nothing is drawn."""
        if self.randomness is None:
            return None
        with reopened(self.outside):
            return self.randomness.stream(self.path)

    def kept(self, name: str, value: T) -> T:
        """In generation, `value` behind what earlier steps kept by this name; itself otherwise."""
        if self.cache is None:
            return value
        with reopened(self.outside):
            return self.cache.extend(self._join(name), value)

    def wanted(self, x: T) -> T:
        """In generation, the steps of `x`[batch, steps, features] whose outputs will be read; else all of them."""
        return x if self.cache is None else self.cache.wanted(x)

    def inside(self, name: str) -> Scope[T]:
        """The scope of a part of this layer."""
        return replace(self, path=self._join(name))

    def _resolved(self, parameter: ParameterSpec) -> T:
        """Its path names a parameter, whatever layer asks for it."""
        with reopened(self.outside):
            return self.resolve(parameter)

    def _join(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


@checked
@dataclass(frozen=True, slots=True)
class UpTo:
    """A first axis of examples, such as time, of any size up to `most`: `Model(layer, (UpTo(128), 64))`."""

    most: Count


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """An input of a model: the shape of an example, and the element type (the model's where there is none)."""

    shape: tuple[int | UpTo, ...]
    dtype: DType | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LayerValue:
    """What a layer gives for values, before there are any; `value[1]` is its second output."""

    layer: Layer
    sources: tuple[LayerValue | Input, ...]
    name: str = ""
    index: int = 0
    of: LayerValue | None = None
    # How many outputs there are is known when the network is built: Python would ask for one more for ever.
    __iter__: ClassVar[None] = None

    def __getitem__(self, index: int) -> LayerValue:
        """One of several outputs."""
        if index < 0:
            raise ArityError("output", got=str(index), need="0 or more")
        return replace(self, index=index, of=self.of or self)


class Layer(Answering, ABC):
    """A function of operands with parameters. Subclasses are frozen dataclasses: their fields are their options.

    What a layer builds is named after its path and class, as in `0.Convolution`, and stands for the line that made the
    layer; errors inside say both.
    """

    __slots__ = ("_origin",)
    # Layers made of others leave it to those to say what class they are.
    stands_by_class: ClassVar[bool] = True
    forms: ClassVar[Mapping[str, str]] = LAYER
    spoken: ClassVar[str] = "layer"
    _origin: str

    @abstractmethod
    def build(self, scope: Scope[T], x: T) -> T:
        """Apply this layer to `x`, with parameters from `scope`."""

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """The outputs of several inputs: of one input, unless the layer is a `MultiLayer`."""
        _check_built(f"{type(self).__name__}.build_many", scope, inputs, several=True)
        if len(inputs) != 1:
            raise ArityError(type(self).__name__, got=f"{len(inputs)} inputs", need="one input")
        return (self.build(scope, inputs[0]),)

    def __call__(self, *values: LayerValue | Input, name: str = "") -> LayerValue:
        """This layer applied to values of a functional composition; applied again, it has the same parameters."""
        for value in values:
            if not isinstance(value, LayerValue | Input):
                need, fix = "an Input, or what a layer gave for one", "Model(layer, shape).predict(array)"  # type: ignore[unreachable]  # arrays come here
                raise ArgumentError(type(self).__name__, got=shown(value), need=need, fix=fix)
        return LayerValue(self, values, name)

    def __init_subclass__(cls) -> None:
        # A dataclass with slots is made twice, the second time of what the first one has.
        for name, way in (("build", _in_scope), ("build_many", _in_scope), ("__init__", _with_origin)):
            method = cls.__dict__.get(name)
            if method is not None and not hasattr(method, "__wrapped__"):
                setattr(cls, name, way(method))


def _with_origin(initialize: Callable[..., None]) -> Callable[..., None]:
    @wraps(initialize)
    def made(self: Layer, *args: object, **options: object) -> None:
        object.__setattr__(self, "_origin", caller_origin())
        initialize(self, *args, **options)

    return made


def _in_scope(build: Callable[[Layer, Scope[T], V], V]) -> Callable[[Layer, Scope[T], V], V]:
    @wraps(build)
    def built(self: Layer, scope: Scope[T], x: V) -> V:
        _check_built(f"{type(self).__name__}.{build.__name__}", scope, x, several=build.__name__ == "build_many")
        kind = type(self).__name__ if self.stands_by_class else ""
        place = ".".join(part for part in (scope.path, kind) if part)
        try:
            inside = scope.path or kind
            with reopened(f"{scope.outside}{inside}." if inside else scope.outside), _standing_for(self):
                return build(self, replace(scope, owner=type(self).__name__), x)
        except UsageError as error:
            error.place = error.place or place
            error.origin = error.origin or getattr(self, "_origin", "")
            raise

    return built


def _check_built(subject: str, scope: object, x: object, *, several: bool) -> None:
    """ArgumentError unless a layer is built in a scope, on an operand or on `several` of them."""
    fix = "Model(layer, shape).predict(array), or model.apply(x, weights)"
    if not isinstance(scope, Scope):
        raise ArgumentError(subject, got=f"scope={shown(scope)}", need="a Scope", fix=fix)
    given = x if isinstance(x, tuple | list) else (x,)
    for operand in given if several else (x,):
        if not isinstance(operand, Operand) or (several and given is not x):
            need = "symbols or variables" if several else "a symbol or a variable"
            raise ArgumentError(subject, got=f"x={shown(operand)}", need=need, fix=fix)


def _standing_for(layer: Layer) -> AbstractContextManager[None]:
    """What is made inside has the line that made the layer, where that is known."""
    origin = getattr(layer, "_origin", "")
    return inherited_origin(origin) if origin else nullcontext()


class MultiLayer(Layer):
    """A layer of several inputs or outputs: subclasses say what `build_many` gives."""

    __slots__ = ()

    def build(self, scope: Scope[T], x: T) -> T:
        """The only output of one input."""
        outputs = self.build_many(scope, (x,))
        if len(outputs) != 1:
            raise ArityError(type(self).__name__, got=f"{len(outputs)} outputs", need="one output here")
        return outputs[0]

    @abstractmethod
    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply this layer to all its inputs."""


def require_rank(layer: str, x: Operand, rank: int, axes: str) -> None:
    """ShapeError unless `x` has `rank` dimensions."""
    if x.spec.rank != rank:
        raise ShapeError(layer, got=str(x.spec), need=f"{rank} dimensions [{axes}]")
