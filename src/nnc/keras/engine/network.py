"""Models under Keras' names: `Sequential([…])`, `Model(inputs, outputs)`, and subclasses of `Model` that say `call`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

from nnc.arguments import checked, shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import DType
from nnc.core.values.serialize import save_tensors
from nnc.core.values.spec import TensorSpec
from nnc.dynamic.traced import FunctionTrace
from nnc.dynamic.tree import flatten, map_leaves
from nnc.errors import ArgumentError, ArityError, IndexRangeError, ShapeError, UsageError
from nnc.keras.engine.base_layer import Layer
from nnc.keras.engine.fitting import Fitted
from nnc.keras.engine.keras_tensor import STAND_INS, Input, KerasTensor, Node
from nnc.keras.engine.layer_table import print_table
from nnc.keras.engine.writing import check_written_here, model_text, write_model
from nnc.keras.loss_functions import as_single
from nnc.keras.masks import set_masks
from nnc.keras.named import snake_case
from nnc.nn.layers.layer import Layer as AnyLayer
from nnc.nn.state.layer_state import LayerState
from nnc.nn.state.tensor_files import stored_tensors


class Model(Fitted):
    """A network that is compiled, fitted and saved: of inputs and outputs, or a subclass that says `call`.

    >>> from nnc import keras
    >>> inputs = keras.Input(shape=(8,))
    >>> model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    >>> model.output_shape
    (None, 2)
    """

    file_form: ClassVar[str] = "model"

    def __init__(self, inputs: Any = None, outputs: Any = None, name: str | None = None, **options: Any) -> None:
        super().__init__(name=name, **options)
        if (inputs is None) != (outputs is None):
            raise ArityError("Model", got="inputs or outputs alone", need="both, or neither", origin=caller_origin())
        if inputs is not None:
            self._compose(inputs, outputs)

    # ---- of inputs and outputs

    def _compose(self, inputs: Any, outputs: Any) -> None:
        for leaf in (*flatten(inputs)[0], *flatten(outputs)[0]):
            if not isinstance(leaf, KerasTensor):
                need, fix = "what keras.Input and layers give", "inputs = keras.Input(shape=(8,))"
                raise ArgumentError("Model", got=shown(leaf), need=need, fix=fix, origin=caller_origin())
        self._inputs, self._outputs = inputs, outputs
        self._order = nodes_between(flatten(inputs)[0], flatten(outputs)[0])
        layers = {id(node.function): node.function for node in self._order if isinstance(node.function, AnyLayer)}
        self._layers: list[Any] = list(layers.values())
        self.built = True

    @property
    def is_composed(self) -> bool:
        """Whether inputs and outputs are known."""
        return "_inputs" in vars(self)

    @property
    def inputs(self) -> list[KerasTensor]:
        """The inputs."""
        return flatten(self._composed("inputs")[0])[0]

    @property
    def outputs(self) -> list[KerasTensor]:
        """The outputs."""
        return flatten(self._composed("outputs")[1])[0]

    @property
    def input(self) -> Any:
        """The inputs as they were given."""
        return self._composed("input")[0]

    @property
    def output(self) -> Any:
        """The outputs as they were given."""
        return self._composed("output")[1]

    @property
    def input_shape(self) -> Any:
        """The shapes of the inputs."""
        return map_leaves(lambda tensor: tensor.shape, self.input)

    @property
    def output_shape(self) -> Any:
        """The shapes of the outputs."""
        return map_leaves(lambda tensor: tensor.shape, self.output)

    @property
    def output_names(self) -> list[str]:
        """The names of the layers that outputs come from, or the keys of a dictionary of outputs."""
        if not self.is_composed:
            return []
        if isinstance(self._outputs, dict):
            return list(self._outputs)
        return [tensor.name for tensor in self.outputs]

    def _composed(self, subject: str) -> tuple[Any, Any]:
        if not self.is_composed:
            fix = "begin with keras.Input(shape=…), or call the model once"
            raise UsageError(subject, got="a model whose inputs are not known yet", need="one of known inputs", fix=fix)
        return self._inputs, self._outputs

    def forward(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Apply all layers in order."""
        if not self.is_composed:
            kind = type(self).__name__
            fix = "def call(self, inputs): …"
            raise UsageError(kind, got="a model without call", need="its function", fix=fix)
        given = self._in_order(inputs)
        if mask is not None:
            set_masks(given, flatten(mask)[0])
        values: dict[int, Any] = {id(key): self._as_input(key, value) for key, value in zip(self.inputs, given)}
        for node in self._order:
            args, options = map_leaves(
                lambda leaf: values[id(leaf)] if isinstance(leaf, KerasTensor) else leaf, (node.values, node.options)
            )
            leaves, _ = flatten(node.function(*args, **options))
            values.update((id(tensor), leaf) for tensor, leaf in zip(node.outputs, leaves, strict=True))
        return map_leaves(lambda tensor: values[id(tensor)], self._outputs)

    def _in_order(self, inputs: Any) -> list[Any]:
        """The operands of the inputs, which may be named."""
        if isinstance(inputs, dict) and not isinstance(self._inputs, dict):
            named = {tensor.name: tensor for tensor in self.inputs}
            missing = [name for name in named if name not in inputs]
            if missing:
                raise ArgumentError(self.name, got=f"inputs {', '.join(map(str, inputs))}", need=f"{', '.join(named)}")
            return [inputs[name] for name in named]
        given: list[Any] = flatten(inputs)[0]
        if isinstance(inputs, dict):
            given = [inputs[name] for name in self._inputs]
        if len(given) != len(self.inputs):
            raise ArityError(self.name, got=f"{len(given)} inputs", need=f"{len(self.inputs)}")
        if any(value is None for value in given):
            raise ArgumentError(self.name, got="None", need="an array for each input")
        return given

    def _as_input(self, tensor: KerasTensor, value: Any) -> Any:
        if len(value.shape) == len(tensor.shape) - 1 and tensor.shape[-1] == 1:
            value = value.reshape(*value.shape, 1)
        fits = len(value.shape) == len(tensor.shape) and all(
            size in (None, own) for size, own in zip(tensor.shape, value.shape, strict=True)
        )
        if not fits:
            named = f" {tensor.name!r}" if tensor.name else ""
            got, need = f"input{named} of shape {tuple(value.shape)}", f"{tensor.shape}"
            raise ShapeError(self.name, got=got, need=need, origin=caller_origin())
        return value if value.dtype is tensor.dtype else value.astype(tensor.dtype)

    def ensure_built(self, values: tuple[Any, ...]) -> None:
        """Remember what a model of its own code was first called on, which a file keeps."""
        if not self.is_composed and "_built_for" not in vars(self):
            object.__setattr__(self, "_built_for", map_leaves(_spec_of, values))
        super().ensure_built(values)

    # ---- layers

    @property
    def layers(self) -> list[Any]:
        """The layers right below the model."""
        if not self.is_composed:
            return [layer for _, layer in super().named_children()]
        inputs = [InputLayer(tensor=tensor) for tensor in self.inputs]
        return [*inputs, *self._layers]

    def named_children(self) -> list[tuple[str, LayerState]]:
        """The layers by their names, those made here without one by class and number."""
        if not self.is_composed:
            return super().named_children()
        return list(local_names(self._layers).items())

    @checked
    def get_layer(self, name: str | None = None, index: int | None = None) -> Any:
        """The layer of a name, or at a place."""
        layers = self.layers
        if index is not None:
            if not -len(layers) <= index < len(layers):
                raise IndexRangeError("get_layer", got=f"index={index}", need=f"one of {len(layers)} layers")
            return layers[index]
        chosen = [layer for layer in layers if layer.name == name]
        if not chosen:
            known = ", ".join(layer.name for layer in layers)
            raise ArgumentError("get_layer", got=f"name={name!r}", need=f"one of {known}", origin=caller_origin())
        return chosen[0]

    # ---- files

    @checked
    def save(self, filepath: Path | str, overwrite: bool = True) -> None:
        """Write what the model is made of, its tensors and the optimizer's, as safetensors, whatever the name ends in.

        `keras.models.load_model(filepath)` gives the model again.
        """
        if not overwrite and Path(filepath).exists():
            got, need = f"{filepath}, which is there", "overwrite=True, or another name"
            raise UsageError("save", got=got, need=need, origin=caller_origin())
        write_model(self, filepath)

    @checked
    def save_weights(self, filepath: Path | str, overwrite: bool = True) -> None:
        """Write the tensors by their paths, as safetensors."""
        save_tensors(filepath, {name: weight.tensor for name, weight in self.named_tensors().items()})

    @checked
    def load_weights(  # type: ignore[override]  # of tensors by their paths
        self, filepath: Path | str, skip_mismatch: bool = False
    ) -> Any:
        """Read the tensors of `save_weights`; with `skip_mismatch` what does not fit stays as it is."""
        if not self.built:
            fix = "call the model once, or begin with keras.Input(shape=…)"
            raise UsageError("load_weights", got="a model whose weights are not made yet", need="weights", fix=fix)
        check_written_here(filepath)
        values = {name: tensor.numpy() for name, tensor in stored_tensors(filepath).items()}
        return self.load_state_dict(values, strict=not skip_mismatch)

    def to_json(self, **options: Any) -> str:
        """What the model is made of, without its tensors: `keras.models.model_from_json` makes one of it."""
        return model_text(self, **options)

    def build_for(self, given: Any) -> None:
        """Make the weights of a model of its own code, for inputs of these shapes and types."""
        trace = FunctionTrace("shapes")
        with trace.active():
            self(*map_leaves(lambda spec: trace.input(spec, "input"), given))

    @checked
    def summary(
        self, line_length: int | None = None, print_fn: Callable[[str], object] | None = None, **unused: Any
    ) -> None:
        """Print a table of the layers, the shapes they give, and how many parameters they have."""
        print_table(self, print_fn or print)


