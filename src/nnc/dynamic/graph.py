"""The dynamic graph: commands run at once on variables, and their record is a symbolic graph.

No tape: `backward` is the symbolic pass on the record. What is already known (the forward values) is given to the
compiler, so only gradients are computed. A gradient program is kept and used again when the same computation is
recorded again, as in every step of a training loop.

A recorded exec is forgotten when no variable that is still held depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from nnc.concrete.graph import workspace_spec
from nnc.core.command import AnyCommand
from nnc.core.dispatch import DISPATCHER
from nnc.core.dtype import DType
from nnc.core.origin import caller_origin
from nnc.core.spec import Shape, TensorSpec
from nnc.core.tensor import Tensor
from nnc.dynamic.variable import Variable
from nnc.errors import SymbolError, UsageError
from nnc.graph import DictStorage
from nnc.ops.rules import infer
from nnc.symbolic.compile import Compiled, compile
from nnc.symbolic.gradient import backward
from nnc.symbolic.ir import AliasOf, ExecKey, ExecSymbol, Symbol, SymbolicGraph, TensorKey, TensorSymbol

# Canonical form of a recorded computation: commands with numbered tensors, and which numbers are asked for.
Signature = tuple[object, ...]

CACHED_PROGRAMS = 64


@dataclass(slots=True)
class _Known:
    """A recorded tensor: its memory, how many variables hold it or a view of it, and its views."""

    tensor: Tensor
    handles: int
    views: dict[TensorKey, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class _GradientProgram:
    """A compiled gradient: which numbered tensors it is given, and which symbols hold the results."""

    compiled: Compiled
    given: tuple[tuple[int, Symbol], ...]
    results: tuple[Symbol, ...]


class DynamicGraph:
    """Makes variables, runs commands on them, records, differentiates."""

    def __init__(self, backend: str = "") -> None:
        self.record = SymbolicGraph("record", storage=DictStorage)
        self.backend = backend
        self.recording = True
        self._known: dict[TensorKey, _Known] = {}
        self._programs: dict[Signature, _GradientProgram] = {}

    # ---- variables

    def variable(self, value: ArrayLike | Tensor, dtype: DType | str | None = None) -> Variable:
        """A leaf that gradients can be asked for, over a copy-free tensor of `value` where possible."""
        tensor = value if isinstance(value, Tensor) else Tensor.from_numpy(value, dtype)
        return self._hold(tensor) if self.recording else Variable(self, tensor, None)

    def constant(self, value: ArrayLike | Tensor, dtype: DType | str | None = None) -> Variable:
        """A value that is not recorded: no gradient flows to it."""
        return Variable(self, value if isinstance(value, Tensor) else Tensor.from_numpy(value, dtype), None)

    def detach(self, variable: Variable) -> Variable:
        """The same memory as a constant."""
        return Variable(self, variable.tensor, None, variable.root)

    @contextmanager
    def no_grad(self) -> Iterator[None]:
        """Run without recording."""
        before, self.recording = self.recording, False
        try:
            yield
        finally:
            self.recording = before

    # ---- running

    def execute(self, command: AnyCommand, inputs: Sequence[Variable | None]) -> tuple[Variable, ...]:
        """Run `command` now; record it when an input is recorded."""
        origin = caller_origin()
        specs = tuple(None if variable is None else variable.spec for variable in inputs)
        try:
            results = infer(command.op, command.attrs, specs)
            claim = DISPATCHER.claim(command, specs, results, self.backend)
        except UsageError as error:
            error.origin = error.origin or origin
            raise
        outputs = tuple(Tensor.empty(spec) for spec in results)
        scratch = Tensor.empty(workspace_spec(claim.kernel.workspace_bytes)) if claim.kernel.workspace_bytes else None
        claim.kernel.run(tuple(None if variable is None else variable.tensor for variable in inputs), outputs, scratch)
        if not self.recording or all(variable is None or variable.key is None for variable in inputs):
            return tuple(Variable(self, tensor, None) for tensor in outputs)
        keys = tuple(None if variable is None else self._key_of(variable) for variable in inputs)
        written = tuple(self._new_symbol(tensor.spec, origin) for tensor in outputs)
        self.record.add_exec(ExecSymbol(command, keys, written, "", origin))
        return tuple(self._hold(tensor, key) for tensor, key in zip(outputs, written, strict=True))

    def view(self, of: Variable, spec: TensorSpec, offset: int, strides: Shape) -> Variable:
        """A variable over a part of `of`'s root."""
        tensor = of.root.view(spec, offset, strides)
        if of.key is None:
            return Variable(self, tensor, None, of.root)
        root = self.record.root(of.key)
        symbol = self.record.tensors.new(TensorSymbol(spec, "", AliasOf(root, offset, strides), caller_origin()))
        known = self._known[root]
        known.views[symbol] = tensor
        known.handles += 1
        return Variable(self, tensor, symbol, of.root)

    # ---- gradients

    def backward(
        self, outputs: Sequence[Variable], inputs: Sequence[Variable], *, create_graph: bool = False
    ) -> tuple[Variable, ...]:
        """d(sum of outputs) / d(input), one variable per input.

        With `create_graph` the gradients are recorded too and can be differentiated again.
        """
        targets = [self._recorded(variable, "output") for variable in outputs]
        sources = [self._recorded(variable, "input") for variable in inputs]
        return self._backward_recorded(targets, sources) if create_graph else self._backward_cached(targets, sources)

    def apply_gradients(
        self,
        optimizer: AnyCommand,
        parameters: Sequence[Variable],
        gradients: Sequence[Variable],
        states: Sequence[Sequence[Variable]],
        scalars: Sequence[float],
    ) -> tuple[list[Variable], list[tuple[Variable, ...]]]:
        """One `optimizer` command per parameter: (new parameters as fresh leaves, new states).

        `scalars` are the command's last inputs, such as the rate. The old variables keep their values.
        """
        steering = [self.constant(np.asarray(value, parameters[0].spec.dtype.numpy)) for value in scalars]
        leaves, following = [], []
        for parameter, gradient, state in zip(parameters, gradients, states, strict=True):
            with self.no_grad():
                updated, *updated_state = self.execute(optimizer, (gradient, parameter, *state, *steering))
            leaves.append(self.variable(updated.tensor))
            following.append(tuple(updated_state))
        return leaves, following

    def _recorded(self, variable: Variable, role: str) -> TensorKey:
        if variable.graph is not self or variable.key is None:
            got = f"an {role} {variable.spec} that is not recorded"
            raise SymbolError(
                "backward", got=got, need="a variable of this graph", fix="make it with variable(), outside no_grad()"
            )
        return variable.key

    def _backward_recorded(self, outputs: list[TensorKey], inputs: list[TensorKey]) -> tuple[Variable, ...]:
        """Append the gradient execs to the record; everything known is given, the rest is computed."""
        record = self.record
        gradients = backward(record, [record.symbol(key) for key in outputs], [record.symbol(key) for key in inputs])
        given = {record.symbol(key): tensor for key, tensor in self._all_known().items()}
        results = {symbol: Tensor.empty(symbol.spec) for symbol in gradients}
        compile(record, gradients, given=given, bind=results, backend=self.backend).run()
        return tuple(self._hold(results[symbol], symbol.key) for symbol in gradients)

    def _backward_cached(self, outputs: list[TensorKey], inputs: list[TensorKey]) -> tuple[Variable, ...]:
        execs = self.record.needed_for(outputs)
        numbers = self._number(execs, outputs, inputs)
        signature = self._signature(execs, numbers, outputs, inputs)
        program = self._programs.get(signature)
        if program is None:
            program = self._differentiate(execs, numbers, outputs, inputs)
            if len(self._programs) >= CACHED_PROGRAMS:
                self._programs.pop(next(iter(self._programs)))
            self._programs[signature] = program
        keys = list(numbers)
        tensors = {symbol: self._tensor(keys[number]) for number, symbol in program.given}
        results = {symbol: Tensor.empty(symbol.spec) for symbol in program.results}
        program.compiled.rebind({**tensors, **results}).run()
        return tuple(self._hold(results[symbol]) for symbol in program.results)

    def _number(
        self, execs: Sequence[ExecKey], outputs: list[TensorKey], inputs: list[TensorKey]
    ) -> dict[TensorKey, int]:
        """Tensors of the computation, numbered by first appearance."""
        numbers: dict[TensorKey, int] = {}
        for key in execs:
            record = self.record.execs[key]
            for tensor in (*record.inputs, *record.outputs):
                if tensor is not None:
                    numbers.setdefault(self.record.root(tensor), len(numbers))
                    numbers.setdefault(tensor, len(numbers))
        for tensor in (*outputs, *inputs):
            numbers.setdefault(self.record.root(tensor), len(numbers))
            numbers.setdefault(tensor, len(numbers))
        return numbers

    def _signature(
        self, execs: Sequence[ExecKey], numbers: dict[TensorKey, int], outputs: list[TensorKey], inputs: list[TensorKey]
    ) -> Signature:
        records = [self.record.execs[key] for key in execs]
        commands = tuple(
            (
                record.command,
                tuple(None if tensor is None else numbers[tensor] for tensor in record.inputs),
                tuple(numbers[tensor] for tensor in record.outputs),
            )
            for record in records
        )
        tensors = tuple(
            (self.record.tensors[key].spec, numbers[self.record.root(key)], self.record.region(key)) for key in numbers
        )
        return (commands, tensors, tuple(numbers[key] for key in outputs), tuple(numbers[key] for key in inputs))

    def _differentiate(
        self, execs: Sequence[ExecKey], numbers: dict[TensorKey, int], outputs: list[TensorKey], inputs: list[TensorKey]
    ) -> _GradientProgram:
        """Differentiate a copy of the computation and compile the gradients alone: forward values are given."""
        graph, mapped = self.record.subgraph(execs, numbers)
        results = backward(
            graph, [graph.symbol(mapped[key]) for key in outputs], [graph.symbol(mapped[key]) for key in inputs]
        )
        given = {number: graph.symbol(mapped[key]) for key, number in numbers.items() if key in self._known}
        compiled = compile(
            graph,
            results,
            given=dict.fromkeys(given.values()),
            bind=dict.fromkeys(results),
            backend=self.backend,
        )
        return _GradientProgram(compiled, tuple(given.items()), results)

    # ---- the record

    def _new_symbol(self, spec: TensorSpec, origin: str) -> TensorKey:
        return self.record.tensors.new(TensorSymbol(spec, "", None, origin))

    def _hold(self, tensor: Tensor, key: TensorKey | None = None) -> Variable:
        """A recorded variable over `tensor`; a new symbol unless its key is given."""
        symbol = self._new_symbol(tensor.spec, caller_origin()) if key is None else key
        if symbol in self._known:
            self._known[symbol].handles += 1
        else:
            self._known[symbol] = _Known(tensor, 1, {})
        return Variable(self, tensor, symbol)

    def _key_of(self, variable: Variable) -> TensorKey:
        """The symbol of a variable; a constant gets one for as long as the record reads it."""
        if variable.key is not None:
            return variable.key
        key = self._new_symbol(variable.spec, caller_origin())
        self._known[key] = _Known(variable.tensor, 0, {})
        return key

    def _tensor(self, key: TensorKey) -> Tensor:
        root = self.record.root(key)
        known = self._known[root]
        return known.tensor if key == root else known.views[key]

    def _all_known(self) -> dict[TensorKey, Tensor]:
        return {key: known.tensor for key, known in self._known.items()}

    def release(self, key: TensorKey) -> None:
        """A handle of `key` is gone: forget what no held variable depends on any more."""
        root = self.record.root(key)
        self._known[root].handles -= 1
        queue = [root]
        while queue:
            candidate = queue.pop()
            queue.extend(self._forget(candidate))

    def _forget(self, root: TensorKey) -> list[TensorKey]:
        """Drop `root` when nobody holds or reads it, with its writer; returns the roots that this may free."""
        record = self.record
        if not self._idle(root):
            return []
        freed: list[TensorKey] = []
        for writer in record.writers(root):
            outputs = {record.root(key) for key in record.execs[writer].outputs}
            if not all(self._idle(key) for key in outputs):
                return []
            removed = record.remove_exec(writer)
            freed.extend({record.root(key) for key in removed.inputs if key is not None})
            for other in outputs - {root}:
                self._drop(other)
        self._drop(root)
        return freed

    def _idle(self, root: TensorKey) -> bool:
        known = self._known.get(root)
        return (known is None or known.handles == 0) and not self.record.readers(root)

    def _drop(self, root: TensorKey) -> None:
        known = self._known.pop(root, None)
        for view in known.views if known else ():
            self.record.tensors.remove(view)
        self.record.remove_tensor(root)
