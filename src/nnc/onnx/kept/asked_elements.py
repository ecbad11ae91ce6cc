"""The types of elements that NumPy and this package share, and elements that making a program asks for."""

from __future__ import annotations

from nnc.core.values.dtype import DTYPES

# The element types of NumPy that are ours too.
TWINS = {dtype.numpy for dtype in DTYPES}


class Unknown(Exception):  # noqa: N818  # no error: the importer asks for the value of what it depends on
    """A value is needed that depends on the elements of inputs. `whole`: all operands of the node are.

    `place` is the number of the node in the outermost graph.
    """

    def __init__(self, names: frozenset[str], what: str, *, whole: bool = False) -> None:
        self.names = names
        self.what = what
        self.whole = whole
        self.place = 0
        super().__init__(what)
