"""Models and named arrays in safetensors files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import overload

from nnc.arguments import checked
from nnc.core.precautions.reading import read_file
from nnc.core.values.serialize import load_tensors, save_tensors
from nnc.core.values.tensor import Tensor
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import tensor
from nnc.dynamic.tree import LEAF, Tree, flatten
from nnc.dynamic.variable import Variable
from nnc.errors import FormatError, UsageError
from nnc.nn.model.model import Model

# Of 100,000 tensors in many files.
MOST_INDEX_BYTES = 1 << 25
# What such files are called in their folders.
WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"


def save(path: Path | str | Tree, values: Model | Tree) -> None:
    """Write a model's parameters and statistics, or arrays and variables nested in containers, by their paths.

    `{"layer": {"weight": w}}` has the path `layer.weight`. The old file stays until the new one is whole. The values
    may also come first, as PyTorch has it.

    >>> nnc.save("x.safetensors", {"x": nnc.ones((2, 3))})
    >>> nnc.load("x.safetensors")["x"].shape
    (2, 3)
    """
    if isinstance(values, Path | str) and not isinstance(path, Path | str):
        path, values = values, path
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
def load(path: Path | str, *, mapped: bool = ...) -> dict[str, Variable]: ...
@overload
def load(path: Path | str, model: Model, *, strict: bool = ..., rename: Mapping[str, str] | None = ...) -> Model: ...
def load(
    path: Path | str,
    model: Model | None = None,
    *,
    strict: bool = True,
    rename: Mapping[str, str] | None = None,
    mapped: bool = False,
) -> dict[str, Variable] | Model:
    """The tensors of a file by path; or the model, with its tensors set to those of the file.

    The file may be an index of several (`model.safetensors.index.json`), or the folder of either. Tensors are read into
    memory of their own, unless they are to be `mapped`: then they are read-only, and pages of the file that are read
    when they are touched. Nobody may change the file meanwhile; where it was shortened, a use is a FormatError.

    FormatError for a file that is none, and where it does not hold the tensors of the model: then nothing is set.
    Unless `strict`, what fits is set; `rename` and a report of the rest are those of `Model.load_state_dict`.

    >>> nnc.save("x.safetensors", {"x": nnc.arange(3)})
    >>> nnc.load("x.safetensors")
    {'x': Variable(i64[3], constant)
    [0 1 2]}
    """
    tensors = stored_tensors(path, mapped=mapped or model is not None)
    if model is None:
        return {name: tensor(entry, share=True) for name, entry in tensors.items()}
    model.load_state_dict({name: entry.numpy() for name, entry in tensors.items()}, strict=strict, rename=rename)
    return model


@checked
def stored_tensors(path: Path | str, *, mapped: bool = False) -> Mapping[str, Tensor]:
    """The tensors of a safetensors file, of all files that an index names, or of a folder that has either."""
    place = Path(path)
    if place.is_dir():
        place = next((place / name for name in (WHOLE, INDEX) if (place / name).exists()), place / WHOLE)
    if place.suffix != ".json":
        return load_tensors(place, mapped=mapped).tensors
    files: dict[str, list[str]] = {}
    for name, file in _index(place).items():
        files.setdefault(file, []).append(name)
    stored: dict[str, Tensor] = {}
    for file, names in files.items():
        tensors = load_tensors(place.parent / file, mapped=mapped).tensors
        missing = [name for name in names if name not in tensors]
        if missing:
            raise FormatError(str(place.parent / file), got=f"no {missing[0]}", need="the tensors that the index names")
        stored.update((name, tensors[name]) for name in names)
    return stored


def _index(place: Path) -> dict[str, str]:
    """The file of each tensor, all of them beside the index."""
    try:
        match json.loads(read_file(place, "an index of safetensors files", MOST_INDEX_BYTES).decode()):
            case {"weight_map": dict(files)} if all(isinstance(entry, str) for entry in files.values()):
                outside = next((file for file in files.values() if Path(file).name != file), None)
                if outside is None:
                    return files
                raise FormatError(str(place), got=f"the file {outside!r}", need="names of files beside the index")
    except (ValueError, RecursionError):
        pass
    raise FormatError(str(place), got="no map of weights", need="an index of safetensors files")


def _tensor_of(value: Tree) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, ArrayOperand):
        return value.tensor if isinstance(value, Variable) else Tensor.from_numpy(value.numpy())
    return Tensor.from_numpy(value)
