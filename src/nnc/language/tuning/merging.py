"""A model's file written again with other tensors: adapters in its matrices, or all that a training made of it.

A GGUF file becomes one, each tensor in its own format; a folder of Hugging Face a folder, with its tokenizer.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import checked
from nnc.core.values.blocks import FORMATS
from nnc.core.values.serialize import FileTensor, save_tensors
from nnc.core.values.tensor import Tensor
from nnc.errors import UsageError
from nnc.language.architectures import ModelFiles, open_files
from nnc.language.architectures.low_rank import Products
from nnc.language.architectures.stored import TABLES
from nnc.language.architectures.tensor_names import StoredPart
from nnc.language.block_writing import FILE_TYPES, block_writer
from nnc.language.gguf import MetadataValue, TensorSource, ValueKind, write_gguf
from nnc.language.tuning.adapters import read_adapter
from nnc.nn.state.tensor_files import WHOLE, stored_file_tensors

# What lies beside the tensors of a folder.
BESIDE = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "tokenizer.model", "chat_template.jinja",
)  # fmt: skip
# Tensors in blocks that were trained: no block of few bits holds what an update changes.
TRAINED_KIND = "f16"
Floats = NDArray[np.float32]
# A tensor of the file by name: what it holds now, in the layout of the file; None where it is as it was.
Changed = Callable[[str], "Floats | None"]


@checked
def merge(path: Path | str, adapter: Path | str, output: Path | str) -> None:
    """Write a model with an adapter's products added to its matrices, as a file or folder of the same kind.

    A GGUF file keeps its formats: matrices in blocks are rounded to them again. FormatError for an adapter of another
    model.
    """
    files = open_files(path)
    write_merged(files, read_adapter(adapter, files), Path(output))


def write_merged(files: ModelFiles, products: Products, output: Path) -> None:
    """Write the files with these products in their matrices."""
    source, changed = files.tensors.source, _by_name(files, {f"{path}.weight" for path in products})

    def now(name: str) -> Floats | None:
        parts = changed.get(name)
        if parts is None:
            return None
        shape = source.shapes[name]
        whole = source.rows(name, 0, prod(shape[:-1]))
        added = []
        for part, path in parts:
            product = products.get(path.removesuffix(".weight"))
            size = files.tensors.matrix_shape(decoder, path.removesuffix(".weight"))
            matrix = np.zeros(size, np.float32) if product is None else product.product
            added.append(matrix if part.transposed else matrix.T)
        return whole + np.concatenate(added, axis=1 if parts[0][0].transposed else 0)

    decoder = files.decoder(files.facts.context).decoder
    _write(files, now, output, trained=False)


def write_trained(files: ModelFiles, tensors: Mapping[str, Floats], output: Path) -> None:
    """Write the files with all these tensors, which have our paths and layouts."""
    named = _by_name(files, set(tensors))

    def now(name: str) -> Floats | None:
        parts = named.get(name)
        return None if parts is None else _as_in_file(files, parts, tensors)

    _write(files, now, output, trained=True)


def _by_name(files: ModelFiles, paths: set[str]) -> dict[str, list[tuple[StoredPart, str]]]:
    """The parts of each tensor of the file that holds one of these, in order."""
    named: dict[str, list[tuple[StoredPart, str]]] = {}
    for path, piece in files.tensors.pieces.items():
        named.setdefault(piece.name, []).append((piece, path))
    wanted = {files.tensors.pieces[path].name for path in paths if path in files.tensors.pieces}
    return {name: sorted(named[name], key=lambda each: each[0].part) for name in wanted}


def _as_in_file(files: ModelFiles, parts: list[tuple[StoredPart, str]], tensors: Mapping[str, Floats]) -> Floats:
    arrays = []
    for part, path in parts:
        array = tensors[path]
        if files.tensors.raised and path.endswith("norm.weight"):
            array = array - np.float32(1)
        arrays.append(array if array.ndim < 2 or part.transposed or path in TABLES else array.T)
    return np.concatenate(arrays, axis=-1 if parts[0][0].transposed else 0)


def check_output(files: ModelFiles, output: Path) -> None:
    """UsageError unless the files can be written there: as a file where they are one, else as another folder."""
    if (files.gguf is None) is (output.suffix == ".gguf"):
        need = "a name that ends with .gguf" if files.gguf is not None else "a folder"
        raise UsageError("output", got=str(output), need=f"{need}, as the model is of that kind")
    if os.path.exists(output) and output.samefile(files.place):
        raise UsageError("output", got=str(output), need="another place than the model's own")


def _write(files: ModelFiles, now: Changed, output: Path, *, trained: bool) -> None:
    check_output(files, output)
    if files.gguf is not None:
        _write_gguf(files, now, output, trained=trained)
    else:
        _write_folder(files, now, output)


def _write_gguf(files: ModelFiles, now: Changed, output: Path, *, trained: bool) -> None:
    file = files.gguf
    assert file is not None
    sources = []
    for row in file.tensors.values():
        kind = TRAINED_KIND if trained and row.kind.name in FORMATS else row.kind.name
        sources.append(_source(files, row.name, kind, now))
    file_type = MetadataValue(ValueKind.U32, FILE_TYPES[TRAINED_KIND])
    write_gguf(output, {**file.metadata, "general.file_type": file_type} if trained else file.metadata, sources)


def _source(files: ModelFiles, name: str, kind: str, now: Changed) -> TensorSource:
    file = files.gguf
    assert file is not None
    row = file.tensors[name]

    def read() -> NDArray[np.uint8]:
        values = now(name)
        if values is None and kind == row.kind.name:
            return file.bytes(name)
        whole = files.tensors.source.rows(name, 0, prod(row.shape[:-1])) if values is None else values
        return block_writer(kind)(whole.reshape(-1, row.shape[-1]))

    return TensorSource(name, row.shape, kind, read)


def _write_folder(files: ModelFiles, now: Changed, output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name in BESIDE:
            if os.path.isfile(files.place / name):
                shutil.copyfile(files.place / name, output / name)
    except OSError as error:
        raise UsageError(str(output), got=str(error.strerror).lower(), need="a folder to write") from None
    tensors: dict[str, Tensor | FileTensor] = {}
    for name, tensor in stored_file_tensors(files.place).items():
        values = now(name)
        tensors[name] = tensor if values is None else Tensor.from_numpy(values.astype(tensor.dtype.numpy))
    save_tensors(output / WHOLE, tensors, {"format": "pt"})
