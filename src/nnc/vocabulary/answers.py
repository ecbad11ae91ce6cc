"""Errors for names that are not there: our form where a table has the name, else what is spelt like it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NoReturn

from nnc.errors import UnknownNameError


def unknown_name(
    owner: str, name: str, forms: Mapping[str, str], names: Callable[[], Iterable[str]], prefix: str
) -> AttributeError:
    """The error of `owner` for a name; `prefix` stands before a name of its own, such as `x.`.

    Private names are asked for by libraries, which look whether they are there: nothing is searched for them.
    """
    if name.startswith("_"):
        return AttributeError(f"{owner} has no {name!r}")
    fix = forms.get(name, "")
    if not fix:
        close = get_close_matches(name, [value for value in names() if not value.startswith("_")], n=1)
        fix = f"did you mean {prefix}{close[0]}?" if close else ""
    return UnknownNameError(f"{owner} has no {name!r}", fix=fix)


class Answering:
    """A class whose objects answer to another project's name with ours, of which `forms` is the table.

    `spoken` is what an object is called in those forms.
    """

    __slots__ = ()
    forms: ClassVar[Mapping[str, str]] = {}
    spoken: ClassVar[str] = "x"

    if not TYPE_CHECKING:
        # A type checker goes by what there is.
        def __getattr__(self, name: str) -> NoReturn:
            kind = type(self)
            raise unknown_name(kind.__name__, name, kind.forms, partial(dir, kind), f"{kind.spoken}.")
