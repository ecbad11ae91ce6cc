"""The tensors of safetensors files: one file, several with an index, or the folder of either."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from nnc.arguments import checked
from nnc.core.precautions.reading import read_file
from nnc.core.values.serialize import FileTensor, file_tensors, load_tensors, read_metadata
from nnc.core.values.tensor import Tensor
from nnc.errors import FormatError

V = TypeVar("V", Tensor, FileTensor)
# Of 100,000 tensors in many files.
MOST_INDEX_BYTES = 1 << 25
# What such files are called in their folders.
WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
# What a layer writes beside its tensors: PyTorch has some of them in another order.
OF_LAYERS = {"order": "nnc"}


def is_of_layers(path: Path | str) -> bool:
    """Whether a file was written by `layer.save`, with weights in our order."""
    place = Path(path)
    return place.is_file() and place.suffix != ".json" and read_metadata(place) == OF_LAYERS


@checked
def stored_tensors(path: Path | str, *, mapped: bool = False, private: bool = False) -> Mapping[str, Tensor]:
    """The tensors of a safetensors file, of all files that an index names, or of a folder that has either.

    `mapped` and `private` as `load_tensors` has them.
    """
    return _stored(Path(path), lambda place: load_tensors(place, mapped=mapped, private=private).tensors)


@checked
def stored_file_tensors(path: Path | str) -> Mapping[str, FileTensor]:
    """The same, each read when it is asked for."""
    return _stored(Path(path), file_tensors)


def _stored(place: Path, load: Callable[[Path], Mapping[str, V]]) -> Mapping[str, V]:
    if os.path.isdir(place):
        place = next((place / name for name in (WHOLE, INDEX) if os.path.exists(place / name)), place / WHOLE)
    if place.suffix != ".json":
        return load(place)
    files: dict[str, list[str]] = {}
    for name, file in _index(place).items():
        files.setdefault(file, []).append(name)
    stored: dict[str, V] = {}
    for file, names in files.items():
        tensors = load(place.parent / file)
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
