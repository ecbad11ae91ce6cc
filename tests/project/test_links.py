"""Every relative link of the documents leads to a file of this checkout, and every anchor to a heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def prose(document: Path) -> str:
    """The text without code, in which brackets mean something else."""
    return CODE.sub("", document.read_text())


def anchors(document: Path) -> set[str]:
    """The names that headings get: lower case, spaces to hyphens, no other signs."""
    headings = HEADING.findall(document.read_text())
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def fault(document: Path, link: str) -> str | None:
    path, _, anchor = link.partition("#")
    target = (document.parent / path).resolve() if path else document
    if not target.is_relative_to(ROOT):
        return "leads out of the checkout"
    if not target.exists():
        return "leads nowhere"
    if anchor and target.suffix == ".md" and anchor not in anchors(target):
        return "names no heading"
    return None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_relative_links_resolve(document: Path) -> None:
    links = [link for link in LINK.findall(prose(document)) if not re.match(r"[a-z]+:", link)]
    faults = {link: found for link in links if (found := fault(document, link))}
    assert faults == {}


def test_the_documents_are_there() -> None:
    names = {str(document.relative_to(ROOT)) for document in DOCUMENTS}
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/design/0001-layers.md"} <= names
