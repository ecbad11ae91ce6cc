"""A symbolic graph of ours as a graph of ONNX: one row of the table per operator (`nnc.onnx.exports`).

An operand is a name of the file with the spec that it has with us; views become Reshape, Slice, Transpose and Expand
where somebody reads them. Transposes are carried through what works element by element and cancel each other, so that
networks of ours, which have their channels last, are not full of them.

The batch stays open: a graph is written for two batch sizes, and the sizes in which the two differ follow from the
first input in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeAlias

import numpy as np

import onnx
from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand
from nnc.core.values.dtype import I64, DType
from nnc.core.values.spec import Layout, Shape, TensorSpec, contiguous_strides
from nnc.errors import BackendError, UsageError
from nnc.onnx.node import Array
from nnc.ops.arithmetic import ArithmeticOperand
from nnc.ops.operand import PlacedOperand
from nnc.ops.rules import infer
from nnc.symbolic import ExecKey, Symbol, SymbolicGraph, TensorKey, TensorSymbol
from nnc.symbolic.ir import bodies_of

OPSET, IR_VERSION = 18, 8
# Two primes above any size that a network has of itself: what differs between them depends on the batch.
BATCHES = (1_000_003, 1_000_033)
END = np.iinfo(np.int64).max
Written: TypeAlias = "str | ExportOperand | tuple[str | ExportOperand | None, ...]"


class ExportOperand(PlacedOperand, ArithmeticOperand):
    """A tensor of the file, or a view of one; what is applied to it is written as nodes at once."""

    __slots__ = ("name", "root", "writer")

    def __init__(self, writer: OnnxWriter, spec: TensorSpec, name: str = "", root: ExportOperand | None = None) -> None:
        super().__init__(spec)
        self.writer, self.name = writer, name
        self.root = self if root is None else root

    def apply(self, command: AnyCommand, inputs: Sequence[ExportOperand | None]) -> tuple[ExportOperand, ...]:
        """The nodes of the command."""
        return self.writer.apply(command, inputs)

    def alias(self, spec: TensorSpec, offset: int, strides: Shape) -> ExportOperand:
        """A view, written when it is read."""
        view = ExportOperand(self.writer, spec, "", self.root)
        view._offset, view._strides = offset, strides
        return view


@dataclass(frozen=True, slots=True, eq=False)
class ExportCall:
    """A command to be written: its operands, the specs of what it gives, and what is read of that (views, maybe)."""

    writer: OnnxWriter
    command: AnyCommand
    operands: tuple[ExportOperand | None, ...]
    outputs: tuple[TensorSpec, ...]
    wanted: tuple[Sequence[TensorSymbol], ...]

    @property
    def attrs(self) -> Any:  # noqa: ANN401  # each row knows the attributes of its operator
        """The command's attributes."""
        return self.command.attrs

    def __getitem__(self, position: int) -> ExportOperand:
        operand = self.operands[position]
        assert operand is not None
        return operand

    def name(self, position: int) -> str:
        """The name of an operand; empty where it is left out."""
        operand = self.operands[position] if position < len(self.operands) else None
        return "" if operand is None else self.writer.name_of(operand)

    def names(self) -> list[str]:
        """The names of all operands."""
        return [self.name(position) for position in range(len(self.operands))]

    def of(self, name: str, like: TensorSpec, **changes: object) -> ExportOperand:
        """An operand for a tensor that a row has written."""
        return ExportOperand(self.writer, replace(like, **changes), name)  # type: ignore[arg-type]

    def refuse(self, reason: str) -> BackendError:
        """The error of a row that cannot write the command."""
        return BackendError(self.command.op.name, got=reason, need="what ONNX has a node for")


ExportRow: TypeAlias = Callable[[ExportCall], Written]