class InputLayer:
    """An input among the layers of a model; it has no weights. `Sequential` takes one at its head."""

    def __init__(self, shape: Any = None, *, input_shape: Any = None, tensor: Any = None, **options: Any) -> None:
        tensor = Input(input_shape if shape is None else shape, **options) if tensor is None else tensor
        if not isinstance(tensor, KerasTensor):
            raise ArgumentError("InputLayer", got=f"tensor={shown(tensor)}", need="what keras.Input(shape) gives")
        self.name, self.output, self.output_shape = tensor.name or "input_layer", tensor, tensor.shape
        self.input, self.trainable, self.weights = tensor, True, list[Any]()
        self.trainable_weights, self.non_trainable_weights = list[Any](), list[Any]()

    def count_params(self) -> int:
        """None."""
        return 0

    def get_weights(self) -> list[Any]:
        """None."""
        return []


class Sequential(Model):
    """Layers one after another. Its inputs are known by an `Input` at its head, `input_shape=`, or the first call.

    >>> from nnc import keras
    >>> model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(2)])
    >>> model.output_shape, model.count_params()
    ((None, 2), 46)
    """

    file_form: ClassVar[str] = "sequential"

    def __init__(self, layers: Iterable[Any] | None = None, name: str | None = None, **options: Any) -> None:
        super().__init__(name=name, **options)
        self._head: KerasTensor | None = None
        self._layers = []
        if layers is not None and not isinstance(layers, Iterable):
            raise ArgumentError("Sequential", got=shown(layers), need="a list of layers", origin=caller_origin())
        for layer in () if layers is None else layers:
            self._take(layer)
        self._recompose()

    def add(self, layer: Any) -> None:
        """One more layer at the end."""
        self._take(layer)
        self._recompose()

    def pop(self) -> Any:
        """Take the last layer away."""
        if not self._layers:
            raise UsageError("pop", got="a model without layers", need="one at least", origin=caller_origin())
        layer = self._layers.pop()
        self._recompose()
        return layer

    def _take(self, layer: Any) -> None:
        layer = layer.output if isinstance(layer, InputLayer) else layer
        if isinstance(layer, KerasTensor) and not self._layers and layer.node is None:
            self._head = layer
            return
        if not isinstance(layer, AnyLayer):
            fix = f"make one of it: {layer.__name__}(…)" if isinstance(layer, type) else ""
            raise ArgumentError("Sequential", got=shown(layer), need="layers", fix=fix, origin=caller_origin())
        if any(layer is known for known in self._layers):
            fix = "one of its own for each place, or keras.Model(inputs, outputs) to share it"
            raise ArgumentError("Sequential", got=f"{layer!r} twice", need="each once", fix=fix, origin=caller_origin())
        if not self._layers and self._head is None:
            self._head = _head_of(layer)
        self._layers.append(layer)

    def _recompose(self) -> None:
        """Apply the layers to the input, where it is known."""
        for name in ("_inputs", "_outputs", "_order"):
            vars(self).pop(name, None)
        if self._head is None or not self._layers:
            return
        layers, value = list(self._layers), self._head
        for layer in layers:
            value = layer(value)
        self._compose(self._head, value)
        self._layers = layers

    def make_weights(self, input_shape: Any) -> None:
        if not self.is_composed:
            self._head = Input(shape=tuple(input_shape)[1:])
            self._recompose()

    def ensure_built(self, values: tuple[Any, ...]) -> None:
        """Know the inputs by the first ones."""
        if not self.is_composed:
            if not self._layers:
                raise UsageError("Sequential", got="no layers", need="one at least", origin=caller_origin())
            shape = getattr(values[0], "shape", None)
            if not isinstance(values[0], KerasTensor) and shape is not None and len(shape) > 0:
                dtype = values[0].dtype
                kept = dtype if str(dtype) in ("int32", "int64", "i32", "i64", "u8", "uint8", "bool") else None
                sizes = [None] * (len(shape) - 1) if kept is not None and len(shape) == 2 else shape[1:]
                self._head = Input(shape=tuple(sizes), dtype=kept)
            elif shape is not None:
                self._head = Input(shape=tuple(shape)[1:], dtype=values[0].dtype)
            self._recompose()

    @property
    def layers(self) -> list[Any]:
        """The layers, without the input."""
        return list(self._layers)

    def named_children(self) -> list[tuple[str, LayerState]]:
        """The layers by their names."""
        return list(local_names(self._layers).items())


