"""What checkers see of words that doors take: stubs are written from signatures, and doors take what they say."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import nnc

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs" / "site"))
import signatures

X = nnc.array([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]])


def test_the_stubs_are_those_of_the_signatures() -> None:
    stale = [path.name for path, text in signatures.stubs().items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "python docs/site/signatures.py"


def words(definition: ast.FunctionDef) -> dict[str, object]:
    """A value for each of the words that only the stub has of a function of one array."""
    given = {"dim": 0, "axis": 0, "keepdim": True, "keepdims": True, "ddof": 1, "unbiased": True}
    own = [*definition.args.args, *definition.args.kwonlyargs]
    return {each.arg: given[each.arg] for each in own if each.arg in given}


def test_methods_take_the_words_of_their_stubs() -> None:
    """Of all that need nothing else; `rot90` turns a plane."""
    stub = ast.parse(signatures.METHODS.read_text(encoding="utf-8")).body[-1]
    assert isinstance(stub, ast.ClassDef)
    tried = 0
    for row in stub.body:
        assert isinstance(row, ast.FunctionDef)
        needed = len(row.args.args) - 1 - len(row.args.defaults)
        given = words(row)
        if row.name != "rot90" and not {each.arg for each in row.args.args[1 : 1 + needed]} - given.keys():
            with nnc.lazy():
                getattr(X.twin(), row.name)(**given)
            tried += 1
    assert tried > 40
