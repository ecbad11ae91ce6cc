"""Files that are replaced whole or not at all, and what is left behind by those that are killed meanwhile."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nnc.core.precautions.replacement import check_writable, older, write_atomically
from nnc.errors import UsageError


def full(*arguments: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupted(*arguments: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("step", ["fsync", "replace", "fchmod"])
@pytest.mark.parametrize(("failure", "error"), [(full, UsageError), (interrupted, KeyboardInterrupt)])
def test_a_failure_at_any_step_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, failure: Callable[..., None], error: type[BaseException]
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, step, failure)
    with pytest.raises(error):
        write_atomically(path, [b"new"])
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_a_disk_that_fills_up_while_writing_leaves_nothing(tmp_path: Path) -> None:
    def filling() -> Iterator[bytes]:
        yield b"first"
        full()

    with pytest.raises(UsageError, match=r"got no space left on device; need a file that can be written\. Fix: name"):
        write_atomically(tmp_path / "f", filling())
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_flushed_does_not_undo_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnc.core.precautions.replacement._sync_folder", full)
    write_atomically(tmp_path / "f", [b"new"])
    assert (tmp_path / "f").read_bytes() == b"new"


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    for action in (lambda path: write_atomically(path, []), check_writable):
        with pytest.raises(UsageError, match="no such file or directory"):
            action(tmp_path / "nowhere" / "f")
    with pytest.raises(UsageError, match="a folder"):
        check_writable(tmp_path)
    with pytest.raises(UsageError):
        write_atomically(tmp_path, [])
    assert os.listdir(tmp_path) == []


def test_a_check_leaves_no_trace(tmp_path: Path) -> None:
    check_writable(tmp_path / "f")
    assert os.listdir(tmp_path) == []
    (tmp_path / "f").write_text("old")
    check_writable(tmp_path / "f")
    assert (tmp_path / "f").read_text() == "old"


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("")
    write_atomically(tmp_path / "f", [])
    assert (tmp_path / "f").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o666])
def test_an_old_file_s_permissions_stay(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_atomically(path, [b"new"])
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", mode)


def test_nobody_else_can_read_the_new_file_before_its_permissions_are_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    path.chmod(0o600)
    modes: list[int] = []
    fchmod = os.fchmod

    def watched(handle: int, mode: int) -> None:
        modes.append(os.fstat(handle).st_mode & 0o777)
        fchmod(handle, mode)

    monkeypatch.setattr(os, "fchmod", watched)
    write_atomically(path, [b"new"])
    assert modes == [0o600]


def test_the_umask_is_never_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask is to set it, for all threads, and an interrupt would leave it so."""
    monkeypatch.setattr(os, "umask", full)
    write_atomically(tmp_path / "f", [b"new"])
    assert (tmp_path / "f").read_bytes() == b"new"


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    target, link = tmp_path / "disk" / "target", tmp_path / "link"
    for old in (None, b"old"):
        if old is not None:
            target.write_bytes(old)
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        write_atomically(link, [b"new"])
        assert link.is_symlink()
        assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path / "disk") == ["target"]


def test_a_circle_of_links_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(UsageError, match="a circle of links"):
        write_atomically(tmp_path / "a", [b"new"])
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_the_last_files_are_kept_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"

    def kept() -> list[bytes]:
        return [one.read_bytes() for one in (path, *(older(path, number) for number in range(1, 5))) if one.exists()]

    for number in range(6):
        write_atomically(path, [bytes([number])], keep=3)
    assert kept() == [b"\x05", b"\x04", b"\x03"]
    write_atomically(path, [b"new"])
    assert kept() == [b"new", b"\x04", b"\x03"]
    write_atomically(path, [b"newer"], keep=2)
    assert kept() == [b"newer", b"new", b"\x03"]
    with pytest.raises(UsageError, match="keep: got 0"):
        write_atomically(path, [b"never"], keep=0)
    assert len(os.listdir(tmp_path)) == 3


def test_files_are_kept_where_there_are_no_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", full)
    path = tmp_path / "f"
    for number in range(3):
        write_atomically(path, [bytes([number])], keep=2)
    assert (path.read_bytes(), older(path, 1).read_bytes()) == (b"\x02", b"\x01")


KILLED = """
import os, pathlib, signal, sys
from nnc.core.precautions.replacement import write_atomically

def chunks():
    yield b"half of the new file"
    print("writing", flush=True)
    if len(sys.argv) > 2:
        sys.stdin.read()
    else:
        os.kill(os.getpid(), signal.SIGKILL)

write_atomically(pathlib.Path(sys.argv[1]), chunks())
"""


def writer(path: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A process that writes the file; killed half-way, or with an argument waiting there for the end of its input."""
    command = [sys.executable, "-c", KILLED, str(path), *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def test_what_a_killed_writer_leaves_is_removed_by_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with writer(path) as killed:
        assert killed.wait(60) == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    assert len(os.listdir(tmp_path)) == 2
    bystanders = [tmp_path / ".f.short.part", tmp_path / ".g.0123abcd.part", tmp_path / ".f.0123abcd.parts"]
    for bystander in bystanders:
        bystander.write_bytes(b"another's")
    write_atomically(path, [b"new"])
    assert sorted(os.listdir(tmp_path)) == sorted(["f", *(bystander.name for bystander in bystanders)])


def test_a_writer_at_work_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with writer(path, "wait") as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"writing\n"
        write_atomically(path, [b"new"])
        assert path.read_bytes() == b"new"
        other.communicate()
    assert other.returncode == 0
    assert path.read_bytes() == b"half of the new file"
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("step", ["open", "fdopen", "fchmod", "fsync", "link", "replace", "unlink"])
def test_a_writer_killed_at_any_step_leaves_the_old_file_or_the_new_one(tmp_path: Path, step: str) -> None:
    path = tmp_path / "f"
    for number in range(3):
        write_atomically(path, [bytes([number])], keep=3)
    child = os.fork()
    if child == 0:
        setattr(os, step, lambda *arguments, **named: os.kill(os.getpid(), signal.SIGKILL))
        write_atomically(path, [b"new"], keep=3)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert path.read_bytes() in (b"\x02", b"new")
    write_atomically(path, [b"next"], keep=3)
    assert path.read_bytes() == b"next"
    assert older(path, 1).read_bytes() in (b"\x02", b"new")
    assert sorted(os.listdir(tmp_path)) == ["f", "f.1", "f.2"]
