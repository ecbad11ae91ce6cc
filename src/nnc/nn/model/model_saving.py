"""What a model is made of as JSON, beside its tensors in one file: `nnc.nn.load_model` reads it without code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from inspect import signature
from math import isfinite
from pathlib import Path
from types import FunctionType

from nnc.arguments import checked
from nnc.core.values.dtype import DType
from nnc.errors import UsageError
from nnc.graph import Json
from nnc.nn.layers.combine import LayerParts
from nnc.nn.layers.functional import Functional
from nnc.nn.layers.layer import Input, UpTo
from nnc.nn.model.model_weights import ModelWeights
from nnc.nn.state.layer_state import LayerState
from nnc.ops.function import FunctionOperator

# Losses are kept under one name, with their weights; memory is that of the process that loads.
LATER = ("loss", "loss_weights", "device", "arena", "mesh", "zero_stage", "pipeline", "compress")
VERSION, FACT = 1, "nnc.model"
PUBLIC = "nnc.nn"
# Where functions may come from.
FUNCTIONS = ("nnc.nn.initializers.", "nnc.nn.layers.initializers.", "nnc.ops.")


@checked
def save_model(path: Path | str, model: ModelWeights) -> None:
    """Write what the model is made of and its tensors; `load_model` needs neither the code nor a pickle.

    UsageError names what has no name of its own in nnc, such as the function of a `Lambda`; nothing is written then.

    >>> model = nn.Model(nn.Sequential(nn.Dense(4), nn.ReLU(), nn.Dense(2)), (3,))
    >>> nn.save_model("net.safetensors", model)
    >>> nn.load_model("net.safetensors").output_shape
    (2,)
    """
    spec = json.dumps({"version": VERSION, "model": _written(_parts(model), "model")}, sort_keys=True)
    model.between_updates("save_model", lambda: model.write_whole(path, {FACT: spec}))


def _options(model: type) -> tuple[str, ...]:
    """What a model takes by name, and has by the same name; losses alone are kept under another.

    Device and arena are those of the machine that loads it, and ranks those of the launch.
    """
    given = signature(model).parameters.items()
    return tuple(name for name, parameter in given if parameter.kind is parameter.KEYWORD_ONLY and name not in LATER)


def _parts(model: ModelWeights) -> dict[str, object]:
    """The arguments that make the same model."""
    shapes: list[tuple[int | UpTo, ...]] = [
        (UpTo(spec.shape[0]), *spec.shape[1:]) if is_open else spec.shape
        for spec, is_open in zip(model.inputs, model.open, strict=True)
    ]
    inputs: object = tuple(Input(shape, spec.dtype) for shape, spec in zip(shapes, model.inputs, strict=True))
    if len(shapes) == 1:
        inputs = shapes[0]
    options = {name: getattr(model, name) for name in _options(type(model))}
    return options | {"layer": model.layer, "inputs": inputs, "loss": model.joint or model.losses}


def _written(value: object, place: str) -> Json:
    """A value as JSON; `place` says where it stands."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if isfinite(value) else {"float": repr(value)}
        case DType():
            return {"dtype": value.name}
        case Enum():
            return {"member": [public_name(type(value)), value.name]}
        case tuple():
            return {"tuple": [_written(entry, f"{place}[{index}]") for index, entry in enumerate(value)]}
        case list():
            return [_written(entry, f"{place}[{index}]") for index, entry in enumerate(value)]
        case Mapping():
            return {"map": [[_written(key, place), _written(entry, f"{place}.{key}")] for key, entry in value.items()]}
        case FunctionType() | FunctionOperator():
            if not is_function(public_name(value)):
                got, fix = f"the function {value.__qualname__} as {place}", "make it a layer of your own"
                raise UsageError("save_model", got=got, need="a function of nnc.ops", fix=fix)
            return {"name": public_name(value)}
        case LayerState() if value.own.variables or value.own.statistics or value.own.frozen:
            made: Json = {"object": [public_name(type(value)), _written(_fields(value), place)]}
            return {"layer": [made, _written(_own(value), place)]}
        case _:
            return {"object": [public_name(type(value)), _written(_fields(value), place)]}


def _fields(value: object) -> dict[str, object]:
    """What makes an equal object of its class."""
    if isinstance(value, LayerParts):
        return {"parts": value.parts}
    if isinstance(value, Functional):
        return {"calls": value.calls, "inputs": value.inputs, "sources": value.sources}
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    return dict(vars(value))


def _own(layer: LayerState) -> dict[str, object]:
    """Which tensors a layer has of its own, without their values, and whether they are trained."""
    own = layer.own
    tensors = {"parameters": own.variables, "buffers": own.statistics}
    specs: dict[str, object] = {
        kind: {name: (tuple(value.shape), value.dtype) for name, value in group.items()}
        for kind, group in tensors.items()
    }
    constant = [name for name, value in own.variables.items() if not value.requires_grad]
    return specs | {"constant": constant, "frozen": own.frozen, "called": own.called}


def is_function(name: str) -> bool:
    """Whether a name is that of a function which files may name."""
    return name.startswith(FUNCTIONS) and isinstance(found(name), FunctionType | FunctionOperator)


def found(name: str) -> object:
    """What stands under this name at the top of a module of nnc; None where nothing does."""
    module, _, leaf = name.rpartition(".")
    try:
        return getattr(import_module(module), leaf, None)
    except ImportError:
        return None


def public_name(value: type | FunctionType | FunctionOperator) -> str:
    """By what everybody calls it where it is public: files outlive the modules that it is written in."""
    public = getattr(import_module(PUBLIC), value.__qualname__, None) is value
    return f"{PUBLIC if public else value.__module__}.{value.__qualname__}"
