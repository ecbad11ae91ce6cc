"""Tensors of a network as a file holds them: which part of which tensor each is, and a layer that begins with them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from nnc.classes import dataclass
from nnc.core.values.blocks import FORMATS
from nnc.core.values.spec import Shape
from nnc.errors import FormatError
from nnc.language.architectures.tensor_names import GATED, StoredPart
from nnc.language.architectures.weight_sources import PLAIN, WeightSource
from nnc.nn.layers.initializers import Values
from nnc.nn.layers.layer import Layer, ParameterSpec, Scope, T
from nnc.nn.zoo.decoder import TURNS, Decoder

# Tables have a row per token in files and here; other matrices are [out, in] there and [in, out] here.
TABLES = ("tokens.weight", "positions.weight")


@dataclass(frozen=True, slots=True, eq=False)
class StoredTensors:
    """Tensors of a file under our paths. `raised`: weights of norms are 1 + those of the file."""

    source: WeightSource
    pieces: Mapping[str, StoredPart]
    raised: bool = False

    def fingerprint(self) -> str:
        """What tells these weights from others: the last norm and all shapes, hashed. Any training changes a norm."""
        digest = hashlib.sha256(
            json.dumps(sorted((name, *shape) for name, shape in self.source.shapes.items())).encode()
        )
        digest.update(self.source.rows(self.pieces["norm.weight"].name, 0, 1).tobytes())
        return digest.hexdigest()[:16]

    def check_blocks(self, count: int) -> None:
        """FormatError unless there are so many blocks, before a network of them is built."""
        numbers = {int(matched[1]) for path in self.pieces if (matched := re.match(r"block(\d+)\.", path))}
        if numbers != set(range(count)):
            raise FormatError(self.source.place, got=f"tensors of {len(numbers)} blocks", need=f"those of {count}")

    def packed(self) -> tuple[tuple[str, str], ...]:
        """The matrices that can stay in the blocks that they have in the file, by path."""
        kinds = {path: self.source.kind(piece.name) for path, piece in self.pieces.items() if not piece.transposed}
        matrices = (path for path, piece in self.pieces.items() if len(self.source.shapes[piece.name]) == 2)
        return tuple((path, kinds[path]) for path in matrices if kinds.get(path) in FORMATS)

    def check(self, decoder: Decoder, specs: Mapping[str, ParameterSpec]) -> None:
        """FormatError unless the file holds the tensors of the network, each of its shape, and no others."""
        needed = {path: row.spec.shape for path, row in specs.items() if not path.endswith(f".{TURNS}")}
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

    def _shape(self, decoder: Decoder, path: str) -> Shape:
        piece = self.pieces[path]
        shape = self.source.shapes[piece.name]
        start, stop = _span(decoder, piece, shape[-1 if piece.transposed else 0] if shape else 0)
        if len(shape) == 1:
            return (stop - start,)
        if len(shape) == 2 and path in dict(decoder.packed):
            return (stop - start, FORMATS[dict(decoder.packed)[path]].row_bytes(shape[1]))
        if len(shape) != 2:
            return shape
        if path in TABLES:
            return (stop - start, shape[1])
        return (shape[0] if piece.transposed else shape[1], stop - start)

    def write(self, decoder: Decoder, path: str, values: Values) -> None:
        """Write a tensor where it is to lie."""
        piece = self.pieces[path]
        shape = self.source.shapes[piece.name]
        start, stop = _span(decoder, piece, shape[-1 if piece.transposed else 0])
        if values.dtype == np.uint8:
            values[...] = self.source.packed(piece.name, start, stop)
            return
        if len(shape) == 1:
            array = self.source.rows(piece.name, 0, 1)[0, start:stop]
        elif piece.transposed and path not in TABLES:
            array = self.source.rows(piece.name, 0, shape[0])[:, start:stop]
        else:
            array = self.source.rows(piece.name, start, stop)
            array = array if path in TABLES else array.T
        raised = self.raised and path.endswith("norm.weight")
        values[...] = array + np.float32(1) if raised else array


def _span(decoder: Decoder, piece: StoredPart, count: int) -> tuple[int, int]:
    """The outputs of a part, of `count` there are."""
    if not piece.parts:
        return 0, count
    keys = (decoder.key_value_heads or decoder.heads) * decoder.head_width
    rows = (decoder.hidden,) * 2 if piece.parts == GATED else (decoder.heads * decoder.head_width, keys, keys)
    start = sum(rows[: piece.part])
    # What does not add up is a shape that no check passes.
    return (start, start + rows[piece.part]) if sum(rows) == count else (0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class StoredDecoder(Layer):
    """A decoder whose tensors begin as a file has them: each is read when it is made, and none is drawn before."""

    decoder: Decoder
    tensors: StoredTensors

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to tokens."""
        resolve = scope.resolve

        def begun(parameter: ParameterSpec) -> T:
            if parameter.path not in self.tensors.pieces:
                return resolve(parameter)
            return resolve(replace(parameter, initializer=partial(self._read, parameter.path)))

        return self.decoder.build(replace(scope, resolve=begun), x)

    def _read(self, path: str, generator: np.random.Generator, values: Values) -> None:
        self.tensors.write(self.decoder, path, values)
