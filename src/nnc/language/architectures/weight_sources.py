"""Tensors of a file by name: their shapes, and their values in f32 when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.values.blocks import FORMATS, dequantize
from nnc.core.values.dtype import BF16, U8
from nnc.core.values.serialize import FileTensor
from nnc.core.values.spec import Shape, TensorSpec
from nnc.core.values.storage import Storage
from nnc.core.values.tensor import Tensor
from nnc.errors import FormatError
from nnc.language.gguf import GgufFile

PLAIN: Mapping[str, np.dtype[Any]] = {
    "f32": np.dtype("<f4"),
    "f16": np.dtype("<f2"),
    "f64": np.dtype("<f8"),
    "bf16": np.dtype(BF16.numpy),
}


class WeightSource(Protocol):
    """A file, or several, whose tensors are read one by one."""

    @property
    def place(self) -> str:
        """What errors call it."""
        ...

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """The tensors that there are."""
        ...

    def shape(self, name: str) -> Shape:
        """The shape of one of them."""
        ...

    def kind(self, name: str) -> str:
        """The element type: a block format, or a plain type."""
        ...

    def rows(self, name: str, start: int, stop: int) -> NDArray[np.float32]:
        """Rows start … stop - 1 of a tensor as [rows, last axis], in f32."""
        ...

    def read_packed(self, name: str, start: int, rows: NDArray[np.uint8]) -> None:
        """Write the bytes of as many rows, from `start` on, into `rows` [rows, bytes of a row]."""
        ...

    def mapped(self, name: str, start: int, stop: int) -> Tensor | None:
        """The same bytes where they lie in a mapped file; None where they have to be read."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class GgufSource:
    """Tensors of a GGUF file."""

    file: GgufFile

    @property
    def place(self) -> str:
        """The file's path."""
        return str(self.file.path)

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """The tensors that there are."""
        return {name: row.shape for name, row in self.file.tensors.items()}

    def shape(self, name: str) -> Shape:
        """The shape of one of them."""
        return self.file.tensors[name].shape

    def kind(self, name: str) -> str:
        """A name of ggml's."""
        return self.file.tensors[name].kind.name

    def rows(self, name: str, start: int, stop: int) -> NDArray[np.float32]:
        """Blocks are dequantized."""
        rows = np.empty((max(stop - start, 0), self.file.tensors[name].row_bytes), np.uint8)
        self.read_packed(name, start, rows)
        return self.values(name, rows)

    def values(self, name: str, data: NDArray[np.uint8]) -> NDArray[np.float32]:
        """What the bytes of some rows of a tensor mean."""
        kind = self.kind(name)
        if kind in FORMATS:
            return dequantize(data, kind)
        if kind not in PLAIN:
            need = f"one of {', '.join((*PLAIN, *FORMATS))}"
            raise FormatError(self.place, got=f"{name} in {kind}", need=need, fix="quantize the file otherwise")
        return np.asarray(data.view(PLAIN[kind]), np.float32)

    def read_packed(self, name: str, start: int, rows: NDArray[np.uint8]) -> None:
        """Read, of a mapped file too: what is copied need not be mapped."""
        self.file.read(name, start, rows)

    def mapped(self, name: str, start: int, stop: int) -> Tensor | None:
        """Blocks of a file that was opened so."""
        mapping, row = self.file.mapping, self.file.tensors[name]
        if mapping is None or row.kind.name not in FORMATS:
            return None
        spec = TensorSpec((stop - start, row.row_bytes), U8)
        return Tensor(spec, Storage.mapping(mapping), row.start + start * row.row_bytes)


@dataclass(frozen=True, slots=True, eq=False)
class SafetensorsSource:
    """Tensors of safetensors files, of which rows are read when they are asked for."""

    place: str
    tensors: Mapping[str, FileTensor]

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """The tensors that there are."""
        return {name: tensor.shape for name, tensor in self.tensors.items()}

    def shape(self, name: str) -> Shape:
        """The shape of one of them."""
        return self.tensors[name].shape

    def kind(self, name: str) -> str:
        """The element type."""
        return self.tensors[name].dtype.name

    def rows(self, name: str, start: int, stop: int) -> NDArray[np.float32]:
        """Floats of any width."""
        tensor = self.tensors[name]
        if not tensor.dtype.is_float:
            raise FormatError(self.place, got=f"{name}: {tensor.spec}", need="floats", fix="use a file in f16 or bf16")
        count, width = (prod(tensor.shape[:-1]), tensor.shape[-1]) if tensor.shape else (1, 1)
        first, last = (min(row, count) for row in (start, max(start, stop)))
        return tensor.flat(first * width, last * width).reshape(last - first, width).astype(np.float32)

    def read_packed(self, name: str, start: int, rows: NDArray[np.uint8]) -> None:
        """Nothing here is packed."""
        raise FormatError(self.place, got=f"{name} in {self.kind(name)}", need="a block format")

    def mapped(self, name: str, start: int, stop: int) -> Tensor | None:
        """Matrices are transposed when they are read."""
        return None
