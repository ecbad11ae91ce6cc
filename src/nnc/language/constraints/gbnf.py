"""Grammars in the notation of llama.cpp (GBNF).

root   ::= "{" ws pair ("," ws pair)* "}"        # texts, groups, * + ? {2} {2,} {2,5}, | for a choice
pair   ::= [a-z_]+ "=" [^,}\n]{1,20}             # classes of characters, . for any
ws     ::= " "?
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.language.constraints.grammar_rules import LAST_CHARACTER, Grammar, GrammarBuilder, Span, Symbols

ROOT = "root"
MOST_CHARACTERS, MOST_DEPTH = 1 << 20, 200
_TOKEN = re.compile(
    r"""\s+|\#[^\n]*                                     # nothing
    |(?P<name>[A-Za-z_][A-Za-z0-9_-]*)
    |(?P<defined>::=)
    |"(?P<text>(?:[^"\\]|\\.)*)"
    |\[(?P<excluded>\^?)(?P<class>(?:[^\]\\]|\\.)*)\]
    |\{(?P<least>\d{1,6})(?P<comma>\s*,\s*(?P<most>\d{0,6}))?\s*\}
    |(?P<sign>[|()*+?.])""",
    re.VERBOSE | re.DOTALL,
)
_CHARACTER = re.compile(r"\\x([0-9A-Fa-f]{2})|\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})|\\(.)|(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
TIMES = {"*": (0, None), "+": (1, None), "?": (0, 1)}


@dataclass(frozen=True, slots=True)
class _Token:
    """A sign, name, text, class or number of times, by the name of its group."""

    kind: str
    text: str
    matched: re.Match[str]


def grammar_of_gbnf(source: str, place: str = "grammar") -> Grammar:
    """The grammar of a text; FormatError where it is none, or has no rule `root`."""
    return _Reader(source, place).grammar()


class _Reader:
    """Reads rules one after the other; a name before ::= begins the next one."""

    def __init__(self, source: str, place: str) -> None:
        self._builder = GrammarBuilder(place)
        if len(source) > MOST_CHARACTERS:
            raise self._builder.refused(f"{len(source):,} characters", f"at most {MOST_CHARACTERS:,}")
        self._tokens = self._read(source)
        self._place = 0
        self._rules: dict[str, int] = {}
        self._defined: set[str] = set()

    def _read(self, source: str) -> list[_Token]:
        tokens, place = [], 0
        while place < len(source):
            matched = _TOKEN.match(source, place)
            if matched is None:
                got = f"{source[place : place + 20]!r} in line {source.count(chr(10), 0, place) + 1}"
                raise self._builder.refused(got, "a rule: name ::= …")
            kind = matched.lastgroup
            if kind in ("most", "comma"):
                kind = "least"
            if kind is not None:
                tokens.append(_Token(kind, matched[0], matched))
            place = matched.end()
        return tokens

    def grammar(self) -> Grammar:
        while self._place < len(self._tokens):
            name = self._next("name").text
            self._next("defined")
            if name in self._defined:
                raise self._builder.refused(f"two rules {name}", "one")
            self._defined.add(name)
            rule = self._rule(name)
            self._builder.define(rule, self._choices(0))
        missing = sorted((self._rules.keys() | {ROOT}) - self._defined)
        if missing:
            raise self._builder.refused(f"no rule {missing[0]}", "a rule for each name, and one that is root")
        return self._builder.grammar((self._rule(ROOT),))

    def _rule(self, name: str) -> int:
        if name not in self._rules:
            self._rules[name] = self._builder.declared()
        return self._rules[name]

    def _next(self, kind: str) -> _Token:
        token = self._tokens[self._place] if self._place < len(self._tokens) else None
        if token is None or token.kind != kind:
            raise self._builder.refused(f"{token.text if token else 'the end'!r}", f"a {kind} there")
        self._place += 1
        return token

    def _ahead(self) -> _Token | None:
        """The next token of this rule."""
        token = self._tokens[self._place] if self._place < len(self._tokens) else None
        behind = self._tokens[self._place + 1 : self._place + 2]
        begins = token is not None and token.kind == "name" and bool(behind) and behind[0].kind == "defined"
        return None if begins else token

    def _choices(self, depth: int) -> list[Symbols]:
        if depth > MOST_DEPTH:
            raise self._builder.refused(f"groups {MOST_DEPTH} deep", "fewer")
        choices = [self._sequence(depth)]
        while (token := self._ahead()) is not None and token.text == "|" and token.kind == "sign":
            self._place += 1
            choices.append(self._sequence(depth))
        return choices

    def _sequence(self, depth: int) -> Symbols:
        made: list[Symbols] = []
        while (token := self._ahead()) is not None and not (token.kind == "sign" and token.text in "|)"):
            self._place += 1
            if token.kind == "least" or (token.kind == "sign" and token.text in TIMES):
                if not made:
                    raise self._builder.refused(f"{token.text!r} behind nothing", "something to repeat")
                made.append(self._builder.repeated(made.pop(), *_times(token)))
            else:
                made.append(self._one(token, depth))
        return tuple(symbol for part in made for symbol in part)

    def _one(self, token: _Token, depth: int) -> Symbols:
        matched, builder = token.matched, self._builder
        match token.kind:
            case "name":
                return (self._rule(token.text),)
            case "text":
                return builder.text("".join(map(chr, _characters(matched["text"]))))
            case "class":
                return builder.characters(_spans(matched["class"]), excluded=bool(matched["excluded"]))
            case "sign" if token.text == ".":
                return builder.characters([(0, LAST_CHARACTER)])
            case "sign" if token.text == "(":
                choices = self._choices(depth + 1)
                closing = self._next("sign")
                if closing.text != ")":
                    raise builder.refused(f"{closing.text!r}", "a ) there")
                return builder.choice(choices)
        raise builder.refused(f"{token.text!r}", "a text, a class, a name or a group there")


def _times(token: _Token) -> tuple[int, int | None]:
    if token.kind == "sign":
        return TIMES[token.text]
    least, most = int(token.matched["least"]), token.matched["most"]
    if token.matched["comma"] is None:
        return least, least
    return least, int(most) if most else None


def _characters(text: str) -> list[int]:
    made = []
    for matched in _CHARACTER.finditer(text):
        number = matched[1] or matched[2] or matched[3]
        character = _ESCAPES.get(matched[4], matched[4]) if matched[4] else matched[5]
        made.append(min(int(number, 16), LAST_CHARACTER) if number else ord(character))
    return made


def _spans(text: str) -> Sequence[Span]:
    """What stands in a class: characters, and first-last."""
    spans, place = list[Span](), 0
    parts = [(matched[0], _characters(matched[0])[0]) for matched in _CHARACTER.finditer(text)]
    while place < len(parts):
        if place + 2 < len(parts) and parts[place + 1][0] == "-":
            spans.append((parts[place][1], parts[place + 2][1]))
            place += 3
        else:
            spans.append((parts[place][1],) * 2)
            place += 1
    return spans
