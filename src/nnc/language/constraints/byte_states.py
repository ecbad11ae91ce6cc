"""What may follow some bytes of a grammar: a state is a set of stacks of places in rules, made when it is reached.

A place is what is left of a sequence of symbols; below it lies where its rule was left. Stacks of a state have a set
of bytes on top, or are empty: then the text may end. States are numbered, and what follows them is kept, so that the
same place in many texts is computed once.
"""

from __future__ import annotations

from collections.abc import Iterable

from nnc.errors import DataError
from nnc.language.constraints.grammar_rules import Grammar, Symbols

# Stacks by number: 0 is the empty one.
EMPTY = 0
DEAD = -1
MOST_STACKS, MOST_STATES = 20_000, 200_000


class ByteStates:
    """States of a grammar; `start` is the first, `after` what a class of bytes leads to."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self.classes, self._members = _classes(grammar)
        # What is left of a sequence, and the stack below it.
        self._stacks: list[tuple[Symbols, int]] = [((), EMPTY)]
        self._numbers: dict[tuple[Symbols, int], int] = {}
        self._states: list[tuple[int, ...]] = []
        self._known: dict[tuple[int, ...], int] = {}
        self._after: dict[tuple[int, int], int] = {}
        self.start = self._state([self._stack(grammar.start, EMPTY)])

    def ends(self, state: int) -> bool:
        """Whether a text may end there."""
        return EMPTY in self._states[state]

    def after(self, state: int, kind: int) -> int:
        """The state behind a byte of this class; DEAD where there is none."""
        key = (state, kind)
        if key not in self._after:
            self._after[key] = self._step(state, kind)
        return self._after[key]

    def _step(self, state: int, kind: int) -> int:
        following = []
        for stack in self._states[state]:
            symbols, below = self._stacks[stack]
            if symbols and kind in self._members[~symbols[0]]:
                following.append(self._stack(symbols[1:], below))
        return self._state(following) if following else DEAD

    def _stack(self, symbols: Symbols, below: int) -> int:
        """The number of a stack; a sequence that is read to its end is left at once."""
        if not symbols:
            return below
        key = (symbols, below)
        if key not in self._numbers:
            self._numbers[key] = len(self._stacks)
            self._stacks.append(key)
        return self._numbers[key]

    def _state(self, stacks: Iterable[int]) -> int:
        """The state of these stacks, rules on top of them opened."""
        waiting, met, opened = list(stacks), set[int](), set[int]()
        while waiting:
            stack = waiting.pop()
            if stack in met:
                continue
            met.add(stack)
            symbols, below = self._stacks[stack]
            if not symbols or symbols[0] < 0:
                opened.add(stack)
                continue
            rest = self._stack(symbols[1:], below)
            waiting.extend(self._stack(choice, rest) for choice in self._grammar.rules[symbols[0]])
            if len(met) > MOST_STACKS:
                raise DataError("grammar", got="too many ways to read a text", need="a grammar with fewer of them")
        key = tuple(sorted(opened))
        if key not in self._known:
            if len(self._states) >= MOST_STATES:
                raise DataError("grammar", got=f"more than {MOST_STATES:,} states", need="a smaller grammar")
            self._known[key] = len(self._states)
            self._states.append(key)
        return self._known[key]


def _classes(grammar: Grammar) -> tuple[bytes, list[frozenset[int]]]:
    """The class of each byte, bytes of one class being in the same sets; and the classes in each set."""
    kinds: dict[tuple[int, ...], int] = {}
    table = bytearray(256)
    members: list[set[int]] = [set() for _ in grammar.sets]
    for byte in range(256):
        held = tuple(number for number, bits in enumerate(grammar.sets) if bits >> byte & 1)
        table[byte] = kinds.setdefault(held, len(kinds))
        for number in held:
            members[number].add(table[byte])
    return bytes(table), [frozenset(each) for each in members]
