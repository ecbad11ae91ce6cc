"""The picture of the layers: `python docs/site/architecture.py` writes docs/pictures/architecture.svg.

A row is a package of `nnc`, in the order of the contract of imports, and so is a column; a cell has the number of
imports of the column's package in the row's. Imports only point down, so everything is right of the diagonal.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = CHECKOUT / "src" / "nnc"
PICTURE = CHECKOUT / "docs" / "pictures" / "architecture.svg"
SIDE, LEFT, TOP = 34, 190, 96


def layers() -> list[str]:
    """The packages and modules of the contract, from the top down."""
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = (row for row in settings["contracts"] if row["type"] == "layers" and row["containers"] == ["nnc"])
    return [str(layer) for layer in contract["layers"]]


def sources(layer: str) -> list[Path]:
    """The files of a package, or that of a module."""
    return sorted((PACKAGE / layer).rglob("*.py")) or [PACKAGE / f"{layer}.py"]


def imports() -> Counter[tuple[str, str]]:
    """How often a statement in one layer imports another."""
    counts = Counter[tuple[str, str]]()
    known = set(layers())
    for layer in layers():
        for file in sources(layer):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                for imported in _imported(node):
                    if imported in known and imported != layer:
                        counts[layer, imported] += 1
    return counts


def _imported(node: ast.AST) -> set[str]:
    """The layers that a statement names."""
    if isinstance(node, ast.ImportFrom) and node.module == "nnc":
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nnc."):
        return {str(node.module).split(".")[1]}
    return set()


def picture() -> str:
    """The matrix as SVG."""
    names, counts = layers(), imports()
    lines = {name: sum(len(file.read_text(encoding="utf-8").splitlines()) for file in sources(name)) for name in names}
    width, height = LEFT + SIDE * len(names) + 20, TOP + SIDE * len(names) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"',
        ' font-size="12">',
        "<title>Imports between the layers of nnc</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for place, name in enumerate(names):
        middle = SIDE * place + SIDE // 2
        size = f"{lines[name] / 1000:.1f}k"
        parts.append(f'<text x="{LEFT - 52}" y="{TOP + middle + 4}" text-anchor="end">{name}</text>')
        parts.append(f'<text x="{LEFT - 8}" y="{TOP + middle + 4}" text-anchor="end" fill="#888">{size}</text>')
        parts.append(f'<text transform="translate({LEFT + middle + 4} {TOP - 8}) rotate(-60)">{name}</text>')
        parts.append(_cell(place, place, "#ddd", "", name))
    for (above, below), count in sorted(counts.items()):
        shade = "#cfe3f7" if count < 10 else "#8fbfea" if count < 100 else "#4a90d0"
        parts.append(_cell(names.index(above), names.index(below), shade, str(count), f"{above}-{below}"))
    return "\n".join([*parts, "</svg>", ""])


def _cell(row: int, column: int, colour: str, text: str, name: str) -> str:
    x, y = LEFT + SIDE * column, TOP + SIDE * row
    label = f'<text x="{x + SIDE // 2}" y="{y + SIDE // 2 + 4}" text-anchor="middle">{text}</text>' if text else ""
    return f'<rect id="{name}" x="{x + 1}" y="{y + 1}" width="{SIDE - 2}" height="{SIDE - 2}" fill="{colour}"/>{label}'


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
