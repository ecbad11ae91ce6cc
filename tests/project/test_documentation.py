"""The code of the README and of the guides runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nnc.core.dispatch import DISPATCHER

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs").glob("*.md"))


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def test_the_code_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = blocks(ROOT / "README.md")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    score = float(capsys.readouterr().out.splitlines()[-2])
    assert score > 0.9
    assert (tmp_path / "digits.safetensors").stat().st_size > 10_000


@pytest.mark.parametrize("page", [page for page in GUIDES if blocks(page)], ids=lambda page: page.name)
def test_the_code_of_a_guide_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # A guide may add a backend.
    monkeypatch.setattr(DISPATCHER, "backends", dict(DISPATCHER.backends))
    names: dict[str, object] = {}
    for number, code in enumerate(blocks(page)):
        exec(compile(code, f"{page.name}, block {number}", "exec"), names)
