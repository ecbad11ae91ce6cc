"""How often kernels were compiled for a cache, and what that took: one small entry for each batch.

entry = kernels, seconds of a processor          by the kernels' keys, so the same batch again counts once
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.core.precautions.disk_cache import DiskCache

# Of the bytes that objects may take: an entry is 60 bytes, the objects of a program some 500 kB.
SHARE = 4096


@dataclass(frozen=True, slots=True)
class Compilations:
    """What a cache holds, `kernels` in `nbytes`, and what was compiled for it: `batches` and `seconds` of a processor.

    The kernels of a program are a batch, but for those that were there.
    """

    kernels: int
    nbytes: int
    batches: int
    seconds: float


def note_compilation(objects: DiskCache, keys: Sequence[str], seconds: float) -> None:
    """Count a batch."""
    key = hashlib.sha256("\0".join(sorted(keys)).encode()).hexdigest()
    _notes(objects).store(key, json.dumps([len(keys), round(seconds, 6)]).encode())


def compilations(objects: DiskCache) -> Compilations:
    """Of all that is on the disk, of other versions of this package too."""
    notes, sizes = _notes(objects), dict(objects.sizes())
    contents = [notes.load(key) for key, _ in notes.sizes()]
    batches = [json.loads(content) for content in contents if content is not None]
    return Compilations(len(sizes), sum(sizes.values()), len(batches), sum(seconds for _, seconds in batches))


def _notes(objects: DiskCache) -> DiskCache:
    most_bytes = objects.most_bytes // SHARE if objects.most_bytes is not None else None
    # What is damaged is left out: no reason to warn.
    return DiskCache(objects.folder, "compilation", ".json", most_bytes, warned=True)
