"""Models read again from the files that `model.save` wrote (`nnc.keras.engine.writing`).

Classes of your own are named by `custom_objects`, or registered; nothing in a file is run.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from nnc.arguments import checked
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import dtype_of
from nnc.core.values.serialize import load_tensors
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.dynamic.tree import flatten
from nnc.errors import FormatError, NncError
from nnc.keras.engine.base_layer import Layer
from nnc.keras.engine.keras_tensor import Input, KerasTensor, applied
from nnc.keras.engine.network import Model, Sequential
from nnc.keras.engine.room import weights_within
from nnc.keras.engine.writing import FACT, VERSION, Writer, check_written_here
from nnc.keras.named import Remembered

C = TypeVar("C")
# What a file may name: classes of these kinds, and functions of arrays, none of which reads or writes anything.
KINDS = (Layer, Remembered)
FUNCTIONS = (
    "nnc.numerics.", "nnc.array_api.", "nnc.ops.", "nnc.keras.activations", "nnc.keras.initializers",
    "nnc.keras.loss_functions", "nnc.keras.metrics", "nnc.keras.ops", "nnc.keras.regularizers",
)  # fmt: skip
DAMAGES = (KeyError, IndexError, TypeError, ValueError, AttributeError, ImportError, RecursionError)
_REGISTERED: dict[str, Any] = {}


@checked
def register_keras_serializable(package: str = "Custom", name: str | None = None) -> Callable[[C], C]:
    """A decorator: files may name this class or function."""

    def register(kind: C) -> C:
        _REGISTERED[name or kind.__name__] = kind  # type: ignore[attr-defined]  # classes and functions have one
        return kind

    return register


def get_custom_objects() -> dict[str, Any]:
    """Classes and functions that files may name, which may be changed."""
    return _REGISTERED


class Reader:
    """A model made again of JSON."""

    def __init__(self, rows: list[Any], own: Mapping[str, Any]) -> None:
        self.rows, self.own = rows, {**_REGISTERED, **own}
        self.layers: dict[int, Any] = {}

    def value(self, given: Any, tensors: Mapping[tuple[int, int], Any] | None = None) -> Any:
        """A value again."""
        if isinstance(given, list):
            return [self.value(part, tensors) for part in given]
        if not isinstance(given, dict):
            return given
        kind = next(iter(given), "")
        inner: Any = given.get(kind)
        if kind == "tuple":
            return tuple(self.value(part, tensors) for part in inner)
        if kind == "map":
            return {self.value(key): self.value(part, tensors) for key, part in inner}
        return self.object(kind, inner, given, tensors)

    def object(self, kind: str, inner: Any, given: Mapping[str, Any], tensors: Any) -> Any:
        """What is no container."""
        match kind:
            case "dtype":
                return dtype_of(inner)
            case "slice":
                return slice(*map(self.value, inner))
            case "array":
                return np.asarray(inner, given["of"])
            case "spec":
                return TensorSpec(tuple(inner[0]), dtype_of(inner[1]))
            case "tensor" if tensors is not None:
                return tensors[inner[0], inner[1]]
            case "layer":
                return self.layer(inner)
            case "class":
                return self.kind(inner)
            case "function":
                return self.named(inner)
            case "made":
                return self.kind(inner["of"])(*self.value(inner["args"]), **self.value(inner["options"]))
        raise FormatError("load_model", got=f"a value of {kind!r}", need="a file that nnc.keras wrote")

    def kind(self, name: str) -> Any:
        """A class by its name: one of your own, a layer, or what layers and `compile` are told."""
        kind = self.named(name)
        if name not in self.own and not (isinstance(kind, type) and issubclass(kind, KINDS)):
            raise FormatError("load_model", got=f"an object of {name}", need="a layer, a loss or their like")
        return kind

    def named(self, name: str) -> Any:
        """A class or function by its name."""
        if name in self.own:
            return self.own[name]
        module, _, last = name.rpartition(".")
        if not module:
            fix = f"keras.models.load_model(path, custom_objects={{{name!r}: {name}}})"
            raise FormatError("load_model", got=f"{name}, which is not nnc's", need="its class", fix=fix)
        if module == "_operator":
            if last in OPERATORS:
                return getattr(operator, last)
        elif module.startswith("nnc.") and not last.startswith("_"):
            value = getattr(import_module(module), last, None)
            known = isinstance(value, FunctionType) and module.startswith(FUNCTIONS)
            if (known or (isinstance(value, type) and issubclass(value, KINDS))) and value.__module__ == module:
                return value
        raise FormatError("load_model", got=f"the name {name}", need="a class or function of nnc.keras")

    def layer(self, number: int) -> Any:
        """A layer of the table."""
        if number not in self.layers:
            row = self.rows[number]
            self.layers[number] = made = self.described(row)
            made.name = row["name"]
            given = self.value(row.get("for"))
            if given is not None:
                made.build_for(given)
        return self.layers[number]

    def described(self, row: Mapping[str, Any]) -> Any:
        """A layer of its row."""
        if "sequential" in row:
            head = [] if row["head"] is None else [self.input(row["head"])]
            return Sequential([*head, *self.value(row["sequential"])], name=row["name"])
        if "model" in row:
            return self.graph(row["model"], row["name"])
        if "config" in row:
            return self.kind(row["class"]).from_config(self.value(row["config"]))
        return self.value({"made": row["made"]})

    def input(self, given: Mapping[str, Any]) -> KerasTensor:
        """An input."""
        return Input(batch_shape=given["shape"], dtype=given["dtype"], name=given["name"])

    def graph(self, given: Mapping[str, Any], name: str) -> Any:
        """A model of inputs and outputs."""
        tensors: dict[tuple[int, int], Any] = {
            (-1, place): self.input(row) for place, row in enumerate(given["inputs"])
        }
        for number, (function, values, options) in enumerate(given["nodes"]):
            call, args = self.value(function), self.value(values, tensors)
            chosen = self.value(options, tensors)
            outputs = call(*args, **chosen) if isinstance(call, Layer) else applied(call, *args, **chosen)
            tensors.update(((number, place), leaf) for place, leaf in enumerate(flatten(outputs)[0]))
        return Model(self.value(given["input"], tensors), self.value(given["output"], tensors), name=name)


@checked
def load_model(
    filepath: Path | str, custom_objects: Mapping[str, Any] | None = None, compile: bool = True, safe_mode: bool = True
) -> Any:
    """The model of a file that `model.save` wrote, compiled as it was; the optimizer goes on where it stood.

    Classes and functions of your own are looked up in `custom_objects`, and among those that were registered.
    FormatError for any other file; nothing that a file names reads, writes, or takes more memory than its tensors.

    >>> from nnc import keras
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> model.save("model.keras")
    >>> keras.models.load_model("model.keras").output_shape
    (None, 2)
    """
    check_written_here(filepath)
    stored = load_tensors(filepath)
    if FACT not in stored.metadata:
        fix = "model.load_weights(path) for weights alone; nnc.nn.load_model for models of nn"
        raise FormatError(str(filepath), got="no description of a model", need="a file of model.save", fix=fix)
    try:
        with weights_within(sum(tensor.spec.elements for tensor in stored.tensors.values())):
            return _model_of(json.loads(stored.metadata[FACT]), stored.tensors, custom_objects or {}, compile)
    except DAMAGES as error:
        if isinstance(error, NncError):
            raise
        got = f"a description that makes no model ({type(error).__name__}: {error})"
        raise FormatError(str(filepath), got=got, need="a file of model.save", origin=caller_origin()) from error


def _model_of(facts: Any, given: Mapping[str, Tensor], own: Mapping[str, Any], compile: bool) -> Any:
    """The model of what a file says, with its tensors."""
    if facts["version"] != VERSION:
        raise FormatError("load_model", got=f"version {facts['version']}", need=f"version {VERSION}")
    reader = Reader(facts["layers"], own)
    model = reader.layer(facts["model"])
    model.load_state_dict({name[6:]: tensor.numpy() for name, tensor in given.items() if name.startswith("model.")})
    for path, layer in model.named_modules():
        layer.own.frozen = path in facts["frozen"]
    if compile and "compiled" in facts:
        optimizer, loss, weights, metrics, weighted = (reader.value(part) for part in facts["compiled"])
        model.compile(optimizer, loss, metrics, weights, weighted)
        if facts["rate"] is not None:
            optimizer.learning_rate = facts["rate"]
        optimizer.take_slots(
            model.trainable_parameters(),
            {name[10:]: tensor for name, tensor in given.items() if name.startswith("optimizer.")},
        )
    return model


@checked
def model_from_json(json_string: str, custom_objects: Mapping[str, Any] | None = None) -> Any:
    """The model of `model.to_json()`, with weights that begin anew.

    >>> from nnc import keras
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> keras.models.model_from_json(model.to_json()).output_shape
    (None, 2)
    """
    try:
        facts = json.loads(json_string)
        if facts["version"] != VERSION:
            raise FormatError("model_from_json", got=f"version {facts['version']}", need=f"version {VERSION}")
        return Reader(facts["layers"], custom_objects or {}).layer(facts["model"])
    except DAMAGES as error:
        if isinstance(error, NncError):
            raise
        got = f"a text that describes no model ({type(error).__name__})"
        raise FormatError("model_from_json", got=got, need="model.to_json()", origin=caller_origin()) from error


@checked
def clone_model(model: Model) -> Any:
    """A model of the same layers, with weights of its own that begin anew."""
    writer = Writer()
    number = writer.layer(model)
    return Reader(json.loads(json.dumps(writer.rows)), writer.own).layer(number)


# The operators of `keras.Input`s that a file may name.
OPERATORS = frozenset(("add", "sub", "mul", "truediv", "matmul", "pow", "neg", "gt", "lt", "getitem"))
