"""Messages of a chat as the text that a model was trained on, by the template of its file.

A template is a program of somebody else's: it runs in Jinja2's sandbox, with few filters, bounds on the sizes of
what it makes, and so many lines that it may run. What it names beside the messages are the start and end token.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import Any, TypeAlias

from jinja2 import TemplateError
from jinja2.exceptions import SecurityError
from jinja2.ext import loopcontrols
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from nnc.errors import DataError, FormatError

MOST_TEMPLATE = 1 << 17
MOST_TEXT = 1 << 24
# A chat of a thousand messages takes about twenty thousand.
MOST_LINES = 1_000_000
MOST_REPEATED = 1 << 16
# What templates raise, by themselves and by what they do with messages.
BROKEN = (TemplateError, RecursionError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError)
FILTERS = (
    "abs", "batch", "capitalize", "count", "d", "default", "dictsort", "e", "first", "float", "int", "items", "join",
    "last", "length", "list", "lower", "map", "reject", "rejectattr", "replace", "reverse", "round", "safe", "select",
    "selectattr", "sort", "string", "sum", "title", "trim", "unique", "upper",
)  # fmt: skip

Message: TypeAlias = Mapping[str, str]
Tracer: TypeAlias = Callable[[FrameType, str, Any], Any]


class _EndlessError(Exception):
    """A template ran longer than any chat takes."""


class _Sandbox(ImmutableSandboxedEnvironment):
    """Products and powers of texts and numbers bounded too."""

    intercepted_binops = frozenset(["*", "**", "%"])

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        """The operation, unless what it makes could be large."""
        if operator == "**" or any(isinstance(side, int) and abs(side) > MOST_REPEATED for side in (left, right)):
            raise SecurityError(f"{operator} of large operands")
        if operator == "*" and not all(isinstance(side, int | float) for side in (left, right)):
            raise SecurityError("a text or list many times")
        if operator == "%" and not isinstance(left, int | float):
            raise SecurityError("a format")
        return super().call_binop(context, operator, left, right)


def _raised(message: object) -> None:
    raise TemplateError(str(message)[:200])


def _as_json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=min(indent, 8) if isinstance(indent, int) else None)


def _environment() -> _Sandbox:
    sandbox = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    sandbox.filters = {name: sandbox.filters[name] for name in FILTERS} | {"tojson": _as_json}
    sandbox.globals = {"range": sandbox.globals["range"], "namespace": sandbox.globals["namespace"]}
    sandbox.globals |= {
        "raise_exception": _raised,
        "strftime_now": lambda form: datetime.now().strftime(str(form)[:64]),
    }
    return sandbox


class ChatTemplate:
    """A template, parsed once; FormatError for one that is none."""

    def __init__(self, source: str, names: Mapping[str, str], place: str = "chat template") -> None:
        self._place, self._names, self.source = place, dict(names), source
        if len(source) > MOST_TEMPLATE:
            raise FormatError(place, got=f"a template of {len(source):,} characters", need=f"at most {MOST_TEMPLATE:,}")
        try:
            self._template = _environment().from_string(source)
        except (TemplateError, RecursionError, ValueError, SyntaxError) as error:
            raise FormatError(place, got=f"a template that is none ({error})"[:200], need="a Jinja2 template") from None

    def text(self, messages: Sequence[Message], *, answer: bool = True) -> str:
        """The messages as one text, with the beginning of an answer behind them."""
        check_messages(messages)
        own = [dict(message) for message in messages]
        try:
            with _bounded():
                made = self._template.render(messages=own, add_generation_prompt=answer, **self._names)
        except _EndlessError:
            raise FormatError(self._place, got="a template that does not end", need="a template of chats") from None
        except BROKEN as error:
            got = f"messages of {', '.join(message['role'] for message in own[:8])}: {error}"
            raise DataError(self._place, got=got[:300], need="messages that it takes") from None
        if len(made) > MOST_TEXT:
            raise DataError(self._place, got=f"{len(made):,} characters", need=f"at most {MOST_TEXT:,}")
        return made


@contextmanager
def _bounded() -> Iterator[None]:
    """Count the lines that run, and stop behind `MOST_LINES`; who traced before traces again behind it."""
    before, ran = sys.gettrace(), 0

    def line(frame: FrameType, event: str, argument: Any) -> Tracer:  # noqa: ANN401  # as Python calls it
        nonlocal ran
        ran += 1
        if ran > MOST_LINES:
            raise _EndlessError
        return line

    sys.settrace(line)
    try:
        yield
    finally:
        sys.settrace(before)


def check_messages(messages: Sequence[Message]) -> None:
    """DataError unless each is a mapping of texts with a role and a content."""
    if not messages:
        raise DataError("chat", got="no messages", need='[{"role": "user", "content": "…"}]')
    for place, message in enumerate(messages):
        texts = isinstance(message, Mapping) and all(isinstance(message.get(key), str) for key in ("role", "content"))
        if not texts:
            raise DataError("chat", got=f"message {place} without texts", need='{"role": "user", "content": "…"}')
