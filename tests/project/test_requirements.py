"""What the package asks for: nothing that it does not import, and bounds that a script can try."""

from __future__ import annotations

import runpy
import tomllib

import pytest
from tests.project.sources import ROOT, imported_modules, source_files

PROJECT = (ROOT / "pyproject.toml").read_text()
requirements = runpy.run_path(str(ROOT / "scripts" / "requirements.py"))["requirements"]


def test_every_dependency_is_imported() -> None:
    dependencies = {line.partition(">=")[0] for line in tomllib.loads(PROJECT)["project"]["dependencies"]}
    imported = {module.partition(".")[0] for file in source_files() for module in imported_modules(file)}
    assert dependencies - imported == set()


def test_the_lowest_versions_are_the_bounds() -> None:
    lines = requirements("lowest", PROJECT)
    assert [line for line in lines if line.startswith("numpy")] == ["numpy==2.1"]
    assert sum("==" in line for line in lines) == len(tomllib.loads(PROJECT)["project"]["dependencies"])
    assert any(line.startswith("pytest>=") for line in lines)
    assert not any("==" in line for line in requirements("newest", PROJECT))


@pytest.mark.parametrize("dependency", ["numpy", "numpy<3", "numpy>=2,<3"])
def test_a_dependency_without_a_plain_bound_is_refused(dependency: str) -> None:
    project = PROJECT.replace('"numpy>=2.1"', f'"{dependency}"')
    assert project != PROJECT
    with pytest.raises(ValueError, match="need NAME>=VERSION"):
        requirements("lowest", project)


def test_another_word_is_refused() -> None:
    with pytest.raises(ValueError, match="need lowest or newest"):
        requirements("oldest", PROJECT)
