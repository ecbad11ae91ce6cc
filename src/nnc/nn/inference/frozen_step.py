"""A prediction step over weights of its own: those that a model has at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.tensor import Tensor
from nnc.nn.steps.model_options import ModelOptions
from nnc.nn.steps.model_step import ModelStep, PlannedStep
from nnc.symbolic import Arena, Symbol, compile
from nnc.symbolic.passes import Beforehand
from nnc.symbolic.sharing.mapped_weights import WeightBlock, content_name, mapped_weights
from nnc.symbolic.sharing.program_disk import ProgramDisk
from nnc.symbolic.sharing.value_names import value_names


@dataclass(frozen=True, slots=True, eq=False)
class FrozenWeights:
    """How the weights of a frozen step are computed from the model's tensors `now`: mapped where those are mapped."""

    planned: PlannedStep
    now: Mapping[Symbol, Tensor]
    options: ModelOptions

    @classmethod
    def of(cls, planned: PlannedStep, tensors: Mapping[str, Tensor], options: ModelOptions) -> FrozenWeights:
        """Those of a planned step."""
        return cls(planned, {symbol: tensors[path] for path, symbol in planned.given.items()}, options)

    @property
    def before(self) -> Beforehand:
        """The work on weights."""
        assert self.planned.beforehand is not None
        return self.planned.beforehand

    def take(self) -> dict[Symbol, Tensor]:
        """The weights by what the model's tensors are at this moment: computed, or those of a file that others made."""
        frozen = self.planned.frozen
        specs = [symbol.spec for symbol in frozen]
        name = self._name() if any(tensor.storage.file is not None for tensor in self.now.values()) else ""
        if not name:
            return self._computed([Tensor.empty(spec, "frozen weight") for spec in specs])
        held = mapped_weights(name, specs)
        if held is None:
            block = WeightBlock.empty(specs)
            self._computed(block.tensors)
            held = block.kept(name)
        return dict(zip(frozen, held, strict=True))

    def _computed(self, memory: Sequence[Tensor]) -> dict[Symbol, Tensor]:
        """The weights, in this memory."""
        own = dict(zip(self.planned.frozen, memory, strict=True))
        bind = {inner: own[symbol] for symbol, inner in self.before.results.items() if symbol in own}
        for symbol in own.keys() & self.now.keys():
            own[symbol].copy_from(self.now[symbol])
        given = {inner: self.now[symbol] for symbol, inner in self.before.parameters.items()}
        compile(
            self.before.graph, tuple(bind), given=given, bind=bind, backend=self.options.backend,
            deterministic=self.options.deterministic,
        ).run()  # fmt: skip
        return own

    def _name(self) -> str:
        """What the weights are made of: the model's tensors, commands, and whoever runs these; empty where unsure."""
        disk = ProgramDisk.at_hand(self.options.backend)
        if disk is None:
            return ""
        contents = {symbol: f"{tensor.spec} {content_name(tensor)}" for symbol, tensor in self.now.items()}
        known = {inner.key: contents[symbol] for symbol, inner in self.before.parameters.items()}
        names = value_names(self.before.graph, known)
        results = self.before.results
        graph, frozen = self.before.graph, self.planned.frozen
        rows = [contents[symbol] if symbol in contents else names[graph.root(results[symbol].key)] for symbol in frozen]
        return disk.key(f"frozen {self.options.deterministic} {' '.join(rows)}")

    def step(self, weights: Mapping[Symbol, Tensor], arena: Arena | None) -> ModelStep:
        """The step over these weights, in memory of its own or an arena that others share."""
        compiled = self.planned.step.compiled.rebind(weights)
        if arena is None:
            compiled.clear()
        else:
            compiled = compiled.in_arena_of(arena)
            arena.fit(compiled, (compiled,), name="frozen step")
        return replace(self.planned.step, program=compiled)
