"""An ONNX model for a command: the extra may be absent, so it is imported when a command asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Protocol

import numpy as np
import typer
from numpy.typing import NDArray

from nnc.errors import BackendError, UsageError
from nnc.symbolic import Compiled, MemoryStatement
from nnc.symbolic.passes import Pass

Array = NDArray[np.generic]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="An ONNX file, operator set 7 or newer.")]
Sizes = Annotated[list[str] | None, typer.Option("--size", metavar="NAME=N", help="The size of an open dimension.")]


class LoadedModel(Protocol):
    """What commands use of `nnc.onnx.OnnxModel`."""

    sizes: Mapping[str, int]
    passes: tuple[Pass, ...]
    outputs: tuple[str, ...]

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array | list[Array] | None]:
        """The outputs by name."""

    def memory(self, **sizes: int) -> MemoryStatement:
        """The bytes of a run."""

    def compiled(self, **sizes: int) -> Compiled:
        """The program of a run."""

    def example_shape(self) -> tuple[int, ...]:
        """The shape of the first input without its first axis."""

    def placeholders(self, **sizes: int) -> dict[str, Array]:
        """Zeros for every input, which take no memory."""


class Session(Protocol):
    """What commands use of `onnxruntime.InferenceSession`."""

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Array]:
        """The outputs of these names."""


def extra(name: str = "nnc.onnx") -> ModuleType:
    """The module that needs the extra; UsageError where that is absent."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError("onnx", got=str(error), need="the extra onnx", fix="pip install 'nnc[onnx]'") from None


def load(path: Path, sizes: Sequence[str] | None, backend: str) -> LoadedModel:
    """The model of a file; UsageError where the extra is absent."""
    model: LoadedModel = extra().load(path, dict(map(_size, sizes or ())), backend=backend)
    return model


def random_feeds(model: LoadedModel) -> dict[str, Array]:
    """Elements in 0..1 for every input, the same at each call."""
    generator = np.random.default_rng(0)
    return {
        name: generator.random(placeholder.shape).astype(placeholder.dtype)
        for name, placeholder in model.placeholders().items()
    }


def peer_session(path: Path, threads: int) -> Session:
    """onnxruntime's session on the CPU, which prints nothing; BackendError where it does not take the file."""
    peer = import_module("onnxruntime")
    options = peer.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, threads
    try:
        session: Session = peer.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its own exceptions have no other root
        reason = " ".join(str(error).split())
        raise BackendError("onnxruntime", got=f"{path.name}: {reason}", need="a file that it takes") from None
    return session


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
