"""Models in files that need no code to be read: what they are made of as JSON, beside their tensors.

Layers, losses, optimizers and what they hold are values: a class by name, and fields. Reading makes objects of classes
of nnc, and of those that the caller names, from fields alone; nothing that a file says is run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from inspect import signature
from math import isfinite
from pathlib import Path
from types import FunctionType
from typing import Any

from nnc.arguments import checked
from nnc.concrete import TuneOptions
from nnc.core.values.dtype import DType, dtype_of
from nnc.core.values.serialize import load_tensors, save_tensors
from nnc.errors import FormatError, NncError, UsageError
from nnc.graph import Json
from nnc.nn.layers.combine import LayerParts
from nnc.nn.layers.functional import Functional, LayerCall
from nnc.nn.layers.layer import Input, Layer, UpTo
from nnc.nn.model.model import Model
from nnc.nn.optimization.joint_losses import JointLoss
from nnc.nn.optimization.losses import Loss
from nnc.nn.optimization.optimizers import Optimizer
from nnc.nn.optimization.schedules import RateSchedule
from nnc.ops.function import FunctionOperator
from nnc.symbolic.passes import Pass

VERSION, FACT = 1, "nnc.model"
PUBLIC = "nnc.nn"
# What a file may make objects of, and where functions may come from.
VALUES = (Layer, Loss, JointLoss, Optimizer, RateSchedule, Input, UpTo, LayerCall, Pass, TuneOptions)
MODULES = ("nnc.nn.layers.initializers", "nnc.nn.optimization.loss_scale", "nnc.ops.loss.loss")
FUNCTIONS = ("nnc.nn.layers.initializers.", "nnc.ops.")
# What a model takes by name, and has by the same name; losses alone are kept under another.
OPTIONS = tuple(
    name
    for name, parameter in signature(Model).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY and name not in ("loss", "loss_weights")
)


Classes = Mapping[str, type]


@checked
def save_model(path: Path | str, model: Model) -> None:
    """Write what the model is made of and its tensors; `load_model` needs neither the code nor a pickle.

    UsageError names what has no name of its own in nnc, such as the function of a `Lambda`; nothing is written then.

    >>> model = nn.Model(nn.Sequential(nn.Dense(4), nn.ReLU(), nn.Dense(2)), (3,))
    >>> nn.save_model("net.safetensors", model)
    >>> nn.load_model("net.safetensors").output_shape
    (2,)
    """
    spec = json.dumps({"version": VERSION, "model": _written(_parts(model), "model")}, sort_keys=True)
    model.between_updates("save_model", lambda: save_tensors(path, model.tensors(), {FACT: spec}))


@checked
def load_model(path: Path | str, *, classes: Iterable[type] = ()) -> Model:
    """The model of a file that `save_model` wrote, with its weights; `classes` are layers of one's own in it.

    FormatError for a file that is none, that names anything else, or whose tensors are not those of its layers.

    >>> nn.save_model("net.safetensors", nn.Model(nn.Dense(2), (3,)))
    >>> nn.load_model("net.safetensors").predict(np.ones((5, 3), np.float32)).shape
    (5, 2)
    """
    file = load_tensors(path, mapped=True)
    known = {_name(class_): class_ for class_ in classes}
    try:
        facts = json.loads(file.metadata[FACT])
        if facts["version"] != VERSION:
            raise FormatError(str(path), got="a model of another version of nnc", need=f"version {VERSION}")
        parts = _read(facts["model"], known)
        inputs = parts.pop("inputs")
        model = Model(parts.pop("layer"), inputs, **parts)
    except FormatError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, NncError) as error:
        told = str(error) if isinstance(error, NncError) else f"a damaged description of a model ({error!r})"
        raise FormatError(str(path), got=told, need="a file of save_model") from None
    model.load_state_dict({name: tensor.numpy() for name, tensor in file.tensors.items()})
    return model


def _parts(model: Model) -> dict[str, object]:
    """The arguments that make the same model."""
    shapes: list[tuple[int | UpTo, ...]] = [
        (UpTo(spec.shape[0]), *spec.shape[1:]) if is_open else spec.shape
        for spec, is_open in zip(model.inputs, model.open, strict=True)
    ]
    inputs: object = tuple(Input(shape, spec.dtype) for shape, spec in zip(shapes, model.inputs, strict=True))
    if len(shapes) == 1:
        inputs = shapes[0]
    options = {name: getattr(model, name) for name in OPTIONS}
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
            return {"member": [_name(type(value)), value.name]}
        case tuple():
            return {"tuple": [_written(entry, f"{place}[{index}]") for index, entry in enumerate(value)]}
        case list():
            return [_written(entry, f"{place}[{index}]") for index, entry in enumerate(value)]
        case Mapping():
            return {"map": [[_written(key, place), _written(entry, f"{place}.{key}")] for key, entry in value.items()]}
        case FunctionType() | FunctionOperator():
            if not _is_function(_name(value)):
                got, fix = f"the function {value.__qualname__} as {place}", "make it a layer of your own"
                raise UsageError("save_model", got=got, need="a function of nnc.ops", fix=fix)
            return {"name": _name(value)}
        case _:
            return {"object": [_name(type(value)), _written(_fields(value), place)]}


def _fields(value: object) -> dict[str, object]:
    """What makes an equal object of its class."""
    if isinstance(value, LayerParts):
        return {"parts": value.parts}
    if isinstance(value, Functional):
        return {"calls": value.calls, "inputs": value.inputs, "sources": value.sources}
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    return dict(vars(value))


def _read(stored: Any, known: Classes) -> Any:  # noqa: ANN401  # of any kind
    """What `_written` wrote."""
    if isinstance(stored, list):
        return [_read(entry, known) for entry in stored]
    if not isinstance(stored, dict):
        return stored
    ((kind, content),) = stored.items()
    match kind:
        case "float":
            return float(content)
        case "dtype":
            return dtype_of(content)
        case "tuple":
            return tuple(_read(entry, known) for entry in content)
        case "map":
            return {_read(key, known): _read(entry, known) for key, entry in content}
        case "member":
            return _class(content[0], known)[content[1]]  # type: ignore[index]  # an Enum
        case "name":
            return _function(content)
        case "object":
            return _made(_class(content[0], known), _read(content[1], known))
    raise ValueError(kind)


def _made(kind: type, given: dict[str, Any]) -> object:
    """An object of its fields."""
    if is_dataclass(kind):
        return kind(**given)
    made: object = object.__new__(kind)
    if isinstance(made, LayerParts):
        LayerParts.__init__(made, **dict(given["parts"]))
    else:
        for name, value in given.items():
            object.__setattr__(made, name, value)
    return made


def _class(name: str, known: Classes) -> type:
    """A class of nnc that a model is made of, or one of the caller's."""
    if name in known:
        return known[name]
    named = _found(name) if name.startswith("nnc.") else None
    if isinstance(named, type) and (issubclass(named, VALUES) or named.__module__ in MODULES):
        return named
    raise FormatError("model", got=f"the class {name}", need="one of nnc", fix="name it in classes=")


def _function(name: str) -> object:
    if not _is_function(name):
        raise FormatError("model", got=f"the function {name}", need="a function of nnc.ops")
    return _found(name)


def _is_function(name: str) -> bool:
    return name.startswith(FUNCTIONS) and isinstance(_found(name), FunctionType | FunctionOperator)


def _found(name: str) -> object:
    """What stands under this name at the top of a module of nnc; None where nothing does."""
    module, _, leaf = name.rpartition(".")
    try:
        return getattr(import_module(module), leaf, None)
    except ImportError:
        return None


def _name(value: type | FunctionType | FunctionOperator) -> str:
    """By what everybody calls it where it is public: files outlive the modules that it is written in."""
    public = getattr(import_module(PUBLIC), value.__qualname__, None) is value
    return f"{PUBLIC if public else value.__module__}.{value.__qualname__}"
