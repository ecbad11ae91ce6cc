"""Rewriting by named rules: an exec that matches is replaced by others that compute the same.

A rule is a row: a name, the operator it starts from, and a function that looks at one exec and returns symbols for its
outputs, or None. The driver works off a list until no rule fires, one match at a time; wanted outputs keep their
symbols, because the last new exec writes them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from nnc.classes import dataclass
from nnc.core.precautions.origin import inherited_origin
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import TensorSpec, contiguous_strides
from nnc.errors import VerificationError
from nnc.graph import Fact, Op
from nnc.symbolic.ir import Symbol, SymbolicGraph, bodies_of
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey

Replacement = tuple[Symbol, ...]

# The outputs whose symbols and values a transform of the graph keeps.
WANTED = Fact[tuple[Symbol, ...]]("wanted outputs")
# The backend that the caller prefers, empty for none: what a transform makes is served by it where that was so before.
BACKEND = Fact[str]("backend")


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """One exec as a rule sees it, the roots of the wanted outputs, and the backend that the caller prefers."""

    graph: SymbolicGraph
    key: ExecKey
    record: ExecSymbol
    wanted: Collection[TensorKey]
    backend: str = ""

    @property
    def command(self) -> AnyCommand:
        """The exec's command."""
        return self.record.command

    @property
    def inputs(self) -> tuple[Symbol | None, ...]:
        """The exec's inputs as symbols."""
        return tuple(None if key is None else self.graph.symbol(key) for key in self.record.inputs)

    @property
    def result(self) -> TensorSpec:
        """The spec of the first output."""
        return self.graph.tensors[self.record.outputs[0]].spec

    def input(self, position: int) -> Symbol:
        """An input that is there."""
        key = self.record.inputs[position]
        assert key is not None
        return self.graph.symbol(key)

    def served_as(self, old: ExecSymbol, results: Replacement) -> Replacement | None:
        """The results, unless the caller's backend serves `old`, which they take in, and not what computes them."""
        if not self.backend or not serves(self.graph, self.backend, old):
            return results
        made = [self.graph.execs[writer] for symbol in results for writer in self.graph.writers(symbol.key)]
        return results if all(serves(self.graph, self.backend, record) for record in made) else None

    def producer(self, position: int, op: Op[Any]) -> ExecSymbol | None:
        """The exec that writes the whole of an input, when it is one of `op`."""
        return producer(self.graph, self.record.inputs[position], op)


def serves(graph: SymbolicGraph, backend: str, record: ExecSymbol) -> bool:
    """Does the backend of this name claim the exec?"""
    inputs = tuple(None if key is None else graph.tensors[key].spec for key in record.inputs)
    outputs = tuple(graph.tensors[key].spec for key in record.outputs)
    return not DISPATCHER.backend(backend).refusal(record.command, inputs, outputs)


def producer(graph: SymbolicGraph, key: TensorKey | None, op: Op[Any]) -> ExecSymbol | None:
    """The exec that writes the whole of `key`, when it is one of `op`."""
    if key is None or graph.root(key) != key or len(graph.writers(key)) != 1:
        return None
    record = graph.execs[graph.writers(key)[0]]
    return record if record.command.op is op and key in record.outputs else None


def has_one_reader(graph: SymbolicGraph, key: TensorKey) -> bool:
    """True when a single exec reads `key`'s root."""
    return len(graph.readers(key)) == 1


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """`apply(match)` gives the symbols that replace the outputs of an exec of `op`, or None."""

    name: str
    op: Op[Any]
    apply: Callable[[Match], Replacement | None]


def rewrite(
    graph: SymbolicGraph,
    rules: Sequence[Rule],
    wanted: Iterable[Symbol] = (),
    among: Iterable[ExecKey] | None = None,
    backend: str = "",
) -> Counter[str]:
    """Apply `rules` until none fires; how often each did. Execs that nobody needs any more are left for pruning.

    Looked at are all execs, or those `among` which a match may be, and then what changes.

    VerificationError when the rules go on for more than eight times the graph's execs: they undo each other.
    """
    kept = {graph.root(graph.own(symbol)) for symbol in wanted}
    by_op: dict[Op[Any], list[Rule]] = {}
    for rule in rules:
        by_op.setdefault(rule.op, []).append(rule)
    queue = deque(graph.execs.toposort() if among is None else among)
    limit = 8 * len(queue) + 64
    fired: Counter[str] = Counter()
    while queue:
        key = queue.popleft()
        if key not in graph.execs:
            continue
        for rule in by_op.get(graph.execs[key].command.op, ()):
            touched = _fire(graph, key, rule, kept, backend)
            if touched is not None:
                fired[rule.name] += 1
                queue.extend(touched)
                break
        if fired.total() > limit:
            raise VerificationError(f"rewrite: no end after {limit} steps; rules {', '.join(fired)} undo each other")
    return fired


