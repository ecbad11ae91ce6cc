"""Models in files that need no code to be read: what they are made of as JSON, beside their tensors.

Layers, losses, optimizers and what they hold are values: a class by name, and fields. Reading makes objects of classes
of nnc, and of those that the caller names, from fields alone; nothing that a file says is run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from nnc.arguments import checked
from nnc.concrete import TuneOptions
from nnc.core.values.dtype import dtype_of
from nnc.core.values.serialize import load_tensors
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.dynamic import eager
from nnc.dynamic.state import parameter_over
from nnc.errors import FormatError, NncError
from nnc.nn.layers.combine import LayerParts
from nnc.nn.layers.functional import LayerCall
from nnc.nn.layers.layer import Input, Layer, UpTo
from nnc.nn.model.model import Model
from nnc.nn.model.model_saving import FACT, VERSION, found, is_function, public_name
from nnc.nn.optimization.joint_losses import JointLoss
from nnc.nn.optimization.losses import Loss
from nnc.nn.optimization.optimizer_base import Optimizer
from nnc.nn.optimization.schedules import RateSchedule
from nnc.nn.state.layer_state import LayerState
from nnc.symbolic.passes import Pass

# What a file may make objects of, and where functions may come from.
VALUES = (Layer, Loss, JointLoss, Optimizer, RateSchedule, Input, UpTo, LayerCall, Pass, TuneOptions)
MODULES = ("nnc.nn.layers.initializers", "nnc.nn.optimization.loss_scale", "nnc.ops.loss.loss")

Classes = Mapping[str, type]


@checked
def load_model(path: Path | str, *, classes: Iterable[type] = ()) -> Model:
    """The model of a file that `save_model` wrote, with its weights; `classes` are layers of one's own in it.

    FormatError for a file that is none, that names anything else, or whose tensors are not those of its layers.

    >>> nn.save_model("net.safetensors", nn.Model(nn.Dense(2), (3,)))
    >>> nn.load_model("net.safetensors").predict(np.ones((5, 3), np.float32)).shape
    (5, 2)
    """
    file = load_tensors(path)
    known = {public_name(class_): class_ for class_ in classes}
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
        case "layer":
            return _with_own(_read(content[0], known), _read(content[1], known))
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


def _with_own(layer: LayerState, stated: Mapping[str, Any]) -> LayerState:
    """A layer with tensors of its own, whose values are set by path when the model has them."""
    own = layer.own
    for name, (shape, dtype) in stated["parameters"].items():
        own.variables[name] = parameter_over(Tensor.zeros(TensorSpec(shape, dtype)))
    for name, (shape, dtype) in stated["buffers"].items():
        own.statistics[name] = eager.tensor(Tensor.zeros(TensorSpec(shape, dtype)), share=True)
    for name in stated["constant"]:
        own.variables[name].requires_grad = False
    own.frozen, own.called = bool(stated["frozen"]), bool(stated["called"])
    return layer


def _class(name: str, known: Classes) -> type:
    """A class of nnc that a model is made of, or one of the caller's."""
    if name in known:
        return known[name]
    named = found(name) if name.startswith("nnc.") else None
    if isinstance(named, type) and (issubclass(named, VALUES) or named.__module__ in MODULES):
        return named
    raise FormatError("model", got=f"the class {name}", need="one of nnc", fix="name it in classes=")


def _function(name: str) -> object:
    if not is_function(name):
        raise FormatError("model", got=f"the function {name}", need="a function of nnc.ops")
    return found(name)
