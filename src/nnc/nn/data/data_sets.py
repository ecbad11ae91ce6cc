"""The data sets by name."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from types import MappingProxyType

from nnc.arguments import checked
from nnc.errors import DataError
from nnc.nn.data.data_set import Split
from nnc.nn.data.digits import load_digits

DATA_SETS = MappingProxyType[str, Callable[[], Split]](
    {
        "digits": load_digits,
    }
)


@checked
def load(name: str) -> Split:
    """The data set of that name; raises `DataError` for a name that is not in `DATA_SETS`."""
    loader = DATA_SETS.get(name)
    if loader is None:
        close = get_close_matches(name.lower(), DATA_SETS, n=1)
        raise DataError(
            "data set",
            got=repr(name),
            need=f"one of {', '.join(sorted(DATA_SETS))}",
            fix=f"did you mean {close[0]!r}?" if close else "",
        )
    return loader()