def redirect(graph: SymbolicGraph, old: TensorKey, new: TensorKey) -> tuple[ExecKey, ...] | None:
    """Let every reader of the root `old` read `new`; the readers, or None when an alias of `old` cannot follow."""
    base, dense = graph.region(new), is_dense(graph, new)
    readers = graph.readers(old)
    changes: list[tuple[ExecKey, tuple[TensorKey | None, ...]]] = []
    for reader in readers:
        inputs = []
        for key in graph.execs[reader].inputs:
            if key is None or graph.root(key) != old:
                inputs.append(key)
            elif key == old:
                inputs.append(new)
            elif dense:
                region, record = graph.region(key), graph.tensors[key]
                with inherited_origin(record.origin):
                    part = graph.alias(new, record.spec, base.offset + region.offset, region.strides)
                inputs.append(part.key)
            else:
                return None
        changes.append((reader, tuple(inputs)))
    for reader, changed in changes:
        graph.replace_exec(reader, replace(graph.execs[reader], inputs=changed))
    return readers


def _fire(
    graph: SymbolicGraph, key: ExecKey, rule: Rule, kept: Collection[TensorKey], backend: str
) -> list[ExecKey] | None:
    """Apply a rule to one exec; the execs to look at again, or None when it did not fire."""
    record = graph.execs[key]
    if not record.optimize or not all(is_dense(graph, output) for output in record.outputs):
        return None
    made: list[ExecKey] = []
    with graph.observed(made.append), inherited_origin(record.origin):
        results = rule.apply(Match(graph, key, record, kept, backend))
    if results is None or not _may_replace(graph, record, results, made, kept):
        _discard(graph, made)
        return None
    _check_specs(graph, record, results, rule)
    readers = [reader for output in record.outputs for reader in graph.readers(output)]
    place: ExecKey | None = key
    for output, symbol in zip(record.outputs, results, strict=True):
        fresh = [other for other in made if symbol.key in graph.execs[other].outputs]
        if fresh:
            _retarget(graph, fresh[0], symbol.key, output, made, place, record.name)
            place = None
        else:
            redirect(graph, output, symbol.key)
    if place is not None:
        graph.remove_exec(place)
    return [*made, *readers]


def _check_specs(graph: SymbolicGraph, record: ExecSymbol, results: Replacement, rule: Rule) -> None:
    """VerificationError that names the rule, when its symbols are not of the shapes and types that they replace."""
    for output, symbol in zip(record.outputs, results, strict=True):
        old, new = graph.tensors[output].spec, symbol.spec
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            raise VerificationError(f"rewrite: rule {rule.name!r} replaces %{output} ({old}) by {new}")


def _may_replace(
    graph: SymbolicGraph, record: ExecSymbol, results: Replacement, made: list[ExecKey], kept: Collection[TensorKey]
) -> bool:
    """Symbols that were there before may replace only whole outputs that are not wanted and that whole symbols read."""
    written = {key for other in made for key in graph.execs[other].outputs}
    for output, symbol in zip(record.outputs, results, strict=True):
        if symbol.key in written:
            continue
        aliased = any(
            tensor is not None and tensor != output and graph.root(tensor) == output
            for reader in graph.readers(output)
            for tensor in graph.execs[reader].inputs
        )
        if output in kept or _is_part(graph, output) or (aliased and not is_dense(graph, symbol.key)):
            return False
        if _is_part(graph, symbol.key) and _has_body_reader(graph, output):
            return False
    return True


def is_dense(graph: SymbolicGraph, key: TensorKey) -> bool:
    """True when the elements follow each other in memory: of roots, and of some of their parts."""
    record = graph.tensors[key]
    return record.alias is None or record.alias.strides == contiguous_strides(record.spec.shape)


def _is_part(graph: SymbolicGraph, key: TensorKey) -> bool:
    return graph.root(key) != key


def _has_body_reader(graph: SymbolicGraph, key: TensorKey) -> bool:
    """True when a loop or a branch reads `key`: bodies take whole tensors, and name parts of them."""
    return any(bodies_of(graph.execs[reader].command) for reader in graph.readers(key))


def _retarget(
    graph: SymbolicGraph,
    writer: ExecKey,
    new: TensorKey,
    old: TensorKey,
    made: list[ExecKey],
    place: ExecKey | None,
    name: str,
) -> None:
    """Let `writer` write `old` in place of `new`, whose readers follow; at the `place` of the exec that wrote `old`.

    Keys are the order of appending, which a plan starts from: what is replaced keeps its turn, and its `name`.
    """
    record = graph.remove_exec(writer)
    outputs = tuple(old if key == new else key for key in record.outputs)
    record = replace(record, outputs=outputs, name=name)
    if place is not None and not outputs == (old,) == graph.execs[place].outputs:
        graph.remove_exec(place)
        place = None
    if place is None:
        place = graph.add_exec(record)
    else:
        graph.replace_exec(place, record)
    made[made.index(writer)] = place
    redirect(graph, new, old)


def _discard(graph: SymbolicGraph, made: list[ExecKey]) -> None:
    for key in reversed(made):
        graph.remove_exec(key)
