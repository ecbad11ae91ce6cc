"""The programs of `nnc train`, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

from nnc.cli.programs.cartpole import CARTPOLE
from nnc.cli.programs.digits import DIGITS
from nnc.cli.programs.images import IMAGES
from nnc.cli.programs.sorting import SORTING
from nnc.cli.programs.table import TABLE
from nnc.cli.programs.text import TEXT
from nnc.cli.recipe import Recipe
from nnc.errors import UsageError

RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "digits": DIGITS,
        "table": TABLE,
        "text": TEXT,
        "images": IMAGES,
        "sorting": SORTING,
        "cartpole": CARTPOLE,
    }
)


def recipe_of(name: str) -> Recipe:
    """The program of that name; UsageError for another one."""
    if name not in RECIPES:
        close = get_close_matches(name.lower(), RECIPES, n=1)
        fix = f"did you mean {close[0]!r}?" if close else ""
        raise UsageError("program", got=repr(name), need=f"one of {', '.join(RECIPES)}", fix=fix)
    return RECIPES[name]
