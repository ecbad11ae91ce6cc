"""The programs of a model: planned once per kind and size, kept while they are used, all in one arena."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from nnc.core.precautions.forking import fork_safe_rlock
from nnc.core.precautions.recent import RecentlyUsed
from nnc.core.values.dtype import BF16, F32, DType
from nnc.core.values.tensor import Tensor
from nnc.errors import MemoryLimitError, OutOfMemoryError, ShapeError
from nnc.nn.steps.open_sizes import OpenSizes, StepKey
from nnc.nn.steps.padding import EXACT
from nnc.nn.steps.steps import ModelStep, PlannedStep, StepBuilder
from nnc.symbolic import Arena, Compiled

# By kind, the examples and steps of the programs that are compiled as they are.
Met = dict[str, tuple[tuple[int, int], ...]]


class ModelPrograms:
    """Steps by `StepKey`; `homes(kind)` gives the tensors that one is bound to.

    A step that cannot meet the builder's memory limit in `precision` is planned in the `allowed` one, where there is
    one. `met` is what sizes callers came with so far.
    """

    def __init__(
        self,
        builder: Callable[[], StepBuilder],
        homes: Callable[[str], dict[str, Tensor]],
        sizes: OpenSizes,
        precision: DType | None,
        allowed: DType | None,
        met: Met,
    ) -> None:
        self._builder, self._homes, self._sizes = builder, homes, sizes
        self._precision, self._allowed, self._met = precision, allowed, met
        self.arena = Arena(0)
        self.kept: RecentlyUsed[StepKey, PlannedStep] = RecentlyUsed(lambda one: one.step.compiled.memory().program)
        self._beyond_limit: set[StepKey] = set()
        self.making = fork_safe_rlock()

    def fitting(self, kind: str, count: int, length: int) -> StepKey:
        """The program for so many examples and steps: their own, or one that they are padded for."""
        with self.making:
            met = self._met.get(kind, ())
            if (count, length) not in met and len(met) < EXACT:
                met = self._met[kind] = (*met, (count, length))
        if (count, length) in met:
            return kind, count, length
        key = self._sizes.padded_key(kind, count, length)
        return key if self._meets_limit(key) else (kind, count, length)

    def _meets_limit(self, key: StepKey) -> bool:
        """Whether a padded program can be made; what once could not is not planned again for each batch."""
        if key not in self._beyond_limit and self.kept.get(key) is None and self._builder().memory_limit is not None:
            try:
                self.plan(key)
            except OutOfMemoryError:
                raise
            except MemoryLimitError:
                self._beyond_limit.add(key)
        return key not in self._beyond_limit

    def step(self, key: StepKey) -> ModelStep:
        """The planned step over the model's tensors."""
        program = self.plan(key)
        return program.bound or self._bind(program, key[0])

    def over(self, key: StepKey, tensors: Mapping[str, Tensor], caches: dict[str, Tensor]) -> ModelStep:
        """The planned step over the model's tensors and caches of the caller's, those not there yet being made."""
        program = self.plan(key)
        for name, symbol in program.caches.items():
            if name not in caches:
                caches[name] = Tensor.zeros(symbol.spec)
        homes = {**tensors, **caches}
        bound = program.step.compiled.rebind({symbol: homes[name] for name, symbol in program.given.items()})
        return replace(program.step, compiled=bound.in_arena_of(self.arena))

    def _bind(self, program: PlannedStep, kind: str) -> ModelStep:
        with self.making:
            if program.bound is not None:
                return program.bound
            homes = self._homes(kind)
            bound = program.step.compiled.rebind({symbol: homes[name] for name, symbol in program.given.items()})
            program.bound = replace(program.step, compiled=bound.in_arena_of(self.arena))
            self.arena.fit(self.bound())
            return program.bound

    def bound(self) -> list[Compiled]:
        """The kept programs over the model's tensors."""
        return [one.bound.compiled for one in self.kept.values() if one.bound is not None]

    def plan(self, key: StepKey) -> PlannedStep:
        """The step without tensors: its memory is known, none of it is there."""
        if key[1] < 1:
            raise ShapeError("batch", got=f"batch size {key[1]}", need="batch size ≥ 1")
        found = self.kept.get(key)
        if found is None:
            with self.making:
                found = self.kept.get(key)
                if found is None:
                    found = self.kept.put(key, self._within_limit(*key))
                    self.arena.fit(self.bound())
        return found

    def _within_limit(self, kind: str, batch: int, length: int) -> PlannedStep:
        """The step in the usual precision, or in the allowed one where the limit cannot be met otherwise."""
        builder = self._builder()
        try:
            return builder.build(kind, batch, self._precision, length)
        except OutOfMemoryError:
            raise
        except MemoryLimitError as error:
            if self._allowed is None:
                self._advise(error, kind, batch, length)
                raise
            refused = error
        try:
            return builder.build(kind, batch, self._allowed, length)
        except MemoryLimitError as error:
            raise min(refused, error, key=lambda one: one.smallest) from None

    def _advise(self, error: MemoryLimitError, kind: str, batch: int, length: int) -> None:
        """Name 16 bits as a way out where they take less than the smallest limit that f32 can meet."""
        builder = self._builder()
        if self._precision is None and builder.dtype is F32:
            free = replace(builder, memory_limit=None)
            enough = free.build(kind, batch, BF16, length).step.compiled.memory().arena
            if enough < error.smallest:
                error.fix += f", or allow 16 bits (allowed_precision=BF16), where {enough} bytes suffice"
