"""Who looks at each command as it runs: what it read and what it wrote, on the thread that ran it.

Where nobody does, nothing asks: whoever looks makes the profiler listen, and kernels then run one by one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nnc.classes import dataclass
from nnc.core.running.dispatch import Tensors
from nnc.core.values.command import AnyCommand
from nnc.core.values.recorder import PROFILER, Labelled, Record


@dataclass(frozen=True, slots=True)
class CommandLabel:
    """A command of no graph: its user's line and, where there is one, its layer."""

    command: AnyCommand
    origin: str
    name: str = ""


Inspector = Callable[[Labelled, Tensors, Tensors], None]


class Inspectors:
    """Who looks now; `eager` of them want compiled functions to run as they are written."""

    __slots__ = ("_lock", "active", "eager")

    def __init__(self) -> None:
        self.active: tuple[Inspector, ...] = ()
        self.eager = 0
        self._lock = threading.Lock()

    @contextmanager
    def looking(self, inspector: Inspector, *, eager: bool) -> Iterator[None]:
        """Inside, `inspector` is shown each command of the process; it may be nested."""
        unheard: deque[Record] = deque(maxlen=0)
        with self._lock:
            self.active = (*self.active, inspector)
            self.eager += eager
        PROFILER.add(unheard)
        try:
            yield
        finally:
            PROFILER.remove(unheard)
            with self._lock:
                self.active = tuple(each for each in self.active if each is not inspector)
                self.eager -= eager

    def show(self, source: Labelled, inputs: Tensors, outputs: Tensors) -> None:
        """Show everybody a command that has run."""
        for inspector in self.active:
            inspector(source, inputs, outputs)


INSPECTORS = Inspectors()
