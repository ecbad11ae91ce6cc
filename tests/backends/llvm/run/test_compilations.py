"""What was compiled for a cache is counted, whatever lies beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnc.backends.llvm.run.compilations import Compilations, compilations, note_compilation
from nnc.core.precautions.disk_cache import DiskCache


def test_batches_and_their_seconds_are_summed_and_the_same_batch_counts_once(tmp_path: Path) -> None:
    objects = DiskCache(tmp_path, most_bytes=1 << 30)
    objects.store("a", b"1234")
    note_compilation(objects, ["a", "b"], 0.5)
    note_compilation(objects, ["c"], 0.25)
    note_compilation(objects, ["b", "a"], 0.75)
    found = compilations(objects)
    assert (found.kernels, found.batches, found.seconds) == (1, 2, 1.0)
    assert found.nbytes > 4


@pytest.mark.filterwarnings("error")
def test_what_is_damaged_or_absent_counts_nothing(tmp_path: Path) -> None:
    assert compilations(DiskCache(None)) == Compilations(0, 0, 0, 0.0)
    assert compilations(DiskCache(tmp_path / "none")) == Compilations(0, 0, 0, 0.0)
    objects = DiskCache(tmp_path)
    note_compilation(objects, ["a"], 0.5)
    (entry,) = (tmp_path / "compilations").iterdir()
    entry.write_bytes(b"damaged")
    assert compilations(objects) == Compilations(0, 0, 0, 0.0)
