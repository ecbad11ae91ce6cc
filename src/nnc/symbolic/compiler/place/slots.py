"""Slots: the memory that the values of a loop's body live in by turns, so that carried values never move.

    memory of slot moves[r] in iteration t + 1 = memory of slot r in iteration t

All iterations compute in the same slots. Behind each of them the slots change their memories, such that the memory of
a next value is that of the carried value's slot. A slot is shared by values of one size whose lives do not overlap, so
there are as many slots of a size as values of it are alive at once: the fewest that are possible. The cycles of
`moves` are what NNC unrolls a loop for.

A memory may be a block of the graph around: that of an initial value which nobody reads any more, or that of a result
which is found there when the number of iterations is known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field

from nnc.classes import dataclass
from nnc.concrete import CountBelow
from nnc.core.values.spec import TensorSpec
from nnc.core.values.storage import aligned
from nnc.symbolic.compiler.place.liveness import LiveRange, LiveRanges, OuterMemory, ends_at, live_range_of
from nnc.symbolic.control import CaseAttrs, WhileAttrs
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey

Slot = int


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """Bytes per slot, the slot of each root that has one, and whose memory becomes whose. Slot r begins in memory r.

    Each of the `memories` is a block; one that `stays` with its slot is needed from the first value in the slot to the
    last one of an iteration.

    `passed` are, by step of a `case..of` and by branch, the outputs that are an operand handed on: each changes memory
    with it when the branch is taken, so which memory is whose behind the loop depends on the run.
    """

    sizes: tuple[int, ...] = ()
    of: Mapping[TensorKey, Slot] = field(default_factory=dict)
    moves: tuple[Slot, ...] = ()
    memories: tuple[LiveRange, ...] = ()
    stays: tuple[bool, ...] = ()
    passed: Mapping[int, tuple[Mapping[TensorKey, TensorKey], ...]] = field(default_factory=dict)

    def holds(self, slot: Slot, spec: TensorSpec) -> bool:
        """Whether a tensor of this spec has room in a slot, and lies in memory of its kind."""
        return spec.nbytes <= self.sizes[slot] and str(spec.device) == self.memories[slot].memory

    def cycle(self, slot: Slot) -> tuple[Slot, ...]:
        """The slot, the one that gets its memory next, and so on."""
        visited = [slot]
        while self.moves[visited[-1]] != slot:
            visited.append(self.moves[visited[-1]])
        return tuple(visited)

    def memory(self, slot: Slot, turn: int) -> int:
        """The memory of a slot in an iteration."""
        cycle = self.cycle(slot)
        return cycle[-turn % len(cycle)]


def trips(attrs: WhileAttrs) -> int | None:
    """The number of whole iterations where it is known."""
    return attrs.limit if isinstance(attrs.test, CountBelow) else None


def computed_places(attrs: WhileAttrs) -> tuple[int, ...]:
    """Positions of carried values that an iteration computes, be it for a later one than the next."""
    body = attrs.body
    carried = body.parameters[: attrs.carried]
    computed = {place for place in range(attrs.carried) if body.results[place] not in body.parameters}
    while True:
        keys = {carried[place] for place in computed}
        grown = computed | {place for place in range(attrs.carried) if body.results[place] in keys}
        if grown == computed:
            return tuple(sorted(computed))
        computed = grown


def live_through(attrs: WhileAttrs, graph: SymbolicGraph, lives: LiveRanges, tested: int) -> None:
    """Lengthen the lives of what is read at the breakpoint behind `tested` steps, and of what joins another block."""
    end = lives.steps + 1
    body, sources = attrs.body, [attrs.body.results[place] for place in computed_places(attrs)]
    for place in computed_places(attrs):
        key = body.parameters[place]
        life = lives.of.setdefault(key, live_range_of(graph, key, 0, 0, outside=True))
        if key in sources or sources.count(body.results[place]) > 1:
            life.upper = end
    for key in (*attrs.asked(), *attrs.exits(), *(key for key in attrs.stacked() if key in body.parameters)):
        read = lives.of.get(graph.root(key))
        if read is not None and tested:
            read.upper = max(read.upper, tested + 1 if tested < lives.steps else end)


def join_equals(attrs: WhileAttrs, lives: LiveRanges) -> None:
    """Carried values with the same next value are one block from the second iteration on."""
    first: dict[TensorKey, TensorKey] = {}
    for place in computed_places(attrs):
        key = attrs.body.parameters[place]
        other = first.setdefault(attrs.body.results[place], key)
        if other != key:
            lives.of[other].roots.append(key)
            lives.of[key] = lives.of[other]


def permute_in_place(attrs: WhileAttrs, order: Sequence[ExecKey], lives: LiveRanges) -> None:
    """Carried values that each branch hands on, in an order of its own, go on in the blocks that they are in."""
    body = attrs.body
    carried = {
        id(lives.of[key]) for place in computed_places(attrs) for key in (body.results[place], body.parameters[place])
    }
    for step, key in enumerate(order):
        record = body.graph.execs[key]
        if not isinstance(record.command.attrs, CaseAttrs):
            continue
        ending = _ending_operands(record, step, lives)
        branches = [
            {
                output: operand
                for output, operand in handed.items()
                if operand in ending and output in lives.of and _continues(lives, operand, output, step, carried)
            }
            for handed in handed_operands(record)
        ]
        outputs = _permuted(branches)
        for output in outputs:
            lives.take_over(branches[-1][output], output)
        if outputs:
            lives.permuted[step] = outputs


def _continues(lives: LiveRanges, operand: TensorKey, output: TensorKey, step: int, carried: Collection[int]) -> bool:
    """May what begins here go on in a block of its size that ends here, and is one of them carried?"""
    old, new = lives.of[operand], lives.of[output]
    begins = new.lower == step and new.roots[0] == output and old is not new
    fits = aligned(old.nbytes) == aligned(new.nbytes) > 0 and old.memory == new.memory
    return begins and fits and (id(old) in carried or id(new) in carried)


def _permuted(branches: Sequence[Mapping[TensorKey, TensorKey]]) -> tuple[TensorKey, ...]:
    """The most outputs that are the same operands in each branch, each of them once."""
    permuted = sorted(set(branches[0]).intersection(*branches))
    while True:
        chosen = [[handed[output] for output in permuted] for handed in branches]
        common = set(chosen[0]).intersection(*chosen)
        kept = [
            output
            for place, output in enumerate(permuted)
            if all(taken[place] in common and taken.count(taken[place]) == 1 for taken in chosen)
        ]
        if kept == permuted:
            return tuple(permuted)
        permuted = kept


def handed_operands(record: ExecSymbol) -> tuple[dict[TensorKey, TensorKey], ...]:
    """By branch, the outputs of a `case..of` that are an operand."""
    attrs = record.command.attrs
    assert isinstance(attrs, CaseAttrs)
    operands = record.inputs[attrs.chosen :]
    handed: list[dict[TensorKey, TensorKey]] = []
    for _, body in attrs.bodies():
        given = dict(zip(body.parameters, operands, strict=True))
        pairs = ((output, given.get(result)) for output, result in zip(record.outputs, body.results, strict=True))
        handed.append({output: operand for output, operand in pairs if operand is not None})
    return tuple(handed)


def _ending_operands(record: ExecSymbol, step: int, lives: LiveRanges) -> set[TensorKey]:
    """Inputs whose blocks end with a step, and that it has once."""
    return {
        key
        for key in record.inputs
        if key in lives.of and record.inputs.count(key) == 1 and ends_at(lives.of[key], step)
    }


def runs_once(attrs: WhileAttrs, tested: int) -> bool:
    """Is there one iteration at most, with nothing in front of its test?"""
    turns = trips(attrs)
    return turns is not None and turns <= 1 and not tested


def assign_slots(
    attrs: WhileAttrs,
    order: Sequence[ExecKey],
    lives: LiveRanges,
    lent: Collection[TensorKey] = (),
    *,
    once: bool = False,
    shared: bool = True,
) -> Slots:
    """Slots for carried values and what takes turns with them; `shared` with all others that find one free.

    These are all blocks as large as a carried one, for which there is a new slot where none is free, and smaller ones
    but for those that are `lent`. A loop that runs `once` needs each memory as long as its own slot does.
    """
    pairs = [
        (lives.of[attrs.body.results[place]], lives.of[attrs.body.parameters[place]])
        for place in computed_places(attrs)
    ]
    # Nothing moves in a loop that runs once, so that each value may have its own place among all others.
    work = _SlotAssignment(apart=once and not shared)
    work.fill(_placed(lives, pairs, shared), pairs, lent)
    moves = _permutation(work.kinds(), [(work.slot_of[id(a)], work.slot_of[id(b)]) for a, b in pairs if a.nbytes])
    slots = {root: work.slot_of[id(life)] for root, life in lives.of.items() if id(life) in work.slot_of}
    passed = _passed(attrs.body.graph, order, lives, slots, work.kinds())
    stays = tuple((once or moves[slot] == slot) and not passed for slot in range(len(moves)))
    return Slots(tuple(work.sizes), slots, moves, work.memories(lives.steps + 1), stays, passed)


def _placed(lives: LiveRanges, pairs: Sequence[tuple[LiveRange, LiveRange]], shared: bool) -> list[LiveRange]:
    """The lives that get slots, in the order of their beginnings: carried ones alone, unless slots are `shared`."""
    carried = {id(life) for pair in pairs for life in pair}
    distinct = {id(life): life for life in lives.of.values() if life.nbytes and (shared or id(life) in carried)}
    return sorted(distinct.values(), key=lambda life: (life.lower, -life.upper, life.roots[0]))


def _passed(
    graph: SymbolicGraph,
    order: Sequence[ExecKey],
    lives: LiveRanges,
    slots: Mapping[TensorKey, Slot],
    sizes: Sequence[tuple[int, str]],
) -> dict[int, tuple[Mapping[TensorKey, TensorKey], ...]]:
    """Operands of branches that end there, and go on as outputs which begin there."""
    passed: dict[int, tuple[Mapping[TensorKey, TensorKey], ...]] = {}
    for step, key in enumerate(order):
        record = graph.execs[key]
        if not isinstance(record.command.attrs, CaseAttrs):
            continue
        permuted, ending = lives.permuted.get(step, ()), _ending_operands(record, step, lives) & slots.keys()
        branches: list[Mapping[TensorKey, TensorKey]] = []
        for candidates in handed_operands(record):
            handed = {output: candidates[output] for output in permuted}
            for output, operand in candidates.items():
                if operand not in ending or operand in handed.values() or output not in slots:
                    continue
                begins = lives.of[output].lower == step and lives.of[output] is not lives.of[operand]
                if begins and sizes[slots[operand]] == sizes[slots[output]]:
                    handed[output] = operand
            branches.append(handed)
        if any(branches):
            passed[step] = tuple(branches)
    return passed


@dataclass(slots=True)
class _SlotAssignment:
    """The slots so far, with the lives of those who are in them; `apart`, each is alone in one."""

    apart: bool = False
    sizes: list[int] = field(default_factory=list)
    inside: list[list[LiveRange]] = field(default_factory=list)
    slot_of: dict[int, Slot] = field(default_factory=dict)

    def fill(
        self, placed: Sequence[LiveRange], pairs: Sequence[tuple[LiveRange, LiveRange]], lent: Collection[TensorKey]
    ) -> None:
        """Lives of the sizes of carried ones, each in front of what it is next; then smaller ones where there is room.

        `pairs` are the next value of what is carried and the value, which are best in one slot.
        """
        sizes = {aligned(life.nbytes) for pair in pairs for life in pair} - {0}
        next_to = {id(source): target for source, target in pairs}
        for life in placed:
            if aligned(life.nbytes) in sizes:
                target = next_to.get(id(life))
                self.put(life, None if target is None else self.slot_of.get(id(target)))
        for life in sorted(placed, key=lambda life: -life.nbytes):
            if aligned(life.nbytes) not in sizes and not any(root in lent for root in life.roots):
                self.squeeze(life)

    def kinds(self) -> list[tuple[int, str]]:
        """Bytes and kind of memory of each slot."""
        return [(size, inside[0].memory) for inside, size in zip(self.inside, self.sizes, strict=True)]

    def memories(self, end: int) -> tuple[LiveRange, ...]:
        """Each slot as a block that lives through the whole iteration."""
        return tuple(
            LiveRange(inside[0].roots[:1], 0, end, size, memory=inside[0].memory)
            for inside, size in zip(self.inside, self.sizes, strict=True)
        )

    def put(self, life: LiveRange, preferred: Slot | None) -> None:
        """Into the preferred slot if it is free, else into the first free one of the size, else into a new one."""
        size = aligned(life.nbytes)
        order = range(len(self.sizes)) if preferred is None else (preferred, *range(len(self.sizes)))
        free = (slot for slot in order if not self.apart and self.sizes[slot] == size and self._is_free(slot, life))
        slot = next(free, None)
        if slot is None:
            slot = len(self.sizes)
            self.sizes.append(size)
            self.inside.append([])
        self._enter(slot, life)

    def squeeze(self, life: LiveRange) -> None:
        """Into the smallest slot that is large enough and free."""
        possible = [slot for slot, size in enumerate(self.sizes) if size >= life.nbytes and self._is_free(slot, life)]
        if possible:
            self._enter(min(possible, key=lambda slot: self.sizes[slot]), life)

    def _is_free(self, slot: Slot, life: LiveRange) -> bool:
        """Carried values are there at the same time in front of an iteration, even those that it does not read.

        A slot is of one kind of memory.
        """
        return not any(
            life.memory != other.memory
            or (life.outside and other.outside)
            or (other.lower < life.upper and life.lower < other.upper)
            for other in self.inside[slot]
        )

    def _enter(self, slot: Slot, life: LiveRange) -> None:
        self.inside[slot].append(life)
        self.slot_of[id(life)] = slot


def _permutation(sizes: Sequence[tuple[int, str]], pairs: Iterable[tuple[Slot, Slot]]) -> tuple[Slot, ...]:
    """Source → target for each pair; the others stay where they can, or take what is left of their size and kind."""
    moves = dict(pairs)
    taken = set(moves.values())
    assert len(taken) == len(moves)
    for slot in range(len(sizes)):
        if slot not in moves and slot not in taken:
            moves[slot] = slot
            taken.add(slot)
    for slot, size in enumerate(sizes):
        if slot not in moves:
            moves[slot] = next(other for other in range(len(sizes)) if other not in taken and sizes[other] == size)
            taken.add(moves[slot])
    return tuple(moves[slot] for slot in range(len(sizes)))


# ---- memories that the graph around gives


def use_outer_memory(
    record: ExecSymbol,
    step: int,
    slots: Slots,
    lives: LiveRanges,
    is_over: Callable[[TensorKey], bool],
    may_join: Callable[[LiveRange, LiveRange], bool],
    lent: Collection[int] = (),
) -> OuterMemory:
    """Which blocks around a loop its slots may begin in, and which results are where they are wanted when it ends.

    `is_over` tells whether a root's block may be written from `step` on, as far as others are concerned, and a result
    is in the block of an initial value where these `may_join`.
    The blocks of the operands `lent` are those of the slots that they are in.
    """
    attrs = record.command.attrs
    assert isinstance(attrs, WhileAttrs)
    inputs = [key for key in record.inputs if key is not None]
    blocks = [id(lives.of[key]) for key in inputs if key in lives.of]
    free = [
        (place, key)
        for place, key in enumerate(inputs[: attrs.carried])
        if key in lives.of and blocks.count(id(lives.of[key])) == 1 and is_over(key)
    ]
    work = _OuterBlocks(attrs, slots, lives, dict(free), may_join)
    for place in lent:
        slot, source = slots.of.get(attrs.body.parameters[place]), record.inputs[place]
        if slot is not None and source is not None:
            work.roots[slot] = source
    for place, key in free:
        slot = slots.of.get(attrs.body.parameters[place])
        if slot is not None and slot not in work.roots and fits_slot(lives.of[key], slots, slot):
            work.roots[slot] = key
    turns = None if slots.passed else trips(attrs)
    for output, kept in zip(record.outputs[1:], attrs.kept, strict=True):
        if turns is not None and not kept.rows:
            work.place(output, step, kept.symbol, turns)
    for slot, root in work.roots.items():
        # Others in the slot may be larger by what alignment leaves free.
        lives.of[root].nbytes = slots.sizes[slot]
    return OuterMemory(work.roots, work.placed)


@dataclass(slots=True, eq=False)
class _OuterBlocks:
    """The blocks around a loop: initial values that may be overwritten, by place; what gives memory, by memory; and
    the roots in whose blocks results are found.
    """

    attrs: WhileAttrs
    slots: Slots
    lives: LiveRanges
    free: Mapping[int, TensorKey]
    may_join: Callable[[LiveRange, LiveRange], bool]
    roots: dict[int, TensorKey] = field(default_factory=dict)
    placed: dict[TensorKey, TensorKey] = field(default_factory=dict)

    def place(self, output: TensorKey, step: int, symbol: TensorKey, turns: int) -> None:
        """Let `output` be where `symbol` is after so many turns, if it can."""
        life, parameters = self.lives.of.get(output), self.attrs.body.parameters
        if life is None or life.lower != step or life.roots[0] != output:
            return
        slot, left = self.slots.of.get(symbol), turns
        while symbol in parameters[: self.attrs.carried] and left:
            symbol = self.attrs.body.results[parameters.index(symbol)]
            left -= 1
        if symbol in parameters:
            if parameters.index(symbol) in self.free:
                self._take_over(self.free[parameters.index(symbol)], output)
        elif slot is not None and fits_slot(life, self.slots, slot):
            memory = self.slots.memory(slot, turns)
            if memory in self.roots:
                self._take_over(self.roots[memory], output)
            else:
                self.roots[memory] = self.placed[output] = output

    def _take_over(self, root: TensorKey, output: TensorKey) -> None:
        """Let the block of `root` be that of a result, unless another one has it or the two may not be one."""
        if root in self.placed.values() or not self.may_join(self.lives.of[root], self.lives.of[output]):
            return
        self.placed[output] = root
        self.lives.take_over(root, output)


def fits_slot(life: LiveRange, slots: Slots, slot: Slot) -> bool:
    """Whether a block is as large as a slot, in memory of its kind."""
    return aligned(life.nbytes) == slots.sizes[slot] and life.memory == slots.memories[slot].memory
