"""Models as files: what they are made of as JSON, beside their tensors, in one safetensors file.

A layer is its class and the arguments that made it; a model of inputs and outputs is its layers and their calls.
`nnc.keras.engine.stored` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import DType
from nnc.core.values.serialize import save_tensors
from nnc.core.values.spec import TensorSpec
from nnc.errors import FormatError, UsageError
from nnc.keras.engine.base_layer import Layer
from nnc.keras.engine.keras_tensor import KerasTensor
from nnc.keras.named import Made, Remembered

CONTAINERS = (tuple, list, dict)
FACT, VERSION = "nnc.keras", 1
# What files begin with that Keras itself writes.
FOREIGN = {b"\x89HDF": "a file of HDF5", b"PK\x03\x04": "a zip archive, as Keras writes"}


class Writer:
    """A model as JSON; `own` collects classes and functions that are no part of nnc, by name."""

    def __init__(self) -> None:
        self.layers: list[Any] = []
        self.rows: list[Any] = []
        self.own: dict[str, Any] = {}

    def written(self, value: Any, tensors: Mapping[int, Any] | None = None) -> Any:
        """A value as JSON; `tensors` says where KerasTensors come from."""
        if isinstance(value, CONTAINERS):
            return self.contained(value, tensors)
        match value:
            case None | bool() | int() | float() | str():
                return value
            case DType():
                return {"dtype": value.name}
            case TensorSpec():
                return {"spec": [list(value.shape), value.dtype.name]}
            case slice():
                return {"slice": [self.written(part) for part in (value.start, value.stop, value.step)]}
            case np.ndarray() | np.generic():
                return {"array": np.asarray(value).tolist(), "of": str(np.asarray(value).dtype)}
            case KerasTensor() if tensors is not None and id(value) in tensors:
                return {"tensor": tensors[id(value)]}
            case Layer():
                return {"layer": self.layer(value)}
            case type():
                return {"class": self.name(value)}
            case Remembered():
                return self.made(value)
        if callable(value) and hasattr(value, "__qualname__"):
            return {"function": self.name(value)}
        got, fix = f"a {type(value).__name__}", "say get_config() and from_config(config) in the class"
        raise UsageError("save", got=got, need="what a file can hold", fix=fix, origin=caller_origin())

    def contained(self, value: Any, tensors: Mapping[int, Any] | None) -> Any:
        """A container as JSON."""
        if isinstance(value, dict):
            return {"map": [[self.written(key), self.written(part, tensors)] for key, part in value.items()]}
        parts = [self.written(part, tensors) for part in value]
        return {"tuple": parts} if isinstance(value, tuple) else parts

    def name(self, value: Any) -> str:
        """The name of a class or function; UsageError for one that has none."""
        module = value.__module__
        if value.__name__ == "<lambda>" or (module.startswith("nnc.") and value.__qualname__ != value.__name__):
            got, fix = f"the function {value.__qualname__}", "a function of a module, or a layer of your own"
            raise UsageError("save", got=got, need="one that has a name", fix=fix, origin=caller_origin())
        if module.startswith("nnc.") or module == "_operator":
            return f"{module}.{value.__name__}"
        self.own[value.__name__] = value
        return str(value.__name__)

    def made(self, value: Any) -> Any:
        """An object by its class and what made it."""
        made: Made = vars(value)["_made"]
        row = {"of": self.name(type(value)), "args": self.written(list(made.args))}
        return {"made": row | {"options": self.written(made.options)}}

    def layer(self, layer: Any) -> int:
        """The number of a layer among all."""
        for number, known in enumerate(self.layers):
            if known is layer:
                return number
        number = len(self.layers)
        self.layers.append(layer)
        self.rows.append(None)
        self.rows[number] = {"name": layer.name, **self.described(layer)}
        return number

    def described(self, layer: Any) -> dict[str, Any]:
        """What makes a layer again."""
        # Of the classes themselves: a subclass has code of its own.
        form = vars(type(layer)).get("file_form")
        if form == "sequential":
            head = vars(layer)["_head"]
            parts = [self.written(part) for part in layer.layers]
            return {"sequential": parts, "head": None if head is None else self.input(head)}
        if form == "model" and layer.is_composed:
            return {"model": self.graph(layer)}
        kind = type(layer)
        if kind.get_config is not Layer.get_config:
            return {"config": self.written(layer.get_config()), "class": self.name(kind), "for": self.shapes(layer)}
        return {**self.made(layer), "for": self.shapes(layer)}

    def shapes(self, layer: Any) -> Any:
        """What a model of its own code was built for."""
        return self.written(vars(layer).get("_built_for"))

    def input(self, tensor: KerasTensor) -> Any:
        """An input."""
        return {"shape": list(tensor.shape), "dtype": tensor.dtype.name, "name": tensor.name}

    def graph(self, model: Any) -> Any:
        """Inputs, calls in order, and outputs."""
        places: dict[int, Any] = {id(tensor): [-1, place] for place, tensor in enumerate(model.inputs)}
        nodes = []
        for number, node in enumerate(vars(model)["_order"]):
            row = [self.written(part, places) for part in (node.function, node.values, node.options)]
            nodes.append(row)
            places.update((id(tensor), [number, place]) for place, tensor in enumerate(node.outputs))
        given = [self.input(tensor) for tensor in model.inputs]
        hung = self.written(model.input, places), self.written(model.output, places)
        return {"inputs": given, "nodes": nodes, "input": hung[0], "output": hung[1]}


def facts_of(model: Any) -> dict[str, Any]:
    """What the model is made of, and how it is compiled."""
    writer = Writer()
    number = writer.layer(model)
    frozen = [path for path, layer in model.named_modules() if layer.own.frozen]
    facts = {"version": VERSION, "model": number, "frozen": frozen}
    if model.compiled:
        chosen = vars(model)["_chosen"]
        parts = (model.optimizer, chosen.loss, chosen.loss_weights, chosen.metrics, chosen.weighted)
        facts["compiled"] = [writer.written(part) for part in parts]
        facts["rate"] = None if model.optimizer.schedule is not None else float(model.optimizer.learning_rate)
    return facts | {"layers": writer.rows}


def model_text(model: Any, **options: Any) -> str:
    """The layers of a model as JSON, without tensors."""
    writer = Writer()
    return json.dumps({"version": VERSION, "model": writer.layer(model), "layers": writer.rows}, **options)


def write_model(model: Any, path: Path | str) -> None:
    """What the model is made of, its tensors, and the optimizer's."""
    if not model.built:
        fix = "call it once, or begin with keras.Input(shape=…)"
        raise UsageError("save", got="a model whose weights are not made yet", need="weights", fix=fix)
    text = json.dumps(facts_of(model), sort_keys=True)
    tensors = {f"model.{name}": variable.tensor for name, variable in model.named_tensors().items()}
    if model.compiled:
        slots = model.optimizer.slots_of(model.trainable_parameters())
        tensors |= {f"optimizer.{name}": variable.tensor for name, variable in slots.items()}
    save_tensors(path, tensors, {FACT: text})


def check_written_here(path: Path | str) -> None:
    """FormatError for files that Keras itself writes, which says how their weights come here."""
    place = Path(path)
    if not place.is_file():
        return
    with place.open("rb") as file:
        start = file.read(4)
    if start in FOREIGN:
        fix = 'in Keras np.savez("w.npz", *model.get_weights()), here model.set_weights([*np.load("w.npz").values()])'
        raise FormatError(str(path), got=FOREIGN[start], need="a file of nnc.keras", fix=fix, origin=caller_origin())
