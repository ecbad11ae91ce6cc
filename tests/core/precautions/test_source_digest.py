"""Digests of sources, which are kept by what the file system says of the files."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nnc.core.precautions import source_digest
from nnc.core.precautions.source_digest import digest_of_sources

LATER = time.time() + 1e6
FOLDERS = ("a", "b")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Two folders of sources, one of them with a folder inside."""
    for name in ("a/one.py", "a/inner/two.py", "b/three.py"):
        path = tmp_path / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}")
    return tmp_path / "package"


@pytest.fixture
def digest(package: Path, tmp_path: Path) -> Callable[[], str]:
    """The digest as a process has it that may keep it."""
    return lambda: digest_of_sources(package, FOLDERS, LATER, "salt", tmp_path / "cache")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An entry for each time that files are read."""
    whole, times = source_digest._read_digest, list[str]()

    def counted(*arguments: object) -> str:
        times.append("read")
        return whole(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(source_digest, "_read_digest", counted)
    return times


def test_files_are_read_once(digest: Callable[[], str], package: Path, reads: list[str]) -> None:
    first = digest()
    assert len(first) == 64
    assert digest() == first == digest_of_sources(package, FOLDERS, LATER, "salt")
    assert len(reads) == 2  # once to keep it, once without a folder


def test_an_edit_misses_even_with_size_and_time_kept(digest: Callable[[], str], package: Path) -> None:
    before, path = digest(), package / "a" / "inner" / "two.py"
    times = path.stat()
    path.write_text(path.read_text().swapcase())
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_size == times.st_size
    assert len({before, digest(), ""}) == 3


@pytest.mark.parametrize("change", ["more", "fewer", "renamed", "replaced"])
def test_other_files_miss(digest: Callable[[], str], package: Path, change: str) -> None:
    before, path = digest(), package / "a" / "inner" / "two.py"
    if change == "more":
        (path.parent / "four.py").write_text("")
    elif change == "fewer":
        path.unlink()
    elif change == "renamed":
        path.rename(path.with_name("zwei.py"))
    else:
        other = path.with_name("other")
        other.write_text(path.read_text().upper())
        os.replace(other, path)
    assert len({before, digest(), ""}) == 3


def test_another_salt_is_another_digest(digest: Callable[[], str], package: Path, tmp_path: Path) -> None:
    assert digest() != digest_of_sources(package, FOLDERS, LATER, "pepper", tmp_path / "cache")


def test_a_file_that_is_not_older_than_this_process_has_none(digest: Callable[[], str], package: Path) -> None:
    digest()
    assert digest_of_sources(package, FOLDERS, time.time(), "salt", package.parent / "cache") == ""


def test_a_folder_without_sources_has_none(digest: Callable[[], str], package: Path) -> None:
    digest()
    (package / "b" / "three.py").unlink()
    assert digest() == ""


def test_an_entry_that_is_damaged_is_made_again(digest: Callable[[], str], tmp_path: Path, reads: list[str]) -> None:
    before = digest()
    (entry,) = (tmp_path / "cache" / "digests").iterdir()
    entry.write_bytes(entry.read_bytes()[:-1] + b"!")
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert digest() == before
    assert len(reads) == 2


def test_bytecode_is_no_source(digest: Callable[[], str], package: Path) -> None:
    before = digest()
    (package / "a" / "__pycache__").mkdir()
    (package / "a" / "__pycache__" / "one.py").write_text("")
    assert digest() == before
