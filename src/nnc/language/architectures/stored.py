"""Tensors of a network as a file holds them: which part of which tensor each is, and a layer that begins with them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import ClassVar, Protocol

import numpy as np

from nnc.classes import dataclass
from nnc.core.values.blocks import FORMATS, quantize
from nnc.core.values.spec import Shape, TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import FormatError
from nnc.language.architectures.block_formats import format_for
from nnc.language.architectures.low_rank import Products, digest_of
from nnc.language.architectures.tensor_names import GATED, StoredPart
from nnc.language.architectures.weight_sources import PLAIN, WeightSource
from nnc.nn.layers.initializers import Values
from nnc.nn.layers.layer import MultiLayer, ParameterSpec, Scope, T
from nnc.nn.zoo.decoder import TURNS, Decoder
from nnc.nn.zoo.encoder import TextEncoder

# Tables have a row per token in files and here; other matrices are [out, in] there and [in, out] here.
TOKENS, PLACES, TYPES, HEAD = "tokens.weight", "positions.weight", "types.weight", "head.weight"
TABLES = (TOKENS, PLACES, TYPES)
# A matrix of one output, which GGUF files hold as a vector.
SINGLE = ".shared_gate.weight"


class StoredNetwork(Protocol):
    """What says how the parts of a tensor lie in it, and which matrices are in blocks."""

    @property
    def packed(self) -> tuple[tuple[str, str], ...]:
        """Formats by path."""
        ...

    @property
    def heads(self) -> int:
        """Heads of queries."""
        ...

    @property
    def key_value_heads(self) -> int:
        """Heads of keys and values; as many as of queries when 0."""
        ...

    @property
    def head_width(self) -> int:
        """Features of a head."""
        ...

    @property
    def hidden(self) -> int:
        """Inner features of a feed_forward."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class StoredTensors:
    """Tensors of a file under our paths. `raised`: weights of norms are 1 + those of the file.

    `products` are added to the weights of floats when they are read.
    """

    source: WeightSource
    pieces: Mapping[str, StoredPart]
    raised: bool = False
    products: Products = field(default_factory=dict)

    def fingerprint(self) -> str:
        """What tells these weights from others: the last norm and all shapes, hashed. Any training changes a norm."""
        digest = hashlib.sha256(
            json.dumps(sorted((name, *shape) for name, shape in self.source.shapes.items())).encode()
        )
        digest.update(self.source.rows(self.pieces["norm.weight"].name, 0, 1).tobytes())
        digest.update(digest_of(self.products).encode())
        return digest.hexdigest()[:16]

    def check_blocks(self, count: int) -> None:
        """FormatError unless there are so many blocks, before a network of them is built."""
        numbers = {int(matched[1]) for path in self.pieces if (matched := re.match(r"block(\d+)\.", path))}
        if numbers != set(range(count)):
            raise FormatError(self.source.place, got=f"tensors of {len(numbers)} blocks", need=f"those of {count}")

    def packed(self, floats: str = "") -> tuple[tuple[str, str], ...]:
        """The matrices that stay in blocks, by path: those of the file and, where a format is given, those in floats.

        Places that are learned are no matrix of a product.
        """
        made = []
        for path, piece in self.pieces.items():
            kind, shape = self.source.kind(piece.name), self._held(piece)
            if kind in PLAIN and floats and len(shape) == 2 and path not in (PLACES, TYPES):
                row = shape[0] if piece.transposed else shape[1]
                kind = format_for(floats, row, table=path in (TOKENS, HEAD))
            elif piece.transposed:
                continue
            if len(shape) == 2 and kind in FORMATS:
                made.append((path, kind))
        return tuple(made)

    def check(self, decoder: StoredNetwork, specs: Mapping[str, ParameterSpec]) -> None:
        """FormatError unless the file holds the tensors of the network, each of its shape, and no others."""
        own = (TURNS, "lora_a", "lora_b")
        needed = {path: row.spec.shape for path, row in specs.items() if path.rpartition(".")[2] not in own}
        for path in needed.keys() & self.pieces.keys():
            kind = self.source.kind(self.pieces[path].name)
            if kind not in FORMATS and kind not in PLAIN:
                need = f"one of {', '.join((*PLAIN, *FORMATS))}"
                raise FormatError(self.source.place, got=f"{path} in {kind}", need=need, fix="quantize it otherwise")
        missing, further = needed.keys() - self.pieces.keys(), self.pieces.keys() - needed.keys()
        if missing or further:
            got = f"no {min(missing)}" if missing else f"{min(further)}, which the network has not"
            raise FormatError(self.source.place, got=got, need=f"the {len(needed)} tensors of the network")
        for path, shape in needed.items():
            held = self._shape(decoder, path)
            if held != shape:
                raise FormatError(self.source.place, got=f"{path} {list(held)}", need=f"{list(shape)}")

    def _held(self, piece: StoredPart) -> Shape:
        """The shape of the tensor that a part is of; of experts, that of one. The vector of one output is a matrix."""
        shape = self.source.shape(piece.name)
        return shape[1:] if piece.experts else shape

    def _shape(self, decoder: StoredNetwork, path: str) -> Shape:
        piece = self.pieces[path]
        shape = self._held(piece)
        if len(shape) == 1 and path.endswith(SINGLE):
            shape = (1, *shape)
        start, stop = _span(decoder, piece, shape[-1 if piece.transposed else 0] if shape else 0)
        if len(shape) == 1:
            return (stop - start,)
        if len(shape) == 2 and path in dict(decoder.packed):
            row = shape[0] if piece.transposed else shape[1]
            return (stop - start, FORMATS[dict(decoder.packed)[path]].row_bytes(row))
        if len(shape) != 2:
            return shape
        if path in TABLES:
            return (stop - start, shape[1])
        return (shape[0] if piece.transposed else shape[1], stop - start)

    def _rows(self, decoder: StoredNetwork, piece: StoredPart) -> tuple[int, int]:
        """The rows of the tensor that a part is."""
        shape = self._held(piece)
        start, stop = _span(decoder, piece, shape[-1 if piece.transposed else 0])
        return (piece.part * shape[0] + start, piece.part * shape[0] + stop) if piece.experts else (start, stop)

    def mapped(self, decoder: StoredNetwork, path: str) -> Tensor | None:
        """A matrix that stays in blocks, where it lies in a mapped file."""
        piece = self.pieces[path]
        if path not in dict(decoder.packed) or self.source.kind(piece.name) not in FORMATS:
            return None
        return self.source.mapped(piece.name, *self._rows(decoder, piece))

    def mapped_bytes(self, decoder: StoredNetwork) -> tuple[int, int]:
        """Bytes of what lies in a mapped file, and how many of them are read for each token: a table has few rows."""
        held = {path: self.mapped(decoder, path) for path in self.pieces}
        sizes = {path: tensor.spec.nbytes for path, tensor in held.items() if tensor is not None}
        table = sizes.get(TOKENS, 0) if HEAD in self.pieces else 0
        return sum(sizes.values()), sum(sizes.values()) - table

    def write(self, decoder: StoredNetwork, path: str, values: Values) -> None:
        """Write a tensor where it is to lie."""
        piece = self.pieces[path]
        shape = self._held(piece)
        start, stop = self._rows(decoder, piece)
        if values.dtype == np.uint8 and self.source.kind(piece.name) in FORMATS:
            self.source.read_packed(piece.name, start, values.view(np.uint8))
            return
        if len(shape) == 1 and path.endswith(SINGLE):
            array = self.source.rows(piece.name, 0, 1).T
        elif len(shape) == 1:
            array = self.source.rows(piece.name, 0, 1)[0, start:stop]
        elif piece.transposed and path not in TABLES:
            array = self.source.rows(piece.name, 0, shape[0])[:, start:stop]
        else:
            array = self.source.rows(piece.name, start, stop)
            array = array if path in TABLES else array.T
        if path.removesuffix(".weight") in self.products:
            array = array + self.products[path.removesuffix(".weight")].product
        if values.dtype == np.uint8:
            rows = np.ascontiguousarray(array if path in TABLES else array.T)
            values[...] = quantize(rows, dict(decoder.packed)[path])
            return
        raised = self.raised and path.endswith("norm.weight")
        values[...] = array + np.float32(1) if raised else array

    def matrix_shape(self, decoder: StoredNetwork, path: str) -> tuple[int, int]:
        """Inputs and outputs of the dense layer of this path; FormatError where there is none."""
        piece = self.pieces.get(f"{path}.weight")
        shape = self._held(piece) if piece is not None else ()
        if piece is None or len(shape) != 2:
            raise FormatError(self.source.place, got=f"no matrix {path}", need="a dense layer of the network")
        start, stop = _span(decoder, piece, shape[-1 if piece.transposed else 0])
        return (shape[0] if piece.transposed else shape[1], stop - start)


