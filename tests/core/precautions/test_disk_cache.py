"""Native code from the disk runs: it is taken from nobody but this user, and only for what it was made of."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nnc.core.precautions.disk_cache import DiskCache

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
