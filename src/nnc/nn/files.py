"""Models and named arrays in safetensors files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import overload

from nnc.core.serialize import load_tensors, save_tensors
from nnc.core.tensor import Tensor
from nnc.dynamic.array import ArrayOperand
from nnc.dynamic.eager import tensor
from nnc.dynamic.tree import LEAF, Tree, flatten
from nnc.dynamic.variable import Variable
from nnc.errors import UsageError
from nnc.nn.model import Model


def save(path: Path | str, values: Model | Tree) -> None:
    """Write a model's parameters and statistics, or arrays and variables nested in containers, by their paths.

    `{"layer": {"weight": w}}` has the path `layer.weight`. The old file stays until the new one is whole.
    """
    if isinstance(values, Model):
        save_tensors(path, values.tensors())
        return
    leaves, structure = flatten(values)
    names = list(structure.paths())
    if structure == LEAF or len(set(names)) < len(names):
        got = "one value without a name" if structure == LEAF else "two values of one path"
        raise UsageError("save", got=got, need="a model, or arrays by name", fix="save a dictionary of arrays")
    save_tensors(path, {name: _tensor_of(leaf) for name, leaf in zip(names, leaves, strict=True)})


@overload
def load(path: Path | str) -> dict[str, Variable]: ...
@overload
def load(path: Path | str, model: Model, *, strict: bool = ..., rename: Mapping[str, str] | None = ...) -> Model: ...
def load(
    path: Path | str, model: Model | None = None, *, strict: bool = True, rename: Mapping[str, str] | None = None
) -> dict[str, Variable] | Model:
    """The tensors of a file by path, mapped into memory; or the model, with its tensors set to those of the file.

    FormatError for a file that is none, and where it does not hold the tensors of the model: then nothing is set.
    Unless `strict`, what fits is set; `rename` and a report of the rest are those of `Model.load_state_dict`.
    """
    found = load_tensors(path).tensors
    if model is None:
        return {name: tensor(one, share=True) for name, one in found.items()}
    model.load_state_dict({name: one.numpy() for name, one in found.items()}, strict=strict, rename=rename)
    return model


def _tensor_of(value: Tree) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, ArrayOperand):
        return value.tensor if isinstance(value, Variable) else Tensor.from_numpy(value.numpy())
    return Tensor.from_numpy(value)