def _span(decoder: StoredNetwork, piece: StoredPart, count: int) -> tuple[int, int]:
    """The outputs of a part, of `count` there are."""
    if not piece.parts:
        return 0, count
    keys = (decoder.key_value_heads or decoder.heads) * decoder.head_width
    rows = (decoder.hidden,) * 2 if piece.parts == GATED else (decoder.heads * decoder.head_width, keys, keys)
    start = sum(rows[: piece.part])
    # What does not add up is a shape that no check passes.
    return (start, start + rows[piece.part]) if sum(rows) == count else (0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class StoredDecoder(MultiLayer):
    """A decoder whose tensors begin as a file has them: each is read when it is made, and none is drawn before."""

    tokens_apart: ClassVar[bool] = True

    decoder: Decoder
    tensors: StoredTensors = field(repr=False)

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to tokens, and to starts where they are packed."""
        return self.decoder.build_many(_begun(scope, self.tensors, self.decoder), inputs)


@dataclass(frozen=True, slots=True, eq=False)
class StoredEncoder(MultiLayer):
    """An encoder whose tensors begin as a folder has them."""

    encoder: TextEncoder
    tensors: StoredTensors = field(repr=False)

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to tokens, and to which of them are there."""
        return self.encoder.build_many(_begun(scope, self.tensors, self.encoder), inputs)


def _begun(scope: Scope[T], tensors: StoredTensors, network: StoredNetwork) -> Scope[T]:
    """The scope, in which a tensor that is stored begins with what it is there."""
    resolve = scope.resolve

    def begun(parameter: ParameterSpec) -> T:
        if parameter.path not in tensors.pieces:
            return resolve(parameter)
        return resolve(replace(parameter, initializer=StoredValues(tensors, network, parameter.path)))

    return replace(scope, resolve=begun)


@dataclass(frozen=True, slots=True, eq=False)
class StoredValues:
    """What a tensor begins with, as a file has it."""

    tensors: StoredTensors
    network: StoredNetwork
    path: str

    def __call__(self, generator: np.random.Generator, values: Values) -> None:
        """Read the values; nothing is drawn."""
        self.tensors.write(self.network, self.path, values)

    def placed(self, spec: TensorSpec) -> Tensor | None:
        """The values where they lie in a mapped file, where they are those of the network."""
        held = self.tensors.mapped(self.network, self.path)
        return held if held is not None and held.spec == spec else None
