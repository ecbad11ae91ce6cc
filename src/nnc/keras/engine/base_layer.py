"""What all layers of `nnc.keras` have: Keras' way to make weights, to call, and to be named.

A layer of Keras is an `nn.Module`: it has tensors of its own, and stands wherever layers of nnc do. What differs is
said here: `build(input_shape)` makes weights by `add_weight`, `call` may take `training` and `mask`, and calls are
those of use unless `training=True` is said or `fit` runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter as Argument
from inspect import signature
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import Size, check_made, checked, shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import F32, AnyDType
from nnc.core.values.spec import check_shape
from nnc.core.values.tensor import as_array
from nnc.dynamic import eager
from nnc.dynamic.state import current
from nnc.dynamic.tree import flatten, map_leaves
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, ShapeError, UsageError
from nnc.keras import constraints, initializers, regularizers
from nnc.keras.engine.calls import LOSSES, TRAINING, called_for
from nnc.keras.engine.keras_tensor import KerasTensor, Node, applied
from nnc.keras.engine.layer_inputs import batch_shape, check_shapes, inputs_of
from nnc.keras.engine.room import take_room
from nnc.keras.masks import CARRIED, Carried, mask_of, masks_of, set_masks
from nnc.keras.named import Constructor, Made, check_constructor, fresh_name, refused, snake_case
from nnc.nn.layers.layer import MultiLayer
from nnc.nn.modules.module import Module, layer_parameter
from nnc.nn.state.layer_state import LayerState
from nnc.numerics.conversion import chosen_dtype


class Layer(Module):
    """A layer in Keras' way: subclasses say `call`, and `build(input_shape)` where they have weights.

    >>> from nnc import keras
    >>> class Scaled(keras.layers.Layer):
    ...     def build(self, input_shape):
    ...         self.scale = self.add_weight(shape=(input_shape[-1],), initializer="ones")
    ...     def call(self, inputs):
    ...         return inputs * self.scale
    >>> Scaled()([[1.0, 2.0]]).tolist()
    [[1.0, 2.0]]
    """

    # Masks of inputs are those of outputs, where a layer does not say otherwise.
    supports_masking: ClassVar[bool] = False
    # How many axes inputs have, the batch among them; 0 is any.
    dimensions: ClassVar[int] = 0
    _takes: ClassVar[frozenset[str]] = frozenset()
    __signature__ = Constructor()

    def __init_subclass__(cls) -> None:
        build = cls.__dict__.get("build")
        if build is not None:
            cls.build = _build_of_shape(build)
        super().__init_subclass__()
        call = cls.__dict__.get("call", cls.__dict__.get("forward"))
        if call is not None:
            cls._call = call  # type: ignore[method-assign]  # of the subclass
            cls.forward = Layer._run_call  # which knows training and masks
            parameters = signature(call).parameters
            anything = any(entry.kind is Argument.VAR_KEYWORD for entry in parameters.values())
            cls._takes = frozenset(("training",)) if anything else frozenset(parameters)
        check_constructor(cls)

    def __new__(cls, *args: Any, **options: Any) -> Any:
        """A layer that remembers what it was made of, which is checked before."""
        check_made(cls, args, options)
        made = object.__new__(cls)
        object.__setattr__(made, "_made", Made(args, options))
        made.own.training = False
        return made

    def __init__(
        self,
        *,
        name: str | None = None,
        trainable: bool = True,
        dtype: Any = None,
        input_shape: Sequence[Size | None] | None = None,
        batch_input_shape: Sequence[Size | None] | None = None,
        input_dim: Size | None = None,
        activity_regularizer: Any = None,
        **unknown_options: Any,
    ) -> None:
        # By the weights that they are of: `kernel_constraint`.
        ends = "_constraint"
        self._limits = {
            key.removesuffix(ends): constraints.get(value)
            for key, value in unknown_options.items()
            if key.endswith(ends)
        }
        unknown = sorted(key for key in unknown_options if not key.endswith(ends))
        if unknown:
            got = f"{unknown[0]}={shown(unknown_options[unknown[0]])}"
            need = "its own options, or name, trainable, dtype"
            raise ArgumentError(type(self).__name__, got=got, need=need, origin=caller_origin())
        if dtype is not None and str(getattr(dtype, "name", dtype)) not in ("float32", "f32"):
            raise refused(type(self).__name__, "dtype", dtype, "nnc.nn.Model(model, shape, precision=nnc.bf16)")
        self.name = name or fresh_name(snake_case(type(self).__name__))
        shape = input_shape if batch_input_shape is None else tuple(batch_input_shape)[1:]
        if input_dim is not None:
            shape = (input_dim,)
        self.given_shape: tuple[int | None, ...] | None = None if shape is None else tuple(shape)
        self.activity_regularizer = regularizers.get(activity_regularizer)
        if not trainable:
            self.trainable = False

    # ---- what subclasses say

    # Users say `build(input_shape)`: a type checker takes that for another method.
    build: Any = None

    def make_weights(self, input_shape: Any) -> None:
        """What layers of nnc do in `build(input_shape)`."""

    def _call(self, *inputs: Any, **options: Any) -> Any:
        kind = type(self).__name__
        raise ArgumentError(kind, got="a layer without call", need="its function", fix="def call(self, inputs): …")

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Which steps of the outputs are real."""
        return previous_mask if self.supports_masking else None

    # ---- weights

    @property
    def built(self) -> bool:
        """Whether the weights are there."""
        return bool(vars(self).get("_built", False))

    @built.setter
    def built(self, value: bool) -> None:
        object.__setattr__(self, "_built", value)

    @checked
    def add_weight(
        self,
        shape: Sequence[Size | None] | Size = (),
        initializer: Any = None,
        dtype: AnyDType | None = None,
        trainable: bool = True,
        regularizer: Any = None,
        constraint: Any = None,
        name: str | None = None,
        autocast: bool = True,
        aggregation: str = "none",
    ) -> Variable:
        """A weight of this layer: a tensor that `fit` trains, unless `trainable=False`.

        How it would be cast, and joined over devices, has no meaning here.
        """
        given: Any = shape if hasattr(shape, "__len__") else (shape,)
        if any(size is None for size in given):
            fix = "say that size in Input(shape=…)"
            raise ShapeError("add_weight", got=f"{tuple(given)}", need="known sizes", fix=fix, origin=caller_origin())
        sizes = check_shape(given)
        take_room(sizes)
        draw = initializers.get("glorot_uniform" if initializer is None else initializer)
        assert draw is not None
        drawn = as_array(draw(sizes))
        if drawn.dtype.kind not in "biuf" or drawn.size not in (1, math.prod(sizes)):
            got = f"an initializer that gives {drawn.dtype}{list(drawn.shape)}"
            raise ShapeError("add_weight", got=got, need=f"real numbers {sizes}", origin=caller_origin())
        kind = chosen_dtype(dtype, F32)
        values = np.broadcast_to(drawn, sizes) if drawn.size == 1 else drawn.reshape(sizes)
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.asarray(values, kind.numpy)
        name = name or f"weight{len(self.own.variables) + len(self.own.statistics)}"
        if trainable:
            weight = self.own.variables[name] = layer_parameter(np.ascontiguousarray(values))
        else:
            weight = self.own.statistics[name] = eager.tensor(np.ascontiguousarray(values))
        penalty = regularizers.get(regularizer)
        if penalty is not None:
            self._penalties.append((weight, penalty))
        limit = constraints.get(constraint) or self._limits.pop(
            name.removesuffix("_kernel"), self._limits.pop(name, None)
        )
        if limit is not None:
            self._limited.append((weight, limit))
        return weight

    @property
    def _limited(self) -> list[tuple[Variable, Callable[[Any], Any]]]:
        known: list[tuple[Variable, Callable[[Any], Any]]] = vars(self).setdefault("_constrained", [])
        return known

    def limited_weights(self) -> list[tuple[Variable, Callable[[Any], Any]]]:
        """Weights of this layer and of those below it with what they are held to behind each update."""
        return [pair for layer in self.modules() if isinstance(layer, Layer) for pair in layer._limited]

    @property
    def _penalties(self) -> list[tuple[Variable, Callable[[Any], Any]]]:
        known: list[tuple[Variable, Callable[[Any], Any]]] = vars(self).setdefault("_penalized", [])
        return known

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, Variable):
            # A weight is called what the attribute is called.
            for group in (self.own.variables, self.own.statistics):
                before = next((known for known, weight in group.items() if weight is value), None)
                if before is not None:
                    renamed = {name if known == before else known: weight for known, weight in group.items()}
                    group.clear()
                    group.update(renamed)
                    return
        super().__setattr__(name, value)

    def own_assign(self, **values: Any) -> None:
        """Give statistics of this layer, by name, their next values."""
        for name, value in values.items():
            setattr(self, name, value)

    def named_children(self) -> list[tuple[str, LayerState]]:
        """The layers among the attributes."""
        return [(path, layer) for path, layer in super().named_children() if not path.startswith("_made")]

    @property
    def weights(self) -> list[Variable]:
        """All tensors, layer by layer: what is trained, then what is kept."""
        return [
            weight
            for layer in self.modules()
            for group in (layer.own.variables, layer.own.statistics)
            for weight in group.values()
        ]

    def named_tensors(self) -> dict[str, Variable]:
        """All tensors by their paths."""
        return dict([*self.named_parameters(), *self.named_buffers()])

    @property
    def trainable_weights(self) -> list[Variable]:
        """What `fit` trains."""
        return [*self.trainable_parameters().values()]

    @property
    def non_trainable_weights(self) -> list[Variable]:
        """What `fit` does not train: frozen weights and statistics."""
        trained = {id(weight) for weight in self.trainable_weights}
        return [weight for weight in self.weights if id(weight) not in trained]

    variables, trainable_variables, non_trainable_variables = weights, trainable_weights, non_trainable_weights

    @property
    def trainable(self) -> bool:
        """Whether the weights are trained; it may be set, for all layers below too."""
        return not self.own.frozen

    @trainable.setter
    def trainable(self, value: bool) -> None:
        (self.unfreeze if value else self.freeze)()

    def get_weights(self) -> list[NDArray[np.generic]]:
        """Copies of all tensors."""
        return [weight.tensor.copied() for weight in self.weights]

    @checked
    def set_weights(self, weights: Sequence[ArrayLike]) -> None:
        """Give all tensors these values, in the order of `get_weights`."""
        own, values = self.weights, [as_array(value) for value in weights]
        shapes = [value.shape for value in values], [weight.shape for weight in own]
        if shapes[0] != shapes[1]:
            raise ShapeError(
                "set_weights", got=f"{len(values)} arrays {shapes[0]}", need=f"{shapes[1]}", origin=caller_origin()
            )
        for weight, value in zip(own, values, strict=True):
            weight.become(eager.tensor(value, weight.dtype))

    def count_params(self) -> int:
        """How many numbers all tensors have."""
        return sum(weight.spec.elements for weight in self.weights)

    # ---- losses

    def add_loss(self, loss: Any) -> None:
        """Add a scalar to what `fit` minimizes."""
        collected = LOSSES.get()
        if collected is not None:
            collected.append(loss)

    @property
    def losses(self) -> list[Any]:
        """Penalties on the weights of this layer and of those below it."""
        return [
            penalty(current(weight))
            for layer in self.modules()
            if isinstance(layer, Layer)
            for weight, penalty in layer._penalties
        ]

    # ---- in models

    @property
    def nodes(self) -> list[Node]:
        """Where the layer is applied to `keras.Input`s and what comes of them."""
        known: list[Node] = vars(self).setdefault("_nodes", [])
        return known

    @property
    def input(self) -> Any:
        """What the layer is applied to in a model."""
        inputs = self._node("input").inputs
        return inputs[0] if len(inputs) == 1 else inputs

    @property
    def output(self) -> Any:
        """What the layer gives in a model."""
        outputs = self._node("output").outputs
        return outputs[0] if len(outputs) == 1 else outputs

    def _node(self, subject: str) -> Node:
        if not self.nodes:
            fix = "keras.Input(shape=…) first, or keras.Model(inputs, outputs)"
            raise ArgumentError(subject, got="a layer in no model of known inputs", need="one", fix=fix)
        return self.nodes[0]

    @property
    def output_shape(self) -> Any:
        """The shape of what the layer gives in a model."""
        return map_leaves(lambda tensor: tensor.shape, self.output)

    @property
    def training_of_calls(self) -> bool | None:
        """Whether the calls that are running are those of training; None where nobody said."""
        return TRAINING.get()

    @property
    def _is_ours(self) -> bool:
        """Whether it is a layer of this package, which takes arrays alone."""
        return type(self).__module__.startswith("nnc.keras")

    @property
    def takes_mask(self) -> bool:
        """Whether `call` is told which steps are real."""
        return "mask" in self._takes

    # ---- calls

    def __call__(self, *values: Any, name: str = "", **options: Any) -> Any:
        """The layer of arrays and operands, or a part of a model where they are `keras.Input`s."""
        if "name" not in vars(self):
            fix = "super().__init__() at the head of its __init__"
            raise UsageError(type(self).__name__, got="a layer that is not made", need="that of Layer", fix=fix)
        values = inputs_of(type(self).__name__, values, self._is_ours and not options)
        leaves, _ = flatten((values, options))
        if self.dimensions and values and len(batch_shape(values[0])) != self.dimensions:
            got, need = f"{batch_shape(values[0])}", f"{self.dimensions} dimensions [batch, …, channels]"
            raise ShapeError(type(self).__name__, got=got, need=need, origin=caller_origin())
        if any(isinstance(leaf, KerasTensor) for leaf in leaves):
            self.ensure_built(values)
            outputs = applied(self, *values, **options)
            self.nodes.append(flatten(outputs)[0][0].node)
            return outputs
        training = options.pop("training", None)
        self.ensure_built(values)
        previous = masks_of(values[0]) if values else None
        if self.takes_mask and options.get("mask") is None and previous is not None:
            options["mask"] = previous
        carried = Carried(self, values)
        token = CARRIED.set(carried)
        try:
            with called_for(training):
                outputs = super().__call__(*values, name=name, **options)
        finally:
            CARRIED.reset(token)
        if not any(mask is not None for mask in carried.behind):
            mask = self.compute_mask(values[0] if values else None, options.get("mask", previous))
            carried.behind = flatten(mask)[0]
        set_masks(outputs, carried.behind)
        return outputs

    def ensure_built(self, values: tuple[Any, ...]) -> None:
        """The weights, for inputs like these."""
        if not self.built:
            given = values[0] if values else None
            self.build(map_leaves(batch_shape, given))

    def _run_call(self, *inputs: Any, **options: Any) -> Any:
        """`call`, which is told of training where it asks."""
        carried = CARRIED.get()
        carried = carried if carried is not None and carried.layer is self else None
        if carried is not None:
            set_masks(inputs, carried.ahead)
        if "training" in self._takes:
            # In a step of an `nn.Model` as that is, and else as `train()` and `eval()` have it.
            training = TRAINING.get()
            options.setdefault("training", self.training if training is None else training)
        outputs = self._call(*inputs, **options)
        if self.activity_regularizer is not None:
            self.add_loss(eager.as_operand(self.activity_regularizer(outputs)) / (outputs.shape or (1,))[0])
        if carried is not None:
            carried.behind = [mask_of(leaf) for leaf in flatten(outputs)[0]]
        return outputs

    # What the frame of a module runs; `__call__` above would be taken for it.
    forward = _run_call

    def get_config(self) -> dict[str, Any]:
        """The options that made the layer, by name."""
        made: Made = vars(self)["_made"]
        names = [name for name in signature(type(self)).parameters if name != "self"]
        return {"name": self.name, **dict(zip(names, made.args, strict=False)), **made.options}

    @classmethod
    @checked
    def from_config(cls, config: Mapping[str, Any]) -> Any:
        """A layer of these options."""
        return cls(**config)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}, built={self.built}>"


def _build_of_shape(make: Callable[..., Any]) -> Callable[..., Any]:
    """Keras' `build(input_shape)` beside ours, `build(scope, x)`: what a layer computes in a scope."""

    @wraps(make)
    def build(self: Layer, *given: Any) -> Any:
        if len(given) != 1:
            return MultiLayer.build(self, *given)
        check_shapes(given[0], self._is_ours)
        self.built = True
        return make(self, *given)

    return build


def _make_weights(layer: Layer, input_shape: Any) -> None:
    layer.make_weights(input_shape)


# Set behind the class, which checks and wraps what it finds there.
Layer.build = _build_of_shape(_make_weights)
