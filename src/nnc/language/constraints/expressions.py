r"""Regular expressions as rules: the whole text is to match. Anchors may stand at the ends, nothing looks around.

\d, \w and \s are of ASCII; \S is no space of Unicode either, and `.` ends no line.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from nnc.language.constraints.grammar_rules import LAST_CHARACTER, Grammar, GrammarBuilder, Span, Symbols

MOST_CHARACTERS, MOST_DEPTH = 1 << 16, 200
DIGITS: tuple[Span, ...] = ((48, 57),)
WORDS: tuple[Span, ...] = ((48, 57), (65, 90), (95, 95), (97, 122))
SPACES: tuple[Span, ...] = ((9, 13), (32, 32))
FURTHER_SPACES: tuple[Span, ...] = (
    (0x1C, 0x1F), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
    (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
)  # fmt: skip
LINE_ENDS: tuple[Span, ...] = ((10, 10), (13, 13), (0x2028, 0x2029))
CLASSES: Mapping[str, tuple[Span, ...]] = MappingProxyType({"d": DIGITS, "w": WORDS, "s": SPACES})
ESCAPES: Mapping[str, str] = MappingProxyType({"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"})
SIGNS = "\\^$.|?*+()[]{}"


def grammar_of_expression(pattern: str, place: str = "pattern") -> Grammar:
    """The grammar of the texts that match as a whole; FormatError for what is no such expression."""
    builder = GrammarBuilder(place)
    return builder.grammar(expression_in(builder, pattern))


def expression_in(builder: GrammarBuilder, pattern: str, without: tuple[Span, ...] = ()) -> Symbols:
    """The symbols of an expression; characters of classes that are in `without` are left out of them."""
    return _Expression(builder, pattern, without).whole()


class _Expression:
    """Reads an expression from left to right."""

    def __init__(self, builder: GrammarBuilder, pattern: str, without: tuple[Span, ...]) -> None:
        if len(pattern) > MOST_CHARACTERS:
            raise builder.refused(f"{len(pattern):,} characters", f"at most {MOST_CHARACTERS:,}")
        self._builder, self._without = builder, without
        text = pattern.removeprefix("^")
        self._text = text[:-1] if text.endswith("$") and not text.endswith("\\$") else text
        self._place = 0

    def whole(self) -> Symbols:
        """All of it."""
        made = self._choices(0)
        if self._place < len(self._text):
            raise self._refused("the end, or a group before )")
        return made

    def _refused(self, need: str) -> Exception:
        return self._builder.refused(f"{self._text[self._place : self._place + 20]!r} in {self._text[:80]!r}", need)

    def _ahead(self) -> str:
        return self._text[self._place : self._place + 1]

    def _choices(self, depth: int) -> Symbols:
        if depth > MOST_DEPTH:
            raise self._refused(f"at most {MOST_DEPTH} groups in each other")
        choices = [self._sequence(depth)]
        while self._ahead() == "|":
            self._place += 1
            choices.append(self._sequence(depth))
        return self._builder.choice(choices)

    def _sequence(self, depth: int) -> Symbols:
        made: list[Symbols] = []
        while self._ahead() not in ("", "|", ")"):
            part = self._part(depth)
            times = self._times()
            made.append(part if times is None else self._builder.repeated(part, *times))
        return tuple(symbol for part in made for symbol in part)

    def _times(self) -> tuple[int, int | None] | None:
        """How often the last part comes; whether as often or as rarely as can be makes no difference here."""
        sign = self._ahead()
        if sign == "{":
            stop = self._text.find("}", self._place)
            least, comma, most = self._text[self._place + 1 : stop].partition(",") if stop > 0 else ("", "", "")
            if not (least.isdecimal() and (most.isdecimal() or not most)) or len(least + most) > 12:
                raise self._refused("{2}, {2,} or {2,5}")
            self._place = stop
            times: tuple[int, int | None] = (int(least), (int(most) if most else None) if comma else int(least))
        elif sign and sign in "*+?":
            times = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        else:
            return None
        self._place += 1
        if self._ahead() == "?":
            self._place += 1
        if self._ahead() and self._ahead() in "*+{":
            raise self._refused("one number of times")
        return times

    def _part(self, depth: int) -> Symbols:
        sign = self._ahead()
        self._place += 1
        match sign:
            case "(":
                return self._group(depth)
            case "[":
                return self._class()
            case ".":
                return self._characters(list(LINE_ENDS), excluded=True)
            case "\\":
                spans, is_class = self._escaped()
                return self._characters(spans) if is_class else self._literal(chr(spans[0][0]))
            case "*" | "+" | "?" | "{" | "^" | "$":
                self._place -= 1
                raise self._refused("something to repeat, and anchors at the ends alone")
        return self._literal(sign)

    def _literal(self, sign: str) -> Symbols:
        if any(first <= ord(sign) <= last for first, last in self._without):
            raise self._refused("characters that may stand here")
        return self._builder.text(sign)

    def _characters(self, spans: list[Span], *, excluded: bool = False) -> Symbols:
        """One of these, or of the others; of none that is to be left out."""
        if not excluded and not self._without:
            return self._builder.characters(spans)
        if excluded:
            return self._builder.characters([*spans, *self._without], excluded=True)
        kept = [span for first, last in spans for span in _outside(first, last, self._without)]
        if not kept:
            raise self._refused("characters that may stand here")
        return self._builder.characters(kept)

    def _group(self, depth: int) -> Symbols:
        if self._text.startswith("?:", self._place):
            self._place += 2
        elif self._text.startswith("?P<", self._place) or (
            self._text.startswith("?<", self._place) and self._text[self._place + 2 : self._place + 3] not in ("=", "!")
        ):
            self._place = self._text.find(">", self._place) + 1 or len(self._text)
        elif self._ahead() == "?":
            raise self._refused("a group that looks around nothing")
        made = self._choices(depth + 1)
        if self._ahead() != ")":
            raise self._refused("a )")
        self._place += 1
        return made

    def _class(self) -> Symbols:
        excluded = self._ahead() == "^"
        self._place += excluded
        spans: list[Span] = []
        first = True
        while first or self._ahead() != "]":
            if not self._ahead():
                raise self._refused("a ]")
            first = False
            own, is_class = self._member()
            if not is_class and self._ahead() == "-" and self._text[self._place + 1 : self._place + 2] not in ("]", ""):
                self._place += 1
                end, end_is_class = self._member()
                if end_is_class or end[0][0] < own[0][0]:
                    raise self._refused("first-last, in this order")
                own = [(own[0][0], end[0][0])]
            spans += own
        self._place += 1
        return self._characters(spans, excluded=excluded)

    def _member(self) -> tuple[list[Span], bool]:
        sign = self._ahead()
        self._place += 1
        return self._escaped() if sign == "\\" else ([(ord(sign), ord(sign))], False)

    def _escaped(self) -> tuple[list[Span], bool]:
        """What stands behind a backslash, and whether it is a class."""
        sign = self._ahead()
        self._place += 1
        if sign and sign.lower() in CLASSES:
            spans = CLASSES[sign.lower()]
            others = (*spans, *FURTHER_SPACES) if sign == "S" else spans
            return (list(spans) if sign.islower() else _outside(0, LAST_CHARACTER, others)), True
        digits = {"x": 2, "u": 4}.get(sign, 0)
        if digits:
            number = self._text[self._place : self._place + digits]
            if len(number) < digits or not all(each in "0123456789abcdefABCDEF" for each in number):
                raise self._refused(f"{digits} digits behind \\{sign}")
            self._place += digits
            return [(int(number, 16),) * 2], False
        if sign in ESCAPES:
            return [(ord(ESCAPES[sign]),) * 2], False
        if not sign or sign.isalnum():
            self._place -= 1
            raise self._refused("an escape of a sign, or one of \\d \\w \\s \\n \\t \\x41 \\u0041")
        return [(ord(sign),) * 2], False


def _outside(first: int, last: int, spans: tuple[Span, ...]) -> list[Span]:
    """What of first … last is in none of these."""
    kept = [(first, last)]
    for start, stop in spans:
        kept = [
            part
            for low, high in kept
            for part in ((low, min(high, start - 1)), (max(low, stop + 1), high))
            if part[0] <= part[1]
        ]
    return kept
