"""A cache folder of a test's own, where programs are kept although the checkout may be new."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnc.backends.llvm.run import records
from nnc.backends.llvm.run.engine import engine
from nnc.backends.llvm.run.records import sources_hash
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.settings import SETTINGS
from nnc.symbolic.sharing import program_disk
from nnc.symbolic.sharing.program_disk import MODULES, makers_digest

# Behind any file that a test writes, however long the tests before it took.
LATER = time.time() + 86_400


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of this test, for sources that are known."""
    for cached in (sources_hash, makers_digest):
        cached.cache_clear()
    monkeypatch.setattr(records, "LOADED", LATER)
    monkeypatch.setattr(program_disk, "LOADED", LATER)
    monkeypatch.setattr(MODULES, "_held", {})
    MODULES.remember()
    monkeypatch.setattr(SETTINGS, "cache_folder", tmp_path)
    if engine().jit.cache.folder is None:
        monkeypatch.setattr(engine().jit, "cache", DiskCache(tmp_path))
    yield tmp_path
    for cached in (sources_hash, makers_digest):
        cached.cache_clear()


def entries(folder: Path, kind: str = "program") -> list[Path]:
    """What is kept there."""
    place = folder / f"{kind}s"
    return sorted(place.iterdir()) if place.exists() else []
