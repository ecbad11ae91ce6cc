"""Native code from the disk runs: it is taken from nobody but this user, and only for what it was made of."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nnc.core.disk_cache import DiskCache

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


def test_the_entries_written_first_make_room(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", "note", ".note", most_bytes=100)
    for number, key in enumerate("abc"):
        cache.store(key, b"x" * 10)  # 50 bytes with what stands in front
        os.utime(tmp_path / "cache" / "notes" / f"{key}.note", ns=(number, number))
    assert [cache.load(key) for key in "abc"] == [None, b"x" * 10, b"x" * 10]
