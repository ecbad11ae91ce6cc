"""What the environment says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnc.core.settings import Settings, from_environment, usable_cores
from nnc.errors import UsageError


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("NNC_THREADS", "NNC_CACHE_DIR", "NNC_DEBUG", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    return monkeypatch


def test_defaults(environment: pytest.MonkeyPatch) -> None:
    assert from_environment() == Settings(0, Path("/home/somebody/.cache/nnc"), debug=False)


def test_all_set(environment: pytest.MonkeyPatch) -> None:
    for name, value in (("NNC_THREADS", "3"), ("NNC_CACHE_DIR", "/tmp/there"), ("NNC_DEBUG", "1")):
        environment.setenv(name, value)
    assert from_environment() == Settings(0, Path("/tmp/there"), debug=True, environment_threads="3")
    assert from_environment().worker_count() == 3


def test_an_empty_cache_folder_is_none(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("NNC_CACHE_DIR", "")
    assert from_environment().cache_folder is None


def test_the_cache_folder_of_the_desktop(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("XDG_CACHE_HOME", "/var/cache")
    assert from_environment().cache_folder == Path("/var/cache/nnc")


@pytest.mark.parametrize("value", ["0", ""])
def test_debug_off(environment: pytest.MonkeyPatch, value: str) -> None:
    environment.setenv("NNC_DEBUG", value)
    assert not from_environment().debug


@pytest.mark.parametrize("value", ["-1", "two", "1.5", "²"])
def test_what_is_no_number_of_threads(environment: pytest.MonkeyPatch, value: str) -> None:
    environment.setenv("NNC_THREADS", value)
    with pytest.raises(UsageError, match="NNC_THREADS: got .*; need an integer ≥ 0"):
        from_environment().worker_count()


def test_a_chosen_number_of_threads_outdoes_the_environment(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("NNC_THREADS", "two")
    settings = from_environment()
    settings.threads = 5
    assert settings.worker_count() == 5


def test_workers() -> None:
    assert Settings(threads=3).worker_count() == 3
    assert Settings().worker_count() >= 1


def system(folder: Path, groups: str, files: dict[str, str]) -> Path:
    """The files that tell of control groups."""
    for name, text in {"proc/self/cgroup": groups, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


OLDER = "4:cpu,cpuacct:/docker/1\n3:memory:/docker/1\n"
GROUPS = {
    "nothing said": ("", {}, 8),
    "no limit": ("0::/\n", {"sys/fs/cgroup/cpu.max": "max 100000\n"}, 8),
    "two processors": ("0::/\n", {"sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
    "one and a half": ("0::/\n", {"sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),
    "a tenth": ("0::/\n", {"sys/fs/cgroup/cpu.max": "10000 100000\n"}, 1),
    "more than there are": ("0::/\n", {"sys/fs/cgroup/cpu.max": "3200000 100000\n"}, 8),
    "a group further up": (
        "0::/user/session\n",
        {"sys/fs/cgroup/user/session/cpu.max": "max 100000", "sys/fs/cgroup/user/cpu.max": "300000 100000"},
        3,
    ),
    "a group that is not seen from inside": ("0::/docker/1\n", {"sys/fs/cgroup/cpu.max": "400000 100000"}, 4),
    "the first version": (
        OLDER,
        {
            "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us": "250000\n",
            "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us": "100000\n",
        },
        3,
    ),
    "the first version inside": (
        OLDER,
        {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "100000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"},
        1,
    ),
    "the first version without limit": (
        OLDER,
        {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"},
        8,
    ),
    "nonsense": ("0::/\nwhat is this\n", {"sys/fs/cgroup/cpu.max": "much 0 ½\n"}, 8),
    "no period": ("0::/\n", {"sys/fs/cgroup/cpu.max": "100000 0\n"}, 8),
}


@pytest.mark.parametrize("name", GROUPS)
def test_workers_are_no_more_than_the_control_group_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("nnc.core.settings.usable_processors", lambda: [*range(8)])
    groups, files, cores = GROUPS[name]
    assert usable_cores(system(tmp_path, groups, files)) == cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_workers_are_no_more_than_the_processors_that_we_may_use() -> None:
    processors = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(processors)})
        assert Settings().worker_count() == 1
    finally:
        os.sched_setaffinity(0, processors)


def test_a_user_without_a_home_has_no_cache(environment: pytest.MonkeyPatch) -> None:
    def homeless(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    environment.setattr(Path, "expanduser", homeless)
    assert from_environment().cache_folder is None
    environment.setenv("NNC_CACHE_DIR", "/tmp/there")
    assert from_environment().cache_folder == Path("/tmp/there")
