"""Tensors of a model under PyTorch's names and in its layouts, both ways.

    Dense                 weight[in, out]                      weight[out, in]
    Convolution, Conv2d   weight[h, w, in, out]                weight[out, in, h, w]
    Convolution1D         weight[steps, in, out]               weight[out, in, steps]
    Convolution3D         weight[d, h, w, in, out]             weight[out, in, d, h, w]
    ConvolutionTranspose  weight[h, w, out, in]                weight[in, out, h, w]; in 3D too
    BatchNorm             running_variance                     running_var
    RNN, GRU, LSTM        0.input_weight, 0.state_weight       weight_ih_l0, weight_hh_l0 (transposed)
                          0.bias, 0.state_bias (GRU)           bias_ih_l0, bias_hh_l0; their sum where there is one
                          0.reverse.bias                       bias_ih_l0_reverse

Layers that are told their sizes, as PyTorch's are (`nn.Linear`, `nn.LSTM(8, 16)`), have its names and layouts anyway:
`net.load_state_dict(theirs)` takes them; of `nn.Conv2d` it takes either layout.

Paths are those of the model (`body.0.weight`); attention has four dense layers, query, key, value and output.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import checked
from nnc.core.values.tensor import as_array
from nnc.errors import FormatError
from nnc.nn.model.load_report import LoadReport
from nnc.nn.model.model import Model
from nnc.nn.state.layer_state import LayerState, dotted
from nnc.nn.state.loading import EXACT, UnfitKeys

Array = NDArray[np.generic]

RECURRENT_LAYERS = ("RNN", "GRU", "LSTM")
# By the class of the layer and the name of the tensor: its axes in PyTorch's order.
AXES: Mapping[tuple[str, str], tuple[int, ...]] = MappingProxyType(
    {
        ("Dense", "weight"): (1, 0),
        ("Convolution", "weight"): (3, 2, 0, 1),
        ("Conv2d", "weight"): (3, 2, 0, 1),
        ("Convolution1D", "weight"): (2, 1, 0),
        ("Conv1d", "weight"): (2, 1, 0),
        ("Convolution3D", "weight"): (4, 3, 0, 1, 2),
        ("Conv3d", "weight"): (4, 3, 0, 1, 2),
        ("ConvTranspose2d", "weight"): (3, 2, 0, 1),
        ("ConvolutionTranspose", "weight"): (3, 2, 0, 1),
        ("ConvolutionTranspose3D", "weight"): (4, 3, 0, 1, 2),
        **{(kind, name): (1, 0) for kind in RECURRENT_LAYERS for name in ("input_weight", "state_weight")},
    }
)
NAMES: Mapping[tuple[str, str], str] = MappingProxyType({("BatchNorm", "running_variance"): "running_var"})
# What PyTorch counts and nothing here reads.
COUNTED = "num_batches_tracked"
RECURRENT = {
    "input_weight": "weight_ih_l",
    "state_weight": "weight_hh_l",
    "bias": "bias_ih_l",
    "state_bias": "bias_hh_l",
}


@checked
def torch_state_dict(model: Model | LayerState) -> dict[str, Array]:
    """Copies of all tensors of a model, a layer or a module, as PyTorch's `state_dict()` has those of the same layers.

    >>> weights = nn.torch_state_dict(nn.Model(nn.Sequential(nn.Dense(4), nn.Dense(2)), (3,)))
    >>> {name: weight.shape for name, weight in sorted(weights.items())}
    {'0.bias': (4,), '0.weight': (4, 3), '1.bias': (2,), '1.weight': (2, 4)}
    """
    arrays: dict[str, Array] = {}
    owners = _owners(model)
    for path, array in model.state_dict().items():
        name = _theirs(owners, path)
        arrays[name] = np.ascontiguousarray(array.transpose(_axes(owners, path, array.ndim)))
        if "bias_ih_l" in name:
            arrays.setdefault(name.replace("bias_ih_l", "bias_hh_l"), np.zeros_like(arrays[name]))
    return arrays


@overload
def load_torch_state_dict(
    model: Model, values: Mapping[str, ArrayLike], *, strict: bool = True, rename: Mapping[str, str] | None = None
) -> LoadReport: ...
@overload
def load_torch_state_dict(
    model: LayerState, values: Mapping[str, ArrayLike], *, strict: bool = True, rename: Mapping[str, str] | None = None
) -> UnfitKeys: ...
@checked
def load_torch_state_dict(
    model: Model | LayerState,
    values: Mapping[str, ArrayLike],
    *,
    strict: bool = True,
    rename: Mapping[str, str] | None = None,
) -> LoadReport | UnfitKeys:
    """Set the tensors of a model, a layer or a module from a PyTorch state dictionary.

    Errors and the report are in our own paths.

    Torch tensors are taken by way of `__array__` (on the CPU, detached); `rename` is that of `Model.load_state_dict`.

    >>> model = nn.Model(nn.Sequential(nn.Dense(2)), (3,))
    >>> theirs = {"0.weight": np.ones((2, 3), np.float32), "0.bias": np.zeros(2, np.float32)}
    >>> print(nn.load_torch_state_dict(model, theirs))
    all 2 tensors fit
    >>> model.predict(np.ones((1, 3), np.float32))
    array([[3., 3.]], dtype=float32)
    """
    arrays = _renamed(values, rename or {})
    owners = _owners(model)
    paths = {_theirs(owners, path): path for path in owners}
    tensors: dict[str, Array] = {}
    for name, array in arrays.items():
        summed = "bias_hh_l" in name and name not in paths
        if name.endswith(COUNTED) or (summed and name.replace("bias_hh_l", "bias_ih_l") in paths):
            continue
        path = paths.get(name, name)
        axes = _axes(owners, path, array.ndim)
        beside = name.replace("bias_ih_l", "bias_hh_l")
        other = arrays.get(beside) if beside not in paths and "bias_ih_l" in name else None
        whole = array if other is None else np.asarray(array + other, array.dtype)  # type: ignore[operator]  # numbers
        tensors[path] = whole.transpose(np.argsort(axes))
    if isinstance(model, Model):
        return model.load_state_dict(tensors, strict=strict)
    return model.take_tensors(tensors, EXACT if strict else ())


def _renamed(values: Mapping[str, ArrayLike], rules: Mapping[str, str]) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for name, value in values.items():
        for pattern, replacement in rules.items():
            name = re.sub(pattern, replacement, name)
        if name in arrays:
            raise FormatError("state", got=f"two tensors of name {name}", need="a name for each")
        arrays[name] = as_array(value)
    return arrays


def _owners(model: Model | LayerState) -> dict[str, str]:
    """The class of the layer that each tensor belongs to, by path."""
    if isinstance(model, Model):
        return {path: spec.owner for path, spec in model.specs.items()}
    return {
        dotted(place, name): type(layer).__name__
        for place, layer in model.named_modules()
        for name in (*layer.sized_tensors(), *layer.own.variables, *layer.own.statistics)
    }


def _theirs(owners: Mapping[str, str], path: str) -> str:
    """PyTorch's name of a tensor."""
    owner = owners[path]
    place, _, name = path.rpartition(".")
    # Those of `nn.LSTM(input_size, hidden_size)` have PyTorch's names.
    if owner in RECURRENT_LAYERS and name in RECURRENT:
        reverse = "_reverse" if place.rpartition(".")[2] == "reverse" else ""
        place, _, layer = place.removesuffix(".reverse").rpartition(".")
        name = f"{RECURRENT[name]}{layer}{reverse}"
    else:
        name = NAMES.get((owner, name), name)
    return f"{place}.{name}" if place else name


def _axes(owners: Mapping[str, str], path: str, rank: int) -> tuple[int, ...]:
    """Our axes in PyTorch's order; as they are where the shape would not fit anyway."""
    owner, name = owners.get(path, ""), path.rpartition(".")[2]
    axes = AXES.get((owner, name), ())
    return axes if len(axes) == rank else tuple(range(rank))
