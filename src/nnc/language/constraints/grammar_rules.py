"""Rules over bytes: each is a choice of sequences of symbols, bytes of a set or other rules.

Characters are their UTF-8 bytes, so that tokens which hold a part of one are nothing special.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from nnc.classes import dataclass
from nnc.errors import FormatError

# A symbol is the number of a rule, or ~ the number of a set of bytes; a sequence of them is read from left to right.
Symbols: TypeAlias = tuple[int, ...]
# Characters from the first to the last.
Span: TypeAlias = tuple[int, int]
MOST_RULES, MOST_REPEATS = 100_000, 4096
LAST_CHARACTER = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)
# The last characters of 1, 2, 3 and 4 bytes.
_LENGTHS = (0x7F, 0x7FF, 0xFFFF, LAST_CHARACTER)


@dataclass(frozen=True, slots=True, eq=False)
class Grammar:
    """`rules[r]`: the sequences that it may be; `sets[s]`: bytes as bits of an integer. What is said is `start`."""

    rules: tuple[tuple[Symbols, ...], ...]
    sets: tuple[int, ...]
    start: Symbols


class GrammarBuilder:
    """Sequences of symbols made of smaller ones; `grammar` is what is built."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._rules: list[tuple[Symbols, ...]] = []
        self._sets: dict[int, int] = {}
        self._characters: dict[tuple[Span, ...], Symbols] = {}

    def refused(self, got: str, need: str) -> FormatError:
        """What is said of a grammar that cannot be."""
        return FormatError(self.place, got=got[:200], need=need)

    def declared(self) -> int:
        """A rule whose sequences come later."""
        if len(self._rules) >= MOST_RULES:
            raise self.refused(f"more than {MOST_RULES:,} rules", "a smaller grammar")
        self._rules.append(())
        return len(self._rules) - 1

    def define(self, rule: int, choices: Iterable[Symbols]) -> None:
        """What a declared rule may be."""
        self._rules[rule] = tuple(dict.fromkeys(choices))

    def rule(self, choices: Iterable[Symbols]) -> Symbols:
        """A rule of its own, so that long sequences are held once."""
        rule = self.declared()
        self.define(rule, choices)
        return (rule,)

    def choice(self, choices: Sequence[Symbols]) -> Symbols:
        """One of these."""
        return choices[0] if len(choices) == 1 else self.rule(choices)

    def repeated(self, part: Symbols, least: int, most: int | None) -> Symbols:
        """`part` so many times; without an end where `most` is None."""
        if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
            raise self.refused(f"{{{least},{most}}}", f"repetitions in order, at most {MOST_REPEATS}")
        if most is None:
            rule = self.declared()
            self.define(rule, [(*part, rule), ()])
            return (*part * least, rule)
        rest: Symbols = ()
        for _ in range(most - least):
            rest = self.choice([(*part, *rest), ()])
        return (*part * least, *rest)

    def text(self, text: str) -> Symbols:
        """Exactly this text."""
        try:
            return tuple(self._of_bytes(1 << byte) for byte in text.encode())
        except UnicodeEncodeError:
            raise self.refused("half of a surrogate pair", "text of Unicode") from None

    def characters(self, spans: Sequence[Span], *, excluded: bool = False) -> Symbols:
        """One character of these spans, or one of none of them."""
        ordered = tuple(_joined(spans))
        if excluded:
            ordered = tuple(_between(ordered))
        if ordered not in self._characters:
            choices = [
                tuple(self._of_bytes(_bits(first, last)) for first, last in pieces)
                for start, stop in ordered
                for pieces in _byte_spans(start, stop)
            ]
            if not choices:
                raise self.refused("a class without characters", "one at least")
            self._characters[ordered] = self.choice(choices)
        return self._characters[ordered]

    def _of_bytes(self, bits: int) -> int:
        return ~self._sets.setdefault(bits, len(self._sets))

    def grammar(self, start: Symbols) -> Grammar:
        """The whole; FormatError for a rule that begins with itself, of which no text ever comes to an end."""
        rules = tuple(self._rules)
        _check_left_recursion(rules, self.refused)
        return Grammar(rules, tuple(self._sets), start)


def _bits(first: int, last: int) -> int:
    return (1 << (last + 1)) - (1 << first)


def _joined(spans: Sequence[Span]) -> Iterator[Span]:
    """The same characters as spans in order that do not touch, without surrogates."""
    without: list[Span] = []
    for first, last in spans:
        without += [(first, min(last, SURROGATES[0] - 1)), (max(first, SURROGATES[1] + 1), last)]
    held: Span | None = None
    for first, last in sorted(span for span in without if span[0] <= span[1]):
        if held is not None and first <= held[1] + 1:
            held = (held[0], max(held[1], last))
            continue
        if held is not None:
            yield held
        held = (first, last)
    if held is not None:
        yield held


def _between(spans: Sequence[Span]) -> Iterator[Span]:
    """What is in none of these."""
    start, free = 0, list[Span]()
    for first, last in spans:
        if first > start:
            free.append((start, first - 1))
        start = last + 1
    if start <= LAST_CHARACTER:
        free.append((start, LAST_CHARACTER))
    yield from _joined(free)


def _byte_spans(first: int, last: int) -> Iterator[tuple[Span, ...]]:
    """The UTF-8 of characters first … last as products of spans of bytes."""
    for length, most in enumerate(_LENGTHS, 1):
        least = _LENGTHS[length - 2] + 1 if length > 1 else 0
        if first <= most and last >= least:
            yield from _of_length(max(first, least), min(last, most), length)


def _of_length(first: int, last: int, length: int) -> Iterator[tuple[Span, ...]]:
    """Split until all but the last bytes that differ are whole."""
    for tail in range(length - 1, 0, -1):
        mask = (1 << 6 * tail) - 1
        if first & ~mask == last & ~mask:
            continue
        if first & mask:
            yield from _of_length(first, first | mask, length)
            yield from _of_length((first | mask) + 1, last, length)
            return
        if last & mask != mask:
            yield from _of_length(first, (last & ~mask) - 1, length)
            yield from _of_length(last & ~mask, last, length)
            return
    yield tuple(zip(chr(first).encode(), chr(last).encode(), strict=True))


def _check_left_recursion(rules: Sequence[tuple[Symbols, ...]], refused: Callable[[str, str], FormatError]) -> None:
    """No rule is reached from itself before a byte is read."""
    empty = _nullable(rules)
    begins = [sorted({symbol for symbols in choices for symbol in _first(symbols, empty)}) for choices in rules]
    done, path = set[int](), set[int]()
    for root in range(len(rules)):
        waiting = [(root, False)]
        while waiting:
            rule, left = waiting.pop()
            if left:
                path.discard(rule)
                done.add(rule)
            elif rule in path:
                raise refused("a rule that begins with itself", "rules that read something first")
            elif rule not in done:
                path.add(rule)
                waiting.append((rule, True))
                waiting.extend((other, False) for other in begins[rule] if other not in done)


def _nullable(rules: Sequence[tuple[Symbols, ...]]) -> set[int]:
    """Rules that may be nothing."""
    empty: set[int] = set()
    changed = True
    while changed:
        changed = False
        for rule, choices in enumerate(rules):
            if rule not in empty and any(all(symbol in empty for symbol in symbols) for symbols in choices):
                empty.add(rule)
                changed = True
    return empty


def _first(symbols: Symbols, empty: set[int]) -> Iterator[int]:
    """Rules that a sequence may begin with."""
    for symbol in symbols:
        if symbol < 0:
            return
        yield symbol
        if symbol not in empty:
            return
