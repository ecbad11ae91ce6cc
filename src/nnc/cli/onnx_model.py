"""An ONNX model for a command: the extra may be absent, so it is imported when a command asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Protocol

import numpy as np
import typer
from numpy.typing import NDArray

from nnc.errors import UsageError
from nnc.symbolic import Compiled, MemoryStatement

Array = NDArray[np.generic]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="An ONNX file, operator set 7 or newer.")]
Sizes = Annotated[list[str] | None, typer.Option("--size", metavar="NAME=N", help="The size of an open dimension.")]


class LoadedModel(Protocol):
    """What commands use of `nnc.onnx.OnnxModel`."""

    sizes: Mapping[str, int]

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array | list[Array] | None]:
        """The outputs by name."""

    def memory(self, **sizes: int) -> MemoryStatement:
        """The bytes of a run."""

    def compiled(self, **sizes: int) -> Compiled:
        """The program of a run."""

    def placeholders(self, **sizes: int) -> dict[str, Array]:
        """Zeros for every input, which take no memory."""


def load(path: Path, sizes: Sequence[str] | None, backend: str) -> LoadedModel:
    """The model of a file; UsageError where the extra is absent."""
    try:
        module = import_module("nnc.onnx")
    except ImportError as error:
        raise UsageError("onnx", got=str(error), need="the extra onnx", fix="pip install 'nnc[onnx]'") from None
    model: LoadedModel = module.load(path, dict(map(_size, sizes or ())), backend=backend)
    return model


def named(option: str, text: str) -> tuple[str, str]:
    """NAME=VALUE in two."""
    name, mark, value = text.rpartition("=")
    if not mark or not name or not value:
        raise UsageError(option, got=repr(text), need="NAME=VALUE")
    return name, value


def _size(text: str) -> tuple[str, int]:
    name, value = named("--size", text)
    if not value.isdecimal():
        raise UsageError("--size", got=repr(text), need="NAME=N with N = 0, 1, …")
    return name, int(value)
