"""A prediction step over weights of its own: those that a model has at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.tensor import Tensor
from nnc.nn.steps.model_options import ModelOptions
from nnc.nn.steps.model_step import ModelStep, PlannedStep
from nnc.symbolic import Arena, Compiled, Symbol, compile


@dataclass(frozen=True, slots=True, eq=False)
class FrozenWeights:
    """Memory for the weights of a frozen step, and how they are computed from the model's tensors `now`."""

    planned: PlannedStep
    now: Mapping[Symbol, Tensor]
    own: Mapping[Symbol, Tensor]
    work: Compiled

    @classmethod
    def of(cls, planned: PlannedStep, tensors: Mapping[str, Tensor], options: ModelOptions) -> FrozenWeights:
        """Those of a planned step; none of their values is there yet."""
        before = planned.beforehand
        assert before is not None
        now = {symbol: tensors[path] for path, symbol in planned.given.items()}
        own = {symbol: Tensor.empty(symbol.spec, "frozen weight") for symbol in planned.frozen}
        bind = {inner: own[symbol] for symbol, inner in before.results.items() if symbol in own}
        work = compile(
            before.graph,
            tuple(bind),
            given={inner: now[symbol] for symbol, inner in before.parameters.items()},
            bind=bind,
            backend=options.backend,
            deterministic=options.deterministic,
        )
        return cls(planned, now, own, work)

    def take(self) -> None:
        """Compute the weights from what the model's tensors are at this moment."""
        for symbol in self.own.keys() & self.now.keys():
            self.own[symbol].copy_from(self.now[symbol])
        self.work.run()

    def step(self, arena: Arena | None) -> ModelStep:
        """The step over these weights, in memory of its own or an arena that others share."""
        compiled = self.planned.step.compiled.rebind(self.own)
        if arena is None:
            compiled.clear()
        else:
            compiled = compiled.in_arena_of(arena)
            arena.fit(compiled, (compiled,), name="frozen step")
        return replace(self.planned.step, program=compiled)
