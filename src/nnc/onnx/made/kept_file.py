"""An ONNX file whose graph another process has looked at: it is parsed when somebody asks for that.

A program from the disk needs the names of outputs and some elements, and no message: importing the package `onnx`
takes as long as all of a first answer beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from collections.abc import Iterable
from dataclasses import field
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from nnc.classes import dataclass
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.precautions.forking import fork_safe_rlock
from nnc.core.running.late_names import LateModule
from nnc.core.settings import SETTINGS
from nnc.core.values.tensor import Tensor
from nnc.onnx.kept.opened_file import OpenedFile
from nnc.onnx.stored.message import initializer_spans, raw_elements
from nnc.onnx.weights import SharedWeights
from nnc.symbolic.sharing.program_disk import MODULES, makers_digest

if TYPE_CHECKING:
    from nnc.onnx import file as parsing
    from nnc.onnx.file import OnnxFile
else:
    parsing = LateModule("nnc.onnx.file")

# Bytes of all entries about files.
MOST_FACTS = 1 << 20


class ModelFile(Protocol):
    """What a program from the disk asks of a file."""

    @property
    def digest(self) -> str:
        """What stands for all of its content; empty where that is not known."""

    @property
    def weights(self) -> SharedWeights:
        """What its programs share."""

    @property
    def held_bytes(self) -> int:
        """What was read and is in memory."""

    @property
    def name(self) -> str:
        """The name of its graph."""

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of its outputs."""

    def bound(self, number: int, nbytes: int) -> Tensor:
        """The tensor of the file with this number, of so many bytes; IndexError where there is none."""

    def own_bytes(self, tensors: Iterable[Tensor]) -> int:
        """Bytes of those tensors that lie where the file was read to."""

    def parsed(self) -> OnnxFile:
        """Its graph, and all else."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What is known of a file all of whose operators are served: the name of its graph, and those of its outputs."""

    name: str
    outputs: tuple[str, ...]

    @classmethod
    def of(cls, opened: OpenedFile) -> Self | None:
        """As a process of these sources has kept them; None where none has."""
        entry = _entry_of(opened.digest)
        content = None if entry is None else entry[0].load(entry[1])
        try:
            values = None if content is None else json.loads(content)
            return None if values is None else cls(str(values["name"]), tuple(map(str, values["outputs"])))
        except (ValueError, TypeError, KeyError, RecursionError):
            return None

    def keep(self, digest: str) -> None:
        """For other processes."""
        entry = _entry_of(digest)
        if entry is not None and all(isinstance(text, str) for text in (self.name, *self.outputs)):
            entry[0].store(entry[1], json.dumps({"name": self.name, "outputs": self.outputs}).encode())


def _entry_of(digest: str) -> tuple[DiskCache, str] | None:
    """The entry about a file; None where nothing is kept, and for a file whose content is not known."""
    makers = makers_digest() if digest and SETTINGS.cache_folder is not None else ""
    if not makers or not MODULES.are_as_imported():
        return None
    key = hashlib.sha256(f"{makers} {onnx_state()} {digest}".encode()).hexdigest()
    return DiskCache(SETTINGS.cache_folder, "support", ".json", MOST_FACTS), key


@lru_cache(maxsize=1)
def onnx_state() -> str:
    """Which package `onnx` is there, which is not imported for it: where, and what installing another one changes."""
    spec = find_spec("onnx")
    if spec is None or spec.origin is None:
        return ""
    status = os.stat(spec.origin)
    return f"{spec.origin} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


@dataclass(slots=True, eq=False)
class KeptFile:
    """A file with what is known of it. `OnnxFile` has all else, once somebody has asked for that."""

    opened: OpenedFile
    facts: FileFacts
    weights: SharedWeights = field(default_factory=SharedWeights)
    _parsed: OnnxFile | None = None
    _spans: tuple[tuple[int, int], ...] | None = None
    _lock: threading.RLock = field(default_factory=fork_safe_rlock)

    def __post_init__(self) -> None:
        self.weights.is_mapped = self.opened.is_mapped

    @property
    def digest(self) -> str:
        """sha256 of its content."""
        return self.opened.digest

    @property
    def name(self) -> str:
        """The name of its graph."""
        return self.facts.name

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of its outputs."""
        return self.facts.outputs

    @property
    def held_bytes(self) -> int:
        """What was read and is in memory: without elements that are mapped."""
        message = self.opened.message
        return self.opened.nbytes - (sum(part.nbytes for part in message.elements.values()) if message.map else 0)

    def parsed(self) -> OnnxFile:
        """Its graph, and all else."""
        with self._lock:
            if self._parsed is None:
                self._parsed = parsing.parsed(self.opened, self.weights)
            return self._parsed

    def own_bytes(self, tensors: Iterable[Tensor]) -> int:
        """Bytes of those tensors that lie where the file was read to."""
        message = self.opened.message
        if message.map is not None:
            return 0
        own = {int(content.ctypes.data) for content in message.elements.values()}
        return sum(tensor.spec.nbytes for tensor in tensors if tensor.storage.address in own)

    def bound(self, number: int, nbytes: int) -> Tensor:
        """The bytes of the initializer with this number, as the file has them; IndexError where there is none.

        Elements that a message writes in another way than memory has them are for the package `onnx` to read.
        """
        made = None
        if self._parsed is None and sys.byteorder == "little":
            made = self.weights.shared(f"bytes of tensor {number}", lambda: self._bytes_of(number))
        return self.parsed().bound(number, nbytes) if made is None or made.spec.nbytes != nbytes else made

    def _bytes_of(self, number: int) -> Tensor | None:
        message = self.opened.message
        content = message.elements.get(number)
        if content is not None:
            if message.map is not None:
                message.map.check()
            made = Tensor.from_numpy(content)
            made.storage.file = message.map
            return made
        if self._spans is None:
            self._spans = initializer_spans(message.rest)
        if not 0 <= number < len(self._spans):
            raise IndexError(number)
        elements = raw_elements(message.rest, *self._spans[number])
        return None if elements is None else Tensor.from_numpy(np.array(np.frombuffer(elements, np.uint8)))
