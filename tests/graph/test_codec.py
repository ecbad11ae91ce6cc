"""Typed values as JSON: everything allowed round-trips, everything else is refused with its place."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Literal, NewType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnc.errors import FormatError
from nnc.graph import (
    Codec,
    Forms,
    Json,
    NoAttributes,
    Op,
    Registry,
    decode_call,
    encode_call,
    none_codec,
    record_codec,
    union_codec,
)

SlotKey = NewType("SlotKey", int)


class Padding(Enum):
    SAME = 1
    VALID = 2


@dataclass(frozen=True, slots=True)
class Inner:
    ratio: float
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class Other:
    flag: bool


class Dim:
    """A class that says itself how it is written."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and other.size == self.size

    __hash__ = None  # type: ignore[assignment]  # a value with an equality of its own

    def to_json(self) -> Json:
        return f"dim {self.size}"

    @classmethod
    def from_json(cls, data: Json) -> Dim:
        return cls(int(str(data).removeprefix("dim ")))


@dataclass(frozen=True, slots=True)
class Everything:
    count: int
    name: str
    scale: float
    padding: Padding
    mode: Literal["nearest", "linear", 3]
    slot: SlotKey
    shape: tuple[int, ...]
    pair: tuple[int, str]
    nested: tuple[Inner, ...]
    choice: Inner | Other | int | None
    limit: int | None
    number: int | float
    dim: Dim = field(default_factory=lambda: Dim(1))
    flag: bool = True


integers = st.integers()
floats = st.floats(allow_nan=False)
inners = st.builds(Inner, floats, st.none() | st.text())
everythings = st.builds(
    Everything,
    count=integers,
    name=st.text(),
    scale=floats,
    padding=st.sampled_from(Padding),
    mode=st.sampled_from(["nearest", "linear", 3]),
    slot=integers.map(SlotKey),
    shape=st.lists(integers).map(tuple),
    pair=st.tuples(integers, st.text()),
    nested=st.lists(inners, max_size=3).map(tuple),
    choice=st.none() | inners | st.builds(Other, st.booleans()) | integers,
    limit=st.none() | integers,
    number=integers | floats,
    dim=st.builds(Dim, integers),
    flag=st.booleans(),
)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(everythings)
def test_M14_whatever_is_written_is_read_back(value: Everything) -> None:
    codec = record_codec(Everything)
    text = json.dumps(codec.encode(value), allow_nan=False)
    loaded = codec.decode(json.loads(text), "value")
    assert loaded == value
    assert type(loaded.number) is type(value.number)
    assert json.dumps(codec.encode(loaded), allow_nan=False) == text


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, -0.0, 5e-324, 2])
def test_floats_keep_their_bits_and_stay_valid_json(number: float) -> None:
    codec = record_codec(Inner)
    loaded = codec.decode(json.loads(json.dumps(codec.encode(Inner(number)), allow_nan=False)), "value")
    assert type(loaded.ratio) is float
    assert math.copysign(1, loaded.ratio) == math.copysign(1, number)
    assert loaded.ratio == number or math.isnan(number)


def test_fields_with_defaults_may_be_absent_in_old_files() -> None:
    assert record_codec(Inner).decode({"ratio": 0.5}, "value") == Inner(0.5)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "value: got JSON of type list; need an object with the fields of Inner"),
        ({}, "value: got no ['ratio']; need the fields of Inner: ratio, tag"),
        ({"ratio": 1.0, "b": 1, "a": 2}, "value: got unknown ['a', 'b']"),
        ({"ratio": "big"}, "value.ratio: got JSON of type str; need float"),
        ({"ratio": 1.0, "tag": 3}, "value.tag: got JSON of type int; need str"),
    ],
)
def test_M14_a_wrong_record_is_refused_with_its_place(data: Json, words: str) -> None:
    with pytest.raises(FormatError) as caught:
        record_codec(Inner).decode(data, "value")
    assert words in str(caught.value)


