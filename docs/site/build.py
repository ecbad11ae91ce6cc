"""The documentation as a site: `python docs/site/build.py [FOLDER] [--unasked]`; warnings are errors.

The guides, the records of decisions and the reference pages, which are made from docstrings, are laid out as in the
checkout, so that links between them hold; links to source files stay text.
"""

from __future__ import annotations

import re
import shutil
import sys
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

from behaviour import told
from reference import PACKAGES, linked, page
from reference_examples import introduced, shown
from sphinx.cmd.build import build_main

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
DOCUMENTS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")


def lay_out(source: Path, *, asked: bool = True) -> None:
    """All that Sphinx reads; what functions answer to wrong arguments where they are `asked`, which takes a while."""
    for name in DOCUMENTS:
        _copy(CHECKOUT / name, source / name)
    for found in sorted((CHECKOUT / "docs").rglob("*")):
        made = (HERE, CHECKOUT / "docs" / "reference")
        if found.is_file() and not {*made} & {*found.parents} and found.suffix in (".md", ".svg", ".png"):
            _copy(found, source / found.relative_to(CHECKOUT))
    shutil.copytree(HERE, source, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.pyc", "__pycache__"))
    # The first page stands beside this file in the checkout, and at the root of the site.
    first = (HERE / "index.md").read_text(encoding="utf-8").replace("](../../", "](").replace("](../", "](docs/")
    _write(source / "index.md", linked(first))
    records = sorted(path.stem for path in (CHECKOUT / "docs" / "design").glob("*.md"))
    _write(source / "docs" / "design" / "index.md", _contents("Records of decisions", records))
    _write(source / "reference" / "index.md", _contents("Reference", PACKAGES))
    for name in PACKAGES:
        _write(source / "reference" / f"{name}.md", page(name, introduced(name), told if asked else shown))


def _contents(title: str, names: tuple[str, ...] | list[str]) -> str:
    return "\n".join([f"# {title}", "", "```{toctree}", ":maxdepth: 1", "", *names, "```", ""])


def _copy(path: Path, target: Path) -> None:
    """A file; in a document, links to what is no page of the site become text."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix != ".md":
        shutil.copy(path, target)
        return

    def kept(link: re.Match[str]) -> str:
        place = (path.parent / link[2]).resolve()
        is_page = place.suffix == ".md" and ("docs" in place.parts or place.name in DOCUMENTS)
        return link[0] if is_page and place.is_file() else link[1]

    text = path.read_text(encoding="utf-8")
    text = re.sub(r"(?<!!)\[([^\]\n]+)\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)", kept, text)
    _write(target, linked(text))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main(folder: Path, *, asked: bool = True) -> int:
    """Build the site into `folder`; Sphinx's exit code."""
    folder = folder.absolute()
    with TemporaryDirectory() as name, TemporaryDirectory() as aside:
        # Functions that are asked with wrong arguments write files, of names that nobody chose.
        with chdir(aside):
            lay_out(Path(name), asked=asked)
        return int(build_main(["-W", "--keep-going", "-n", "-q", "-b", "html", name, str(folder)]))


if __name__ == "__main__":
    folders = [word for word in sys.argv[1:] if word != "--unasked"]
    sys.exit(main(Path(folders[0]) if folders else CHECKOUT / "build" / "site", asked="--unasked" not in sys.argv))
