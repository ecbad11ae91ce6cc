"""Native code from the disk runs: it is taken from nobody but this user, and only for what it was made of."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.forks import COMMANDS, forking

from nnc.core.precautions.disk_cache import DiskCache, can_write

pytestmark = pytest.mark.skipif(os.name != "posix", reason="users and permissions of another kind")
CODE = b"object code"


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    """The file of a sound entry."""
    DiskCache(tmp_path / "cache").store("key", CODE)
    return tmp_path / "cache" / "objects" / "key.o"


def loaded(entry: Path) -> bytes | None:
    """What a fresh process would take."""
    return DiskCache(entry.parent.parent).load(entry.stem)


def test_a_sound_entry_is_taken(entry: Path) -> None:
    assert loaded(entry) == CODE


def test_folders_and_entries_are_this_user_s_alone(entry: Path) -> None:
    assert [path.stat().st_mode & 0o777 for path in (entry.parent.parent, entry.parent, entry)] == [0o700, 0o700, 0o600]


def test_an_open_folder_is_closed(entry: Path) -> None:
    entry.parent.chmod(0o777)
    assert loaded(entry) == CODE
    assert entry.parent.stat().st_mode & 0o777 == 0o700


def _replace_by_link(entry: Path) -> None:
    entry.rename(entry.with_name("elsewhere"))
    entry.symlink_to(entry.with_name("elsewhere"))


def _replace_by_pipe(entry: Path) -> None:
    entry.unlink()
    os.mkfifo(entry)


def _replace_by_folder(entry: Path) -> None:
    entry.unlink()
    entry.mkdir()


def _move_to_another_key(entry: Path) -> None:
    cache = DiskCache(entry.parent.parent)
    cache.store("other", b"other code")
    entry.with_name("other.o").replace(entry)


FOREIGN: dict[str, Callable[[Path], object]] = {
    "a link": _replace_by_link,
    "a pipe": _replace_by_pipe,
    "a folder": _replace_by_folder,
    "writable by the group": lambda entry: entry.chmod(0o660),
    "writable by everybody": lambda entry: entry.chmod(0o606),
    "the code of another key": _move_to_another_key,
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_somebody_else_may_have_put_there_is_not_taken(entry: Path, name: str) -> None:
    FOREIGN[name](entry)
    with pytest.warns(RuntimeWarning, match="foreign entries are ignored"):
        assert loaded(entry) is None


def test_a_file_of_another_user_is_not_taken(entry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: entry.stat().st_uid + 1)
    with pytest.warns(RuntimeWarning, match="another user's or a link, and is not used"):
        assert loaded(entry) is None


def test_a_folder_that_is_a_link_is_neither_read_nor_written(entry: Path) -> None:
    objects = entry.parent
    objects.rename(objects.with_name("elsewhere"))
    objects.symlink_to(objects.with_name("elsewhere"))
    with pytest.warns(RuntimeWarning, match="a link, and is not used"):
        assert loaded(entry) is None
    with pytest.warns(RuntimeWarning, match="a link, and is not used"):
        DiskCache(objects.parent).store("new", CODE)
    assert os.listdir(objects.with_name("elsewhere")) == [entry.name]


@pytest.fixture
def small(tmp_path: Path) -> DiskCache:
    """Three entries of 50 bytes, last used in this order in 1970, and room for two."""
    cache = DiskCache(tmp_path / "cache", "note", ".note")
    for number, key in enumerate("abc"):
        cache.store(key, b"x" * 10)
        os.utime(tmp_path / "cache" / "notes" / f"{key}.note", ns=(number, number))
    cache.most_bytes = 100
    return cache


def kept(cache: DiskCache) -> str:
    assert cache.entries is not None
    return "".join(sorted(path.stem for path in cache.entries.iterdir()))


def test_the_entries_used_longest_ago_make_room(small: DiskCache) -> None:
    assert small.load("a") is not None
    small.store("d", b"x" * 10)
    assert kept(small) == "ad"


def test_a_use_is_noted_once_an_hour(small: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[Path] = []
    monkeypatch.setattr(os, "utime", noted.append)
    small.load("a")
    small.store("fresh", b"x")
    small.load("fresh")
    assert [path.stem for path in noted] == ["a"]


def test_entries_are_counted_about_once_in_a_share_of_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, counted = DiskCache(tmp_path / "cache", most_bytes=64_000), []
    monkeypatch.setattr(DiskCache, "_make_room", lambda self, folder, nbytes: counted.append(nbytes))
    for number in range(400):
        cache.store(str(number), b"x" * 60)  # 100 bytes with what stands in front: 40 times a 64th
    assert 20 < len(counted) < 60


def test_what_another_process_removed_meanwhile_is_room(small: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    assert small.entries is not None
    listed = [*small.entries.iterdir()]
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter(listed))
    (small.entries / "b.note").unlink()
    small.store("d", b"x" * 10)
    monkeypatch.undo()
    assert kept(small) == "cd"


REASONS = ("EACCES", "EDQUOT", "EIO", "ELOOP", "ENAMETOOLONG", "ENOSPC", "ENOTDIR", "ENOTSUP", "EPERM", "EROFS")
OPERATIONS = ("os.stat", "os.mkdir", "os.open", "os.replace", "os.fdopen", "os.fstat")


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", REASONS)
def test_whatever_the_system_refuses_only_the_cache_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, operation: str
) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise OSError(getattr(errno, name), os.strerror(getattr(errno, name)))

    cache = DiskCache(tmp_path / "cache", warned=True)
    cache.store("key", CODE)
    with monkeypatch.context() as patched:
        patched.setattr(operation, refuse)
        cache.store("other", CODE)
        assert cache.load("other") in (CODE, None)
        assert cache.load("key") in (CODE, None)
        assert can_write(tmp_path / "cache" / "made") in (True, False)
    assert cache.load("key") == CODE
    assert [path.name for path in (tmp_path / "cache" / "objects").iterdir() if path.suffix == ".o"] in (
        ["key.o"],
        ["key.o", "other.o"],
        ["other.o", "key.o"],
    )


def test_a_name_that_no_folder_can_have_keeps_nothing(tmp_path: Path) -> None:
    for folder in (tmp_path / ("a" * 300), tmp_path / "a\0b"):
        DiskCache(folder).store("key", CODE)
        assert DiskCache(folder).load("key") is None
    assert not can_write(tmp_path / ("a" * 300))


def test_code_is_native_without_a_cache_too(tmp_path: Path) -> None:
    """A name that is too long for the system once turned the backend off, and gave other bits."""
    program = (
        "import numpy as np, nnc; from nnc.core.running.dispatch import DISPATCHER;"
        "print(nnc.ops.exp(nnc.tensor(np.linspace(0, 1, 5, dtype=np.float32))).numpy().tobytes().hex(),"
        " [backend.name for backend in DISPATCHER.usable()])"
    )
    ran = [
        forking(COMMANDS).run(program, env=os.environ | {"NNC_CACHE_DIR": folder})
        for folder in (str(tmp_path / ("a" * 300)), "")
    ]
    assert ran[0][:2] == ran[1][:2]
    assert "llvm" in ran[0][1]
