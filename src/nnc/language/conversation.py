"""A chat with a model: messages that were said, and what is kept of them, so that each is read once."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

from nnc.arguments import Count, Positive, Seed, checked
from nnc.core.precautions.reading import read_file
from nnc.core.precautions.replacement import write_atomically
from nnc.errors import DataError, FormatError
from nnc.language.kept_tokens import KeptTokens
from nnc.language.text.chat_template import check_messages
from nnc.language.text.tokenizer import TextTokenizer
from nnc.nn.generation import TokenModel
from nnc.nn.inference.next_token import Part, TokenChoice

MOST_HISTORY_BYTES = 1 << 26
KEPT_SUFFIX = ".kept.safetensors"


class Conversation:
    """Messages by turns; `say` adds one and streams the answer. What is read once stays in the caches of this chat."""

    def __init__(self, model: TokenModel, tokenizer: TextTokenizer, name: str, system: str = "") -> None:
        self._model, self._tokenizer = model, tokenizer
        # What tells this model from others, in files of what is kept.
        self._name = name
        self._room = int(model.inputs[0].shape[0])
        self._kept = KeptTokens(model, self._room)
        self.system = system
        self.messages: list[dict[str, str]] = []
        self.reset()

    def reset(self) -> None:
        """Forget all messages but the system's."""
        self.messages = [{"role": "system", "content": self.system}] if self.system else []

    @checked
    def say(
        self,
        text: str,
        length: Count = 256,
        *,
        temperature: Positive | None = None,
        top_k: Count | None = None,
        top_p: Part | None = None,
        min_p: Part | None = None,
        seed: Seed = 0,
    ) -> Generator[str, None, None]:
        """The answer in pieces. One that is left early (the iterator is closed) stays in the chat as far as it came.

        Nothing is added before the first piece is asked for, nor where the context has no room: that is a DataError.
        """
        said = [*self.messages, {"role": "user", "content": text}]
        tokens = self._tokenizer.chat(said)
        if len(tokens) >= self._room:
            need = f"less than {self._room}, the context"
            raise DataError("chat", got=f"a chat of {len(tokens)} tokens", need=need, fix="reset, or a larger context")
        choice = TokenChoice(temperature, top_k, top_p, seed, min_p)
        return self._answer(said, tokens, min(length, self._room - len(tokens)), choice)

    def _answer(
        self, said: list[dict[str, str]], tokens: list[int], length: int, choice: TokenChoice
    ) -> Generator[str, None, None]:
        self.messages = said
        pieces, written = self._tokenizer.pieces(), ""
        ends = frozenset(token for token in self._tokenizer.ends if token < self._model.outputs[0].shape[-1])
        try:
            with closing(self._kept.follow(tokens, length, choice, ends)) as answer:
                for token in answer:
                    piece = pieces.push(token)
                    written += piece
                    if piece:
                        yield piece
            rest = pieces.end()
            written += rest
            if rest:
                yield rest
        finally:
            self.messages.append({"role": "assistant", "content": written})

    @checked
    def save(self, path: Path | str, *, kept: bool = True) -> None:
        """Write the messages as JSON, and what is kept of them to a file of tensors beside it."""
        place = Path(path)
        text = json.dumps({"messages": self.messages}, ensure_ascii=False, indent=1)
        write_atomically(place, [text.encode()])
        if kept:
            self._kept.save(_beside(place), self._name)

    @checked
    def load(self, path: Path | str) -> None:
        """Go on with the messages of a file; what was kept of them is read too, where it is there and of this model."""
        place = Path(path)
        try:
            held = json.loads(read_file(place, "a chat", MOST_HISTORY_BYTES).decode())
            messages = held["messages"]
            check_messages(messages)
        except (ValueError, RecursionError, LookupError, TypeError, DataError):
            raise FormatError(str(place), got="no chat", need='{"messages": [{"role": …, "content": …}]}') from None
        self.messages = [{"role": each["role"], "content": each["content"]} for each in messages]
        first = self.messages[0]
        self.system = first["content"] if first["role"] == "system" else ""
        if os.path.exists(_beside(place)):
            self._kept.load(_beside(place), self._name)


def _beside(place: Path) -> Path:
    return place.with_name(f"{place.name}{KEPT_SUFFIX}")
