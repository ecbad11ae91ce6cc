"""Calls: what runs as a whole and is one node of the record.

    y, tape = call(x)                 dx = pulled(x, dy, y, tape)

A call is pure: what it computes depends on its inputs alone. Its gradient is another call, which gets what this one
got, the gradients of its outputs, and what it kept; so derivatives go to any order. The node's command holds the call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import UsageError
from nnc.graph import Registry
from nnc.ops.composed.custom import TENSOR_KERNEL, custom_operator
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.fill import fill_like
from nnc.ops.rules import MIXED_DEVICES, Applied, Gradients
from nnc.symbolic.compiler import Arena, ArenaLimit, MovingProgram, compile
from nnc.symbolic.gradient import backward
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.passes import simplify
from nnc.symbolic.records import ExecKey, TensorKey

Arrays = Sequence[NDArray[Any]]


class RecordedCall(ABC):
    """`own` of the inputs are its arguments, and what it was given beside them has no gradient.

    `results` of its outputs are what it computes, those behind them what it keeps for the gradient.
    """

    own: int
    results: int
    specs: tuple[TensorSpec, ...]
    keeps: bool = False

    @property
    def command(self) -> Command[CallAttrs]:
        """The command that runs it as a whole."""
        return Command(CALL, CallAttrs(self))

    @abstractmethod
    def run(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Write the outputs, of contiguous inputs; all of them lie where the specs say."""

    @abstractmethod
    def pullback(self, wanted: tuple[int, ...]) -> RecordedCall:
        """(arguments, gradients of floating results, what was given, all outputs if it `keeps`) ↦ those of `wanted`."""


@dataclass(frozen=True, slots=True)
class CallAttrs:
    """What a node runs."""

    call: RecordedCall


def _gradient(applied: Applied[CallAttrs], gradients: Gradients) -> Gradients:
    call = applied.attrs.call
    wanted = tuple(place for place in range(call.own) if applied.wants(place))
    seeds = [
        fill_like(output, 0.0) if gradient is None else gradient
        for output, gradient in zip(applied.outputs[: call.results], gradients, strict=False)
        if output.spec.dtype.is_float
    ]
    kept = applied.outputs if call.keeps else ()
    given = [*applied.inputs[: call.own], *seeds, *applied.inputs[call.own :], *kept]
    slopes_in_order = given[0].apply(call.pullback(wanted).command, given)
    slopes = dict(zip(wanted, slopes_in_order, strict=True))
    return tuple(slopes.get(place) for place in range(len(applied.inputs)))


def _run(attrs: CallAttrs, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor]) -> None:
    given = [operand for operand in inputs if operand is not None]
    attrs.call.run([operand if operand.is_contiguous else operand.clone() for operand in given], outputs)


CALL = custom_operator(
    "call",
    CallAttrs,
    ("x",),
    ("y",),
    infer=lambda attrs, specs: attrs.call.specs,
    kernel=lambda attrs, inputs, outputs: _run(
        attrs, [Tensor.from_numpy(np.asarray(operand)) for operand in inputs], [*map(Tensor.from_numpy, outputs)]
    ),
    gradient=_gradient,
    variadic=True,
    registry=Registry("calls"),
    doc="A function or a program as one node.",
)
MIXED_DEVICES.set(CALL, True)
TENSOR_KERNEL.set(CALL, _run)


@dataclass(frozen=True, slots=True, eq=False)
class ProgramOptions:
    """How the programs of a call are made, the arena that they share, and who may change their graph."""

    arena: Arena
    lock: RLock
    backend: str = ""
    memory_limit: ArenaLimit | None = None


