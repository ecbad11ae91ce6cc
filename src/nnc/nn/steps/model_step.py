"""Compiled steps of a model: the symbols that each writes and reads, and how it is run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import shown
from nnc.classes import dataclass
from nnc.core.values.dtype import DType
from nnc.errors import ArityError
from nnc.symbolic import Compiled, Symbol
from nnc.symbolic.kept.kept_graphs import CachedGraph
from nnc.symbolic.passes import Beforehand, Report

# One array for a model of one input (or one target), else a tuple of them.
Values: TypeAlias = ArrayLike | Sequence[ArrayLike]
# Inputs, targets and results of a step.
Ends: TypeAlias = tuple[tuple[Symbol, ...], tuple[Symbol, ...], tuple[Symbol, ...]]
# Names of what a generation keeps begin so.
CACHE = "cache."


@dataclass(frozen=True, slots=True, eq=False)
class ModelStep:
    """A compiled graph with the symbols that a step writes and reads, and what each pass did to the graph before.

    Any thread may run it: steps that share an arena take turns. One from the disk has not run the passes: it is planned
    for who asks for `compiled` or `passes`.
    """

    program: Compiled | CachedGraph
    inputs: tuple[Symbol, ...]
    targets: tuple[Symbol, ...]
    results: tuple[Symbol, ...]
    reports: Sequence[Report] = ()

    @property
    def compiled(self) -> Compiled:
        """The program with its graph and its plan."""
        return self.program if isinstance(self.program, Compiled) else self.program.compiled

    @property
    def passes(self) -> tuple[Report, ...]:
        """What each pass did."""
        return tuple(self.reports) if self.compiled else ()

    def views_of(self, arrays: Iterable[NDArray[np.generic]]) -> tuple[NDArray[np.generic], ...]:
        """`views` of inputs and targets that were checked, in their order, within `program.exclusively`."""
        return self.program.views_in_turn(zip((*self.inputs, *self.targets), arrays, strict=True), self.results)

    def run(self, inputs: Values = (), target: Values | None = None) -> tuple[NDArray[np.generic], ...]:
        """Write the batch, run, and give the results: arrays of the caller's own."""
        return self.program.exclusively(lambda: tuple(np.array(view) for view in self.views(inputs, target)))

    def views(self, inputs: Values = (), target: Values | None = None) -> tuple[NDArray[np.generic], ...]:
        """The same without a copy: arrays over the arena, whose next run writes over them.

        Nobody else runs in the arena until they are read if that is within `program.exclusively`.
        """
        given = each_of("step", len(self.inputs), inputs)
        if self.targets:
            if target is None:
                raise ArityError("step", got="inputs alone", need="a target too")
            given = (*given, *each_of("step", len(self.targets), target))
        elif target is not None:
            raise ArityError("step", got="a target", need="inputs alone, as it has no loss")
        return self.program.views(zip((*self.inputs, *self.targets), given, strict=True), self.results)


@dataclass(slots=True, eq=False)
class PlannedStep:
    """A planned step and its precision, and the symbols that the model's tensors will be bound to, by their names.

    `beforehand` is the work on weights that a frozen step does no longer, and `frozen` what it reads instead of them.
    `bound` is the step over the model's tensors, once it was asked for.
    """

    step: ModelStep
    given: Mapping[str, Symbol]
    precision: DType | None
    beforehand: Beforehand | None = None
    frozen: tuple[Symbol, ...] = ()
    bound: ModelStep | None = None

    @property
    def caches(self) -> dict[str, Symbol]:
        """What a generation keeps, by path."""
        return {name: symbol for name, symbol in self.given.items() if name.startswith(CACHE)}


def each_of(subject: str, count: int, values: Values) -> tuple[ArrayLike, ...]:
    """`values` as a tuple of `count`: a single one stands for itself."""
    if count == 1:
        return (values,)  # type: ignore[return-value]  # of one input, whatever it is
    if not isinstance(values, tuple | list) or len(values) != count:
        got = f"{len(values)} values" if isinstance(values, tuple | list) else shown(values)
        raise ArityError(subject, got=got, need=f"a tuple of {count}, one for each of the model's")
    return tuple(values)