@dataclass(slots=True, eq=False)
class OnnxWriter:
    """Nodes in order, constants, and `weights`, tensors that keep their names. `missing` is what no row serves."""

    rows: Mapping[str, ExportRow]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    missing: dict[str, list[str]] = field(default_factory=dict)
    label: str = ""
    products: dict[str, tuple[ExportOperand, ExportOperand, ExportOperand | None]] = field(default_factory=dict)
    _turned: dict[str, tuple[str, Shape]] = field(default_factory=dict)
    _turns: dict[tuple[str, Shape], str] = field(default_factory=dict)
    _known: dict[tuple[str, Shape, bytes], str] = field(default_factory=dict)
    _used: dict[str, int] = field(default_factory=dict)
    _ends: set[str] = field(default_factory=set)
    _views: dict[tuple[str, Shape, int, Shape], str] = field(default_factory=dict)

    # ---- nodes

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        """A node with one output, whose name is given back."""
        return self.nodes_of(op, inputs, 1, **attributes)[0]

    def nodes_of(self, op: str, inputs: Sequence[str], count: int, **attributes: object) -> tuple[str, ...]:
        """A node with several outputs."""
        label = self._fresh(self.label or op)
        outputs = tuple(label if place == 0 else f"{label}.{place}" for place in range(count))
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        self.nodes.append(_node(op, given, outputs, label, attributes))
        return outputs

    def reserve(self, name: str) -> str:
        """A name that nothing else in the file gets."""
        return self._fresh(name)

    def _fresh(self, label: str) -> str:
        count = self._used.get(label, 0)
        self._used[label] = count + 1
        return label if not count else self._fresh(f"{label}.{count}")

    def constant(self, value: object, dtype: DType = I64) -> str:
        """The name of a constant; equal ones have one name."""
        array = np.asarray(value, dtype.numpy)
        key = (array.dtype.str if array.dtype.kind != "V" else array.dtype.name, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = self._fresh("constant")
            self.constants[self._known[key]] = array
        return self._known[key]

    def weight(self, name: str, array: Array) -> str:
        """The name of a named tensor."""
        label = self._fresh(name)
        self.weights[label] = array
        return label

    def finish(self, name: str, output: str) -> None:
        """Let the node that writes `name` write the output; what no node writes, or two outputs are, is copied."""
        writer = next((node for node in self.nodes if name in node.output), None)
        if writer is None or name in self._ends:
            self.nodes.append(onnx.helper.make_node("Identity", [name], [output], output))
            return
        self._ends.add(output)
        for node in self.nodes:
            for names in (node.input, node.output):
                names[:] = [output if entry == name else entry for entry in names]

    # ---- movement

    def transpose(self, name: str, permutation: Iterable[int]) -> str:
        """Axis k is axis permutation[k] of `name`. Transposes in a row are one; those of weights are done here."""
        base, before = self._turned.get(name, (name, None))
        after = tuple(permutation) if before is None else tuple(before[axis] for axis in permutation)
        if after == tuple(range(len(after))):
            return base
        made = self._turns.get((base, after))
        if made is None:
            if base in self.weights:
                made = self.weight(f"{base}.{''.join(map(str, after))}", self.weights[base].transpose(after))
            else:
                made = self.node("Transpose", base, perm=after)
            self._turns[base, after] = made
            self._turned[made] = (base, after)
        return made

    def turned(self, name: str) -> tuple[str, Shape] | None:
        """What `name` is a transpose of, and its permutation."""
        return self._turned.get(name)

    def reshape(self, name: str, shape: Shape) -> str:
        """The same elements under another shape."""
        # A size of 0 would stand for that of the input.
        return self.node("Reshape", name, self.constant(shape), **({"allowzero": 1} if 0 in shape else {}))

    def cast(self, name: str, dtype: DType) -> str:
        """Elements of another type."""
        return self.node("Cast", name, to=number_of(dtype))

    def slice(self, name: str, starts: Sequence[int], ends: Sequence[int], axes: Shape, steps: Sequence[int]) -> str:
        """Elements from starts to ends along axes."""
        return self.node("Slice", name, *(self.constant(entry) for entry in (starts, ends, axes, steps)))

    def name_of(self, operand: ExportOperand) -> str:
        """The name of an operand; a view is written here, once."""
        if operand.root is operand:
            return operand.name
        key = (operand.root.name, operand.shape, operand.offset, operand.strides)
        if key not in self._views:
            self._views[key] = self._view(operand)
        return self._views[key]

    def _view(self, view: ExportOperand) -> str:
        root, shape, strides = view.root, view.shape, view.strides
        if view.offset == 0 and strides == contiguous_strides(shape) and view.spec.elements == root.spec.elements:
            return root.name if shape == root.shape else self.reshape(root.name, shape)
        if not view.spec.elements:
            flat = self.reshape(root.name, (root.spec.elements,))
            return self.reshape(self.slice(flat, [0], [0], (0,), [1]), shape)
        axes = [axis for axis in range(len(shape)) if shape[axis] != 1 and strides[axis] != 0]
        order = sorted(axes, key=lambda axis: -strides[axis])
        spans = [(shape[axis], strides[axis]) for axis in order]
        name = self._along_axes(root, spans, view.offset) or self._along_digits(root, spans, view.offset)
        if name is None:
            raise UsageError("save", got=f"a view {list(shape)} by {list(strides)} of {root.spec}", need="a part")
        if order:
            name = self.transpose(name, [order.index(axis) for axis in axes])
        inner = tuple(size if axis in axes else 1 for axis, size in enumerate(shape))
        if inner != tuple(shape[axis] for axis in axes):
            name = self.reshape(name, inner)
        return name if inner == shape else self.node("Expand", name, self.constant(shape))

    def _along_axes(self, root: ExportOperand, spans: Sequence[tuple[int, int]], offset: int) -> str | None:
        """A slice of axes of the root; None where an axis of the view is none of the root's."""
        pitch = contiguous_strides(root.shape)
        taken = {}
        for size, stride in spans:
            axis = next(
                (
                    a
                    for a, entry in enumerate(pitch)
                    if root.shape[a] > 1 and stride % max(entry, 1) == 0 and entry <= stride
                ),
                None,
            )
            if axis is None or axis in taken:
                return None
            taken[axis] = (size, stride // pitch[axis])
        starts, ends, steps, changed = [], [], [], []
        for axis, whole in enumerate(root.shape):
            start = offset // pitch[axis] % whole if pitch[axis] and whole else 0
            size, step = taken.get(axis, (1, 1))
            if start + (size - 1) * step >= max(whole, 1):
                return None
            if (start, size, step) != (0, whole, 1):
                changed.append(axis)
                starts.append(start)
                ends.append(END if start + size * step > whole - 1 + step - 1 and size > 1 else start + size * step)
                steps.append(step)
        name = self.slice(root.name, starts, ends, tuple(changed), steps) if changed else root.name
        kept = tuple(root.shape[axis] for axis in range(root.spec.rank)) if not changed else None
        sizes = tuple(taken[axis][0] for axis in sorted(taken))
        now = kept or tuple(taken.get(axis, (1, 1))[0] for axis in range(root.spec.rank))
        return name if sizes == now else self.reshape(name, sizes)

    def _along_digits(self, root: ExportOperand, spans: Sequence[tuple[int, int]], offset: int) -> str | None:
        """A slice of the root under a shape whose strides are those of the view; None where each does not divide."""
        pitches = [stride for _, stride in spans] + [1]
        above = [root.spec.elements, *pitches[:-1]]
        if any(entry % pitch for entry, pitch in zip(above, pitches, strict=True)):
            return None
        dims = tuple(entry // pitch for entry, pitch in zip(above, pitches, strict=True))
        starts = [offset // pitch % max(dim, 1) for pitch, dim in zip(pitches, dims, strict=True)]
        sizes = [size for size, _ in spans] + [1]
        if any(start + size > dim for start, size, dim in zip(starts, sizes, dims, strict=True)):
            return None
        changed = [axis for axis, size in enumerate(sizes) if size != dims[axis]]
        name = self.reshape(root.name, dims)
        if changed:
            ends = [END if starts[a] + sizes[a] == dims[a] else starts[a] + sizes[a] for a in changed]
            name = self.slice(name, [starts[a] for a in changed], ends, tuple(changed), [1] * len(changed))
        return self.reshape(name, tuple(sizes[:-1]))

    # ---- commands

    def apply(
        self,
        command: AnyCommand,
        inputs: Sequence[ExportOperand | None],
        wanted: Sequence[Sequence[TensorSymbol]] | None = None,
        specs: Sequence[TensorSpec] | None = None,
    ) -> tuple[ExportOperand, ...]:
        """The operands of what a command gives, written by the row of its operator."""
        outputs = tuple(
            specs or infer(command.op, command.attrs, tuple(None if entry is None else entry.spec for entry in inputs))
        )
        read = tuple(wanted or ((TensorSymbol(entry),) for entry in outputs))
        call = ExportCall(self, command, tuple(inputs), outputs, read)
        row = self.rows.get(command.op.name)
        try:
            if row is None or bodies_of(command):
                raise call.refuse("no row")
            if any(entry is not None and entry.spec.layout is not Layout.NHWC for entry in inputs):
                raise call.refuse("blocked or channels-first layout")
            made = row(call)
        except BackendError as error:
            reason = error.got if error.got != "no row" else ""
            self.missing.setdefault(f"{command.op.name}{f' ({reason})' if reason else ''}", []).append(self.label)
            made = tuple(f"?{place}" for place in range(len(outputs)))
        results = made if isinstance(made, tuple) else (made,)
        return tuple(
            entry if isinstance(entry, ExportOperand) else ExportOperand(self, spec, entry or "")
            for entry, spec in zip(results, outputs)
        )

    def run(
        self, graph: SymbolicGraph, values: Mapping[TensorKey, ExportOperand], results: Sequence[Symbol]
    ) -> list[str]:
        """Write the execs that the results need; `values` has the operands of what nobody writes, by key."""
        operands = dict(values)
        for key in needed(graph, results):
            record = graph.execs[key]
            self.label = record.name or record.command.op.name
            inputs = [None if entry is None else operand_at(graph, operands, entry) for entry in record.inputs]
            wanted = [_reads(graph, entry, results) for entry in record.outputs]
            specs = [graph.tensors[entry].spec for entry in record.outputs]
            if any(graph.tensors[entry].alias is not None for entry in record.outputs):
                self.missing.setdefault("writing into a part of a tensor", []).append(self.label)
            made = self.apply(record.command, inputs, wanted, specs)
            operands.update(zip(record.outputs, made))
        self.label = ""
        return [self.name_of(operand_at(graph, operands, result.key)) for result in results]


def _reads(graph: SymbolicGraph, key: TensorKey, results: Sequence[Symbol]) -> list[TensorSymbol]:
    """What is read of a tensor."""
    read = [entry for reader in graph.readers(key) for entry in graph.execs[reader].inputs if entry is not None]
    return [graph.tensors[entry] for entry in (*read, *(result.key for result in results)) if graph.root(entry) == key]


def operand_at(graph: SymbolicGraph, operands: Mapping[TensorKey, ExportOperand], key: TensorKey) -> ExportOperand:
    """The operand of a symbol, which may be a view."""
    record = graph.tensors[key]
    if record.alias is None:
        return operands[key]
    return operands[record.alias.root].alias(record.spec, record.alias.offset, record.alias.strides)


def needed(graph: SymbolicGraph, results: Sequence[Symbol]) -> list[ExecKey]:
    """The execs that results need, in order."""
    wanted, waiting = set[ExecKey](), [graph.root(result.key) for result in results]
    while waiting:
        for writer in graph.writers(waiting.pop()):
            if writer not in wanted:
                wanted.add(writer)
                waiting.extend(graph.roots(graph.execs[writer].inputs))
    return [key for key in graph.execs.toposort() if key in wanted]


def _node(
    op: str, inputs: Sequence[str], outputs: Sequence[str], label: str, attributes: Mapping[str, object]
) -> onnx.NodeProto:
    node = onnx.helper.make_node(op, inputs, outputs, label)
    node.attribute.extend(onnx.helper.make_attribute(name, value) for name, value in sorted(attributes.items()))
    return node


def number_of(dtype: DType) -> int:
    """ONNX's number of an element type."""
    return int(onnx.helper.np_dtype_to_tensor_dtype(dtype.numpy))
