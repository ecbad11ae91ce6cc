"""What a generator wrote, kept on disk, so that its text need not be written again to find the object made of it.

    key    = sha256(generator without the sizes that are read, target, sources of this package, versions)
    record = key of the text, key of its object, and formulas of its phases and words by these sizes

Sizes that do not meet the conditions of one record have another one of the same key.

The sources are taken by what is in them, so another version, or an edited one, finds nothing of this one. Where they
changed after this process read them, or are not there to be read, or where a module of generators holds other values
than when it was imported (an experiment), nothing is kept and nothing is found.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnc.classes import dataclass
from nnc.codegen.ir.target import TargetDescription
from nnc.core import LOADED
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.precautions.source_digest import ImportedModules, digest_of_sources
from nnc.core.running.late_names import LateModule
from nnc.core.running.llvm_library import version
from nnc.core.settings import SETTINGS
from nnc.core.values.derived import Formulas, Step
from nnc.core.values.exact import exact_text

if TYPE_CHECKING:
    import nnc.codegen.frame.written as writing
    from nnc.codegen.frame.kernel import Generator
    from nnc.codegen.frame.written import WrittenKernel
else:
    # A program from the disk has no records.
    writing = LateModule("nnc.codegen.frame.written")

PACKAGE = Path(__file__).parents[3]
# What a generator may read; layers above it cannot be imported here.
READ = ("backends/llvm", "codegen", "core", "graph", "ops")
# What is at the top of these was as imported when a record is made or used: 63 comparisons in 0.2 ms.
GENERATORS = ImportedModules("nnc.codegen.")
# Of the bytes that objects may take: a record is some 300 bytes, an object some 10 kB.
SHARE = 64


@dataclass(frozen=True, slots=True)
class Record:
    """The keys of a kernel's text and of its object, and what follows from the sizes that it reads."""

    key: str
    stored: str
    written: WrittenKernel


def content_of(records: Sequence[Record]) -> bytes:
    """As JSON."""
    return json.dumps([(record.key, record.stored, _fields(record.written)) for record in records]).encode()


def records_of(content: bytes) -> tuple[Record, ...]:
    """Of what `content_of` gave."""
    return tuple(Record(key, stored, _written(*written)) for key, stored, written in json.loads(content))


def _fields(written: WrittenKernel) -> tuple[Any, ...]:
    """What `_written` takes; `dataclasses.astuple` asks each number whether it is a dataclass, and copies it."""
    steps = [(step.operation, step.left, step.right, step.expected) for step in written.formulas.steps]
    phases = [(phase.symbol, phase.items, phase.cost, phase.first) for phase in written.phases]
    return (written.formulas.sizes, steps, ()), written.words, phases


def _written(formulas: list[Any], words: list[Any], phases: list[Any]) -> WrittenKernel:
    sizes, steps, _ = formulas  # a kernel calls no functions
    kept = Formulas(sizes, tuple(Step(*step) for step in steps))
    made = tuple(writing.WrittenPhase(*phase) for phase in phases)
    return writing.WrittenKernel(kept, tuple((place, kind) for place, kind in words), made)


@dataclass(frozen=True, slots=True)
class Records:
    """The records beside the objects of a cache, of these sources; of none where nothing may be kept."""

    cache: DiskCache
    sources: str

    def key(self, generator: Generator, target: TargetDescription) -> str:
        """The key of records; empty where nothing may be kept."""
        text = exact_text((generator, target)) if self.sources else ""
        return hashlib.sha256("\0".join((text, self.sources)).encode()).hexdigest() if text else ""

    def load(self, key: str) -> tuple[Record, ...]:
        """The records that are there."""
        content = self.cache.load(key) if key else None
        return () if content is None else records_of(content)

    def store(self, key: str, records: Sequence[Record]) -> None:
        """Keep them in the place of those that are there."""
        if key:
            self.cache.store(key, content_of(records))


def named_entry(objects: DiskCache, name: str, target: TargetDescription) -> tuple[DiskCache, str] | None:
    """Where the key of the object of a text is, which these sources write by that name; None where nothing is kept."""
    sources = sources_at_hand(objects)
    text = "\0".join((name, exact_text(target), sources))
    return (_records(objects), hashlib.sha256(text.encode()).hexdigest()) if sources else None


def _records(objects: DiskCache) -> DiskCache:
    most_bytes = objects.most_bytes // SHARE if objects.most_bytes is not None else None
    return DiskCache(objects.folder, "record", ".json", most_bytes)


def records_in_cache(objects: DiskCache) -> Records:
    """Records in the folder of the cache of objects."""
    is_sure = objects.folder is not None and GENERATORS.are_known and GENERATORS.are_as_imported()
    sources = sources_hash() if is_sure else ""
    return Records(_records(objects), sources)


def sources_at_hand(objects: DiskCache) -> str:
    """What programs of these objects are made by; empty where nothing may be kept.

    Before a generator is imported none has been changed.
    """
    return sources_hash() if objects.folder is not None and GENERATORS.are_as_imported() else ""


@lru_cache(maxsize=1)
def sources_hash() -> str:
    """sha256(sources that generators read, versions), as this process has loaded them; empty where that is not sure."""
    return hash_of_sources(PACKAGE, LOADED, SETTINGS.cache_folder)


def hash_of_sources(package: Path, loaded: float, cache_folder: Path | None = None) -> str:
    """The hash of what stands in `package`; empty where files are missing, or are not older than `loaded`."""
    salt = f"{version()} {platform.python_version()} {platform.libc_ver()}"
    return digest_of_sources(package, READ, loaded, salt, cache_folder)
