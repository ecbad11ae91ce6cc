"""The reference says of every public name what it is, shows it in an example that runs, and what it refuses is true."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import nnc
from nnc.core.running.dispatch import DISPATCHER
from nnc.dynamic import DynamicGraph
from nnc.graph import default_registry

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "site"))
EXAMPLES, BEHAVIOUR, REFERENCE, PAGES = map(import_module, ("reference_examples", "behaviour", "reference", "pages"))
sys.path.pop(0)
# Of the inside of the compiler and of language files: told by what tutorials run, without an example of each name.
TOLD_ELSEWHERE = {
    "nnc.concrete", "nnc.graph", "nnc.language", "nnc.language.architectures", "nnc.language.gguf", "nnc.symbolic",
    "nnc.symbolic.passes", "nnc.symbolic.text",
}  # fmt: skip
MEND = "python docs/site/reference_examples.py {} writes what examples show now"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Examples write files, define operators, and record on the default graph."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(DISPATCHER, "backends", dict(DISPATCHER.backends))
    monkeypatch.setattr("nnc.dynamic.graph._DEFAULT", DynamicGraph())
    before = [(home, dict(home)) for home in (default_registry._ops, default_registry._names)]
    yield
    for home, kept in before:
        home.clear()
        home.update(kept)


@pytest.mark.parametrize("package", [name for name in REFERENCE.PACKAGES if name not in TOLD_ELSEWHERE])
def test_every_public_name_has_an_example(package: str) -> None:
    assert EXAMPLES.lacking(package) == [], f"its docstring wants a doctest, or docs/reference/{package}.md a row"


@pytest.mark.parametrize("package", sorted(path.stem for path in EXAMPLES.TABLES.glob("*.md")))
def test_rows_show_what_their_examples_give(package: str) -> None:
    assert set(EXAMPLES.rows(package)) <= set(REFERENCE.public_names(import_module(package)))
    for name, now, shown in EXAMPLES.shown_now(package):
        assert PAGES.fits(shown, EXAMPLES.cut(now)) or PAGES.fits(shown, now), f"{name}: {MEND.format(package)}"


@pytest.mark.parametrize("package", REFERENCE.PACKAGES)
def test_functions_and_classes_say_what_they_are(package: str) -> None:
    module = import_module(package)
    values = {name: getattr(module, name) for name in EXAMPLES.own_names(package)}
    told = {name: value for name, value in values.items() if inspect.isclass(value) or inspect.isroutine(value)}
    lacking = [name for name, value in told.items() if not inspect.getdoc(value)]
    assert lacking == []


@pytest.mark.parametrize("package", REFERENCE.PACKAGES)
def test_wrong_arguments_are_answered_by_our_errors(package: str) -> None:
    module = import_module(package)
    foreign = []
    for name in EXAMPLES.own_names(package):
        if callable(getattr(module, name)):
            refusals = BEHAVIOUR.Example(package, name).refusals()
            foreign += [each.call for each in refusals if not isinstance(each.error, nnc.errors.NncError)]
    assert foreign == []
