"""Lines that users of PyTorch, Keras, JAX, MLX and NumPy write from memory run after their imports alone have changed.

A list NAME.txt begins with the imports. `## ADDRESS` is the getting-started page whose idioms the blocks below it are,
in words of our own. A block that we write otherwise ends with `!! FORM`: the error names that form.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

LISTS = sorted(Path(__file__).parent.glob("*.txt"))


@dataclass(frozen=True)
class Idiom:
    """Some lines, what is imported before, the page, and our form where the lines do not run."""

    name: str
    imports: str
    page: str
    lines: str
    form: str

    def run(self) -> None:
        """The lines as a script."""
        names: dict[str, Any] = {"__name__": "idiom"}
        exec(compile(self.imports, self.name, "exec"), names)
        exec(compile(self.lines, self.name, "exec"), names)


def idioms(path: Path) -> Iterator[Idiom]:
    text = path.read_text(encoding="utf-8")
    imports, _, rest = text.partition("\n## ")
    number = 0
    for part in rest.split("\n## "):
        page, _, body = part.partition("\n")
        for block in body.strip("\n").split("\n\n"):
            lines, _, form = block.partition("\n!! ")
            number += 1
            yield Idiom(f"{path.stem} {number}", imports, page, lines, form.strip())


IDIOMS = [one for path in LISTS for one in idioms(path)]


@pytest.mark.usefixtures("_seeded")
@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda one: one.name)
def test_idioms(idiom: Idiom) -> None:
    if not idiom.form:
        idiom.run()
        return
    with pytest.raises(Exception) as caught:  # noqa: PT011  # which one is the error's own matter: it names the form
        idiom.run()
    assert f"Fix: {idiom.form}" in str(caught.value)


def test_nearly_all_run() -> None:
    assert len(IDIOMS) >= 300
    assert {path.stem for path in LISTS} == {
        *("jax", "jax_training", "keras", "mlx", "mlx_training", "numpy", "torch", "torch_training"),
    }
    assert sum(not one.form for one in IDIOMS) >= 0.95 * len(IDIOMS)
    assert all(one.page.startswith("https://") for one in IDIOMS)
