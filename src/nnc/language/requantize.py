"""A language model as a GGUF file with its matrices in a format, tensor by tensor: one is in memory at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from math import sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.errors import UsageError
from nnc.language.architectures import ModelFiles, open_files
from nnc.language.architectures.block_formats import format_for
from nnc.language.architectures.weight_sources import GgufSource
from nnc.language.block_writing import FILE_TYPES, Weights, ways_of
from nnc.language.calibration import importance_of
from nnc.language.folder_conversion import converted_tensors, gguf_metadata, gguf_name
from nnc.language.gguf import MetadataValue, TensorRow, TensorSource, ValueKind, read_gguf, write_gguf
from nnc.language.gguf.file_format import Plain

# Tables of tokens and heads give all scores: they keep more bits than the rest, as in llama.cpp's mixtures.
TABLES = ("token_embd.weight", "output.weight")
ROUTER = "ffn_gate_inp"
_PART = 1 << 24


@dataclass(slots=True)
class Requantized:
    """What was written: bytes of the file, tensors by format, and ‖new - old‖ / ‖old‖ over all that changed."""

    nbytes: int = 0
    formats: Counter[str] = field(default_factory=Counter)
    squares: float = 0.0
    errors: float = 0.0

    def measure(self, values: NDArray[np.float32], now: NDArray[np.float32]) -> None:
        """Count weights and what became of them."""
        self.squares += float(np.square(values, dtype=np.float64).sum())
        self.errors += float(np.square(now - values, dtype=np.float64).sum())

    @property
    def error(self) -> float:
        """The relative error of all weights that changed."""
        return sqrt(self.errors / self.squares) if self.squares else 0.0


@checked
def quantize(
    path: Path | str, to: str, output: Path | str, *, calibration: Path | str | None = None, backend: str = ""
) -> Requantized:
    """Write a GGUF file with its matrices in the format `to`; vectors, metadata and tokenizer stay as they are.

    The folder of a model becomes a GGUF file with its tokenizer. Rows that are no whole blocks of the format have one
    of blocks of 32, tables of tokens and heads one of 6 or 8 bits. With `calibration`, texts as `FineTuning` has them,
    squared errors of weights count by what they are multiplied with when the model reads these texts.
    """
    if to not in FILE_TYPES:
        raise UsageError("quantize", got=f"to {to!r}", need=f"one of {', '.join(FILE_TYPES)}")
    place, report = Path(path), Requantized()
    weighed = {} if calibration is None else _importance(open_files(place), calibration, backend)
    if place.suffix == ".gguf":
        file = read_gguf(place)
        source = GgufSource(file)
        metadata: Mapping[str, MetadataValue | Plain] = file.metadata
        sources = [
            _source(source, row, _format_of(row, to), report, weighed.get(row.name)) for row in file.tensors.values()
        ]
    else:
        files = open_files(place)
        metadata, sources = gguf_metadata(files), _of_folder(files, to, report, weighed)
    kind = MetadataValue(ValueKind.U32, FILE_TYPES[to])
    write_gguf(output, {**metadata, "general.file_type": kind}, sources)
    report.nbytes = Path(output).stat().st_size
    return report


def _importance(files: ModelFiles, texts: Path | str, backend: str) -> dict[str, Weights]:
    """The importance of the inputs of each matrix by its name in the file; of several that lie in one, the mean."""
    held: dict[str, list[NDArray[np.float64]]] = {}
    importance = importance_of(files, texts, backend=backend)
    for path, piece in files.tensors.pieces.items():
        own = importance.get(path.removesuffix(".weight"))
        if own is not None and path.endswith(".weight"):
            name = piece.name if files.gguf is not None else gguf_name(files, path, piece)
            held.setdefault(name, []).append(own)
    return {name: np.mean(rows, axis=0) for name, rows in held.items()}


def _of_folder(files: ModelFiles, to: str, report: Requantized, weighed: Mapping[str, Weights]) -> list[TensorSource]:
    """The tensors of a folder; vectors, routers and learned places in f32."""
    sources = []
    for name, (shape, read) in converted_tensors(files).items():
        plain = len(shape) < 2 or name.startswith("position_embd") or ROUTER in name
        form = "f32" if plain else format_for(to, shape[-1], table=name in TABLES)
        report.formats[form] += 1
        sources.append(TensorSource(name, shape, form, partial(_encoded, read, form, report, weighed.get(name))))
    return sources


def _encoded(
    read: Callable[[], NDArray[np.float32]], to: str, report: Requantized, importance: Weights | None
) -> NDArray[np.uint8]:
    values = read()
    rows = values.reshape(-1, values.shape[-1])
    write, back = ways_of(to, importance)
    data = write(rows)
    report.measure(rows, back(data))
    return data


def _format_of(row: TensorRow, to: str) -> str:
    # Routers of experts are small, and what they choose is all or nothing.
    if len(row.shape) < 2 or ROUTER in row.name:
        return row.kind.name
    return format_for(to, row.shape[-1], table=row.name in TABLES)


def _source(
    source: GgufSource, row: TensorRow, to: str, report: Requantized, importance: Weights | None
) -> TensorSource:
    report.formats[to] += 1
    if to == row.kind.name:
        return TensorSource(row.name, row.shape, to, lambda: source.file.bytes(row.name))
    return TensorSource(row.name, row.shape, to, partial(_converted, source, row, to, report, importance))


def _converted(
    source: GgufSource, row: TensorRow, to: str, report: Requantized, importance: Weights | None
) -> NDArray[np.uint8]:
    """The rows in another format, some at a time."""
    data = source.file.bytes(row.name)
    step, parts = max(_PART // row.shape[-1], 1), []
    write, read = ways_of(to, importance)
    for start in range(0, len(data), step):
        values = source.values(row.name, data[start : start + step])
        parts.append(write(values))
        report.measure(values, read(parts[-1]))
    return np.concatenate(parts)
