"""Between typed values and JSON: a codec is derived from the type hints of frozen dataclasses.

Allowed are bool, int, float, str, None, enums (by member name), tuples, `NewType`s and `Literal`s of these, nested
frozen dataclasses, unions, any class with `to_json` and `from_json`, and classes of others through `Forms`. Everything
else is refused when the codec is made, not when a file is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import (
    Final,
    Generic,
    Literal,
    NewType,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from nnc.arguments import explained
from nnc.classes import dataclass
from nnc.errors import FormatError
from nnc.graph.registry import Op, Registry

T = TypeVar("T")

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = "dict[str, Json]"


@runtime_checkable
class JsonValue(Protocol):
    """A class that says itself how it is written."""

    def to_json(self) -> Json:
        """The JSON form of the value."""
        ...

    @classmethod
    def from_json(cls, data: Json) -> Self:
        """The value of a JSON form. Raises FormatError."""
        ...


# Without slots: on Python 3.11 a generic frozen dataclass with slots cannot be called with its type arguments.
@dataclass(frozen=True)
class Codec(Generic[T]):
    """`decode(encode(value)) == value`; `decode` takes the place in the file too, for its messages."""

    encode: Callable[[T], Json]
    decode: Callable[[Json, str], T]


@dataclass(frozen=True, slots=True)
class _Pair:
    """The codec of a type that is known only at run time."""

    encode: Callable[[object], Json]
    decode: Callable[[Json, str], object]


class Forms:
    """JSON forms for classes that cannot have `to_json`, to be given wherever a codec is made.

    It also keeps what was derived with it: reading the type hints of a class costs more than writing many values.
    """

    __slots__ = ("_pairs",)

    def __init__(self) -> None:
        self._pairs: dict[object, _Pair] = {}

    def add(self, kind: type[T], codec: Codec[T]) -> Forms:
        """Write the instances of a class, and of its subclasses, with this codec; gives the forms back."""

        def encode(value: object) -> Json:
            if not isinstance(value, kind):
                raise _wrong_value(value, kind.__name__)
            return codec.encode(value)

        self._pairs[kind] = _Pair(encode, codec.decode)
        return self

    def pair(self, kind: type[object]) -> _Pair:
        """The form of a class, derived when it is first asked for."""
        if kind not in self._pairs:
            self._pairs[kind] = _class(kind, self)
        return self._pairs[kind]

    def __contains__(self, kind: object) -> bool:
        return kind in self._pairs


STANDARD: Final = Forms()


def record_codec(record: type[T], forms: Forms = STANDARD) -> Codec[T]:
    """The codec of a frozen dataclass, or of any other type that a field may have.

    Raises FormatError for a type that has no JSON form.
    """
    pair = _pair(record, forms)

    def decode(data: Json, where: str) -> T:
        value = pair.decode(data, where)
        if not isinstance(value, record):
            raise _wrong(where, data, record.__name__)
        return value

    return Codec(pair.encode, decode)


def union_codec(*members: type[T], forms: Forms = STANDARD) -> Codec[T]:
    """The codec of a closed union of classes: `{"is": class name, "value": ...}`."""
    pair = _pair(Union[members], forms)  # noqa: UP007 - the members are only known at run time

    def decode(data: Json, where: str) -> T:
        value = pair.decode(data, where)
        if not isinstance(value, members):
            raise _wrong(where, data, " | ".join(member.__name__ for member in members))
        return value

    return Codec(pair.encode, decode)


def none_codec() -> Codec[None]:
    """The codec of records that hold nothing."""
    return Codec(lambda _: None, _decode_none)


@explained
def encode_call(op: Op[object], attributes: object, forms: Forms = STANDARD) -> JsonObject:
    """`{"op": name, "attributes": {...}}`."""
    op.check_attributes(attributes)
    return {"op": op.name, "attributes": _pair(op.attributes, forms).encode(attributes)}


def decode_call(
    registry: Registry, data: Json, where: str = "call", forms: Forms = STANDARD
) -> tuple[Op[object], object]:
    """The operator and its attributes. Raises FormatError for an operator that the registry does not hold."""
    if not isinstance(data, dict) or set(data) != {"op", "attributes"}:
        raise _wrong(where, data, "an object with 'op' and 'attributes'")
    name = data["op"]
    if not isinstance(name, str) or name not in registry:
        raise FormatError(
            where,
            got=f"the operator {name!r}",
            need=f"one that {registry} holds",
            fix="import the package that defines it",
        )
    op = registry.op(name)
    return op, record_codec(op.attributes, forms).decode(data["attributes"], f"{where}.attributes")


# Below, types are run-time objects.


def _pair(hint: object, forms: Forms) -> _Pair:
    if isinstance(hint, NewType):
        return _pair(hint.__supertype__, forms)
    origin = get_origin(hint)
    if origin is Literal:
        return _literal(get_args(hint), forms)
    if origin is tuple:
        return _tuple(get_args(hint), forms)
    if origin in (Union, UnionType):
        return _union(get_args(hint), forms)
    if hint in _SCALARS:
        return _SCALARS[hint]
    if isinstance(origin, type) and origin in forms:
        return forms.pair(origin)
    if isinstance(hint, type):
        return forms.pair(hint)
    raise _no_form(hint)


def _class(kind: type[object], forms: Forms) -> _Pair:
    if issubclass(kind, JsonValue):
        return _self_written(kind)
    if issubclass(kind, Enum):
        return _enum(kind)
    parameters = getattr(kind, "__dataclass_params__", None)
    if is_dataclass(kind) and parameters is not None and parameters.frozen:
        return _record(kind, forms)
    raise _no_form(kind)


def _self_written(kind: type[JsonValue]) -> _Pair:
    def encode(value: object) -> Json:
        if not isinstance(value, kind):
            raise _wrong_value(value, kind.__name__)
        return value.to_json()

    return _Pair(encode, lambda data, where: kind.from_json(data))


def _record(kind: type[object], forms: Forms) -> _Pair:
    hints = get_type_hints(kind)
    members = [member for member in fields(kind) if member.init]  # type: ignore[arg-type]  # checked by the caller
    pairs = {member.name: _pair(hints[member.name], forms) for member in members}
    required = {member.name for member in members if not _has_default(member)}

    def encode(value: object) -> Json:
        if type(value) is not kind:
            raise _wrong_value(value, kind.__name__)
        return {name: pair.encode(getattr(value, name)) for name, pair in pairs.items()}

    def decode(data: Json, where: str) -> object:
        if not isinstance(data, dict):
            raise _wrong(where, data, f"an object with the fields of {kind.__name__}")
        unknown, absent = sorted(set(data) - set(pairs)), sorted(required - set(data))
        if unknown or absent:
            got = "; ".join(f"{what} {names}" for what, names in (("unknown", unknown), ("no", absent)) if names)
            raise FormatError(where, got=got, need=f"the fields of {kind.__name__}: {', '.join(pairs)}")
        return kind(**{name: pairs[name].decode(part, f"{where}.{name}") for name, part in data.items()})

    return _Pair(encode, decode)


def _has_default(member: Field[object]) -> bool:
    return member.default is not MISSING or member.default_factory is not MISSING


def _enum(kind: type[Enum]) -> _Pair:
    def encode(value: object) -> Json:
        if not isinstance(value, kind):
            raise _wrong_value(value, kind.__name__)
        return value.name

    def decode(data: Json, where: str) -> object:
        if not isinstance(data, str) or data not in kind.__members__:
            raise _wrong(where, data, f"one of {', '.join(kind.__members__)}")
        return kind[data]

    return _Pair(encode, decode)


def _literal(values: tuple[object, ...], forms: Forms) -> _Pair:
    known = {(type(value), value): value for value in values}
    pairs = {type(value): _pair(type(value), forms) for value in values}
    words = ", ".join(map(repr, values))

    def encode(value: object) -> Json:
        if (type(value), value) not in known:
            raise _wrong_value(value, words)
        return pairs[type(value)].encode(value)

    def decode(data: Json, where: str) -> object:
        for kind, pair in pairs.items():
            if type(data) is kind and (kind, value := pair.decode(data, where)) in known:
                return value
        raise _wrong(where, data, words)

    return _Pair(encode, decode)


def _tuple(arguments: tuple[object, ...], forms: Forms) -> _Pair:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return _items([_pair(arguments[0], forms)], any_length=True)
    return _items([_pair(argument, forms) for argument in arguments], any_length=False)


def _items(pairs: list[_Pair], any_length: bool) -> _Pair:
    words = "a tuple" if any_length else f"a tuple of {len(pairs)}"

    def matched(count: int) -> list[_Pair] | None:
        if any_length:
            return pairs * count
        return pairs if count == len(pairs) else None

    def encode(value: object) -> Json:
        if not isinstance(value, tuple) or (used := matched(len(value))) is None:
            raise _wrong_value(value, words)
        return [pair.encode(item) for pair, item in zip(used, value, strict=True)]

    def decode(data: Json, where: str) -> object:
        if not isinstance(data, list) or (used := matched(len(data))) is None:
            raise _wrong(where, data, words)
        parts = enumerate(zip(used, data, strict=True))
        return tuple(pair.decode(part, f"{where}[{position}]") for position, (pair, part) in parts)

    return _Pair(encode, decode)


def _union(members: tuple[object, ...], forms: Forms) -> _Pair:
    """None is null; one other member is written as itself, and so are numbers; several are told apart by name."""
    others = [member for member in members if member is not NoneType]
    if set(others) == {int, float}:
        inner = _NUMBER
    else:
        inner = _pair(others[0], forms) if len(others) == 1 else _tagged(others, forms)
    return _optional(inner) if NoneType in members else inner


def _optional(inner: _Pair) -> _Pair:
    return _Pair(
        lambda value: None if value is None else inner.encode(value),
        lambda data, where: None if data is None else inner.decode(data, where),
    )


def _tagged(members: list[object], forms: Forms) -> _Pair:
    names = {_run_time_class(member): _name(member) for member in members}
    pairs = {_name(member): _pair(member, forms) for member in members}
    words = " or ".join(map(_name, members))
    if len(names) < len(members) or len(pairs) < len(members):
        raise FormatError(words, got="union members of one class", need="classes that differ")

    def encode(value: object) -> Json:
        name = names.get(type(value))
        if name is None:
            raise _wrong_value(value, words)
        return {"is": name, "value": pairs[name].encode(value)}

    def decode(data: Json, where: str) -> object:
        if not isinstance(data, dict) or set(data) != {"is", "value"}:
            raise _wrong(where, data, "an object with 'is' and 'value'")
        name = data["is"]
        if not isinstance(name, str) or name not in pairs:
            raise FormatError(where, got=f"the kind {name!r}", need=words)
        return pairs[name].decode(data["value"], where)

    return _Pair(encode, decode)


def _run_time_class(hint: object) -> object:
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    return get_origin(hint) or hint


def _name(hint: object) -> str:
    return str(getattr(hint, "__name__", hint))


def _scalar(kind: type[object]) -> _Pair:
    def encode(value: object) -> Json:
        if type(value) is not kind or not isinstance(value, bool | int | str):
            raise _wrong_value(value, kind.__name__)
        return value

    def decode(data: Json, where: str) -> object:
        if type(data) is not kind:
            raise _wrong(where, data, kind.__name__)
        return data

    return _Pair(encode, decode)


def _encode_float(value: object) -> Json:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong_value(value, "float")
    try:
        number = float(value)
    except OverflowError:
        raise _wrong_value(value, "float, or an integer that one can hold") from None
    # JSON has no words for these, and Python's own are not portable.
    return number if math.isfinite(number) else str(number)


def _decode_float(data: Json, where: str) -> float:
    if isinstance(data, float) or data in ("inf", "-inf", "nan"):
        return float(data)
    raise _wrong(where, data, "float")


def _encode_number(value: object) -> Json:
    return value if type(value) is int else _encode_float(value)


def _decode_number(data: Json, where: str) -> int | float:
    return data if type(data) is int else _decode_float(data, where)


def _encode_none(value: object) -> Json:
    if value is not None:
        raise _wrong_value(value, "None")
    return None


def _decode_none(data: Json, where: str) -> None:
    if data is not None:
        raise _wrong(where, data, "null")


_SCALARS: dict[object, _Pair] = {
    bool: _scalar(bool),
    int: _scalar(int),
    str: _scalar(str),
    float: _Pair(_encode_float, _decode_float),
    None: _Pair(_encode_none, _decode_none),
    NoneType: _Pair(_encode_none, _decode_none),
}

# Written as JSON's numbers are: `2` an integer, `2.0` a float.
_NUMBER: Final = _Pair(_encode_number, _decode_number)


def _wrong(where: str, data: Json, need: str) -> FormatError:
    return FormatError(where, got=f"JSON of type {type(data).__name__}", need=need)


def _wrong_value(value: object, need: str) -> FormatError:
    return FormatError("save", got=f"a value of type {type(value).__name__}", need=need)


def _no_form(hint: object) -> FormatError:
    return FormatError(
        f"type {_name(hint)}",
        got="a type without a JSON form",
        need="a frozen dataclass, an enum, a tuple, a number, a string",
        fix="give the class to_json and from_json",
    )
