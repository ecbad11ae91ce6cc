"""Each text that a schema's grammar lets be written parses and is valid; what a grammar cannot keep is refused."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.language.constraints.grammar_texts import accepts, drawn, masks_of

from nnc.errors import FormatError
from nnc.language.constraints.json_schemas import grammar_of_json, grammar_of_schema, response_schema

PERSON: dict[str, Any] = {
    "type": "object",
    "title": "Person",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 6},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["a", 'b"c', 3]}, "minItems": 1, "maxItems": 3},
        "when": {"type": "string", "format": "date-time"},
        "size": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "code": {"type": "string", "pattern": "^[A-Z]{2}\\d+$"},
        "pair": {"type": "array", "prefixItems": [{"type": "boolean"}, {"const": {"x": 1}}], "items": False},
        "next": {"$ref": "#/$defs/node"},
    },
    "required": ["name", "tags"],
    "additionalProperties": False,
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"v": {"type": ["boolean", "null"]}, "next": {"$ref": "#/$defs/node"}},
            "required": ["v"],
        }
    },
}


def check_person(value: dict[str, Any]) -> None:
    assert list(value) == [name for name in PERSON["properties"] if name in value]
    assert {"name", "tags"} <= value.keys()
    assert 1 <= len(value["name"]) <= 6
    assert 1 <= len(value["tags"]) <= 3
    assert all(tag in ("a", 'b"c', 3) for tag in value["tags"])
    assert isinstance(value.get("age", 0), int)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\S+", value.get("when", "2026-01-01T00:00:00Z"))
    assert isinstance(value.get("size"), int | float | None)
    assert re.fullmatch(r"[A-Z]{2}\d+", value.get("code", "AB1"))
    assert value.get("pair", [True, {"x": 1}])[1] == {"x": 1}
    node = value.get("next")
    while node is not None:
        assert isinstance(node["v"], bool | None)
        node = node.get("next")


def test_all_texts_of_a_schema_are_valid() -> None:
    masks = masks_of(grammar_of_schema(PERSON))
    seen = set[str]()
    for seed in range(250):
        value = json.loads(drawn(masks, seed))
        check_person(value)
        seen |= value.keys()
        json.dumps(value).encode()
    assert seen == PERSON["properties"].keys()


def test_usual_ways_to_write_json_are_allowed() -> None:
    masks = masks_of(grammar_of_schema(PERSON))
    value = {"name": "Zoë", "age": -3, "tags": ["a"], "size": 1.5e-3, "next": {"v": None, "next": {"v": True}}}
    for text in (
        json.dumps(value),
        json.dumps(value, indent=2, ensure_ascii=False),
        json.dumps(value, separators=(",", ":")),
    ):
        assert accepts(masks, text)
    for changed in ({**value, "age": 1.5}, {**value, "more": 1}, {"tags": ["a"]}, {**value, "name": "toolong"}):
        assert not accepts(masks, json.dumps(changed))


def test_any_json_is_an_object_of_anything() -> None:
    masks = masks_of(grammar_of_json())
    value = {"a": [1, -2.5, {"b": []}, True, None, ""], "\n\u0001é": {}}
    for ascii_alone in (True, False):
        assert accepts(masks, json.dumps(value, ensure_ascii=ascii_alone))
    assert not accepts(masks, "[1]")
    assert not accepts(masks, '{"a": 01}')
    assert not accepts(masks, '{"a": "\\ud800"}')


def test_formats_and_bounds() -> None:
    for form, good, bad in (
        ("date", "2026-11-26", "2026-13-26"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
        ("ipv4", "192.168.0.255", "192.168.0.256"),
        ("email", "a.b@c.org", "a.b"),
        ("time", "23:59:59Z", "24:00:00Z"),
    ):
        masks = masks_of(grammar_of_schema({"type": "string", "format": form}))
        assert accepts(masks, f'"{good}"')
        assert not accepts(masks, f'"{bad}"')
    empty = masks_of(grammar_of_schema({"type": "array", "items": {"type": "null"}, "maxItems": 0}))
    assert accepts(empty, "[]")
    assert not accepts(empty, "[null]")


REFUSED: dict[str, tuple[Any, str]] = {
    "a bound of numbers": ({"type": "integer", "minimum": 3}, "the keyword 'minimum' there; need one of type"),
    "parts of all": ({"allOf": [{"type": "string"}]}, "the keyword 'allOf' there"),
    "beside a choice": ({"anyOf": [{"type": "string"}], "minLength": 2}, "the keyword 'minLength' there"),
    "another type": ({"type": "text"}, "['text']"),
    "no schema": ({"properties": {"a": 3}}, "a schema that is '3'"),
    "another file": ({"$ref": "http://a/b"}, "need a path within the schema"),
    "no such part": ({"$ref": "#/$defs/a"}, "need a path that is there"),
    "itself": ({"$ref": "#"}, "begins with itself"),
    "an endless object": (
        {"type": "object", "properties": {"a": {"$ref": "#/x"}}, "x": 1}, "the keyword 'x' there",
    ),
    "a quote in a pattern": ({"type": "string", "pattern": 'a"b'}, "characters that may stand here"),
    "another format": ({"type": "string", "format": "hostname"}, "format 'hostname'; need one of date"),
    "a key without a schema": ({"type": "object", "properties": {"b": {}}, "required": ["a"]}, "without a schema"),
    "no choices": ({"enum": []}, "enum without values"),
    "negative": ({"type": "string", "minLength": -1}, "integers ≥ 0"),
    "deep": ((lambda: __import__("functools").reduce(lambda inner, _: {"items": inner}, range(80), {}))(), "64 deep"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_grammar_would_not_keep_is_refused(name: str) -> None:
    schema, match = REFUSED[name]
    with pytest.raises(FormatError, match=re.escape(match)):
        grammar_of_schema(schema)


def test_response_formats_of_openai() -> None:
    assert response_schema(None) is None
    assert response_schema({"type": "text"}) is None
    anything = response_schema({"type": "json_object"})
    assert anything is not None
    assert accepts(masks_of(grammar_of_schema(anything)), '{"a": [1, {}]}')
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "boolean"}}}
    assert response_schema(schema) == {"type": "boolean"}
    for wrong in ({"type": "xml"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"schema": 3}}):
        with pytest.raises(FormatError, match="response_format"):
            response_schema(wrong)
