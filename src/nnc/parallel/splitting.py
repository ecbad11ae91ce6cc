"""Tensor parallelism: the graph of a network becomes that of one rank, which has blocks of weights and of values.

A value is whole on all ranks, or split along an axis. Rules (`splitting_rules`) say what operators make of split
values; where none does, the value is joined again, so that results are those of one rank whatever the network. Weights
that are split along the columns of a product give a value that is split, those along its rows take one (Shoeybi et al.
2019): a pair of them costs one sum over ranks, and one in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from math import prod
from typing import Any, TypeAlias

from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.spec import Shape, TensorSpec, contiguous_strides
from nnc.errors import ShapeError, UsageError
from nnc.graph import Op
from nnc.ops.elementwise.pointwise import where
from nnc.ops.movement.broadcast import BROADCAST_TO, BroadcastAttrs, broadcast_to, reshape
from nnc.ops.movement.fill import FILL, scalar_like
from nnc.parallel.block_operators import (
    ENTER,
    INSIDE_BLOCK,
    JOIN_BLOCKS,
    LABEL_LOSS,
    OWN_BLOCK,
    BlockPlace,
    RankBlockAttrs,
    SplitRequest,
)
from nnc.parallel.collectives import GroupAttrs
from nnc.parallel.mesh import RankGroup
from nnc.parallel.tensor_shards import in_parts
from nnc.symbolic import Symbol, SymbolicGraph
from nnc.symbolic.records import AliasOf, ExecKey, ExecSymbol, TensorKey
from nnc.symbolic.rewrite import redirect
from nnc.symbolic.scopes import scoped

# A product that stands alone costs joining its result: it is split where its weight takes much memory (4 MB in f32).
ALONE_ELEMENTS = 1 << 20
# A smaller weight whose result is so many times as large as its factor costs less where the factor is joined.
WIDE = 64

NOBODY = frozenset[str]()


@dataclass(frozen=True, slots=True, eq=False)
class SplitValue:
    """Our block of a value along an axis, and the columns of which weights it comes from.

    The axis may have several equal `parts`, of each of which we have our block (`BlockPlace`).
    """

    symbol: Symbol
    axis: int
    causes: frozenset[str] = NOBODY
    parts: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """A parameter in a graph: its path, what its layer asked for, and our block of it where that is decided."""

    path: str
    request: SplitRequest = ""
    block: SplitValue | None = None


# Writes a whole value into the symbol that it had before.
WriteWhole: TypeAlias = Callable[[Symbol], object]
Made: TypeAlias = "Sequence[SplitValue | WriteWhole]"
Rule: TypeAlias = "Callable[[GraphSplitter, ExecSymbol], Made | None]"


@dataclass(slots=True, eq=False)
class GraphSplitter:
    """The pass over one graph, whose `weights` are by their keys; columns of the `denied` are not split.

    While it decides, weights get their place at their first use; `blamed` are those whose results had to be joined, and
    `hints` say of some that their columns are read in so many equal parts: then they are split so, which is tried once.
    """

    graph: SymbolicGraph
    group: RankGroup
    rule_of: Callable[[Op[Any]], Rule | None]
    weights: dict[TensorKey, Weight]
    denied: frozenset[str] = NOBODY
    deciding: bool = False
    blamed: set[str] = field(default_factory=set)
    hints: Mapping[str, int] = field(default_factory=dict)
    # Weights whose columns are more than their rows and worth a trip: split so although their rows could be, but for
    # those that are `narrow`, whose result was joined then.
    narrow: frozenset[str] = NOBODY
    widened: set[str] = field(default_factory=set)
    hinted: dict[str, int] = field(default_factory=dict)
    places: dict[str, BlockPlace] = field(default_factory=dict)
    local: dict[TensorKey, SplitValue] = field(default_factory=dict)
    # Inputs that may be split as what is written into them is.
    caches: frozenset[TensorKey] = frozenset()
    _joined: set[TensorKey] = field(default_factory=set)
    _entered: dict[TensorKey, Symbol] = field(default_factory=dict)

    def run(self, results: Sequence[Symbol], kept: Iterable[Symbol] = ()) -> None:
        """Split what can be; results are whole, and what is written to caches (`kept`) is needed too."""
        self.local |= {key: weight.block for key, weight in self.weights.items() if weight.block is not None}
        needed = set(self.graph.needed_for([symbol.key for symbol in (*results, *kept)]))
        unread = set[TensorKey]()
        for number in self.graph.execs.toposort():
            record = self.graph.execs[number]
            keys = [key for key in record.inputs if key is not None]
            if not any(self._has_part(key) or self.graph.root(key) in unread for key in keys):
                continue
            if number in needed:
                self._split(number, record, keys)
            else:
                # Nothing is joined for what nobody reads, such as weights of attention beside its result.
                self.graph.remove_exec(number)
                unread.update(record.outputs)
        for symbol in results:
            self.join(symbol.key, is_worth=True)

    def _split(self, number: ExecKey, record: ExecSymbol, keys: Sequence[TensorKey]) -> None:
        rule = self.rule_of(record.command.op)
        made = None if rule is None else rule(self, record)
        if made is None:
            for each in keys:
                self.join(each)
            return
        self.graph.remove_exec(number)
        for out, result in zip(record.outputs, made, strict=True):
            if isinstance(result, SplitValue):
                self.local[out] = result
            else:
                result(self.graph.symbol(out))

    # ---- what a value is

    def spec(self, key: TensorKey) -> TensorSpec:
        """Of the whole value."""
        return self.graph.tensors[key].spec

    def split_of(self, key: TensorKey, *, parts: bool = False) -> SplitValue | None:
        """Our block of a value that is split, be it in several `parts` where that is asked for.

        Views of such values are split where they keep blocks together.
        """
        split = self._view_of(key)
        return split if split is None or parts or split.parts == 1 else None

    def _has_part(self, key: TensorKey) -> bool:
        return self._view_of(key) is not None or self.free(self.graph.root(key)) is not None

    def _view_of(self, key: TensorKey) -> SplitValue | None:
        if key in self.local or self.graph.root(key) not in self.local or key in self._joined:
            return self.local.get(key)
        record = self.graph.tensors[key]
        assert record.alias is not None
        of, whole = self.local[record.alias.root], self.spec(record.alias.root).shape
        inside, own = of.axis + (of.parts > 1), in_parts(whole, of.axis, of.parts) if of.parts > 1 else whole
        placed, parts = viewed(own, inside, self.group.size, record.spec.shape, record.alias), 1
        if placed is None and of.parts > 1:
            placed, parts = viewed(whole, of.axis, self.group.size, record.spec.shape, record.alias), of.parts
            placed = None if placed is None or record.spec.shape[placed[0]] != whole[of.axis] else placed
        if placed is None:
            parts = parts_of(whole, of.axis, record.spec.shape, record.alias)
            self.hinted.update(dict.fromkeys(of.causes if parts > 1 else (), parts))
            self.join(key)
            self._joined.add(key)
            return None
        axis, shape, offset, strides = placed
        alias = self.graph.alias(of.symbol.key, replace(record.spec, shape=shape), offset, strides)
        self.local[key] = SplitValue(alias, axis, of.causes, parts)
        return self.local[key]

    def free(self, key: TensorKey | None) -> Weight | None:
        """The weight whose axis is not decided."""
        if key is None or not self.deciding or key in self.local:
            return None
        weight = self.weights.get(key)
        return weight if weight is not None and weight.request != "whole" else None

    def block_spec(self, spec: TensorSpec, axis: int) -> TensorSpec:
        """Our block of such a tensor along an axis."""
        return BlockPlace(self.group, axis).block(spec)

    def divides(self, key: TensorKey, axis: int, parts: int = 1) -> bool:
        """Whether ranks can have equal blocks, of each of so many parts."""
        size = self.spec(key).shape[axis]
        return bool(size) and size % (self.group.size * parts) == 0

    def part_of(self, key: TensorKey, axis: int) -> tuple[TensorKey, int]:
        """The weight that this is one of so many equal parts of, along an axis; itself where it is all of it."""
        root, shape = self.graph.root(key), self.spec(key).shape
        whole, alias = self.spec(root).shape, self.graph.tensors[key].alias
        if alias is None or alias.strides != contiguous_strides(whole) or len(shape) != len(whole):
            return key, 1
        step = shape[axis] * alias.strides[axis]
        same = (*whole[:axis], shape[axis], *whole[axis + 1 :]) == shape
        if not same or not step or whole[axis] % shape[axis] or alias.offset % step:
            return key, 1
        return root, whole[axis] // shape[axis]

    # ---- from one state to the other

    def decide(self, key: TensorKey, axis: int, *, causes: bool = False, uneven: bool = False, parts: int = 1) -> bool:
        """Split a weight from now on, if its size allows; ShapeError where its layer asked for it."""
        weight, size = self.weights[key], self.spec(key).shape[axis]
        if not (self.divides(key, axis, parts) or (uneven and parts == 1)):
            if weight.request:
                got = f"{weight.path}{list(self.spec(key).shape)}, whose axis {axis} has {size}"
                each = f", in each of {parts} parts" if parts > 1 else ""
                need = f"a multiple of {self.group.size} ranks (tensor){each}"
                fix = "another size, or nn.Replicated(layer)"
                raise ShapeError(f"{weight.request} parallel", got=got, need=need, fix=fix)
            return False
        place = BlockPlace(self.group, axis, parts)
        block = self.graph.input(place.block(self.spec(key)), weight.path)
        self.local[key] = SplitValue(block, axis, frozenset({weight.path}) if causes else NOBODY, parts)
        self.places[weight.path] = place
        return True

    def within(self, split: SplitValue, size: int, filling: float) -> Symbol:
        """Our block of an axis of `size`; what fills up the last one has this value, and no gradient."""
        x, axis = split.symbol, split.axis
        if size % self.group.size == 0:
            return x
        (inside,) = self.graph.apply(Command(INSIDE_BLOCK, RankBlockAttrs(self.group, axis, size)), [])
        mask = broadcast_to(reshape(inside, (*inside.shape, *(1,) * (x.spec.rank - 1 - axis))), x.shape)
        return where(mask, x, scalar_like(x, filling))

    def take(self, key: TensorKey, axis: int, *, uneven: bool = False, parts: int = 1) -> SplitValue | None:
        """Our block of a value along this axis: it is split so, or cut; None where the size does not allow it.

        An `uneven` one may be filled up behind its end; a weight is cut then, for its gradient there is anything.
        """
        root, pieces = self.part_of(key, axis)
        if self.free(root) and self.divides(root, axis, pieces * parts):
            self.decide(root, axis, parts=pieces * parts)
        split = self.split_of(key, parts=True)
        if split is not None and (split.axis, split.parts) == (axis, parts):
            return split
        if not (self.divides(key, axis, parts) or (uneven and parts == 1)):
            return None
        self.join(key)
        return SplitValue(self._cut(key, axis, parts), axis, parts=parts)

    def adopt(self, key: TensorKey, axis: int) -> SplitValue | None:
        """Our block of a cache, which is split from now on; None where it cannot be."""
        if key in self.caches and key not in self.local and self.divides(key, axis):
            name = self.graph.tensors[key].name
            self.local[key] = SplitValue(self.graph.input(self.block_spec(self.spec(key), axis), name), axis)
        split = self.local.get(key)
        return split if split is not None and split.axis == axis else None

    def _cut(self, key: TensorKey, axis: int, parts: int) -> Symbol:
        """Our block of a whole value; what is only spread or filled is made as small as that at once."""
        size = self.spec(key).shape[axis]
        writers = self.graph.writers(key) if self.graph.root(key) == key else ()
        record = self.graph.execs[writers[0]] if len(writers) == 1 else None
        if record is not None and record.command.op is FILL:
            attrs = replace(record.command.attrs, spec=self.block_spec(self.spec(key), axis))
            return self.made(replace(record.command, attrs=attrs), [], record)[0]
        if record is not None and record.command.op is BROADCAST_TO and record.inputs[0] is not None:
            source = record.inputs[0]
            place = axis - (self.spec(key).rank - self.spec(source).rank)
            block = None
            if place < 0 or self.spec(source).shape[place] == 1:
                block = self.enter(source)
            elif (split := self.take(source, place, parts=parts)) is not None:
                block = split.symbol
            if block is not None:
                shape = self.block_spec(self.spec(key), axis).shape
                return self.made(Command(BROADCAST_TO, BroadcastAttrs(shape)), [block], record)[0]
        attrs = RankBlockAttrs(self.group, axis, size, parts)
        return self.graph.apply(Command(OWN_BLOCK, attrs), [self.graph.symbol(key)])[0]

    def enter(self, key: TensorKey) -> Symbol:
        """A whole value in front of what each rank computes in part."""
        self.join(key)
        if not self.spec(key).dtype.is_float:
            return self.graph.symbol(key)
        if key not in self._entered:
            (self._entered[key],) = self.graph.apply(Command(ENTER, GroupAttrs(self.group)), [self.graph.symbol(key)])
        return self._entered[key]

    def join(self, key: TensorKey, *, is_worth: bool = False) -> None:
        """See to it that the whole value is there, which `is_worth` a trip where the weights that it comes from are."""
        root = self.graph.root(key)
        split = self.local.get(root)
        if split is None or root in self._joined or self.graph.writers(root):
            return
        self._joined.add(root)
        if not (is_worth and self.pays(split)):
            self.blamed.update(split.causes)
        attrs = RankBlockAttrs(self.group, split.axis, self.spec(root).shape[split.axis], split.parts)
        self.write(Command(JOIN_BLOCKS, attrs), [split.symbol], self.graph.symbol(root), "")

    def widens(self, root: TensorKey, columns: int, rows: int) -> bool:
        """Whether the columns of a weight are split where its rows could be: it has more, and logits stay apart.

        That is a trip for the factor instead of one for the product. Small weights with many more, such as those of
        adapters, are added to what is split.
        """
        weight, shape = self.free(root), self.spec(root).shape
        if weight is None or weight.request or weight.path in self.denied | self.narrow:
            return False
        least = 1 if self.pays_alone(root) else WIDE
        if shape[columns] <= least * shape[rows]:
            return False
        self.widened.add(weight.path)
        return True

    def pays(self, split: SplitValue) -> bool:
        """Whether a trip for a value is no more than one of the weights it comes from is worth."""
        return any(weight.path in split.causes and self.pays_alone(key) for key, weight in self.weights.items())

    def pays_alone(self, key: TensorKey) -> bool:
        """Whether a weight is split although that costs a trip of its own."""
        return bool(self.weights[key].request) or self.spec(key).elements >= ALONE_ELEMENTS

    def write(self, command: AnyCommand, inputs: Sequence[Symbol], y: Symbol, name: str) -> None:
        """Let an operator write a value whose readers are there."""
        keys = tuple([symbol.key for symbol in inputs])
        origin = self.graph.tensors[y.key].origin
        self.graph.add_exec(ExecSymbol(command, keys, (y.key,), name or scoped("", command.op.name), origin))

    def made(self, command: AnyCommand, inputs: Sequence[Symbol | None], record: ExecSymbol) -> tuple[Symbol, ...]:
        """What an operator gives in the place of `record`."""
        return self.graph.apply(command, inputs, name=record.name)


def viewed(whole: Shape, axis: int, ranks: int, shape: Shape, alias: AliasOf) -> tuple[int, Shape, int, Shape] | None:
    """A view of a tensor that is split along an axis: its own axis, and shape, offset and strides in our block.

    None where it does not keep the elements of each block together.

    >>> viewed((2, 5, 16), 2, 2, (2, 5, 4, 4), AliasOf(TensorKey(0), 0, (80, 16, 4, 1)))
    (2, (2, 5, 2, 4), 0, (40, 8, 4, 1))
    >>> viewed((2, 5, 16), 2, 2, (2, 5, 8), AliasOf(TensorKey(0), 0, (80, 16, 1)))
    """
    span, strides = prod(whole[axis:]), alias.strides
    if whole[axis] % ranks or not span or min(strides, default=0) < 0:
        return None
    pairs = list(zip(shape, strides, strict=True))
    place = next((at for at, (size, stride) in enumerate(pairs) if size % ranks == 0 and size * stride == span), None)
    if place is None:
        return None
    outer, rest = divmod(alias.offset, span)
    inner = rest + sum((size - 1) * stride for at, (size, stride) in enumerate(pairs) if at != place and stride < span)
    if inner >= strides[place] or any(stride >= span and stride % span for size, stride in pairs if size > 1):
        return None
    own = tuple(stride // ranks if stride >= span else stride for stride in strides)
    local = tuple(size // ranks if at == place else size for at, size in enumerate(shape))
    return place, local, outer * (span // ranks) + rest, own


def parts_of(whole: Shape, axis: int, shape: Shape, alias: AliasOf) -> int:
    """In how many equal parts a view reads an axis: one of them, or with an axis for them; 1 for neither.

    >>> parts_of((2, 5, 24), 2, (2, 5, 8), AliasOf(TensorKey(0), 16, (120, 24, 1)))
    3
    >>> parts_of((2, 5, 24), 2, (2, 5, 3, 2, 4), AliasOf(TensorKey(0), 0, (120, 24, 8, 4, 1)))
    3
    """
    span, pairs = prod(whole[axis:]), zip(shape, alias.strides, strict=True)
    inner = [(size, stride) for size, stride in pairs if stride < span and size > 1]
    cover = prod(size for size, _ in inner)
    if not inner or span % cover or alias.offset % cover:
        return 1
    first, stride = max(inner, key=lambda pair: pair[1])
    parts = span // cover if cover < span else first if first * stride == span else 1
    return parts if whole[axis] % parts == 0 else 1


def choose_places(
    build: Callable[[], tuple[SymbolicGraph, dict[TensorKey, Weight], Sequence[Symbol]]],
    group: RankGroup,
    rule_of: Callable[[Op[Any]], Rule | None],
) -> dict[str, BlockPlace]:
    """Along which axis each weight is split, by path: products in pairs, and what its layer asked for.

    Columns whose result would have to be joined are split in the parts in which they are read, and where that does not
    help they are left whole, one round after the other. UsageError where nothing can be split, or not what a layer
    asked for.
    """
    denied, hints = NOBODY, dict[str, int]()
    narrow, widened = NOBODY, set[str]()
    while True:
        graph, weights, results = build()
        splitter = GraphSplitter(graph, group, rule_of, weights, denied, deciding=True, hints=hints, narrow=narrow)
        splitter.run(results)
        asked = {weight.path for weight in weights.values() if weight.request in ("column", "row")}
        fresh = {path: parts for path, parts in splitter.hinted.items() if path not in hints | dict.fromkeys(denied)}
        wrong = splitter.blamed - asked - denied - fresh.keys()
        if not (wrong or fresh):
            break
        widened |= splitter.widened
        if wrong & widened - narrow:
            narrow, denied, hints = narrow | (wrong & widened), NOBODY, {}
            continue
        denied |= wrong
        hints |= fresh
    owners = {path.rpartition(".")[0] for path in splitter.places}
    left = sorted(path for path in asked if path.rpartition(".")[0] not in owners)
    if left:
        need = "a layer of a product or of a table, whose weights are its own"
        raise UsageError("parallel layers", got=f"{left[0]}, which no product reads", need=need)
    if not splitter.places:
        need = f"sizes of products or heads that {group.size} divides, or a large table"
        raise UsageError("Model", got=f"no product that {group.size} ranks can split", need=need, fix="Mesh(data=…)")
    return splitter.places


def leave_out_entries(graph: SymbolicGraph) -> None:
    """`enter` and `label_loss` compute nothing: once there are gradients their readers read what they read."""
    for record in [record for _, record in graph.execs.items() if record.command.op in (ENTER, LABEL_LOSS)]:
        assert record.inputs[0] is not None
        redirect(graph, record.outputs[0], record.inputs[0])
