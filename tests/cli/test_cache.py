"""The cache on disk through the command line: left alone when asked, rebuilt when spoilt, never of influence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nnc.core.dispatch import DISPATCHER

pytestmark = pytest.mark.skipif(bool(DISPATCHER.backends["llvm"].absence()), reason="only LLVM kernels are cached")

Train = Callable[..., tuple[str, str]]


@pytest.fixture
def cache(folder: Path) -> Path:
    """A folder without anything in it."""
    place = folder / "cache"
    place.mkdir()
    return place


@pytest.fixture
def train(shell, cache: Path) -> Train:
    """Train one epoch; the checksum of the weights, and the warnings."""

    def run(*arguments: str) -> tuple[str, str]:
        ran = shell("train", "digits", "--epochs", "1", "--json", *arguments, NNC_CACHE_DIR=str(cache))
        assert ran.code == 0, ran.err
        warnings = [line for line in ran.err.splitlines() if "Warning" in line]
        return json.loads(ran.out)["sha256"], "\n".join(warnings)

    return run


def files(place: Path) -> dict[str, bytes]:
    return {str(file.relative_to(place)): file.read_bytes() for file in place.rglob("*") if file.is_file()}


def test_nothing_is_written_when_told_so(train: Train, shell, cache: Path) -> None:
    without, warnings = train("--no-cache")
    assert (warnings, files(cache)) == ("", {})
    assert shell("predict", "digits", "--no-cache", NNC_CACHE_DIR=str(cache)).code == 0
    assert files(cache) == {}
    assert train()[0] == without
    assert files(cache)


def test_a_spoilt_cache_is_ignored_and_rebuilt(train: Train, cache: Path) -> None:
    wanted, _ = train()
    built = files(cache)
    for name in built:
        (cache / name).write_bytes(b"garbage")
    got, warnings = train()
    assert got == wanted
    assert warnings.count("Warning: nnc:") == 1
    assert files(cache).keys() == built.keys()
    assert b"garbage" not in files(cache).values()
    assert train() == (wanted, "")


def test_an_empty_file_is_ignored(train: Train, cache: Path) -> None:
    wanted, _ = train()
    name = min(files(cache))
    (cache / name).write_bytes(b"")
    assert train()[0] == wanted
    assert files(cache)[name]


def test_a_file_in_place_of_the_folder_stops_nothing(train: Train, cache: Path) -> None:
    wanted, _ = train("--no-cache")
    cache.rmdir()
    cache.write_bytes(b"garbage")
    assert train() == (wanted, "")
    assert cache.read_bytes() == b"garbage"