def _spec_of(value: Any) -> Any:
    """The shape and type of an array, of two examples; any other value as it is."""
    if not hasattr(value, "shape"):
        return value
    dtype = value.dtype if isinstance(value.dtype, DType) else as_single(value).dtype
    return TensorSpec((2, *(STAND_INS[0] if size is None else size for size in value.shape[1:])), dtype)


def _head_of(layer: Any) -> KerasTensor | None:
    """The input that a first layer says itself."""
    if isinstance(layer, Model) and layer.is_composed and not isinstance(layer.input, list | tuple | dict):
        return Input(shape=layer.input.shape[1:], dtype=layer.input.dtype)
    shape = getattr(layer, "given_shape", None) if isinstance(layer, Layer) else None
    return None if shape is None else Input(shape=shape)


def local_names(layers: Iterable[Any]) -> dict[str, LayerState]:
    """Layers by names that do not depend on what else was made before: `dense`, `dense_1`, or their own."""
    named: dict[str, LayerState] = {}
    for layer in layers:
        kind = snake_case(type(layer).__name__)
        own = getattr(layer, "name", kind) if isinstance(layer, Layer) else kind
        base = kind if own == kind or own.removeprefix(f"{kind}_").isdigit() else own
        name, count = base, 0
        while name in named:
            count += 1
            name = f"{base}_{count}"
        named[name] = layer
    return named


def nodes_between(inputs: list[KerasTensor], outputs: list[KerasTensor]) -> list[Node]:
    """What outputs need, each after what it reads; UsageError for an input that is not among them."""
    given = {id(tensor) for tensor in inputs}
    done: set[int] = set()
    order: list[Node] = []
    waiting = list(reversed(outputs))
    while waiting:
        tensor = waiting[-1]
        if id(tensor) in given or (tensor.node is not None and id(tensor.node) in done):
            waiting.pop()
            continue
        if tensor.node is None:
            got, need = f"{tensor} beside inputs", "each Input that outputs read"
            raise UsageError("Model", got=got, need=need, origin=caller_origin())
        unread = [
            source
            for source in tensor.node.inputs
            if id(source) not in given and not (source.node is not None and id(source.node) in done)
        ]
        if unread:
            waiting.extend(reversed(unread))
        else:
            waiting.pop()
            done.add(id(tensor.node))
            order.append(tensor.node)
    return order
