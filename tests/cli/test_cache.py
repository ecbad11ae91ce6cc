"""The cache on disk through the command line: left alone when asked, rebuilt when spoilt, never of influence."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.forks import COMMAND_LINE, COMMANDS, forking

from nnc.backends.llvm.run.host import runnable_target
from nnc.backends.llvm.run.profile import MOST_TIMES, keep_profile, stored_profile
from nnc.core.running.dispatch import DISPATCHER

pytestmark = pytest.mark.skipif(bool(DISPATCHER.backends["llvm"].absence()), reason="only LLVM kernels are cached")

Train = Callable[..., tuple[str, str]]
# A model of few kernels: each run begins without any.
ROWS = "a,y\n" + "".join(f"{row % 7},{row % 3}.5\n" for row in range(40))
OPTIONS = ("train", "table", "rows.csv", "--target", "y", "--epochs", "1", "--json")


@pytest.fixture
def cache(folder: Path) -> Path:
    """A folder without anything in it."""
    place = folder / "cache"
    place.mkdir()
    (folder / "rows.csv").write_text(ROWS)
    return place


@pytest.fixture
def train(shell, cache: Path) -> Train:
    """Train one epoch; the checksum of the weights, and the warnings."""

    def run(*arguments: str) -> tuple[str, str]:
        ran = shell(*OPTIONS, *arguments, NNC_CACHE_DIR=str(cache))
        assert ran.code == 0, ran.err
        warnings = [line for line in ran.err.splitlines() if "Warning" in line]
        return json.loads(ran.out)["sha256"], "\n".join(warnings)

    return run


def files(place: Path) -> dict[str, bytes]:
    return {str(file.relative_to(place)): file.read_bytes() for file in place.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The cache that training leaves, and the checksum of its weights."""
    place = tmp_path_factory.mktemp("built")
    (place / "rows.csv").write_text(ROWS)
    environment = os.environ | {"NNC_CACHE_DIR": str(place / "cache")}
    code, told, _ = forking(COMMANDS).run(COMMAND_LINE, *OPTIONS, cwd=place, env=environment)
    assert code == 0
    # Measured while others worked, it would be measured again by the next process, and other kernels might be chosen.
    # Processors whose family is shipped are not measured.
    if profile := stored_profile(runnable_target(), place / "cache"):
        keep_profile(runnable_target(), place / "cache", replace(profile, times=MOST_TIMES))
    return place / "cache", json.loads(told)["sha256"]


def test_nothing_is_written_when_told_so(train: Train, shell, built: tuple[Path, str], cache: Path) -> None:
    assert train("--no-cache") == (built[1], "")
    assert shell("predict", "table", "rows.csv", "--no-cache", NNC_CACHE_DIR=str(cache)).code == 0
    assert files(cache) == {}
    assert files(built[0])


def test_a_spoilt_cache_is_ignored_and_rebuilt(train: Train, built: tuple[Path, str], cache: Path) -> None:
    """All kernels, one of them an empty file; the profile is left whole: measured anew, it may ask for others."""
    shutil.copytree(built[0], cache, dirs_exist_ok=True)
    for place, name in enumerate(sorted(files(cache / "objects"))):
        (cache / "objects" / name).write_bytes(b"garbage" if place else b"")
    got, warnings = train()
    assert got == built[1]
    assert warnings.count("Warning: nnc:") == 1
    assert files(cache).keys() == files(built[0]).keys()
    assert not set(files(cache / "objects").values()) & {b"garbage", b""}
    assert train() == (built[1], "")


def test_a_file_in_place_of_the_folder_stops_nothing(train: Train, built: tuple[Path, str], cache: Path) -> None:
    cache.rmdir()
    cache.write_bytes(b"garbage")
    assert train() == (built[1], "")
    assert cache.read_bytes() == b"garbage"
