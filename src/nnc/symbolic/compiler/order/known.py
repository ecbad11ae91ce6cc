"""Orders of one graph that were looked for at other sizes: where all is about as large, one serves for all of these.

known = KnownOrders()
compile(graph of 60 rows, ..., orders=known)       looks for an order
compile(graph of 61 rows, ..., orders=known)       has the same
"""

from __future__ import annotations

from collections.abc import Mapping

from nnc.symbolic.compiler.order.uses import Uses
from nnc.symbolic.records import ExecKey

Before = Mapping[ExecKey, set[ExecKey]]
Order = tuple[ExecKey, ...]


class KnownOrders:
    """One order for each power of two of bytes that all values of the graph take together.

    A search takes half of the time of a plan, and what is smaller or larger by the same factor has the same best order.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[int, Order] = {}

    def find(self, before: Before, uses: Uses) -> Order | None:
        """An order that these execs can have; None where none of about these bytes was looked for."""
        order = self._kept.get(_magnitude(uses))
        return order if order is not None and _is_order(order, before) else None

    def keep(self, uses: Uses, order: Order) -> None:
        """Keep an order that was found at these sizes."""
        self._kept[_magnitude(uses)] = order


def _magnitude(uses: Uses) -> int:
    return sum(uses.nbytes.values()).bit_length()


def _is_order(order: Order, before: Before) -> bool:
    """Whether it has all execs and no others, each behind those that come first."""
    done = set[ExecKey]()
    for key in order:
        if key not in before or not before[key] <= done:
            return False
        done.add(key)
    return len(done) == len(before)
