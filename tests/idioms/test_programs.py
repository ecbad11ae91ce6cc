"""Programs that strangers write on their first day: they run after the import alone has changed, or are answered.

programs/SCHOOL.txt begins with the imports, and `## NAME` is a program, written from memory as that project's users
write it. Of 131, 113 run as they are; each of the others ends with `!! FORM`, which its error names. Lines that differ
by design are most of those: one `fit`, values that do not change.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

# What the docstring says.
PROGRAMS, RUNNING = 131, 113


def programs() -> Iterator[tuple[str, str, str]]:
    """Name, lines and our form of each."""
    for path in sorted((Path(__file__).parent / "programs").glob("*.txt")):
        head, *parts = path.read_text(encoding="utf-8").split("\n## ")
        for part in parts:
            name, _, body = part.partition("\n")
            lines, _, form = body.partition("\n!! ")
            yield f"{path.stem}: {name}", f"{head}\n{lines}\n", form.strip()


ALL = list(programs())


@pytest.fixture(scope="module", autouse=True)
def _forgotten() -> Iterator[None]:
    """What programs recorded goes with their modules, which hang together with themselves."""
    yield
    gc.collect()


@pytest.mark.usefixtures("_seeded")
@pytest.mark.turns(4)
@pytest.mark.parametrize(("name", "lines", "form"), ALL, ids=[name for name, _, _ in ALL])
def test_programs(name: str, lines: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = compile(lines, name, "exec")
    if not form:
        exec(run, {"__name__": "__main__"})
        return
    with pytest.raises(Exception) as caught:  # noqa: PT011  # which one is the error's own matter: it names the form
        exec(run, {"__name__": "__main__"})
    said = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert f"Fix: {form}" in said


def test_the_counts_are_those_that_are_told() -> None:
    assert len(ALL) == PROGRAMS
    assert sum(not form for _, _, form in ALL) == RUNNING
