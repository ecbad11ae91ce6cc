"""The compiled steps of a model, which sizes share one, and the bytes that each takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nnc.arguments import explained_as
from nnc.errors import UsageError
from nnc.nn.model.model_weights import ModelWeights
from nnc.nn.steps.generation_caches import GenerationCaches
from nnc.nn.steps.keys import StepKey, StepKind, step_kind
from nnc.nn.steps.model_memory import ModelMemory
from nnc.nn.steps.model_options import ModelOptions
from nnc.nn.steps.model_step import ModelStep, PlannedStep
from nnc.nn.steps.step_builder import StepBuilder
from nnc.nn.steps.training_steps import optimizers_of
from nnc.parallel import Simulation, Wire, simulate_stages
from nnc.symbolic.sharing.mapped_weights import can_be_mapped

# Sizes of a range that are planned at once: a mistyped one is told before it takes hours.
MOST_SIZES = 10_000
# What `Model.memory` is asked for by name.
KINDS = tuple(kind.value for kind in StepKind)


@explained_as("Model")
class ModelSteps(ModelWeights):
    """A model whose steps are compiled."""

    def padding(self, kind: str = "train") -> str:
        """Why steps of this kind take each size as it is; an empty text where they may be padded.

        Training has programs for the first 16 sizes that it meets. Any other runs in that of the next power of two
        (from 16), where what fills it up changes neither losses, scores nor statistics.
        """
        asked = step_kind("padding", kind)
        reasons = [self._sizes.obstacle(asked, axis) for axis in range(1 + any(self.open))]
        return "; ".join(reason for reason in reasons if reason)

    def cache_obstacle(self) -> str:
        """Why generation reads all tokens at each step; an empty text where it keeps what earlier ones left."""
        return self._sizes.cache_obstacle()

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Examples and steps of the training steps that are not padded; a checkpoint keeps them."""
        return self._met.get(StepKind.TRAIN, ())

    @sizes.setter
    def sizes(self, sizes: tuple[tuple[int, int], ...]) -> None:
        self._met[StepKind.TRAIN] = sizes

    def training_step(self, batch: int, length: int = 0) -> ModelStep:
        """The compiled step of one update for `batch` examples; its results are the loss and the score."""
        return self._programs.step(StepKey(StepKind.TRAIN, batch, length))

    def evaluation_step(self, batch: int, length: int = 0) -> ModelStep:
        """The compiled forward step with loss and score for `batch` examples."""
        return self._programs.step(StepKey(StepKind.EVALUATE, batch, length))

    def prediction_step(self, batch: int, length: int = 0) -> ModelStep:
        """The compiled forward step for `batch` examples; its result is the output."""
        return self._programs.step(StepKey(StepKind.PREDICT, batch, length))

    def generation_caches(self, batch: int, length: int, pages: int = 0) -> GenerationCaches:
        """Caches for `batch` rows of `length` tokens, both rounded up to powers of two, and empty.

        They are the caller's until `give_back`, if that comes; the next to ask has them then with their programs.
        With `pages` rows share so many of `PAGE` columns each, of which they have none at first.
        """
        return self._programs.caches(self._sizes.generation_key(batch, length, pages=pages))

    def give_back(self, caches: GenerationCaches) -> None:
        """Leave caches to the next generation: nobody may use them any more."""
        self._programs.give_back(caches)

    def generation_step(self, caches: GenerationCaches, steps: int, *, each: bool = False) -> ModelStep:
        """The compiled step that reads `steps` more tokens (rounded up to a power of two) in each row of these caches.

        Inputs are tokens and their positions, both [batch, steps], and ends[batch], the step of each row behind which
        scores[batch, vocabulary] are asked for. With `each` there are exactly so many steps, and scores[batch, steps,
        vocabulary] behind each of them.
        """
        key = self._sizes.generation_key(caches.batch, caches.capacity, steps, each=each, pages=caches.page_count)
        return self._programs.over(key, self.tensors(), caches)

    def memory(self, batch: int | range, kind: str = "train", length: int | range = 0, prefix: int = 0) -> ModelMemory:
        """The bytes of a step for `batch` examples, one of `KINDS`; nothing is allocated.

        Of ranges, such as `batch=range(1, 65), length=range(1, 513)`, it is the step that takes most; each size is
        planned (5 to 50 ms), 10,000 at most, and a `memory_limit` that one of them cannot meet is an error.

        Open axes are of size `length`, or as large as they get: the most that any length takes. Of generation it is
        the most that any prompt takes, where rows have room for `length` tokens, and whole pages (`PAGE`) of the first
        `prefix` of these in common.
        """
        if isinstance(batch, range) or isinstance(length, range):
            return max(
                (self.memory(*each, prefix) for each in _sizes(batch, kind, length)),
                key=lambda memory: memory.step.arena,
            )
        key = StepKey.parse("memory", kind, batch, length)
        if key.kind is StepKind.GENERATE:
            key = self._sizes.generation_key(batch, length, pages=self._sizes.pages(batch, length, prefix))
        elif prefix:
            raise UsageError("memory", got=f"a prefix of a {kind} step", need='kind="generate"')
        mesh = self.options.mesh
        if mesh is not None and mesh.pipe > 1 and key.batch and not mesh.is_launched:
            return self._largest_stage(key, mesh.pipe)
        return self._memory_of(key.kind, self._programs.plan(key))

    def _largest_stage(self, key: StepKey, stages: int) -> ModelMemory:
        """The statement of the stage that takes most, where nobody launched their ranks."""
        planned = StepBuilder(self.options, self.specs).stages(key, self.options.precision)
        options = [replace(self.options, stage=stage) for stage in range(stages)]
        memories = [self._memory_of(key.kind, planned(stage), each) for stage, each in enumerate(options)]
        return max(memories, key=lambda memory: memory.total)

    def simulate(self, batch: int, wire: Wire, computing: float, length: int = 0) -> Simulation:
        """What a training step takes on the ranks of the model's mesh, each with `batch` examples; nothing is run.

        `computing` are the seconds that one process without a mesh takes for them: see `nnc.parallel.simulate`.
        """
        key, mesh = StepKey(StepKind.TRAIN, batch, length), self.options.mesh
        stages = 1 if mesh is None else mesh.pipe
        if stages > 1:
            planned = StepBuilder(self.options, self.specs).stages(key, self.options.precision)
            plans = [(planned(stage), replace(self.options, stage=stage)) for stage in range(stages)]
        else:
            plans = [(self._programs.plan(key), self.options)]
        graphs = [plan.step.compiled.planned.graph for plan, _ in plans]
        alone = None
        if mesh is not None and mesh.tensor * stages > 1:
            # One process has the work of all blocks and stages.
            rows = {path: replace(row, place=None, stage=0) for path, row in self.specs.items()}
            alone = StepBuilder(self.options.alone, rows).drafted(key, self.options.precision)
        simulation = simulate_stages(graphs, wire, computing, alone=alone)
        memory = max(self._memory_of(StepKind.TRAIN, plan, options).total for plan, options in plans)
        return replace(simulation, ranks=simulation.ranks if mesh is None else mesh.size, memory=memory)

    def _memory_of(self, kind: StepKind, program: PlannedStep, options: ModelOptions | None = None) -> ModelMemory:
        options = self.options if options is None else options
        compiled, sharding = program.step.program, options.sharding
        rows = [row for row in self.specs.values() if sharding.keeps(row)]
        weights = sum(sharding.weight_spec(row).nbytes for row in rows)
        memory = ModelMemory(
            compiled.memory(),
            weights,
            gradients=0,
            optimizer_state=0,
            budget=compiled.budget,
            precision=program.precision,
            kept_bytes=self._programs.kept.nbytes,
        )
        mapped = self._own.mapped_bytes
        if kind is StepKind.FREEZE:
            own = sum(symbol.spec.nbytes for symbol in program.frozen)
            shared = own if mapped and can_be_mapped(own) else 0
            return replace(memory, weights=own, beside=weights - mapped, mapped=shared)
        if not kind.updates:
            memory = replace(memory, mapped=mapped)
        bound = len(self._programs.bound())
        memory = replace(memory, arena=self._programs.arena.nbytes, programs=bound)
        if kind is StepKind.GENERATE:
            return replace(memory, cache=sum(cache.spec.nbytes for cache in program.caches.values()))
        if not (kind.differentiates or kind.updates):
            return memory
        gradients = sum(sharding.gradient_spec(row).nbytes for row in rows if row.trainable)
        parts = optimizers_of(options.optimizer, {row.path: row for row in rows})
        pairs = [(part, sharding.state_spec(self.specs[path])) for path, part in parts.items()]
        state = sum(spec.nbytes for part, whole in pairs for spec in part.state_specs(whole).values())
        state += sum(spec.nbytes for spec in sharding.error_specs([self.specs[path] for path in parts]).values())
        summed = gradients if kind.sums_gradients else 0
        filed = 0
        if options.state_folder is not None and options.device.is_host:
            filed = sum(spec.nbytes for part, whole in pairs for spec in part.state_specs(whole).values())
        return replace(memory, gradients=gradients, optimizer_state=state, beside=summed, filed=filed)


def _sizes(batch: int | range, kind: str, length: int | range) -> Iterator[tuple[int, str, int]]:
    """Each batch with each length."""
    batches, lengths = ([sizes] if isinstance(sizes, int) else sizes for sizes in (batch, length))
    count = len(batches) * len(lengths)
    if not 0 < count <= MOST_SIZES:
        raise UsageError("memory", got=f"{count:,} sizes", need=f"1 to {MOST_SIZES:,}", fix="a step: range(1, 513, 8)")
    return ((size, kind, steps) for size in batches for steps in lengths)
