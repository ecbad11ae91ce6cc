"""Models and named arrays in safetensors files, arrays in those of NumPy."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from tokenize import TokenError
from typing import Any, overload
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import explained, shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.precautions.reading import opened
from nnc.core.precautions.replacement import write_atomically
from nnc.core.values.device import AnyDevice
from nnc.core.values.serialize import save_tensors
from nnc.core.values.tensor import Tensor
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import tensor
from nnc.dynamic.tree import LEAF, Tree, flatten
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, DTypeError, FormatError, UsageError
from nnc.nn.model.model import Model
from nnc.nn.state.layer_state import LayerState
from nnc.nn.state.tensor_files import stored_tensors


class Stored(dict[str, Variable]):
    """The tensors of a file by path. What was saved as a dictionary of its own is found by its name, with its paths.

    >>> sorted(Stored({"epoch": tensor(3), "net.weight": tensor([1.0])})["net"])
    ['weight']
    """

    def __init__(self, entries: Iterable[tuple[str, Variable]] | Mapping[str, Variable] = ()) -> None:
        try:
            super().__init__(entries)
        except (TypeError, ValueError):
            raise ArgumentError("Stored", got=shown(entries), need="pairs of a path and its tensor") from None

    def __enter__(self) -> Stored:
        """The same, as NumPy's files are: it is read already."""
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is open."""

    def __missing__(self, name: str) -> Stored:
        below = {path.removeprefix(f"{name}."): value for path, value in self.items() if path.startswith(f"{name}.")}
        if not below:
            raise KeyError(name)
        return Stored(below)


def save(path: Path | str | Tree, values: Model | LayerState | Tree) -> None:
    """Write the tensors of a model or layer, or arrays and variables nested in containers, by their paths.

    `{"layer": {"weight": w}}` has the path `layer.weight`. The old file stays until the new one is whole. The values
    may also come first, as PyTorch has it. One array without a name is written to a path that ends in `.npy`.

    >>> nnc.save("x.safetensors", {"x": nnc.ones((2, 3))})
    >>> nnc.load("x.safetensors")["x"].shape
    (2, 3)
    """
    if isinstance(values, Path | str) and not isinstance(path, Path | str):
        path, values = values, path
    if isinstance(values, Model):
        save_tensors(path, values.tensors())
        return
    if isinstance(values, LayerState):
        values.save(path)
        return
    leaves, structure = flatten(values)
    names = list(structure.paths())
    if structure == LEAF and str(path).endswith(".npy"):
        made = io.BytesIO()
        np.save(made, _numpy_of("save", "an array", values), allow_pickle=False)
        write_atomically(Path(str(path)), [made.getbuffer()])
        return
    if structure == LEAF or len(set(names)) < len(names):
        got = "one value without a name" if structure == LEAF else "two values of one path"
        raise UsageError(
            "save",
            got=got,
            need="a model, or arrays by name",
            fix='a dictionary of arrays, or nnc.save("x.npy", value) for one',
        )
    save_tensors(path, {name: _tensor_of(leaf) for name, leaf in zip(names, leaves, strict=True)})


@overload
def load(
    path: Path | str, *, mapped: bool = ..., map_location: AnyDevice | None = ..., weights_only: bool = ...
) -> Any: ...  # noqa: ANN401  # of an array without a name that, else a Stored
@overload
def load(path: Path | str, model: LayerState, *, strict: bool = ..., mapped: bool = ...) -> LayerState: ...
@overload
def load(
    path: Path | str, model: Model, *, strict: bool = ..., rename: Mapping[str, str] | None = ..., mapped: bool = ...
) -> Model: ...
@explained
def load(
    path: Path | str,
    model: Model | LayerState | None = None,
    *,
    strict: bool = True,
    rename: Mapping[str, str] | None = None,
    mapped: bool = False,
    map_location: AnyDevice | None = None,
    weights_only: bool = True,
) -> Stored | Variable | Model | LayerState:
    """The tensors of a file by path (of a file `.npy` its array), or the model or layer, with those of the file.

    The file may be an index of several (`model.safetensors.index.json`), or the folder of either. Tensors are read into
    memory of their own, unless they are to be `mapped`: then they are read-only, and pages of the file that are read
    when they are touched. Nobody may change the file meanwhile; where it was shortened, a use is a FormatError.

    FormatError for a file that is none, and where it does not hold the tensors of the model: then nothing is set. It is
    read whole before anything is set, so that for a moment there are two of each tensor; a mapped one is copied page
    by page, except into a `Model`, whose tensors are those of the file then: processes that map one file have its
    weights in memory once. What such a model trains is its own, and never written to the file.
    `map_location` is the device of what is read; nothing but tensors is ever read, so `weights_only` changes nothing.
    Unless `strict`, what fits is set; `rename` and a report of the rest are those of `Model.load_state_dict`.

    >>> nnc.save("x.safetensors", {"x": nnc.arange(3)})
    >>> nnc.load("x.safetensors")
    {'x': Variable(i64[3], constant)
    [0 1 2]}
    """
    assign = mapped and isinstance(model, Model)
    kind = Path(path).suffix
    tensors: Mapping[str, Tensor]
    if kind in (".npz", ".npy"):
        tensors = _in_numpy_file(path, kind)
    else:
        tensors = stored_tensors(path, mapped=mapped, private=assign)
    if model is None and tensors.keys() == {""}:
        return tensor(tensors[""], share=True, device=map_location)
    if model is None:
        return Stored((name, tensor(entry, share=True, device=map_location)) for name, entry in tensors.items())
    if isinstance(model, LayerState):
        model.load_state_dict({name: entry.numpy() for name, entry in tensors.items()}, strict=strict)
        return model
    model.load_state_dict(tensors, strict=strict, rename=rename, assign=assign)
    return model


def savez(file: Path | str, *args: Tree, **kwds: Tree) -> None:
    """Write arrays by name, those without one as arr_0, arr_1, …, in NumPy's format `.npz`, which `load` reads too.

    The file is made in memory; then it replaces the one that was there, or leaves it as it was: UsageError.

    >>> nnc.savez("x.npz", x=nnc.ones((2, 3)))
    >>> nnc.load("x.npz")["x"].shape
    (2, 3)
    """
    given: object = file
    if not isinstance(given, Path | str):
        raise ArgumentError("savez", got=f"file={shown(file)}", need="a path", origin=caller_origin())
    arrays: dict[str, NDArray[np.generic]] = {}
    for name, value in (*((f"arr_{place}", value) for place, value in enumerate(args)), *kwds.items()):
        if name in arrays:
            raise ArgumentError("savez", got=f"two arrays named {name}", need="a name of its own for each")
        arrays[name] = _numpy_of("savez", name, value)
    made, path = io.BytesIO(), Path(file)
    np.savez(made, **arrays)  # type: ignore[arg-type]  # its other words are no names of arrays
    write_atomically(path if path.suffix == ".npz" else Path(f"{path}.npz"), [made.getbuffer()])


savez_compressed = savez


def _numpy_of(subject: str, name: str, value: Tree) -> NDArray[np.generic]:
    """A copy in NumPy's memory; DTypeError for bf16, which NumPy's files have no type for."""
    array = _tensor_of(value).copied()
    if array.dtype.kind == "V":
        got, fix = f"{name} of bf16", 'nnc.save("x.safetensors", {"x": x}), or x.astype(nnc.f32)'
        raise DTypeError(subject, got=got, need="element types of NumPy", fix=fix, origin=caller_origin())
    return array


def _in_numpy_file(path: Path | str, kind: str) -> dict[str, Tensor]:
    """The arrays of an `.npz` file, or that of an `.npy` file under the name "": FormatError for anything else."""
    need = f"{kind} file of NumPy, without pickled objects"
    try:
        # Mapped, as that looks at the size of the file before memory is taken for what a header says.
        with opened(path, need):
            held = np.load(path, mmap_mode="r", allow_pickle=False)
            if isinstance(held, np.ndarray):
                return {"": Tensor.from_numpy(np.array(held, order="C"))}
            with held:
                return {name: Tensor.from_numpy(held[name]) for name in held.files}
    except (ValueError, EOFError, BadZipFile, NotImplementedError, SyntaxError, TokenError, MemoryError) as error:
        raise FormatError(str(path), got=str(error), need=f"an {need}", origin=caller_origin()) from None


def _tensor_of(value: Tree) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, ArrayOperand):
        return value.tensor if isinstance(value, Variable) else Tensor.from_numpy(value.numpy())
    return Tensor.from_numpy(value)