class ProgramCall(RecordedCall):
    """Symbols of a graph, computed by one native program from others.

    `inputs` are arguments, `given` what is known beside them, `constants` belong to the graph; `outputs` are results,
    `tape` what is kept.
    """

    def __init__(
        self,
        graph: SymbolicGraph,
        inputs: Sequence[TensorKey],
        outputs: Sequence[TensorKey],
        constants: Mapping[TensorKey, Tensor],
        options: ProgramOptions,
        *,
        given: Sequence[TensorKey] = (),
        tape: Sequence[TensorKey] = (),
    ) -> None:
        self.graph, self.constants, self.options = graph, constants, options
        self.inputs, self.outputs, self.given, self.tape = tuple(inputs), tuple(outputs), tuple(given), tuple(tape)
        self.own, self.results, self.keeps = len(inputs), len(outputs), bool(tape)
        self.specs = tuple(graph.tensors[key].spec for key in (*outputs, *tape))
        self._program: MovingProgram | None = None
        self._gradients: tuple[tuple[TensorKey, ...], tuple[TensorKey, ...]] | None = None
        self._pulled: dict[tuple[int, ...], ProgramCall] = {}

    @classmethod
    def taped(
        cls,
        source: SymbolicGraph,
        inputs: Sequence[TensorKey],
        outputs: Sequence[TensorKey],
        constants: Mapping[TensorKey, Tensor],
        options: ProgramOptions,
    ) -> ProgramCall:
        """A call that keeps what its gradient reads; one that keeps nothing where there is no gradient."""
        plain = cls(source, inputs, outputs, constants, options)
        try:
            seeds, slopes = plain._differentiated()
        except UsageError:
            # Whoever asks for the gradient gets the error.
            return plain
        forward = source.needed_for(outputs, (*inputs, *constants))
        rest = set(source.needed_for(slopes, (*inputs, *seeds, *constants))).difference(forward)
        call = cls(source, inputs, outputs, constants, options, tape=_read_of(source, rest, forward, outputs))
        call._gradients = (seeds, slopes)
        return call

    def _floats(self, keys: Sequence[TensorKey]) -> list[TensorKey]:
        return [key for key in keys if self.graph.tensors[key].spec.dtype.is_float]

    def _differentiated(self) -> tuple[tuple[TensorKey, ...], tuple[TensorKey, ...]]:
        """Seeds of the results, and gradients of the floating inputs, which are appended to the graph."""
        if self._gradients is None:
            graph = self.graph
            results = [graph.symbol(key) for key in self._floats(self.outputs)]
            seeds = [graph.input(result.spec, "seed") for result in results]
            gradients = backward(graph, results, [graph.symbol(key) for key in self._floats(self.inputs)], seeds)
            self._gradients = (tuple(seed.key for seed in seeds), tuple(value.key for value in gradients))
        return self._gradients

    def pullback(self, wanted: tuple[int, ...]) -> ProgramCall:
        """The gradients as a program of their own."""
        with self.options.lock:
            if wanted not in self._pulled:
                seeds, slopes = self._differentiated()
                of = dict(zip(self._floats(self.inputs), slopes, strict=True))
                kept = (*self.outputs, *self.tape) if self.keeps else ()
                asked = [of[self.inputs[place]] for place in wanted]
                self._pulled[wanted] = ProgramCall(
                    self.graph,
                    (*self.inputs, *seeds),
                    asked,
                    self.constants,
                    self.options,
                    given=(*self.given, *kept),
                )
            return self._pulled[wanted]

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """One run of the program, on this memory."""
        self.program().run([*inputs, *self.constants.values(), *outputs])

    def program(self) -> MovingProgram:
        """The program of arguments, of what is given, of constants, and of results and tape, which it writes."""
        if self._program is None:
            with self.options.lock:
                if self._program is None:
                    self._program = self._compiled()
        return self._program

    def _compiled(self) -> MovingProgram:
        read, written = (*self.inputs, *self.given, *self.constants), (*self.outputs, *self.tape)
        execs = self.graph.needed_for(written, {self.graph.root(key) for key in read})
        graph, mapped = self.graph.subgraph(execs, (*read, *written))
        symbols = [graph.symbol(mapped[key]) for key in read]
        results: list[Symbol] = []
        for key in written:
            symbol = graph.symbol(mapped[key])
            alone = graph.root(symbol.key) == symbol.key and graph.writers(symbol.key) and symbol not in results
            results.append(symbol if alone else contiguous(symbol))
        simplify(graph, results, backend=self.options.backend)
        compiled = compile(
            graph,
            results,
            given=dict.fromkeys(symbols),
            bind=dict.fromkeys(results),
            backend=self.options.backend,
            memory_limit=self.options.memory_limit,
        )
        return MovingProgram(compiled.in_arena_of(self.options.arena), symbols, results)


def _read_of(
    graph: SymbolicGraph, readers: Collection[ExecKey], writers: Sequence[ExecKey], outputs: Sequence[TensorKey]
) -> tuple[TensorKey, ...]:
    """The roots that `readers` read of what `writers` write, with all that the same execs write, but for outputs."""
    read = {root for key in readers for root in graph.roots(graph.execs[key].inputs)}
    read_roots: dict[TensorKey, None] = {}
    for key in writers:
        roots = graph.roots(graph.execs[key].outputs)
        if not read.isdisjoint(roots):
            read_roots.update(dict.fromkeys(roots))
    return tuple(key for key in read_roots if key not in outputs)
