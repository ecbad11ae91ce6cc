"""The form of an answer as callers say it, and the masks of a vocabulary for it, made once."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import TypeAlias

from nnc.errors import FormatError
from nnc.language.constraints.expressions import grammar_of_expression
from nnc.language.constraints.gbnf import grammar_of_gbnf
from nnc.language.constraints.grammar_rules import Grammar
from nnc.language.constraints.json_schemas import grammar_of_schema
from nnc.language.constraints.token_masks import TokenMasks
from nnc.language.text.token_bytes import token_bytes
from nnc.language.text.tokenizer import TextTokenizer

# A grammar of llama.cpp's notation, a JSON schema, a regular expression, or rules that were made of one.
AnswerForm: TypeAlias = str | Mapping[str, object] | re.Pattern[str] | Grammar
# Forms whose masks are kept: a server answers many requests of few forms.
MOST_FORMS = 16


def grammar_of(form: AnswerForm) -> Grammar:
    """The rules of a form; FormatError where it is none."""
    match form:
        case Grammar():
            return form
        case str():
            return grammar_of_gbnf(form)
        case re.Pattern():
            if form.flags & ~re.UNICODE:
                raise FormatError("pattern", got="an expression with flags", need="one without")
            return grammar_of_expression(form.pattern)
    return grammar_of_schema(form)


class AnswerForms:
    """Masks by form for one tokenizer. Any thread may ask."""

    def __init__(self, tokenizer: TextTokenizer, ends: Iterable[int]) -> None:
        self._tokenizer, self._ends = tokenizer, tuple(ends)
        self._vocabulary: list[bytes] | None = None
        self._held: OrderedDict[object, TokenMasks] = OrderedDict()
        self._lock = Lock()

    def masks(self, form: AnswerForm) -> TokenMasks:
        """The masks of a form, those of the last few kept."""
        key = _key(form)
        with self._lock:
            if key not in self._held:
                if self._vocabulary is None:
                    self._vocabulary = token_bytes(self._tokenizer)
                self._held[key] = TokenMasks(grammar_of(form), self._vocabulary, self._ends)
                if len(self._held) > MOST_FORMS:
                    self._held.popitem(last=False)
            self._held.move_to_end(key)
            return self._held[key]


def _key(form: AnswerForm) -> object:
    """What is the same for equal forms; rules are told apart by what they are."""
    if not isinstance(form, Mapping):
        return form
    try:
        return json.dumps(form)
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError("schema", got=f"no JSON ({error})"[:100], need="a JSON schema") from None
