"""Symbolic graphs run without a plan: each tensor has memory of its own, each command runs by itself.

Nothing of nnc.symbolic.compile or nnc.concrete takes part. `Noise` disturbs every result by about one rounding: values
that change much by it are not determined by the program, and nobody may be blamed for others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from nnc.concrete import CountBelow
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.values.dtype import BF16, F16, F32, F64, DType
from nnc.core.values.tensor import Tensor
from nnc.symbolic import ExecKey, ExecSymbol, Symbol, SymbolicGraph, TensorKey
from nnc.symbolic.control import CaseAttrs, Holds, WhileAttrs
from nnc.symbolic.ir import Body

Array = NDArray[Any]
ROUNDING = {F64: 4e-16, F32: 2.5e-7, F16: 2e-3, BF16: 1.6e-2}
# What gives elements of its inputs, or what depends on them in steps: no backend rounds there.
SELECTING = frozenset((
    "fill", "copy", "transpose", "concatenate", "embed", "pad", "flip", "where", "relu", "maximum", "minimum", "sign",
    "step", "floor", "ceil", "round", "index_select", "gather", "one_hot", "broadcast_to", "max_pool", "reduce_max",
    "reduce_min", "sort", "top_k", "cast", "argmax", "absolute", "clamp",
))  # fmt: skip
# More iterations than any program asks for: the interpreter would go on for ever otherwise.
MOST_ITERATIONS = 64


@dataclass
class Noise:
    """Random factors and shifts for results: elements · (1 ± ε) ± ε · the largest of them.

    ε is about the rounding of their type, or of the type `coarse` if that has a larger one. What `coarse` cannot hold
    is infinite.
    """

    numbers: np.random.Generator
    coarse: DType = F64

    def disturb(self, tensor: Tensor) -> None:
        """Change the elements of a floating-point tensor a little."""
        array = tensor.numpy()
        if tensor.dtype not in ROUNDING or not array.size:
            return
        size = max(ROUNDING[tensor.dtype], ROUNDING[self.coarse])
        with np.errstate(all="ignore"):
            values = array.astype(np.float64)
            largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
            factor, shift = self.numbers.uniform(-size, size, (2, *array.shape))
            disturbed = values * (1 + factor) + shift * 0.1 * largest
            held = np.abs(disturbed) <= ml_dtypes.finfo(self.coarse.numpy).max
            array[...] = np.where(held, disturbed, disturbed * np.inf)


@dataclass
class Memory:
    """The tensors of one graph, each in a storage of its own, full of not-a-number, or of what fills it, at first."""

    graph: SymbolicGraph
    noise: Noise | None
    roots: dict[TensorKey, Tensor] = field(default_factory=dict)

    def put(self, key: TensorKey, value: Array) -> None:
        """Give a root a value."""
        tensor = Tensor.empty(self.graph.tensors[key].spec)
        tensor.numpy()[...] = value
        self.roots[key] = tensor

    def tensor(self, key: TensorKey) -> Tensor:
        """The memory of a symbol."""
        root = self.graph.root(key)
        if root not in self.roots:
            record = self.graph.tensors[root]
            fresh = self.roots[root] = Tensor.empty(record.spec)
            fresh.storage.bytes.fill(0xFF)
            if record.fill is not None:
                fresh.numpy()[...] = record.fill
        if root == key:
            return self.roots[root]
        region = self.graph.region(key)
        return self.roots[root].view(self.graph.tensors[key].spec, region.offset, region.strides)

    def run(self, execs: Sequence[ExecKey]) -> None:
        """Run commands in this order."""
        for key in execs:
            record = self.graph.execs[key]
            match record.command.attrs:
                case WhileAttrs():
                    self._run_while(record, record.command.attrs)
                case CaseAttrs():
                    self._run_case(record, record.command.attrs)
                case _:
                    self._run_command(record)

    def _run_command(self, record: ExecSymbol) -> None:
        inputs = tuple(None if key is None else self.tensor(key) for key in record.inputs)
        outputs = tuple(map(self.tensor, record.outputs))
        read = tuple(None if tensor is None else tensor.spec for tensor in inputs)
        written = tuple(tensor.spec for tensor in outputs)
        DISPATCHER.claim(record.command, read, written, "reference").kernel.run(inputs, outputs, None)
        if self.noise is not None and record.command.op.name not in SELECTING:
            for tensor in outputs:
                self.noise.disturb(tensor)

    def _enter(self, body: Body, values: Sequence[Array]) -> Memory:
        inner = Memory(body.graph, self.noise)
        for key, value in zip(body.parameters, values, strict=True):
            inner.put(key, value)
        return inner

    def _run_while(self, record: ExecSymbol, attrs: WhileAttrs) -> None:
        """What the test and the results read runs in front of the test, the rest behind it."""
        values = [self.tensor(key).numpy() for key in record.inputs if key is not None]
        carried, invariants = values[: attrs.carried], values[attrs.carried :]
        graph, body = attrs.body.graph, attrs.body
        rows: dict[TensorKey, list[Array]] = {key: [] for key in attrs.stacked()}
        given = (*body.parameters, attrs.count)
        first = graph.needed_for((*attrs.asked(), *attrs.exits()), given)
        rest = [key for key in graph.execs.toposort() if key not in set(first)]
        for count in range(MOST_ITERATIONS):
            inner = self._enter(body, [*carried, *invariants])
            inner.put(attrs.count, np.asarray(count))
            inner.run(first)
            if not inner.holds(attrs, count):
                break
            inner.run(rest)
            for key, found in rows.items():
                found.append(inner.tensor(key).numpy())
            carried = [inner.tensor(key).numpy() for key in body.results]
        self.put(record.outputs[0], np.asarray(count))
        for kept, output in zip(attrs.kept, record.outputs[1:], strict=True):
            if not kept.rows:
                self.put(output, inner.tensor(kept.symbol).numpy())
                continue
            self.put(output, np.asarray(0))
            for place, row in enumerate(rows[kept.symbol]):
                self.roots[output].numpy()[place] = row

    def holds(self, attrs: WhileAttrs, count: int) -> bool:
        """Whether the loop whose body this is goes on."""
        match attrs.test:
            case CountBelow():
                return count < attrs.test.limit
            case Holds():
                return bool(self.tensor(attrs.test.symbol).numpy().item())
            case _:
                return bool(attrs.test.function(*map(self.tensor, attrs.test.inputs)))

    def _run_case(self, record: ExecSymbol, attrs: CaseAttrs) -> None:
        tensors = [self.tensor(key) for key in record.inputs if key is not None]
        asked = tensors[: attrs.chosen]
        choice = int(asked[0].numpy().item()) if attrs.function is None else attrs.function(*asked)
        inside = 0 <= choice < len(attrs.branches)
        body = attrs.branches[choice] if inside else attrs.otherwise
        assert body is not None
        inner = self._enter(body, [tensor.numpy() for tensor in tensors[attrs.chosen :]])
        inner.run(body.graph.execs.toposort())
        for key, result in zip(record.outputs, body.results, strict=True):
            self.put(key, inner.tensor(result).numpy())


def interpret(
    graph: SymbolicGraph, outputs: Sequence[Symbol], inputs: Mapping[Symbol, Array], noise: Noise | None = None
) -> list[Array]:
    """The values of `outputs`, command by command."""
    memory = Memory(graph, noise)
    for symbol, value in inputs.items():
        memory.put(symbol.key, value)
    memory.run(graph.execs.toposort())
    return [np.array(memory.tensor(symbol.key).numpy()) for symbol in outputs]
