"""Programs in the cache folder, by what they were made of, and the weights that they read, by what is in these.

    disk = ProgramDisk.at_hand(backend)              None where nothing may be kept
    key = disk.key("what it was made of")
    disk.store(key, {...})                           plain values
    disk.load(key)                                   in another process of the same sources on the same processor

Weights that follow from others, such as packed ones, are entries of their own: programs of several sizes share them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np

from nnc.classes import dataclass
from nnc.core import LOADED
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.precautions.reading import read_file
from nnc.core.precautions.source_digest import ImportedModules, digest_of_sources
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.running.stored_steps import STEP_STORES
from nnc.core.settings import SETTINGS
from nnc.core.values.dtype import U8
from nnc.core.values.recorder import PROFILER
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import FormatError, MemoryLimitError

PACKAGE_FOLDER = Path(__file__).parents[2]
# What makes a program, beside what kernels are made by: those sources are part of the backend's key.
MAKERS = ("concrete", "dynamic", "nn", "onnx", "parallel", "planning", "symbolic")
MODULES = ImportedModules(
    "nnc.concrete.", "nnc.onnx.", "nnc.parallel.ordering", "nnc.parallel.pipelining", "nnc.planning.", "nnc.symbolic."
)
MODULES.watch()
# Of the bytes that objects may take: what programs and their weights may, and the weights of one program.
PROGRAM_SHARE, WEIGHT_SHARE, MOST_SHARE = 16, 2, 8
TUNED = "autotune.json"


@lru_cache(maxsize=1)
def makers_digest() -> str:
    """sha256 of the sources that make programs, as this process has loaded them; empty where that is not sure."""
    return digest_of_sources(PACKAGE_FOLDER, MAKERS, LOADED, np.__version__, SETTINGS.cache_folder)


@lru_cache(maxsize=8)
def caches_in(folder: Path, most_bytes: int) -> tuple[DiskCache, DiskCache]:
    """The entries of programs, and those of weights, in a cache folder where objects may take so many bytes."""
    programs = DiskCache(folder, "program", ".json", most_bytes // PROGRAM_SHARE)
    return programs, DiskCache(folder, "weight", ".bin", most_bytes // WEIGHT_SHARE)


@dataclass(frozen=True, slots=True)
class KeptOnDisk:
    """How many programs a cache folder has, of other versions too, and the bytes of these and of weights for them."""

    programs: int
    program_bytes: int
    weight_bytes: int


def kept_on_disk(folder: Path | None) -> KeptOnDisk:
    """What is there; nothing without a folder."""
    if folder is None:
        return KeptOnDisk(0, 0, 0)
    programs, weights = (dict(cache.sizes()) for cache in caches_in(folder, SETTINGS.cached_code_bytes))
    return KeptOnDisk(len(programs), sum(programs.values()), sum(weights.values()))


@dataclass(frozen=True, slots=True, eq=False)
class ProgramDisk:
    """Entries of programs and weights, for processes of this `state`."""

    programs: DiskCache
    weights: DiskCache
    state: str

    @classmethod
    def at_hand(cls, backend: str) -> Self | None:
        """That of the cache folder.

        None without one, for other backends, in debug mode, while somebody profiles, and where sources or modules are
        not those that were loaded.
        """
        folder, most = SETTINGS.cache_folder, SETTINGS.cached_code_bytes
        if folder is None or SETTINGS.debug or PROFILER.recorders:
            return None
        store, makers = STEP_STORES.of(backend), makers_digest()
        if store is None or not makers or not MODULES.are_as_imported() or not (kernels := store.storing_key()):
            return None
        workers, seconds = SETTINGS.worker_count(), SETTINGS.repeating_seconds
        state = "\0".join((kernels, makers, " ".join(DISPATCHER.backends), f"{workers} {seconds}", _tuned(folder)))
        return cls(*caches_in(folder, most), state)

    def key(self, made_of: str) -> str:
        """The key of what was made of this, by processes of this state."""
        return hashlib.sha256(f"{self.state}\0{made_of}".encode()).hexdigest()

    def load(self, key: str) -> Mapping[str, Any] | None:
        """The plain values of an entry; None where there is none that can be read."""
        content = self.programs.load(key)
        try:
            values = None if content is None else json.loads(content)
        except (ValueError, RecursionError):
            return None
        return values if isinstance(values, dict) else None

    def store(self, key: str, values: Mapping[str, Any]) -> None:
        """Keep plain values."""
        self.programs.store(key, json.dumps(values, separators=(",", ":")).encode())

    def can_hold(self, nbytes: int) -> bool:
        """Whether weights of so many bytes for one program are not too many."""
        return self.weights.most_bytes is not None and nbytes <= self.weights.most_bytes * WEIGHT_SHARE // MOST_SHARE

    def store_weight(self, tensor: Tensor) -> str:
        """Keep the bytes of a contiguous tensor of the host; its name, which follows from them."""
        begin = tensor.offset
        content = tensor.storage.bytes.data[begin : begin + tensor.spec.nbytes]
        name = hashlib.sha256(content).hexdigest()
        if not self.weights.holds(name):
            self.weights.store(name, content)
        return name

    def load_weight(self, name: str, nbytes: int) -> Tensor | None:
        """The bytes of that name in memory of their own; None where they are not there."""
        content = self.weights.view(name)
        if content is None or len(content) != nbytes:
            return None
        tensor = Tensor.empty(TensorSpec((nbytes,), U8), "frozen weight")
        if nbytes:
            tensor.storage.bytes[:nbytes] = np.frombuffer(content, np.uint8)
        return tensor


def _tuned(folder: Path) -> str:
    """sha256 of the measured choices of kernels, which plans follow."""
    try:
        return hashlib.sha256(read_file(folder / TUNED)).hexdigest()
    except (FormatError, MemoryLimitError):
        return ""
