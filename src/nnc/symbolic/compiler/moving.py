"""Compiled graphs whose given and bound tensors are others at each run, without anything being built.

A graph is laid out once, over stand-ins. What lies in these moves to where the tensors of a run are: of a native
program some addresses are stored, a call of another backend gets other tensors. Where there are loops or branches, the
values go to the stand-ins and come from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol, TypeVar

from nnc.concrete import ConcreteGraph
from nnc.concrete.run import Fixed
from nnc.core.precautions.forking import fork_safe_lock
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.running.dispatch import Call, Relocatable
from nnc.core.settings import SETTINGS
from nnc.core.values.pool import Pool
from nnc.core.values.recorder import PROFILER
from nnc.core.values.spec import contiguous_strides
from nnc.core.values.tensor import Tensor
from nnc.symbolic.compiler.place.memory_statement import MemoryStatement
from nnc.symbolic.compiler.shared_arena import Resident
from nnc.symbolic.ir import Symbol

R = TypeVar("R")
Step = Callable[[Sequence[Tensor]], None]


class BoundProgram(Resident, Protocol):
    """What moves: a compiled graph, or one from the disk."""

    def memory(self) -> MemoryStatement:
        """As `Compiled.memory`."""
        ...

    @property
    def is_bare(self) -> bool:
        """As `Compiled.is_bare`."""
        ...

    def exclusively(self, work: Callable[[], R]) -> R:
        """As `Compiled.exclusively`."""
        ...

    def rebind(self, tensors: Mapping[Symbol, Tensor]) -> BoundProgram:
        """As `Compiled.rebind`."""
        ...

    def allocate(self) -> ConcreteGraph:
        """As `Compiled.allocate`."""
        ...

    def fixed_steps(self) -> tuple[Fixed, ...] | None:
        """As `Compiled.fixed_steps`."""
        ...

    def tensor(self, symbol: Symbol) -> Tensor:
        """That of a symbol that is bound."""
        ...

    def take_turn(self) -> None:
        """As `Compiled.take_turn`."""
        ...

    def run(self) -> object:
        """Execute once."""
        ...


class MovingProgram(Uncopied):
    """`run(tensors)` = rebind(symbols to tensors).run(), for tensors `given` and then `written`, in microseconds."""

    instead: ClassVar[str] = "compile() again"

    def __init__(self, compiled: BoundProgram, given: Sequence[Symbol], written: Sequence[Symbol]) -> None:
        self.compiled = compiled
        self.symbols = (*given, *written)
        self._given = len(given)
        self._rooms = [(value.spec, value.spec.nbytes, contiguous_strides(value.spec.shape)) for value in written]
        self._on_host = all(spec.device.is_host for spec, _, _ in self._rooms)
        self._bound: BoundProgram | None = None
        self._places: list[Tensor] = []
        self._laid_out: ConcreteGraph | None = None
        self._steps: tuple[Step, ...] | None = None
        # The step of a small program that has its table of addresses to itself, and nothing else to share.
        self._bare: Step | None = None
        self._turn = fork_safe_lock()

    def fresh(self, pool: Pool) -> list[Tensor]:
        """Memory for what it writes."""
        if self._on_host:
            return [Tensor.over(spec, pool.allocate(nbytes), strides) for spec, nbytes, strides in self._rooms]
        of = pool.of
        return [Tensor.over(spec, of(spec.device).allocate(nbytes), strides) for spec, nbytes, strides in self._rooms]

    def run(self, tensors: Sequence[Tensor]) -> None:
        """Run on these contiguous tensors of the symbols, which have their specs."""
        bare = self._bare
        if bare is not None and not (SETTINGS.debug or PROFILER.recorders):
            with self._turn:
                bare(tensors)
        elif SETTINGS.debug:
            self.compiled.rebind(dict(zip(self.symbols, tensors, strict=True))).run()
        else:
            self.compiled.exclusively(lambda: self._run_moved(tensors))

    def _run_moved(self, tensors: Sequence[Tensor]) -> None:
        if self._bound is None:
            stand_ins = {symbol: Tensor.empty(symbol.spec) for symbol in self.symbols}
            self._bound = self.compiled.rebind(stand_ins)
        concrete = self._bound.allocate()
        if concrete is not self._laid_out:
            fixed = self._bound.fixed_steps()
            self._places = [self._bound.tensor(symbol) for symbol in self.symbols]
            self._steps = None if fixed is None else tuple(_step(value, self._places) for value in fixed)
            self._laid_out = concrete
            alone = fixed is not None and len(fixed) == 1 and isinstance(fixed[0].program, Relocatable)
            self._bare = self._steps[0] if self._steps and alone and self._bound.is_bare else None
        if self._steps is None or PROFILER.recorders:
            self._run_copied(self._bound, tensors)
            return
        if self._bare is not None:
            with self._turn:
                self._bare(tensors)
            return
        self._bound.take_turn()
        for step in self._steps:
            step(tensors)

    def _run_copied(self, bound: BoundProgram, tensors: Sequence[Tensor]) -> None:
        pairs = [*zip(self._places, tensors, strict=True)]
        for place, tensor in pairs[: self._given]:
            place.copy_from(tensor)
        bound.run()
        for place, tensor in pairs[self._given :]:
            tensor.copy_from(place)


def _step(fixed: Fixed, places: Sequence[Tensor]) -> Step:
    """A program that goes where the tensors are."""
    program: object = fixed.program
    if isinstance(program, Relocatable):
        move = program.relocation([(place.address, place.address + place.spec.nbytes) for place in places])

        def run(tensors: Sequence[Tensor]) -> None:
            move([tensor.address for tensor in tensors])
            fixed.program()

        return run
    numbers = {id(place.storage): number for number, place in enumerate(places)}
    return lambda tensors: _call_all(fixed.calls, numbers, tensors)


def _call_all(calls: Sequence[Call], numbers: Mapping[int, int], tensors: Sequence[Tensor]) -> None:
    def moved(tensor: Tensor | None) -> Tensor | None:
        number = None if tensor is None else numbers.get(id(tensor.storage))
        if tensor is None or number is None:
            return tensor
        new = tensors[number]
        return Tensor(tensor.spec, new.storage, new.offset + tensor.offset, tensor.strides)

    for call in calls:
        call.kernel.run(tuple(map(moved, call.inputs)), tuple(map(moved, call.outputs)), call.workspace)
