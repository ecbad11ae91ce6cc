"""What the environment says."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnc.core.settings import Settings, from_environment
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
