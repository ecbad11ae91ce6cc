"""JSON as a grammar: any of it, or what a JSON schema describes. Each text of the grammar is valid by the schema.

A grammar may be narrower than its schema: properties come in the order of the schema, numbers have 16 digits, keys
beside `properties` come only where there are none of these. `oneOf` is read as `anyOf`. Keywords that would have to
be looked at and are not are an error, so nothing is promised that is not kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from nnc.errors import FormatError
from nnc.language.constraints.expressions import expression_in
from nnc.language.constraints.grammar_rules import Grammar, GrammarBuilder, Span, Symbols

Schema: TypeAlias = "Mapping[str, object] | bool"
TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
# What says nothing of values.
ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "$schema", "$id", "$comment", "$defs", "definitions", "deprecated",
     "readOnly", "writeOnly", "$anchor", "strict")
)  # fmt: skip
KEYWORDS: Mapping[str, frozenset[str]] = {
    "object": frozenset(("properties", "required", "additionalProperties")),
    "array": frozenset(("items", "prefixItems", "minItems", "maxItems")),
    "string": frozenset(("minLength", "maxLength", "pattern", "format")),
}
CHOICES = ("const", "enum", "anyOf", "oneOf", "$ref")
# What is no character of a JSON string as it is: signs that are escaped, and those of control.
ESCAPED: tuple[Span, ...] = ((0, 31), (34, 34), (92, 92))
DATE = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])"
TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
FORMATS: Mapping[str, str] = {
    "date": DATE,
    "time": TIME,
    "date-time": f"{DATE}T{TIME}",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    "ipv4": r"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)",
    "email": r"[a-z0-9]{1,20}([._-][a-z0-9]{1,20}){0,3}@[a-z0-9]{1,20}(\.[a-z0-9]{1,20}){0,2}\.[a-z]{2,6}",
}
INTEGER = r"-?(0|[1-9]\d{0,15})"
NUMBER = rf"{INTEGER}(\.\d{{1,16}})?([eE][+-]?\d{{1,2}})?"
SPACE = r"( |\n[ \t]{0,20})?"
# Escapes that are no half of a surrogate pair.
ESCAPE = r'\\(["\\/bfnrt]|u([0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}))'
MOST_DEPTH, MOST_PROPERTIES = 64, 1000


def grammar_of_json(place: str = "JSON") -> Grammar:
    """Any object of JSON."""
    rules = _Rules(place, {})
    return rules.builder.grammar(rules.any_object())


def response_schema(response_format: Mapping[str, object] | None) -> dict[str, object] | None:
    """The schema that OpenAI's `response_format` asks for, of any object for "json_object"; None for plain text."""
    match response_format:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"type": "object"}
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return schema
    raise FormatError(
        "response_format", got=str(response_format)[:80], need='{"type": "json_schema", "json_schema": {"schema": …}}'
    )


def grammar_of_schema(schema: Schema, place: str = "schema") -> Grammar:
    """JSON that is valid by a schema; FormatError for keywords that are not known, and for what nothing fits."""
    rules = _Rules(place, schema if isinstance(schema, Mapping) else {})
    return rules.builder.grammar(rules.value(schema, 0))


