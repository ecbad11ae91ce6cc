"""Precision: a network in f32 computes its products, and what lies between them, in 16 bits.

    y = f(x, w)    becomes    y₁₆ = f(x₁₆, w₁₆),  y = cast(y₁₆)

for f32 operands, where the operator's rule (`nnc.ops.precision`) says LOW, or FOLLOW and

- an exec whose rule says so reads y in 16 bits,
- an operand was computed in 16 bits, and so was each other one that has as many elements as y, or is a constant.

Who reads y in 16 bits reads y₁₆; who reads it in f32 reads y. A value is cast once for all its readers, casts that
nobody reads are pruned, and a cast of a cast back is the value. So parameters stay f32, each with one cast that its
products share, and so do losses, sums, statistics and optimizers. Gradients may be in the graph already, or be taken of
the result: they are execs like others. Kernels sum in f32 and round once.

Of parameters whose f32 memory stays beside the casts (`given`) each product has a cast of its own, which is gone behind
it, and products that take more memory in 16 bits than in f32 stay in f32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import field, replace

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.precautions.origin import inherited_origin
from nnc.core.running.dispatch import DISPATCHER, Specs
from nnc.core.values.command import Command
from nnc.core.values.dtype import BF16, F16, F32, DType
from nnc.core.values.spec import TensorSpec
from nnc.errors import DTypeError, UsageError
from nnc.ops.elementwise.pointwise import CAST, CastAttrs, cast
from nnc.ops.movement.fill import FILL
from nnc.ops.precision import PRECISION, Precision, Runs
from nnc.ops.rules import infer
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.passes.pruning import prune
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey, TensorSymbol
from nnc.symbolic.rewrite import Match, Replacement, Rule, rewrite

_FULL = Precision(Runs.FULL)


@checked
def lower_precision(
    graph: SymbolicGraph, wanted: Sequence[Symbol], dtype: DType = BF16, given: Iterable[Symbol] = (), backend: str = ""
) -> Counter[str]:
    """Compute in `dtype` (bf16 or f16) what may be; how many execs do (`lowered`), and the `casts` in the graph.

    `given` symbols are f32 before, during and behind the run: there 16 bits are for less memory.

    Outputs keep their symbols and types. In f16, values beyond 65504 are infinite, and gradients may be too small:
    scale the loss (`minimize`). DTypeError for another type.
    """
    if dtype not in (BF16, F16):
        raise DTypeError("precision", got=dtype.name, need="bf16 or f16")
    work = _Lowering(graph, dtype, _readers_in_low(graph), frozenset(map(graph.own, given)), backend)
    for key in graph.execs.toposort():
        work.visit(key)
    rewrite(graph, CASTS, wanted)
    prune(graph, wanted)
    commands = (record.command for _, record in graph.execs.items())
    return Counter(lowered=work.lowered, casts=sum(command.op is CAST for command in commands))


def _readers_in_low(graph: SymbolicGraph) -> frozenset[ExecKey]:
    """Execs whose results are read where 16 bits suffice: by products, or by followers that are such execs."""
    low: set[ExecKey] = set()
    for key in reversed(graph.execs.toposort()):
        for root in graph.roots(graph.execs[key].outputs):
            if any(_reads_low(graph, reader, low) for reader in graph.readers(root)):
                low.add(key)
    return frozenset(low)


def _reads_low(graph: SymbolicGraph, reader: ExecKey, low: set[ExecKey]) -> bool:
    runs = _rule(graph.execs[reader]).runs
    return runs is Runs.LOW or (runs is Runs.FOLLOW and reader in low)


def _rule(record: ExecSymbol) -> Precision:
    return PRECISION.get(record.command.op, _FULL) if record.optimize else _FULL


@dataclass(slots=True)
class _Lowering:
    """`made`: roots computed in 16 bits, as they are there; `given`: symbols cast to 16 bits; `stored`: f32 roots."""

    graph: SymbolicGraph
    dtype: DType
    read_in_low: frozenset[ExecKey]
    stored: Collection[TensorKey]
    backend: str
    made: dict[TensorKey, Symbol] = field(default_factory=dict)
    given: dict[TensorKey, Symbol] = field(default_factory=dict)
    lowered: int = 0

    def visit(self, key: ExecKey) -> None:
        """Let an exec run in 16 bits, if its rule says so."""
        record = self.graph.execs[key]
        rule = _rule(record)
        follows = rule.runs is Runs.FOLLOW and key in self.read_in_low and self._follows(record, rule)
        whole = all(self.graph.root(tensor) == tensor for tensor in record.outputs)
        if whole and (rule.runs is Runs.LOW or follows):
            with inherited_origin(record.origin):
                self._lower(key, record, rule)

    def _follows(self, record: ExecSymbol, rule: Precision) -> bool:
        graph = self.graph
        size = max(graph.tensors[tensor].spec.elements for tensor in record.outputs)
        others = [key for key in self._changing(record, rule) if graph.root(key) not in self.made]
        small = all(graph.tensors[key].spec.elements < size or self._is_fill(key) for key in others)
        return small and len(others) < len(self._changing(record, rule))

    def _changing(self, record: ExecSymbol, rule: Precision) -> list[TensorKey]:
        """The f32 operands that are not kept."""
        named = [key for place, key in enumerate(record.inputs) if key is not None and place not in rule.kept]
        return [key for key in named if self.graph.tensors[key].spec.dtype is F32]

    def _is_fill(self, key: TensorKey) -> bool:
        return any(self.graph.execs[writer].command.op is FILL for writer in self.graph.writers(key))

    def _lower(self, key: ExecKey, record: ExecSymbol, rule: Precision) -> None:
        graph, changing = self.graph, self._changing(record, rule)
        specs = graph.specs(record.inputs)
        low = tuple(
            replace(spec, dtype=self.dtype)
            if value in changing and place not in rule.kept and spec is not None
            else spec
            for place, (value, spec) in enumerate(zip(record.inputs, specs, strict=True))
        )
        results = _inferred(record, low) if changing else None
        if results is None or (self.stored and self._takes_more(key, changing, low, results)):
            return
        inputs = tuple(
            self._low(value).key if value is not None and spec is not was else value
            for value, spec, was in zip(record.inputs, low, specs, strict=True)
        )
        graph.remove_exec(key)
        outputs = tuple(self._output(value, spec) for value, spec in zip(record.outputs, results, strict=True))
        graph.add_exec(replace(record, inputs=inputs, outputs=tuple(symbol.key for symbol in outputs)))
        for old, new in zip(record.outputs, outputs, strict=True):
            if new.key != old:
                self.made[old] = new
                graph.add_exec(ExecSymbol(Command(CAST, CastAttrs(F32)), (new.key,), (old,), "", record.origin))
        self.lowered += 1

    def _takes_more(self, key: ExecKey, changing: Collection[TensorKey], low: Specs, results: Specs) -> bool:
        """Whether the exec takes more memory in 16 bits than in f32 while it runs, casts included.

        Of an operand that is made in 16 bits there is a cast in f32 else; of one that is made in f32 there is both. The
        f32 memory of stored weights is no part of it. The workspace counts where nobody else reads the operands: what
        is kept for a gradient is more.
        """
        graph, record = self.graph, self.graph.execs[key]
        specs = graph.specs(record.inputs)
        written = tuple(graph.tensors[output].spec for output in record.outputs)
        roots = {graph.root(value) for value in changing}.difference(self.stored)
        is_kept = any(len(graph.readers(root)) > 1 for root in roots)
        narrow = 0 if is_kept else self._workspace(record, low, results)
        wide = 0 if is_kept else self._workspace(record, specs, written)
        for value in set(changing):
            root, size = graph.root(value), graph.tensors[value].spec.elements
            narrow += 6 * size if graph.writers(root) and root not in self.made else 2 * size
            wide += 0 if root in self.stored else 4 * size if root not in self.made else 6 * size
        for value, new in zip(record.outputs, results, strict=True):
            size, is_read_low = graph.tensors[value].spec.elements, key in self.read_in_low
            narrow += (2 if is_read_low else 6) * size if new is not None and new.dtype is not F32 else 4 * size
            wide += (6 if is_read_low and len(graph.readers(value)) > 1 else 4) * size
        return narrow > wide

    def _workspace(self, record: ExecSymbol, inputs: Specs, outputs: Specs) -> int:
        """Bytes that the kernel takes beside its operands; 0 where nobody has one."""
        try:
            return DISPATCHER.claim(record.command, inputs, outputs, self.backend).kernel.workspace_bytes
        except UsageError:
            return 0

    def _output(self, key: TensorKey, spec: TensorSpec) -> Symbol:
        """The symbol itself where its type stays, a new one in 16 bits where it does not."""
        record = self.graph.tensors[key]
        if record.spec.dtype is spec.dtype:
            return self.graph.symbol(key)
        return self.graph.symbol(self.graph.add_tensor(TensorSymbol(spec, "", None, record.origin)))

    def _low(self, key: TensorKey) -> Symbol:
        """The value in 16 bits: as it was made, in the same place of it, or cast once for all."""
        graph, root = self.graph, self.graph.root(key)
        symbol = graph.symbol(key)
        if root in self.made:
            whole, spec = self.made[root], replace(symbol.spec, dtype=self.dtype)
            return whole if root == key else whole.alias(spec, symbol.offset, symbol.strides)
        if root in self.stored:
            own = cast(symbol, self.dtype)
            for writer in graph.writers(own.key):
                graph.keep(writer)
            return own
        if key not in self.given:
            self.given[key] = cast(symbol, self.dtype)
        return self.given[key]


def _inferred(record: ExecSymbol, specs: tuple[TensorSpec | None, ...]) -> tuple[TensorSpec, ...] | None:
    """The results on other operands, None where the operator takes none of these types."""
    try:
        return infer(record.command.op, record.command.attrs, specs)
    except UsageError:
        return None


def _round_trip(match: Match) -> Replacement | None:
    """A value in 16 bits is the same after a detour through f32."""
    inner = match.producer(0, CAST)
    if inner is None or inner.inputs[0] is None or match.input(0).spec.dtype is not F32:
        return None
    x = match.graph.symbol(inner.inputs[0])
    return (x,) if x.spec.dtype is match.command.attrs.dtype and x.spec.dtype in (BF16, F16) else None


CASTS: tuple[Rule, ...] = (Rule("there and back", CAST, _round_trip),)
