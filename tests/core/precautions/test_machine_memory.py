"""Memory that a process can have, as the files of a system tell it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnc.core.precautions import machine_memory
from nnc.core.precautions.machine_memory import group_limit, obtainable_memory

GIB = 1 << 30


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A system with 8 GiB free and 1 of swap, whose process has 2 pages."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {8 << 20} kB\nSwapFree: {1 << 20} kB\n")
    (tmp_path / "proc/self/statm").write_text("100 2 1 1 0 1 0\n")
    return tmp_path


def grouped(root: Path, line: str, **limits: str) -> None:
    (root / "proc/self/cgroup").write_text(line + "\n")
    for place, text in limits.items():
        path = root / "sys/fs/cgroup" / place.replace("__", "/").replace("max", "memory.max")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def test_what_is_free_and_what_the_process_has(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_memory, "machine_memory", lambda: 100 * GIB)
    assert obtainable_memory(root) == 9 * GIB + 2 * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr(machine_memory, "machine_memory", lambda: GIB)
    assert obtainable_memory(root) == GIB


def test_the_least_limit_of_the_groups_above_counts(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_memory, "machine_memory", lambda: 100 * GIB)
    assert group_limit(root) is None
    grouped(root, "0::/a/b", a__max=str(GIB), a__b__max="max")
    assert group_limit(root) == obtainable_memory(root) == GIB
    grouped(root, "0::/a/b", a__b__max=str(GIB // 2))
    assert group_limit(root) == GIB // 2
    # A container sees its own group as the topmost.
    grouped(root, "0::/elsewhere", max=str(GIB // 4))
    assert group_limit(root) == GIB // 4


def test_the_first_version_of_control_groups(root: Path) -> None:
    for place, text in (("memory/x", str(3 * GIB)), ("memory", "9223372036854771712")):
        folder = root / "sys/fs/cgroup" / place
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.limit_in_bytes").write_text(text)
    (root / "proc/self/cgroup").write_text("5:cpu:/x\n4:memory:/x\n0::/\n")
    assert group_limit(root) == 3 * GIB


@pytest.mark.parametrize("text", ["", "MemAvailable: much\n", "MemTotal: 1 kB\n"])
def test_what_the_system_does_not_tell(root: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(machine_memory, "machine_memory", lambda: None)
    (root / "proc/meminfo").write_text(text)
    assert obtainable_memory(root) is None


def test_this_system() -> None:
    given = obtainable_memory()
    assert given is None or given > GIB // 8