class _Rules:
    """Rules of values by their schemas; those that are referred to are made once."""

    def __init__(self, place: str, root: Mapping[str, object]) -> None:
        self.builder = GrammarBuilder(place)
        self._root = root
        self._named: dict[str, int] = {}
        self._space = self._pattern(SPACE)
        self._any: int | None = None

    def _pattern(self, pattern: str) -> Symbols:
        return expression_in(self.builder, pattern)

    def _sign(self, sign: str) -> Symbols:
        """A sign, and space behind it."""
        return (*self.builder.text(sign), *self._space)

    # ---- any values

    def any_value(self) -> Symbols:
        """A value of any kind."""
        if self._any is None:
            self._any = self.builder.declared()
            whole = [self._pattern(f"true|false|null|{NUMBER}"), self._string(0, None), self.any_object()]
            self.builder.define(self._any, [*whole, self._array((self._any,), 0, None)])
        return (self._any,)

    def any_object(self) -> Symbols:
        """An object of any keys and values."""
        return self._free_object(self.any_value())

    def _free_object(self, value: Symbols) -> Symbols:
        pair = (*self._string(0, None), *self._sign(":"), *value)
        return self._listed("{", pair, "}", 0, None)

    def _listed(self, opening: str, part: Symbols, closing: str, least: int, most: int | None) -> Symbols:
        """Parts with commas between them, in brackets."""
        more = (*self._sign(","), *part)
        some: Symbols = ()
        if most != 0:
            some = (*part, *self.builder.repeated(more, max(least - 1, 0), None if most is None else most - 1))
        inner = [(*some, *self._space)] if least and some else [(*some, *self._space), ()] if some else [()]
        return (*self._sign(opening), *self.builder.choice(inner), *self.builder.text(closing))

    def _array(self, part: Symbols, least: int, most: int | None) -> Symbols:
        return self._listed("[", part, "]", least, most)

    def _string(self, least: int, most: int | None) -> Symbols:
        plain = self.builder.characters(ESCAPED, excluded=True)
        character = self.builder.choice([plain, self._pattern(ESCAPE)])
        quote = self.builder.text('"')
        return (*quote, *self.builder.repeated(character, least, most), *quote)

    # ---- schemas

    def value(self, schema: object, depth: int) -> Symbols:
        """What a schema describes."""
        if depth > MOST_DEPTH:
            raise self.builder.refused(f"schemas {MOST_DEPTH} deep", "fewer, or $ref")
        if schema is True or schema == {}:
            return self.any_value()
        if not isinstance(schema, Mapping):
            raise self.builder.refused(f"a schema that is {str(schema)[:40]!r}", "an object")
        choice = next((keyword for keyword in CHOICES if keyword in schema), "")
        if choice:
            self._check(schema, {choice, "type"} if choice in ("const", "enum") else {choice})
            return self._chosen(choice, schema[choice], depth)
        kinds = schema["type"] if "type" in schema else self._implied(schema)
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if not isinstance(kinds, Sequence) or not kinds or not all(kind in TYPES for kind in kinds):
            raise self.builder.refused(f"type {str(kinds)[:40]!r}", f"one of {', '.join(TYPES)}")
        known = {keyword for kind in kinds for keyword in KEYWORDS.get(kind, ())}
        self._check(schema, known | {"type"})
        return self.builder.choice([self._of_kind(kind, schema, depth) for kind in kinds])

    def _implied(self, schema: Mapping[str, object]) -> object:
        """The type that keywords are of, where none is said: of all others nothing would be known."""
        implied = [kind for kind, keywords in KEYWORDS.items() if keywords & schema.keys()]
        if len(implied) == 1:
            return implied[0]
        self._check(schema, set())
        return list(TYPES)

    def _check(self, schema: Mapping[str, object], known: set[str]) -> None:
        further = sorted(map(str, schema.keys() - known - ANNOTATIONS))
        if further:
            raise self.builder.refused(
                f"the keyword {further[0]!r} there", f"one of {', '.join(sorted(known)) or 'type'}"
            )

    def _chosen(self, keyword: str, held: object, depth: int) -> Symbols:
        if keyword == "const":
            return self._exactly(held)
        if keyword == "$ref":
            return (self._referred(held),)
        if not isinstance(held, list) or not held:
            raise self.builder.refused(f"{keyword} without values", "a list of some")
        if keyword == "enum":
            return self.builder.choice([self._exactly(value) for value in held])
        return self.builder.choice([self.value(schema, depth + 1) for schema in held])

    def _exactly(self, value: object) -> Symbols:
        return self.builder.text(json.dumps(value, ensure_ascii=False, separators=(",", ":")))

    def _referred(self, reference: object) -> int:
        """The rule of a part of the whole schema, by its path."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise self.builder.refused(f"$ref {str(reference)[:60]!r}", "a path within the schema: #/$defs/name")
        if reference not in self._named:
            held: object = self._root
            for step in reference[1:].split("/")[1:]:
                name = step.replace("~1", "/").replace("~0", "~")
                held = held.get(name) if isinstance(held, Mapping) else None
            if held is None:
                raise self.builder.refused(f"$ref {reference[:60]!r}", "a path that is there")
            self._named[reference] = self.builder.declared()
            self.builder.define(self._named[reference], [self.value(held, 0)])
        return self._named[reference]

    def _of_kind(self, kind: str, schema: Mapping[str, object], depth: int) -> Symbols:
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._items(schema, depth)
            case "string":
                return self._text(schema)
            case "boolean":
                return self._pattern("true|false")
            case "null":
                return self.builder.text("null")
        return self._pattern(INTEGER if kind == "integer" else NUMBER)

    def _text(self, schema: Mapping[str, object]) -> Symbols:
        quote, form = self.builder.text('"'), schema.get("format")
        pattern = schema.get("pattern") if form is None else FORMATS.get(str(form))
        if form is not None and pattern is None:
            raise self.builder.refused(f"format {str(form)[:40]!r}", f"one of {', '.join(FORMATS)}")
        if pattern is None:
            least, most = self._bounds(schema, "minLength", "maxLength")
            return self._string(least, most)
        if not isinstance(pattern, str) or {"minLength", "maxLength"} & schema.keys():
            raise self.builder.refused("a pattern beside other bounds", "a text, alone")
        return (*quote, *self._quoted(pattern), *quote)

    def _quoted(self, pattern: str) -> Symbols:
        """A pattern within quotes; one without an anchor may stand anywhere in the text, which is not made."""
        made = pattern if pattern.startswith("^") else f"^{pattern}"
        return expression_in(self.builder, made if made.endswith("$") else f"{made}$", ESCAPED)

    def _bounds(self, schema: Mapping[str, object], low: str, high: str) -> tuple[int, int | None]:
        least, most = schema.get(low, 0), schema.get(high)
        for number in (least, most):
            if not (number is None or (isinstance(number, int) and not isinstance(number, bool) and number >= 0)):
                raise self.builder.refused(f"{low} {str(least)[:20]}, {high} {str(most)[:20]}", "integers ≥ 0")
        assert isinstance(least, int)
        return least, most if isinstance(most, int) else None

    def _items(self, schema: Mapping[str, object], depth: int) -> Symbols:
        least, most = self._bounds(schema, "minItems", "maxItems")
        first, items = schema.get("prefixItems"), schema.get("items", True)
        if first is None:
            return self._array(self.value(items, depth + 1), least, most)
        if (
            not isinstance(first, list)
            or not first
            or items not in (False, True)
            or {"minItems", "maxItems"} & schema.keys()
        ):
            raise self.builder.refused(
                "prefixItems beside other bounds", "a list of schemas, alone or with items: false"
            )
        parts = [self.value(each, depth + 1) for each in first]
        inner = [symbol for part in parts[1:] for symbol in (*self._sign(","), *part)]
        return (*self._sign("["), *parts[0], *inner, *self._space, *self.builder.text("]"))

    def _object(self, schema: Mapping[str, object], depth: int) -> Symbols:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if not isinstance(properties, Mapping) or not isinstance(required, list) or len(properties) > MOST_PROPERTIES:
            raise self.builder.refused(
                "properties or required of another kind", "an object of schemas, a list of names"
            )
        missing = [name for name in required if name not in properties]
        further = schema.get("additionalProperties", True)
        if not properties and not missing and further is not False:
            return self._free_object(self.value(further, depth + 1))
        if missing:
            raise self.builder.refused(f"{str(missing[0])[:40]!r} required without a schema", "one in properties")
        pairs = []
        for name, each in properties.items():
            key = self.builder.text(json.dumps(name, ensure_ascii=False))
            pairs.append(((*key, *self._sign(":"), *self.value(each, depth + 1)), name in required))
        return (*self._sign("{"), *self._pairs(pairs), *self.builder.text("}"))

    def _pairs(self, pairs: Sequence[tuple[Symbols, bool]]) -> Symbols:
        """Pairs in order, of which those that are not required may be left out; commas between those that are there."""
        # What follows where something came before, and where nothing did.
        behind: Symbols = self._space
        first: Symbols = ()
        for pair, needed in reversed(pairs):
            later, begun = (*self._sign(","), *pair, *behind), (*pair, *behind)
            first = self.builder.rule([begun] if needed else [begun, first])
            behind = self.builder.rule([later] if needed else [later, behind])
        return first
