"""Winners of measurements, kept in the cache folder: by processor, candidates, command and layouts of its tensors."""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.precautions.reading import read_file
from nnc.core.precautions.replacement import write_atomically
from nnc.core.precautions.shield import Shield
from nnc.core.running.devices import DEVICES
from nnc.core.running.dispatch import DISPATCHER, Tensors
from nnc.core.running.processor import processor_name
from nnc.core.settings import SETTINGS
from nnc.core.values.command import AnyCommand
from nnc.core.values.device import CPU
from nnc.core.values.tensor import Tensor
from nnc.errors import FormatError, MemoryLimitError, UsageError

FORMAT_VERSION = 2
FILE_NAME = "autotune.json"
# A winner takes some 200 bytes: what is larger is no file of ours.
MOST_BYTES = 64 << 20
PACKAGES = ("nnc", "numpy")


@dataclass(frozen=True, slots=True)
class MeasuredChoice:
    """The fastest claim and what it took, with what was behind it, as measured with these versions of packages."""

    claim: str
    seconds: float
    versions: str


@checked
class TuneCache:
    """Winners by key, read from `folder` at the first use and written back by `save`; None keeps them in memory only.

    A winner of other versions is none, and is replaced by the next measurement. A file that cannot be used is ignored
    with one warning and replaced by the next `save`.
    """

    def __init__(self, folder: Path | None) -> None:
        self.path = None if folder is None else folder / FILE_NAME
        self._entries: dict[str, MeasuredChoice] = {}
        self._fresh: dict[str, MeasuredChoice] = {}
        self._loaded = False
        self._warned = False
        self._lock = threading.Lock()

    def get(self, key: str) -> MeasuredChoice | None:
        """The winner of an earlier measurement."""
        if not self._loaded:
            self._entries = {**self._read(), **self._entries}
            self._loaded = True
        entry = self._entries.get(key)
        return entry if entry is not None and entry.versions == versions() else None

    def put(self, key: str, entry: MeasuredChoice) -> None:
        """Keep a winner."""
        with self._lock:
            self._entries[key] = self._fresh[key] = entry

    def save(self) -> None:
        """Write what is new, together with what other processes have written meanwhile."""
        # Whole, or what is new would be taken out of the table and never written.
        with Shield():
            with self._lock:
                fresh, self._fresh = self._fresh, {}
            if self.path is not None and fresh:
                self._write(self.path, fresh)

    def _write(self, path: Path, fresh: Mapping[str, MeasuredChoice]) -> None:
        rows = {key: astuple(entry) for key, entry in sorted({**self._read(), **fresh}.items())}
        text = json.dumps({"version": FORMAT_VERSION, "entries": rows}, indent=1)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, [text.encode()])
        except (OSError, UsageError) as error:
            self._warn(str(error))

    def _read(self) -> dict[str, MeasuredChoice]:
        if self.path is None or not os.path.lexists(self.path):
            return {}
        try:
            return _entries(json.loads(read_file(self.path, most_bytes=MOST_BYTES)))
        except (FormatError, MemoryLimitError, ValueError, RecursionError) as error:
            self._warn(f"{type(error).__name__}: {error}")
            return {}

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(f"nnc: ignoring the autotune cache {self.path}: {reason}", RuntimeWarning, stacklevel=2)


def _entries(document: object) -> dict[str, MeasuredChoice]:
    """The rows of a file of this format; none of another one. ValueError when it is no such file."""
    match document:
        case {"version": int(number), "entries": dict(rows)}:
            return {str(key): _entry(row) for key, row in rows.items()} if number == FORMAT_VERSION else {}
        case _:
            raise ValueError("not a table of winners")


def _entry(row: object) -> MeasuredChoice:
    match row:
        case [str(claim), float(seconds), str(measured)]:
            return MeasuredChoice(claim, seconds, measured)
        case _:
            raise ValueError("a row that is not [claim, seconds, versions]")


@lru_cache(maxsize=8)
def cache_in(folder: Path | None) -> TuneCache:
    """The cache of this process for a folder."""
    return TuneCache(folder)


def cache_key(command: AnyCommand, inputs: Tensors, outputs: Tensors, claims: Sequence[str]) -> str:
    """All that the winner depends on but versions, as text."""
    layouts = " ".join(map(_layout, (*inputs, *outputs)))
    devices = {tensor.spec.device for tensor in (*inputs, *outputs) if tensor is not None} - {CPU}
    names = [DEVICES.driver(device).facts(device).name for device in sorted(devices, key=str)]
    machine = " ".join(names) or f"{processor_name()} x{SETTINGS.worker_count()}"
    return " | ".join((machine, " ".join(claims), f"{command.op.name} {command.attrs!r}", layouts))


def _layout(tensor: Tensor | None) -> str:
    if tensor is None:
        return "–"
    return str(tensor.spec) if tensor.is_contiguous else f"{tensor.spec}/{list(tensor.strides)}"


@cache
def versions() -> str:
    """The versions of all that makes kernels."""
    return " ".join(f"{name}-{_version(name)}" for name in (*PACKAGES, *DISPATCHER.packages))


def _version(package: str) -> str:
    # email, zipfile and csv come with it: an eighth of the time of an import, which measurements alone need.
    metadata = import_module("importlib.metadata")
    try:
        return str(metadata.version(package))
    except metadata.PackageNotFoundError:
        return "none"
