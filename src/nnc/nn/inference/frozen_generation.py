"""Generation with weights of its own, as kernels want them: in blocks, 8 or 16 bits, one copy for all its programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from nnc.arguments import Count, Size, checked, explained
from nnc.core.values.spec import Blocked, TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.nn.steps.frozen_steps import Freezing, FrozenGraph
from nnc.nn.steps.generation_caches import GenerationCaches
from nnc.nn.steps.generation_steps import frozen_generation
from nnc.nn.steps.keys import StepKey, StepKind
from nnc.nn.steps.model_memory import ModelMemory
from nnc.nn.steps.model_options import ModelOptions
from nnc.nn.steps.model_step import ModelStep
from nnc.nn.steps.open_sizes import OpenSizes
from nnc.nn.steps.padding import MOST_STEPS
from nnc.nn.steps.programs import ModelPrograms
from nnc.nn.steps.step_builder import StepBuilder
from nnc.symbolic import Symbol, compile
from nnc.symbolic.passes import Pass, QuantizationMode, simplify, takes_blocks, wished_blocks

R = TypeVar("R")

# What these make of weights depends on how many tokens a program reads.
FOLDING = (Pass.BATCH_NORM, Pass.FROZEN_BATCH_NORM)


@explained
@checked
class FrozenGeneration:
    """What `generate` and `stream` need of a model, with the weights that it had when this was made.

    Made by `Model.freeze_generation`. Whatever happens to the model later does not reach it, and it does not hold the
    model: who drops that has the memory of these weights alone. Any thread may generate; copies and pickles take the
    weights along.
    """

    def __init__(
        self,
        builder: StepBuilder,
        outputs: tuple[TensorSpec, ...],
        weights: Mapping[str, Tensor],
    ) -> None:
        self.inputs, self.open, self.outputs = builder.options.inputs, builder.options.open, outputs
        self._builder, self._weights = builder, dict(weights)
        self._start()

    def _start(self) -> None:
        self._sizes = OpenSizes(lambda length: self.outputs, lambda: self._builder)
        self._programs = ModelPrograms(lambda: self._builder, lambda kind: self._weights, self._sizes, {})

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name not in ("_sizes", "_programs")}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._start()

    def __repr__(self) -> str:
        mode = self._builder.freezing.quantization if self._builder.freezing else None
        quantized = f", quantize={mode!r}" if mode else ""
        return f"FrozenGeneration({self.nbytes:,} bytes of weights{quantized})"

    @property
    def nbytes(self) -> int:
        """Bytes of all weights."""
        return sum(tensor.spec.nbytes for tensor in self._weights.values())

    def cache_obstacle(self) -> str:
        """None: each token reads itself and what is kept of earlier ones."""
        return ""

    def generation_caches(self, batch: int, length: int, pages: int = 0) -> GenerationCaches:
        """As `Model.generation_caches`."""
        return self._programs.caches(self._sizes.generation_key(batch, length, pages=pages))

    def give_back(self, caches: GenerationCaches) -> None:
        """As `Model.give_back`."""
        self._programs.give_back(caches)

    def generation_step(self, caches: GenerationCaches, steps: int, *, each: bool = False) -> ModelStep:
        """As `Model.generation_step`, over these weights."""
        key = self._sizes.generation_key(caches.batch, caches.capacity, steps, each=each, pages=caches.page_count)
        return self._programs.over(key, self._weights, caches)

    def exclusively(self, work: Callable[[], R]) -> R:
        """What `work` gives; no other thread runs a step of this meanwhile."""
        return self._programs.arena.runs.exclusively(work)

    def between_updates(self, subject: str, work: Callable[[], R]) -> R:
        """The same: nothing updates these weights."""
        return self.exclusively(work)

    @checked
    def memory(self, batch: Count, length: Count | None = None, prefix: Size = 0) -> ModelMemory:
        """The bytes of generation in `batch` rows with room for `length` tokens; see `Model.memory`."""
        pages = self._sizes.pages(batch, length or 0, prefix)
        program = self._programs.plan(self._sizes.generation_key(batch, length or 0, pages=pages))
        compiled = program.step.program
        caches = sum(cache.spec.nbytes for cache in program.caches.values())
        return ModelMemory(
            compiled.memory(), self.nbytes, 0, 0, compiled.budget, program.precision, cache=caches,
            kept_bytes=self._programs.kept.nbytes, arena=self._programs.arena.nbytes,
        )  # fmt: skip


def freeze_generation(
    builder: StepBuilder,
    tensors: Mapping[str, Tensor],
    outputs: tuple[TensorSpec, ...],
    usual: StepKey,
    quantize: QuantizationMode | None,
) -> FrozenGeneration:
    """The generation of a model of these tensors, for batches of about the `usual` rows and room for tokens.

    They have the values that the program of a token reads, and that of a prompt: in blocks where one of them
    wants that, and both take them.
    """
    passes = tuple(name for name in builder.options.passes if name not in FOLDING)
    options = replace(builder.options, passes=passes, allowed_precision=None)
    builder, freezing = replace(builder, options=options), Freezing(quantize)
    graphs = [
        frozen_generation(builder.begin(StepKind.GENERATE, options.precision), replace(usual, length=steps), freezing)
        for steps in (1, min(usual.capacity, MOST_STEPS))
    ]
    blocks = _shared_blocks(graphs, options.backend)
    weights: dict[str, Tensor] = {}
    for graph in graphs:
        graph.put_in_blocks(blocks)
        _compute(graph, tensors, weights, options)
    frozen = replace(builder, freezing=Freezing(quantize, blocks))
    return FrozenGeneration(frozen, outputs, weights)


def _shared_blocks(graphs: list[FrozenGraph], backend: str) -> dict[str, Blocked]:
    """By the names of values: what the first graph with a wish wants them in, and all that read them take."""
    named = [made.names() for made in graphs]
    blocks: dict[str, Blocked] = {}
    for made, names in zip(graphs, named, strict=True):
        preferences = wished_blocks(made.graph, made.wanted, made.fixed, backend)
        for name, symbol in names.items():
            if symbol in preferences and name not in blocks:
                readers = [(entry.graph, own[name]) for entry, own in zip(graphs, named, strict=True) if name in own]
                if all(takes_blocks(graph, reading, preferences[symbol], backend) for graph, reading in readers):
                    blocks[name] = preferences[symbol]
    return blocks


def _compute(
    made: FrozenGraph, tensors: Mapping[str, Tensor], weights: dict[str, Tensor], options: ModelOptions
) -> None:
    """Add to `weights` the values that a graph reads, of those that are not there."""
    before, read = made.before, frozenset(made.read)
    missing = {name: symbol for name, symbol in made.names().items() if symbol in read and name not in weights}
    own = {name: Tensor.empty(symbol.spec, "frozen weight") for name, symbol in missing.items()}
    bind: dict[Symbol, Tensor] = {}
    for name, symbol in missing.items():
        if symbol in before.results:
            bind[before.results[symbol]] = own[name]
        else:
            own[name].copy_from(tensors[name])
    if bind:
        simplify(before.graph, tuple(bind), options.passes, backend=options.backend)
        given = {before.parameters[symbol]: tensors[path] for path, symbol in made.given.items()}
        compile(
            before.graph, tuple(bind), given=given, bind=bind, backend=options.backend,
            deterministic=options.deterministic,
        ).run()  # fmt: skip
    weights |= own
