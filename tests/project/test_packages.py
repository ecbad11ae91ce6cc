"""The packages: what `python -m build` makes is the same each time, and whole. Built here without the network."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import nnc

pytest.importorskip("hatchling", reason="the extra test is not installed: no hatchling to build with")

ROOT = Path(__file__).parents[2]
BUILD = "import sys, hatchling.build as b; b.build_wheel(sys.argv[1]); b.build_sdist(sys.argv[1])"
OURS = ("src", "examples", "docs", "pyproject.toml", "README.md", "LICENSE", "NOTICE")


def built(source: Path, target: Path) -> list[Path]:
    """The files that the hooks of `python -m build --no-isolation` make."""
    target.mkdir()
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(
        [sys.executable, "-c", BUILD, str(target)], cwd=source, env=environment, check=True, capture_output=True
    )
    return sorted(target.iterdir())


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], list[Path]]:
    """Packages of two copies of this checkout, in one of which things were run."""
    folder = tmp_path_factory.mktemp("packages")
    found = []
    for name in ("clean", "used"):
        copy = folder / name
        copy.mkdir()
        for part in OURS:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, copy / part)
        shutil.copy2(ROOT / ".gitignore", copy)
        if name == "used":
            for place in (copy / "examples/__pycache__", copy / "src/nnc/__pycache__", copy / "build"):
                place.mkdir()
                (place / "with_models.cpython-311.pyc").write_bytes(b"left behind")
        found.append(built(copy, folder / f"{name}-packages"))
    return found[0], found[1]


def test_packages_are_the_same_bytes_each_time(twice: tuple[list[Path], list[Path]]) -> None:
    first, second = ([(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths] for paths in twice)
    assert len(first) == 2
    assert first == second


def test_package_indexes_take_them(twice: tuple[list[Path], list[Path]]) -> None:
    pytest.importorskip("twine", reason="the extra test is not installed: no twine to check with")
    paths = [str(path) for path in twice[0]]
    command = [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *paths]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("PASSED") == len(paths)


def test_the_citation_is_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    facts = dict(line.split(": ", 1) for line in (ROOT / "CITATION.cff").read_text().splitlines() if ": " in line[:20])
    assert facts["version"] == project["version"] == nnc.__version__
    assert facts["license"] == project["license"]
    released = f"## {project['version']} — {facts['date-released'].strip(chr(34))}"
    assert released in (ROOT / "CHANGELOG.md").read_text()


def test_everything_is_every_extra_that_users_ask_for() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    named = set(everything.removeprefix("nnc[").removesuffix("]").split(","))
    assert named == extras.keys() - {"all", "array-api", "bench", "docs", "test"}


def test_the_wheel_has_the_package_its_page_and_the_examples(twice: tuple[list[Path], list[Path]]) -> None:
    (wheel,) = [path for path in twice[0] if path.suffix == ".whl"]
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    ours = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    # What examples in docstrings may name is the tests' matter.
    assert ours - names == {"conftest.py"}
    assert {"nnc/planning/page.html", "nnc/py.typed", "nnc_start.py"} <= names
    examples = {f"nnc/{path.relative_to(ROOT)}" for path in (ROOT / "examples").rglob("*.py")}
    assert examples <= names
    assert not any(name.endswith(".pyc") for name in names)


def test_the_source_package_can_be_built_from(twice: tuple[list[Path], list[Path]], tmp_path: Path) -> None:
    (source,) = [path for path in twice[0] if path.name.endswith(".tar.gz")]
    with tarfile.open(source) as archive:
        # What is unpacked was just packed here; Python 3.11.2 has no filters yet.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)
    (folder,) = tmp_path.iterdir()
    again = built(folder, tmp_path / "again")
    (wheel,) = [path for path in again if path.suffix == ".whl"]
    (first,) = [path for path in twice[0] if path.suffix == ".whl"]
    assert wheel.read_bytes() == first.read_bytes()


def test_a_wheel_runs_from_wherever_it_is(twice: tuple[list[Path], list[Path]], tmp_path: Path) -> None:
    (wheel,) = [path for path in twice[0] if path.suffix == ".whl"]
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    program = "import nnc.examples.with_models; from nnc.cli.main import main; main(['viz', 'blocks.csv'])"
    (tmp_path / "blocks.csv").write_text("id,lower,upper,size\na,0,2,64\n")
    command = [sys.executable, "-P", "-c", program]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert (tmp_path / "blocks.html").stat().st_size > 10_000
