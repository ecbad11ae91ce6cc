"""Layers: values that build operators on operands, symbols and eager variables alike.

A layer asks its scope for parameters by name; the scope decides what they are (symbols of a graph that is compiled, or
variables of a dynamic graph) and gives each a path such as `0.weight`. A layer that is called on arrays or eager values
makes parameters of its own at its first call (`nnc.nn.state.layer_state`); its options never change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from nnc.arguments import Count, checked, shown
from nnc.classes import dataclass
from nnc.core.precautions.origin import caller_origin, inherited_origin
from nnc.core.values.dtype import DType
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.state import shared_or_assigned
from nnc.errors import ArgumentError, ArityError, ShapeError, UsageError
from nnc.nn.state.call_replay import replayed_call
from nnc.nn.state.frames import called_inside, value_of
from nnc.nn.state.layer_state import Building, LayerState, is_building
from nnc.nn.state.nested_outputs import hung_together
from nnc.nn.state.own_scope import own_scope
from nnc.nn.state.scope import AttentionForm as AttentionForm
from nnc.nn.state.scope import ParameterSpec as ParameterSpec
from nnc.nn.state.scope import Randomness as Randomness
from nnc.nn.state.scope import Ranks as Ranks
from nnc.nn.state.scope import Scope as Scope
from nnc.nn.state.scope import StepCache as StepCache
from nnc.nn.state.scope import T as T
from nnc.nn.state.sized_tensors import make_sized
from nnc.ops.operand import Operand
from nnc.symbolic import Symbol
from nnc.symbolic.scopes import reopened
from nnc.vocabulary.answers import Answering
from nnc.vocabulary.network_names import LAYER

__all__ = ["Input", "Layer", "LayerValue", "MultiLayer", "ParameterSpec", "Scope", "UpTo"]

V = TypeVar("V")


@checked
@dataclass(frozen=True, slots=True)
class UpTo:
    """A first axis of examples, such as time, of any size up to `most`: `Model(layer, (UpTo(128), 64))`.

    >>> nn.Model(nn.LSTM(4), (nn.UpTo(16), 3)).output_shape
    (16, 4)
    """

    most: Count


@checked
@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """An input of a model: the shape of an example, and the element type (the model's where there is none).

    >>> nn.Dense(4)(nn.Input((3,)))
    LayerValue(layer=Dense(units=4, bias=True), sources=(Input(shape=(3,), dtype=None),), name='', index=0, of=None)
    """

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


class Layer(Answering, LayerState, ABC):
    """A function of operands with parameters. Subclasses are frozen dataclasses: their fields are their options.

    Called on `Input`s it is a part of a functional composition; on arrays, eager and traced values it is computed by
    parameters of its own, which the first call makes.

    What a layer builds is named after its path and class, as in `0.Convolution`, and stands for the line that made the
    layer; errors inside say both.
    """

    __slots__ = ("_inner", "_origin")
    # Layers made of others leave it to those to say what class they are.
    stands_by_class: ClassVar[bool] = True
    forms: ClassVar[Mapping[str, str]] = LAYER
    spoken: ClassVar[str] = "layer"
    _origin: str

    def takes(self, name: str, value: object) -> bool:
        """Whether `layer.name = value` gave a tensor of the layer other elements, or made it one of somebody else's."""
        if not isinstance(value, ArrayOperand):
            return False
        make_sized(self.sized_tensors(), self.own.variables)
        if name not in self.own.variables:
            return False
        variables = self.own.variables
        variables[name] = shared_or_assigned(variables[name], value)
        self.own.changes += 1
        return True

    @abstractmethod
    def build(self, scope: Scope[T], x: T) -> T:
        """Apply this layer to `x`, with parameters from `scope`."""

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """The outputs of several inputs: of one input, unless the layer is a `MultiLayer`."""
        _check_built(f"{type(self).__name__}.build_many", scope, inputs, several=True)
        if len(inputs) != 1:
            raise ArityError(type(self).__name__, got=f"{len(inputs)} inputs", need="one input")
        return (self.build(scope, inputs[0]),)

    def __call__(self, *values: Any, name: str = "") -> Any:  # noqa: ANN401  # inputs of a composition, arrays, operands
        """This layer applied to values of a functional composition, or to arrays and operands of all kinds.

        Applied again, it has the same parameters. Several outputs are a tuple.
        """
        replayed = replayed_call(self, values) if self.replays else None
        if replayed is not None:
            return replayed[0] if len(replayed) == 1 else replayed
        if values and all(isinstance(value, LayerValue | Input) for value in values):
            return LayerValue(self, values, name)
        if (
            len(values) == 1
            and isinstance(values[0], list)
            and any(isinstance(x, LayerValue | Input) for x in values[0])
        ):
            need, fix = (
                "an argument for each",
                "layer(a, b); nn.Lambda(lambda a, b: nnc.ops.concatenate([a, b], -1))(a, b)",
            )
            raise ArgumentError(type(self).__name__, got="a list of inputs", need=need, fix=fix)
        inside = called_inside(self, values)
        if inside is not None:
            return inside
        for value in values:
            if isinstance(value, LayerValue | Input | Symbol):
                need, fix = "inputs of a composition alone, or arrays", "model.apply(x, weights) for symbols"
                raise ArgumentError(type(self).__name__, got=shown(value), need=need, fix=fix)
        scope, operands = own_scope(self, values)
        outputs = self.build_many(scope, operands)
        return hung_together(outputs, outputs)

    if not TYPE_CHECKING:
        # A type checker goes by what layers declare.
        def __getattr__(self, name: str) -> object:
            """A tensor of the layer by its name, where it is no option: `layer.weight`."""
            if not name.startswith("_"):
                own, tensors = self.own, self.sized_tensors()
                if name in tensors:
                    make_sized(tensors, own.variables)
                variable = own.variables.get(name, own.statistics.get(name))
                if variable is not None:
                    return value_of(self, name, variable, statistic=name not in own.variables)
            return super().__getattr__(name)

    def __init_subclass__(cls) -> None:
        # A dataclass with slots is made twice, the second time of what the first one has.
        for name, way in (("build", _in_scope), ("build_many", _in_scope), ("__init__", _with_origin)):
            method = cls.__dict__.get(name)
            if name == "build" and method is not None and _is_of_keras(method):
                need, fix = "build(self, scope, x), what a layer computes", "class Mine(nn.Module) with nn.Parameter(…)"
                raise ArgumentError(cls.__name__, got="build(self, input_shape)", need=need, fix=fix)
            if method is not None and not hasattr(method, "__wrapped__"):
                setattr(cls, name, way(method))


def _is_of_keras(build: Callable[..., object]) -> bool:
    """Whether it takes a shape alone, as Keras' layers have it."""
    return not hasattr(build, "__wrapped__") and build.__code__.co_argcount == 2


def _with_origin(initialize: Callable[..., None]) -> Callable[..., None]:
    @wraps(initialize)
    def made(self: Layer, *args: object, **options: object) -> None:
        object.__setattr__(self, "_origin", caller_origin())
        object.__setattr__(self, "_inner", is_building())
        initialize(self, *args, **options)

    return made


def _in_scope(build: Callable[[Layer, Scope[T], V], V]) -> Callable[[Layer, Scope[T], V], V]:
    @wraps(build)
    def built(self: Layer, scope: Scope[T], x: V) -> V:
        _check_built(f"{type(self).__name__}.{build.__name__}", scope, x, several=build.__name__ == "build_many")
        kind = type(self).__name__ if self.stands_by_class else ""
        place = ".".join(part for part in (scope.path, kind) if part)
        try:
            whole = isinstance(self, MultiLayer)
            inside, own = scope.path or kind, scope.entered(scope, self)
            with reopened(f"{scope.outside}{inside}." if inside else scope.outside), _standing_for(self), Building():
                given = own.owned(type(self).__name__)
                # A layer of several inputs is built by `build_many`, which `build` calls: hooks are for the inner one.
                if whole and build.__name__ == "build":
                    return build(self, self.restricted(given), x)
                x, backward = self.given(x)
                outputs = build(self, self.restricted(given), x)
            hooked: V = self.hooked(x, outputs, backward)
            return hooked
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
    """A layer of several inputs or outputs: subclasses say what `build_many` gives.

    A class that sets `tokens_apart` says of itself, not of those that inherit it, that what it makes of a token comes
    of that token, its position and what attention keeps, which is else read off two traces before a generation.
    """

    __slots__ = ()
    tokens_apart: ClassVar[bool] = False

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
