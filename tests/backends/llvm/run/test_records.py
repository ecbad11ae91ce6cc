from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.backends.llvm.harness import access, random

from nnc.backends.llvm.run import records
from nnc.backends.llvm.run.host import host_target
from nnc.backends.llvm.run.jit import Jit
from nnc.backends.llvm.run.records import (
    GENERATORS,
    PACKAGE,
    READ,
    hash_of_sources,
    records_in_cache,
    sources_hash,
)
from nnc.codegen import kernels
from nnc.codegen.ir.expression import Instruction
from nnc.codegen.ir.target import Machine
from nnc.codegen.kernels.elementwise import pointwise
from nnc.codegen.kernels.elementwise.pointwise import Pointwise
from nnc.core.precautions.disk_cache import MAGIC, DiskCache

X = random((32,))
SQUARE = Pointwise((32,), (access(X),), (access(X),), (Instruction("square", (0,)),), (1,))
# Behind any file that a test writes, however long the tests before it took.
LATER = time.time() + 86_400


@pytest.fixture(autouse=True)
def sources_are_known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A checkout may be newer than this process."""
    sources_hash.cache_clear()
    monkeypatch.setattr(records, "LOADED", LATER)
    monkeypatch.setattr(GENERATORS, "_held", {})
    GENERATORS.remember()
    yield
    sources_hash.cache_clear()


def make(folder: Path) -> DiskCache:
    cache = DiskCache(folder)
    assert Jit(host_target(), cache).kernel(SQUARE).addresses
    return cache


def only(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_a_kernel_on_disk_is_loaded_without_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Jit(host_target(), DiskCache(tmp_path)).kernel(SQUARE)

    def emit(generator: Pointwise, *rest: object) -> object:
        raise AssertionError("the text is written")

    monkeypatch.setattr(Pointwise, "emit", emit)
    found = Jit(host_target(), DiskCache(tmp_path)).kernel(SQUARE)
    assert (found.phases, found.hash) == (written.phases, written.hash)
    assert (found.workspace, found.scratch) == (written.workspace, written.scratch)


def test_a_kernel_of_another_size_is_found_without_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wider = replace(SQUARE, shape=(33,))
    written = Jit(host_target(), DiskCache(tmp_path)).kernel(SQUARE)

    def emit(generator: Pointwise, *rest: object) -> object:
        raise AssertionError("the text is written")

    monkeypatch.setattr(Pointwise, "emit", emit)
    jit = Jit(host_target(), DiskCache(tmp_path))
    found = jit.kernel(wider)
    assert found.hash == written.hash
    assert (written.sizes.tolist(), found.sizes.tolist()) == ([32], [33])
    assert jit.kernel(SQUARE).addresses == found.addresses


def test_sizes_that_meet_no_condition_have_a_record_of_their_own(tmp_path: Path) -> None:
    rows, columns = access(random((3, 32))), access(random((3, 1)))
    scale = Instruction("multiply", (0, 1))
    short = Pointwise((3, 32), (rows, replace(columns, strides=(1, 0))), (rows,), (scale,), (2,))
    long = replace(short, shape=(3, 5000))
    first = Jit(host_target(), DiskCache(tmp_path))
    made = [first.kernel(one) for one in (short, long)]
    assert len({kernel.hash for kernel in made}) == 2
    second = Jit(host_target(), DiskCache(tmp_path))
    assert [second.kernel(one).hash for one in (short, long)] == [kernel.hash for kernel in made]
    assert second.cache.misses == 0


def test_other_sources_find_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path)
    monkeypatch.setattr("nnc.backends.llvm.run.records.sources_hash", lambda: "of another version")
    make(tmp_path)
    assert len(list((tmp_path / "records").iterdir())) == 2
    assert len(list((tmp_path / "objects").iterdir())) == 1


def test_a_record_without_its_object_is_made_again(tmp_path: Path) -> None:
    make(tmp_path)
    entry = only(tmp_path / "objects")
    good = entry.read_bytes()
    entry.unlink()
    assert make(tmp_path).misses == 1
    assert entry.read_bytes() == good


def test_an_object_that_cannot_be_linked_is_made_again_from_its_record(tmp_path: Path) -> None:
    make(tmp_path)
    entry = only(tmp_path / "objects")
    good = entry.read_bytes()
    DiskCache(tmp_path).store(entry.stem, b"no object file, with a sound checksum")
    make(tmp_path)
    assert entry.read_bytes() == good


@pytest.mark.parametrize("damage", [b"", b"garbage", MAGIC + b"0" * 32 + b"other"], ids=["empty", "short", "sum"])
def test_a_damaged_record_is_written_again(tmp_path: Path, damage: bytes) -> None:
    make(tmp_path)
    record = only(tmp_path / "records")
    good = record.read_bytes()
    record.write_bytes(damage)
    with pytest.warns(RuntimeWarning, match="record cache"):
        assert make(tmp_path).hits == 1
    assert record.read_bytes() == good


def test_a_record_that_another_may_write_is_not_believed(tmp_path: Path) -> None:
    make(tmp_path)
    only(tmp_path / "records").chmod(0o666)
    with pytest.warns(RuntimeWarning, match="record cache"):
        make(tmp_path)


def test_each_part_of_a_target_tells_records_apart(tmp_path: Path) -> None:
    found, target = records_in_cache(DiskCache(tmp_path)), host_target()
    others = [
        replace(target, in_place=not target.in_place),
        replace(target, machine=Machine(level_one_bytes=12345)),
        replace(target, vector_bits=64),
    ]
    assert len({found.key(SQUARE, one) for one in (target, *others)}) == 4


def test_nothing_is_recorded_of_generators_from_elsewhere(tmp_path: Path) -> None:
    @dataclass(frozen=True, slots=True)
    class Foreign(Pointwise):
        """Its source is not among those that are known."""

    foreign = Foreign(SQUARE.shape, SQUARE.inputs, SQUARE.outputs, SQUARE.instructions, SQUARE.results)
    Jit(host_target(), DiskCache(tmp_path)).kernel(foreign)
    assert not (tmp_path / "records").exists()


def test_nothing_is_recorded_of_a_module_that_was_given_another_constant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("nnc.codegen.ir.native_kernel.ALIGNMENT", 128)
        make(tmp_path)
    assert not (tmp_path / "records").exists()
    make(tmp_path)
    assert (tmp_path / "records").exists()


def test_without_a_folder_nothing_is_recorded() -> None:
    assert records_in_cache(DiskCache(None)).key(SQUARE, host_target()) == ""


def sources(folder: Path) -> Path:
    for name in READ:
        (folder / name).mkdir(parents=True)
        (folder / name / "one.py").write_text(f"# {name}")
    return folder / READ[0] / "one.py"


def test_an_edit_changes_the_hash_even_with_size_and_time_kept(tmp_path: Path) -> None:
    path = sources(tmp_path)
    before, times = hash_of_sources(tmp_path, LATER), path.stat()
    path.write_text(path.read_text().swapcase())
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_size == times.st_size
    assert len({before, hash_of_sources(tmp_path, LATER), ""}) == 3


def test_a_source_that_changed_since_it_was_loaded_has_no_hash(tmp_path: Path) -> None:
    sources(tmp_path)
    assert hash_of_sources(tmp_path, time.time()) == ""


def test_sources_that_are_not_there_have_no_hash(tmp_path: Path) -> None:
    sources(tmp_path).unlink()
    assert hash_of_sources(tmp_path, LATER) == ""
    assert hash_of_sources(PACKAGE, LATER)


def test_modules_that_are_imported_later_change_nothing_that_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert GENERATORS.are_as_imported()
    monkeypatch.setattr(kernels, "imported_later", object(), raising=False)
    assert GENERATORS.are_as_imported()
    monkeypatch.setattr(pointwise, "Pointwise", object())
    assert not GENERATORS.are_as_imported()
