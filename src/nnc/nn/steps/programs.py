"""The programs of a model: planned once per kind and size, kept while they are used, all in one arena."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from nnc.core.precautions.forking import fork_safe_rlock
from nnc.core.precautions.recent import RecentlyUsed
from nnc.core.values.dtype import BF16, F32
from nnc.core.values.tensor import Tensor
from nnc.errors import MemoryLimitError, OutOfMemoryError, ShapeError, UsageError
from nnc.nn.steps.generation_caches import GenerationCaches, Pages
from nnc.nn.steps.keys import StepKey, StepKind
from nnc.nn.steps.model_step import ModelStep, PlannedStep
from nnc.nn.steps.open_sizes import OpenSizes
from nnc.nn.steps.padding import EXACT
from nnc.nn.steps.step_builder import StepBuilder
from nnc.nn.steps.step_graph import StepDraft
from nnc.ops.sequence.cached_attention import PAGE
from nnc.symbolic import Arena, Compiled
from nnc.symbolic.kept.kept_graphs import CachedGraph
from nnc.symbolic.sharing.openings import Templates

# By kind, the examples and steps of the programs that are not padded.
Met = dict[StepKind, tuple[tuple[int, int], ...]]


class ModelPrograms:
    """Steps by `StepKey`; `homes(kind)` gives the tensors that one is bound to.

    A step that cannot meet the options' memory limit in their precision is planned in the allowed one, where there is
    one. `met` is what sizes callers came with so far.
    """

    def __init__(
        self,
        builder: Callable[[], StepBuilder],
        homes: Callable[[StepKind], Mapping[str, Tensor]],
        sizes: OpenSizes,
        met: Met,
    ) -> None:
        self._builder, self._homes, self._sizes, self._met = builder, homes, sizes, met
        self.arena = builder().options.arena or Arena()
        self.kept: RecentlyUsed[StepKey, PlannedStep] = RecentlyUsed(_nbytes)
        self._templates: Templates[StepDraft] = Templates()
        self._templated = builder().options
        self._beyond_limit: set[StepKey] = set()
        # One is kept: memory for one generation is what statements count.
        self._spare: deque[GenerationCaches] = deque(maxlen=1)
        self.making = fork_safe_rlock()

    def fitting(self, key: StepKey) -> StepKey:
        """The program for the examples and steps of this key: their own, or one that they are padded for."""
        size = (key.batch, key.length)
        met = self._met.get(key.kind, ())
        if size not in met:
            with self.making:
                met = self._met.get(key.kind, ())
                if size not in met and len(met) < EXACT:
                    met = self._met[key.kind] = (*met, size)
        if size in met:
            return key
        padded = self._sizes.padded_key(key)
        return padded if self._meets_limit(padded) else key

    def _meets_limit(self, key: StepKey) -> bool:
        """Whether a padded program can be made; what once could not is not planned again for each batch."""
        limit = self._builder().options.memory_limit
        if key not in self._beyond_limit and self.kept.get(key) is None and limit is not None:
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
        return program.bound or self._bind(program, key.kind)

    def over(self, key: StepKey, tensors: Mapping[str, Tensor], caches: GenerationCaches) -> ModelStep:
        """The planned step over the model's tensors and these caches, whose tensors it makes where there are none."""
        program = self.plan(key)
        planned, step = caches.bound.get(key, (None, program.step))
        if planned is program:
            return step
        for name, symbol in program.caches.items():
            if name not in caches.tensors:
                # A context is rarely full: its places take memory as tokens come to stand there.
                caches.tensors[name] = Tensor.fresh_zeros(symbol.spec)
        homes = {**tensors, **caches.tensors}
        bound = program.step.program.rebind({symbol: homes[name] for name, symbol in program.given.items()})
        step = replace(program.step, program=bound.in_arena_of(self.arena))
        caches.bound[key] = program, step
        return step

    def caches(self, key: StepKey) -> GenerationCaches:
        """Caches for the rows and tokens of this key: those that were given back last, where they fit, or new ones."""
        size = (key.batch, key.capacity, key.cache)
        if key.pages:
            # Beyond that they would take more than the statement without pages says.
            most = key.batch * key.capacity // PAGE
            if not 0 < key.pages <= most:
                need = f"0 to {most:,}, all that {key.batch:,} rows of {key.capacity:,} tokens have"
                fix = f"a context of whole pages, a multiple of {PAGE}"
                raise UsageError("generation_caches", got=f"{key.pages:,} pages", need=need, fix=fix)
            return GenerationCaches(*size, pages=Pages.of(key.pages, key.batch))
        try:
            spare = self._spare.pop()
        except IndexError:
            return GenerationCaches(*size)
        if (spare.batch, spare.capacity, spare.held) != size:
            return GenerationCaches(*size)
        self.arena.runs.exclusively(spare.clear)
        return spare

    def give_back(self, caches: GenerationCaches) -> None:
        """Nobody uses these any more. Takes no lock: a collection of garbage may call this within anything."""
        if caches.pages is None:
            self._spare.append(caches)

    def _bind(self, program: PlannedStep, kind: StepKind) -> ModelStep:
        with self.making:
            if program.bound is not None:
                return program.bound
            homes = self._homes(kind)
            bound = program.step.program.rebind({symbol: homes[name] for name, symbol in program.given.items()})
            program.bound = replace(program.step, program=bound.in_arena_of(self.arena))
            self._fit()
            return program.bound

    def _fit(self) -> None:
        """Tell the arena what is kept; frozen steps are there for themselves."""
        planned = [entry.step.program for entry in self.kept.values() if not entry.frozen]
        self.arena.fit(self, self.bound(), planned, type(self._builder().options.layer).__name__)

    def bound(self) -> list[Compiled | CachedGraph]:
        """The kept programs over the model's tensors."""
        return [planned.bound.program for planned in self.kept.values() if planned.bound is not None]

    def plan(self, key: StepKey) -> PlannedStep:
        """The step without tensors: its memory is known, none of it is there."""
        if key.batch < 1:
            raise ShapeError("batch", got=f"batch size {key.batch}", need="batch size ≥ 1")
        planned = self.kept.get(key)
        if planned is None:
            with self.making:
                planned = self.kept.get(key)
                if planned is None:
                    planned = self.kept.put(key, self._within_limit(key))
                    self._fit()
        return planned

    def _within_limit(self, key: StepKey) -> PlannedStep:
        """The step in the usual precision, or in the allowed one where the limit cannot be met otherwise."""
        builder = self._builder()
        allowed = builder.options.allowed_precision
        try:
            return builder.build(key, builder.options.precision, self._templates_for(builder))
        except OutOfMemoryError:
            raise
        except MemoryLimitError as error:
            if allowed is None:
                _advise(error, builder, key)
                raise
            refused = error
        try:
            return builder.build(key, allowed, self._templates_for(builder))
        except MemoryLimitError as error:
            raise min(refused, error, key=lambda refusal: refusal.smallest) from None

    def _templates_for(self, builder: StepBuilder) -> Templates[StepDraft]:
        """Those of the options of now."""
        if self._templated is not builder.options:
            self._templates, self._templated = Templates(), builder.options
        return self._templates


def _nbytes(planned: PlannedStep) -> int:
    return planned.step.program.memory().program


def _advise(error: MemoryLimitError, builder: StepBuilder, key: StepKey) -> None:
    """Name 16 bits as a way out where they take less than the smallest limit that f32 can meet.

    Nothing takes less than a half in 16 bits: planning that was a sixth of ResNet-50's time for its smallest limit.
    """
    may_suffice = 2 * error.smallest > error.unlimited
    if builder.options.precision is None and builder.options.dtype is F32 and may_suffice:
        free = replace(builder, options=replace(builder.options, memory_limit=None))
        enough = free.build(key, BF16, Templates()).step.program.memory().arena
        if enough < error.smallest:
            error.fix += f", or allow 16 bits (allowed_precision=BF16), where {enough} bytes suffice"
