"""One line of a graph's text under a cursor."""

from __future__ import annotations

import json
import re

from nnc.core.values.device import CPU, Device
from nnc.core.values.dtype import dtype_of
from nnc.core.values.spec import AnyLayout, Layout, TensorSpec
from nnc.errors import FormatError, UsageError
from nnc.graph import Json

PLAIN = re.compile(r"[A-Za-z_][\w./-]*")


class Line:
    """One line under a cursor; every method takes what it names and the blanks behind it."""

    def __init__(self, text: str, number: int) -> None:
        self.text = text.strip()
        self.number = number
        self.at = 0

    @property
    def where(self) -> str:
        """The line, for messages."""
        return f"graph text, line {self.number}"

    def fault(self, need: str) -> FormatError:
        """What is there instead of what is needed."""
        got = self.text[self.at : self.at + 20] or "the end of the line"
        return FormatError(self.where, got=repr(got), need=need)

    def at_end(self) -> bool:
        """True at the end and in front of a comment."""
        return self.at >= len(self.text) or self.text[self.at] == "#"

    def comment(self) -> str:
        """The rest, without its sign."""
        if not self.at_end():
            raise self.fault("the end of the line, or a comment")
        return self.text[self.at :].removeprefix("#").strip()

    def take(self, sign: str) -> bool:
        """True when the sign is next."""
        is_next = self.text.startswith(sign, self.at)
        if is_next:
            self._skip(self.at + len(sign))
        return is_next

    def expect(self, sign: str) -> None:
        """The sign."""
        if not self.take(sign):
            raise self.fault(repr(sign))

    def match(self, pattern: str, need: str) -> re.Match[str]:
        """Whatever the pattern matches."""
        matched = re.compile(pattern).match(self.text, self.at)
        if matched is None:
            raise self.fault(need)
        self._skip(matched.end())
        return matched

    def json(self) -> Json:
        """One JSON value."""
        try:
            value: Json
            value, end = json.JSONDecoder().raw_decode(self.text, self.at)
        except (ValueError, RecursionError):
            raise self.fault("a JSON value") from None
        self._skip(end)
        return value

    def name(self) -> str:
        """A plain or a quoted name."""
        if self.text[self.at : self.at + 1] != '"':
            return self.match(PLAIN.pattern, "a name")[0]
        value = self.json()
        assert isinstance(value, str)
        return value

    def number_of(self) -> int:
        """`%3`"""
        return int(self.match(r"%(\d{1,9})\b", "a symbol, as %0")[1])

    def numbers(self) -> tuple[int, ...]:
        """`(%0, %3)`"""
        self.expect("(")
        numbers: list[int] = []
        while not self.take(")"):
            numbers.append(self.number_of())
            self.take(",")
        return tuple(numbers)

    def integer(self) -> int:
        """A whole number."""
        return int(self.match(r"-?\d{1,18}\b", "a whole number")[0])

    def real(self) -> float:
        """A number, as JSON."""
        value = self.json()
        if not isinstance(value, int | float):
            raise self.fault("a number in front of this")
        return float(value)

    def integers(self) -> tuple[int, ...]:
        """`[4, 3]`"""
        listed = self.match(r"\[((?:-?\d{1,18}(?:, -?\d{1,18})*)?)\]", "whole numbers, as [4, 3]")[1]
        return tuple(int(part) for part in listed.split(", ") if part)

    def attributes(self) -> dict[str, Json]:
        """`(scale=2.0, shift=1.0)`, or nothing."""
        attributes: dict[str, Json] = {}
        if self.take("("):
            while not self.take(")"):
                name = self.match(r"\w+", "an attribute")[0]
                self.expect("=")
                attributes[name] = self.json()
                self.take(",")
        return attributes

    def spec(self) -> TensorSpec:
        """`f32[4, 3]:NCHW@cuda:0`, layout and device where they are not the usual ones."""
        try:
            dtype = dtype_of(self.match(r"\w+", "an element type")[0])
            shape = self.integers()
            layout = self._layout() if self._next(":") else Layout.NHWC
            place = self.match(r"@(\w+):(\d{1,9})\b", "a device, as @cuda:0") if self._next("@") else None
            device = CPU if place is None else Device(place[1], int(place[2]))
            return TensorSpec(shape, dtype, layout, device)
        except FormatError:
            raise
        except UsageError as error:
            raise FormatError(self.where, got=error.got, need=error.need) from None

    def _layout(self) -> AnyLayout:
        """`:NCHW`, or `:768x3072/64k2g3`"""
        return AnyLayout.from_json(self.match(r":([\w/]+)", "a layout")[1])

    def _next(self, sign: str) -> bool:
        return self.text.startswith(sign, self.at)

    def _skip(self, at: int) -> None:
        while at < len(self.text) and self.text[at] == " ":
            at += 1
        self.at = at
