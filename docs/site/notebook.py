"""The notebook docs/tour.ipynb: `python docs/site/notebook.py [FOLDER]` runs it in a kernel and writes what it shows.

It needs nbclient and ipykernel, of the extra `test`. In FOLDER, by default build/notebook, are the notebook with its
outputs, each picture, and each page of HTML: the tests look at what is drawn there.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
NOTEBOOK = CHECKOUT / "docs" / "tour.ipynb"


def sources(path: Path = NOTEBOOK) -> list[str]:
    """The code of its cells, in turn."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def main(folder: Path) -> None:
    """Run all cells, and write what they show into `folder`; the first error ends it."""
    # Only where it is run: the site is written without them.
    from nbclient import NotebookClient  # noqa: PLC0415
    from nbformat import read, write  # noqa: PLC0415

    notebook = read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(CHECKOUT)}}).execute()
    folder.mkdir(parents=True, exist_ok=True)
    write(notebook, folder / NOTEBOOK.name)
    codes = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(codes, 1):
        for output in cell.outputs:
            data = output.get("data", {})
            for kind, suffix in (("image/png", "png"), ("image/svg+xml", "svg"), ("text/html", "html")):
                if kind in data:
                    content = base64.b64decode(data[kind]) if suffix == "png" else "".join(data[kind]).encode()
                    (folder / f"cell{number}.{suffix}").write_bytes(content)
            print(number, sorted(data) or output.get("text", "").strip())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else CHECKOUT / "build" / "notebook")
