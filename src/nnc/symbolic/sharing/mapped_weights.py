"""Weights in files of the cache folder that all processes of this user map: they are in memory once.

    name     what the weights are made of: the same name stands for the same bytes
    entry    the elements of all of them, each from a multiple of 64 bytes on

Who computes weights first keeps them, and takes what is kept in the place of its own; who comes later computes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from nnc.classes import dataclass
from nnc.core.precautions.disk_cache import FRONT_BYTES, DiskCache
from nnc.core.settings import SETTINGS
from nnc.core.values.spec import TensorSpec
from nnc.core.values.storage import ALIGNMENT, Storage, aligned
from nnc.core.values.tensor import Tensor

# Bytes in front of the first tensor, so that it is aligned in a page of the file.
GAP = -FRONT_BYTES % ALIGNMENT


@lru_cache(maxsize=8)
def _cache_in(folder: Path, most_bytes: int) -> DiskCache:
    return DiskCache(folder, "mappedweight", ".bin", most_bytes)


def weight_files() -> DiskCache | None:
    """Where such files are; None without a cache folder."""
    folder = SETTINGS.cache_folder
    return None if folder is None else _cache_in(folder, SETTINGS.cached_weight_bytes)


def can_be_mapped(nbytes: int) -> bool:
    """Whether weights of so many bytes may lie in such a file."""
    return weight_files() is not None and 0 < nbytes <= SETTINGS.cached_weight_bytes


def content_name(tensor: Tensor) -> str:
    """The name of the elements of a contiguous tensor of the host, whatever their shape and type."""
    return hashlib.sha256(_bytes_of(tensor).data).hexdigest()


def mapped_weights(name: str, specs: Sequence[TensorSpec]) -> list[Tensor] | None:
    """The weights of that name, read-only, in the file that holds them; None where there is none."""
    files, offsets = weight_files(), _offsets(specs)
    file = None if files is None else files.mapped(_key(name, specs))
    if file is None or file.size != FRONT_BYTES + GAP + offsets[-1]:
        return None
    storage = Storage.mapping(file, FRONT_BYTES + GAP)
    return [Tensor(spec, storage, offset) for spec, offset in zip(specs, offsets, strict=False)]


@dataclass(frozen=True, slots=True, eq=False)
class WeightBlock:
    """Memory for weights as a file has them: whoever fills the `tensors` may keep them without a copy."""

    tensors: list[Tensor]
    storage: Storage

    @classmethod
    def empty(cls, specs: Sequence[TensorSpec]) -> WeightBlock:
        """Not initialized."""
        offsets = _offsets(specs)
        storage = Storage.allocate(ALIGNMENT + offsets[-1], "frozen weight", zeroed=True)
        tensors = [Tensor(spec, storage, ALIGNMENT + offset) for spec, offset in zip(specs, offsets, strict=False)]
        return cls(tensors, storage)

    @classmethod
    def of(cls, tensors: Sequence[Tensor]) -> WeightBlock:
        """A copy of contiguous tensors of the host."""
        block = cls.empty([tensor.spec for tensor in tensors])
        for own, tensor in zip(block.tensors, tensors, strict=True):
            _bytes_of(own)[:] = _bytes_of(tensor)
        return block

    def kept(self, name: str) -> list[Tensor]:
        """The same weights in a file of that name; these where none can be written."""
        specs, files = [tensor.spec for tensor in self.tensors], weight_files()
        if files is None or not can_be_mapped(self.storage.nbytes):
            return self.tensors
        files.store(_key(name, specs), self.storage.bytes[ALIGNMENT - GAP :].data, first=True)
        return mapped_weights(name, specs) or self.tensors


def _key(name: str, specs: Sequence[TensorSpec]) -> str:
    return hashlib.sha256(f"{name} {[spec.nbytes for spec in specs]}".encode()).hexdigest()


def _offsets(specs: Sequence[TensorSpec]) -> list[int]:
    """Where each begins, and where the last one ends."""
    offsets = [0]
    for spec in specs:
        offsets.append(offsets[-1] + aligned(spec.nbytes))
    return offsets


def _bytes_of(tensor: Tensor) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """The elements of a contiguous tensor of the host, as they lie there."""
    return tensor.storage.bytes[tensor.offset : tensor.offset + tensor.spec.nbytes]