@dataclass(frozen=True, slots=True)
class Parts:
    padding: Padding = Padding.SAME
    mode: Literal["a", 1] = "a"
    pair: tuple[int, int] = (0, 0)
    rows: tuple[Inner, ...] = ()
    choice: Inner | Other = Other(True)
    flag: bool = False


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"padding": "FULL"}, "p.padding: got JSON of type str; need one of SAME, VALID"),
        ({"mode": True}, "p.mode: got JSON of type bool; need 'a', 1"),
        ({"pair": [1]}, "p.pair: got JSON of type list; need a tuple of 2"),
        ({"pair": [1, None]}, "p.pair[1]: got JSON of type NoneType; need int"),
        ({"rows": [{"ratio": 1.0}, {"ratio": None}]}, "p.rows[1].ratio: got JSON of type NoneType; need float"),
        ({"choice": {"is": "Third", "value": 1}}, "p.choice: got the kind 'Third'; need Inner or Other"),
        ({"choice": 5}, "p.choice: got JSON of type int; need an object with 'is' and 'value'"),
        ({"flag": 1}, "p.flag: got JSON of type int; need bool"),
    ],
)
def test_M14_wrong_parts_are_refused_with_their_place(data: Json, words: str) -> None:
    with pytest.raises(FormatError) as caught:
        record_codec(Parts).decode(data, "p")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "parts",
    [
        {"padding": "SAME"},
        {"mode": True},
        {"pair": (1, 2, 3)},
        {"pair": [1, 2]},
        {"rows": (Other(True),)},
        {"rows": (Inner(10**400),)},
        {"choice": 5},
        {"flag": 1},
    ],
)
def test_a_value_that_contradicts_its_type_is_not_written(parts: dict[str, object]) -> None:
    value = Parts(**parts)  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(FormatError, match="save: got a value of type"):
        record_codec(Parts).encode(value)


@dataclass
class Thawed:
    count: int


@dataclass(frozen=True)
class Untyped:
    value: object


@dataclass(frozen=True)
class Twins:
    value: tuple[int, ...] | tuple[str, str]


@pytest.mark.parametrize("kind", [Thawed, Untyped, dict, Twins])
def test_a_type_without_a_form_is_refused_when_the_codec_is_made(kind: type[object]) -> None:
    with pytest.raises(FormatError, match="without a JSON form|of one class"):
        record_codec(kind)


def test_unions_of_records_are_told_apart_by_name() -> None:
    codec: Codec[Inner | Other] = union_codec(Inner, Other)
    assert codec.encode(Other(True)) == {"is": "Other", "value": {"flag": True}}
    assert codec.decode(codec.encode(Inner(1.0)), "value") == Inner(1.0)


def test_none_is_null() -> None:
    assert none_codec().encode(None) is None
    with pytest.raises(FormatError, match="edge: got JSON of type int; need null"):
        none_codec().decode(0, "edge")


def test_M14_an_unknown_operator_is_a_typed_error() -> None:
    registry = Registry("test")
    pool = Op("pool", Parts, ("x",), registry=registry)
    data = encode_call(pool, Parts(flag=True))
    assert decode_call(registry, data) == (pool, Parts(flag=True))
    with pytest.raises(FormatError, match="call: got the operator 'pool'; need one that Registry"):
        decode_call(Registry("empty"), data)
    wrong: list[Json] = [{"op": 1, "attributes": {}}, {"op": "pool"}, "pool"]
    for broken in wrong:
        with pytest.raises(FormatError, match="call: got"):
            decode_call(registry, broken)
    with pytest.raises(FormatError, match=r"node 3.attributes: got unknown \['flagg'\]"):
        decode_call(registry, {"op": "pool", "attributes": {"flagg": True}}, "node 3")
    assert record_codec(NoAttributes).encode(NoAttributes()) == {}


@dataclass(frozen=True, slots=True)
class Priced:
    amount: Decimal
    steps: tuple[Decimal, ...] = ()


def test_M6_classes_of_others_get_a_form_from_outside() -> None:
    forms = Forms().add(Decimal, Codec(str, lambda data, _: Decimal(str(data))))
    value = Priced(Decimal("0.10"), (Decimal(1),))
    codec = record_codec(Priced, forms)
    assert codec.encode(value) == {"amount": "0.10", "steps": ["1"]}
    assert codec.decode(codec.encode(value), "price") == value
    pay = Op("pay", Priced, ("x",), registry=Registry("shop"))
    assert decode_call(pay.registry, encode_call(pay, value, forms), forms=forms) == (pay, value)
    with pytest.raises(FormatError, match="save: got a value of type int; need Decimal"):
        codec.encode(Priced(1))  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(FormatError, match="type Decimal: got a type without a JSON form"):
        record_codec(Priced)


def test_numbers_of_both_kinds_are_written_as_themselves() -> None:
    codec: Codec[object] = record_codec(_Numbers)
    value = _Numbers(2**60 + 1, 2.0)
    assert codec.encode(value) == {"exact": 2**60 + 1, "rounded": 2.0}
    decoded = codec.decode({"exact": 2**60 + 1, "rounded": 2.0}, "numbers")
    assert decoded == value
    assert isinstance(decoded, _Numbers)
    assert [type(part) for part in (decoded.exact, decoded.rounded)] == [int, float]
    with pytest.raises(FormatError):
        codec.decode({"exact": True, "rounded": 2.0}, "numbers")


@dataclass(frozen=True, slots=True)
class _Numbers:
    exact: int | float
    rounded: int | float
