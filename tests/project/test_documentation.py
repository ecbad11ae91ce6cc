"""The code of the README and of the guides runs as it stands."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from nnc.core.running.dispatch import DISPATCHER
from nnc.dynamic import DynamicGraph

ROOT = Path(__file__).parents[2]
# Examples of the reference are run one by one, by test_reference.py.
REFERENCE = ROOT / "docs" / "reference"
GUIDES = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if "```python" in page.read_text(encoding="utf-8") and page.parent != REFERENCE
]


def made(name: str) -> ModuleType:
    """A script of the site, as a module."""
    specification = importlib.util.spec_from_file_location(f"site_{name}", ROOT / "docs" / "site" / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


PAGES, NOTEBOOK = made("pages"), made("notebook")


def test_the_code_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    score = float(capsys.readouterr().out.splitlines()[-2])
    assert score > 0.9
    assert (tmp_path / "digits.safetensors").stat().st_size > 10_000


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # A guide may add a backend.
    monkeypatch.setattr(DISPATCHER, "backends", dict(DISPATCHER.backends))
    # What other tests of this process hold is not counted among what a page records.
    monkeypatch.setattr("nnc.dynamic.graph._DEFAULT", DynamicGraph())
    faults = {}

    def told(source: str, shown: str | None, printed: str) -> str | None:
        if shown is not None and not PAGES.fits(shown, printed):
            faults[source] = printed
        return shown

    PAGES.run(page, told)
    assert faults == {}, f"python docs/site/pages.py {page.relative_to(ROOT)} writes what is printed now"


def test_an_ellipsis_stands_for_anything() -> None:
    assert PAGES.fits("a … c\n…\n", "a b b c\nlast\n")
    assert not PAGES.fits("a … c\n", "a b d\n")
    assert not PAGES.fits("a\n", "a\nb\n")


def test_outputs_are_written_behind_their_blocks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n\n```python\nx = 1\n```\n")
    written = "```python\nprint(1 + 1)\n```\n\n```text\n2\n```\n\n```python\nx = 1\n```\n"
    assert PAGES.run(page, PAGES.written) == written


def test_the_last_column_of_a_table_is_part_of_the_script(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "| theirs | nnc |\n|---|---|\n"
        "| `a` | `x = 1 \\| 4`, `y = x + 1`, ``nnc warm`` |\n\n```python\nprint(x, y)\n```\n"
    )
    assert PAGES.run(page, PAGES.written).endswith("\n```text\n5 6\n```\n")
    page.write_text("| theirs | nnc |\n|---|---|\n| `a` | `no_name` |\n")
    with pytest.raises(NameError, match="no_name"):
        PAGES.run(page, PAGES.written)


@pytest.mark.parametrize("school", ["pytorch", "jax", "keras", "mlx", "numpy", "onnxruntime"])
def test_the_page_of_a_school_has_lines_enough(school: str) -> None:
    text = (ROOT / "docs" / "how-to" / f"from-{school}.md").read_text(encoding="utf-8")
    lines = [line for table in PAGES.SCRIPT.finditer(text) if table["rows"] for line in PAGES.lines_of(table["rows"])]
    assert len(lines) >= 20


@pytest.mark.nightly("its lines are those of pages that run each time")
def test_the_notebook_runs_in_a_kernel_and_draws(tmp_path: Path) -> None:
    NOTEBOOK.main(tmp_path)
    cells = [
        cell for cell in json.loads((tmp_path / "tour.ipynb").read_text(encoding="utf-8"))["cells"] if cell["source"]
    ]
    assert not [output for cell in cells for output in cell.get("outputs", ()) if output["output_type"] == "error"]
    pictures = sorted(tmp_path.glob("*.png"))
    assert [path.stem for path in pictures] == ["cell2", "cell8", "cell9"]
    for path in pictures:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("L"))
        # Something is drawn: no side is a line, and neither is it all of one gray.
        assert min(pixels.shape) >= 8
        assert pixels.std() > 10
    assert "&lt;html" in (tmp_path / "cell6.html").read_text(encoding="utf-8")


def test_the_cells_of_the_notebook_run(capsys: pytest.CaptureFixture[str]) -> None:
    cells = NOTEBOOK.sources()
    assert len(cells) == 10
    names: dict[str, object] = {}
    for number, source in enumerate(cells, 1):
        exec(compile(source, f"cell {number}", "exec"), names)
    assert "val_score" in capsys.readouterr().out
