"""Rules of a tokenizer's file that may take time with the square of a text's length, or worse, are watched.

    (a*b|.) on 200,000 times a: a minute; a*a*b: days          the package's own limit is on single matches

Expressions that the table of `pre_tokenizers` has, and models whose pieces are short, take time with the length alone.
What any other file asks for has `FIRST_SECONDS`, and `LETTER_SECONDS` for each letter, 20 times what usual rules take.
Then it is a DataError. The package cannot be interrupted: what has begun goes on to its end in a thread of its own, but
the tokenizer takes no further text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from threading import Thread
from typing import TypeVar

from tokenizers import Tokenizer as Encoder

from nnc.errors import DataError
from nnc.language.text.pre_tokenizers import CUTS

R = TypeVar("R")
FIRST_SECONDS, LETTER_SECONDS = 10.0, 20e-6
# Of so short a text even the worst rule is done, or gives up by the package's limit of 10^7 steps a match, in seconds.
SHORT = 256
# Letters of a word that WordPiece looks up by ever shorter beginnings; files of BERT say 100.
LONG_WORD = 1_000
KNOWN = frozenset(expression for cuts in CUTS.values() for expression in cuts.expressions)


class SlowRules:
    """How the rules of one tokenizer are run: at once, or watched."""

    def __init__(self, encoder: Encoder) -> None:
        parts = [encoder.normalizer, encoder.pre_tokenizer, encoder.decoder]
        rules = [json.loads(part.__getstate__()) for part in parts if part is not None]
        words = getattr(encoder.model, "max_input_chars_per_word", 0)
        self.watched = words > LONG_WORD or any(each not in KNOWN for rule in rules for each in _expressions(rule))
        self.given_up = False

    def run(self, subject: str, letters: int, call: Callable[[], R], released: Callable[[], R]) -> R:
        """What the call gives, of so many letters; DataError where it does not come in its time.

        Watched, it is the `released` one, of the package's functions of many texts: these let go of the interpreter.
        """
        if self.given_up:
            raise _too_slow(subject, "a tokenizer that has not come back from a text", letters)
        if not self.watched or letters <= SHORT:
            return call()
        results: list[R] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(released())
            except BaseException as error:  # panics of the package are no `Exception`
                errors.append(error)

        thread = Thread(target=work, name="nnc-tokenizer", daemon=True)
        thread.start()
        try:
            thread.join(FIRST_SECONDS + LETTER_SECONDS * letters)
        finally:
            # Of Ctrl-C too: another text would begin another thread beside this one. A text of another thread that is
            # done meanwhile takes nothing of that back.
            late = thread.is_alive()
            if late:
                self.given_up = True
        if late:
            raise _too_slow(subject, "rules that are not done", letters)
        if errors:
            raise errors[0]
        return results[0]


def _too_slow(subject: str, got: str, letters: int) -> DataError:
    need = "rules that take time with the length of a text"
    fix = "look at the regular expressions of its file, or encode shorter texts with one that is loaded anew"
    return DataError(subject, got=f"{got}, of {letters:,} letters or tokens", need=need, fix=fix)


def _expressions(rule: object) -> Iterator[str]:
    """All regular expressions in a rule, which may be a sequence of rules."""
    waiting = [rule]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if isinstance(part.get("Regex"), str):
                yield part["Regex"]
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
