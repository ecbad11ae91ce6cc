"""Answers in the form of OpenAI's interface: whole, as events, with log-probabilities; vectors; errors."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.language.serving.worker import Finish, Part, TextPart
from nnc.language.text.pieces import BROKEN
from nnc.language.text.tokenizer import TextTokenizer
from nnc.language.token_shares import TokenShare

Object: TypeAlias = dict[str, Any]
TYPES = {429: "rate_limit_error", 500: "server_error", 503: "server_error"}
CODES = {404: "not_found", 413: "request_too_large", 429: "rate_limit_exceeded"}


def error_of(status: int, message: str, field: str | None = None) -> Object:
    """An error as clients of OpenAI's interface read it."""
    kind, code = TYPES.get(status, "invalid_request_error"), CODES.get(status)
    return {"error": {"message": message, "type": kind, "param": field, "code": code}}


def usage_of(finishes: Iterable[Finish], prompts: int) -> Object:
    """Tokens read and written; a prompt of several answers counts once."""
    held = list(finishes)
    read = sum(each.read for each in held[:: max(len(held) // prompts, 1)])
    written = sum(each.written for each in held)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


@dataclass(slots=True)
class Written:
    """One answer as far as it came."""

    text: str = ""
    shares: tuple[TokenShare, ...] = ()
    finish: Finish = Finish("stop", 0, 0)

    def add(self, part: Part) -> None:
        """One more part."""
        self.shares += part.shares
        if isinstance(part, TextPart):
            self.text += part.text
        else:
            self.finish = part


class ReplyForm:
    """What frames the answers to one request."""

    def __init__(self, tokenizer: TextTokenizer, model: str, number: str, *, chat: bool, likely: bool) -> None:
        self._tokenizer, self._model, self._number = tokenizer, model, number
        self._chat, self._likely, self._created = chat, likely, int(time.time())

    def whole(self, answers: Sequence[Written], prompts: int) -> Object:
        """All answers of a request."""
        choices = [self._choice(place, each) for place, each in enumerate(answers)]
        usage = usage_of((each.finish for each in answers), prompts)
        return {**self._framed(choices, streamed=False), "usage": usage}

    def opening(self, place: int) -> str:
        """What comes before the pieces of a chat's answer."""
        delta = {"role": "assistant", "content": ""}
        return self._event([{"index": place, "delta": delta, "logprobs": None, "finish_reason": None}])

    def event(self, place: int, part: Part) -> str:
        """A piece of an answer, or its finish."""
        reason, text = (part.reason, "") if isinstance(part, Finish) else (None, part.text)
        body: Object = {"delta": {"content": text} if text else {}} if self._chat else {"text": text}
        return self._event([{"index": place, **body, "logprobs": self._logprobs(part.shares), "finish_reason": reason}])

    def counted(self, finishes: Sequence[Finish], prompts: int) -> str:
        """The last event: how many tokens there were."""
        framed = {**self._framed([], streamed=True), "usage": usage_of(finishes, prompts)}
        return f"data: {json.dumps(framed)}\n\n"

    @staticmethod
    def failed(message: str) -> str:
        """An answer that broke off."""
        return f"data: {json.dumps(error_of(500, message))}\n\n"

    def _event(self, choices: list[Object]) -> str:
        return f"data: {json.dumps(self._framed(choices, streamed=True), ensure_ascii=False)}\n\n"

    def _choice(self, place: int, written: Written) -> Object:
        message = {"role": "assistant", "content": written.text}
        body: Object = {"message": message} if self._chat else {"text": written.text}
        shares, reason = self._logprobs(written.shares), written.finish.reason
        return {"index": place, **body, "logprobs": shares, "finish_reason": reason}

    def _framed(self, choices: list[Object], *, streamed: bool) -> Object:
        kind = ("chat.completion.chunk" if streamed else "chat.completion") if self._chat else "text_completion"
        return {
            "id": self._number,
            "object": kind,
            "created": self._created,
            "model": self._model,
            "choices": choices,
        }

    def _logprobs(self, shares: Sequence[TokenShare]) -> Object | None:
        if not self._likely:
            return None
        if self._chat:
            return {"content": [self._told(each) for each in shares]}
        likeliest = [{self._text(token): logprob for token, logprob in each.likeliest} for each in shares]
        return {
            "tokens": [self._text(each.token) for each in shares],
            "token_logprobs": [each.logprob for each in shares],
            "top_logprobs": likeliest,
        }

    def _told(self, share: TokenShare) -> Object:
        tops = [self._token(token, logprob) for token, logprob in share.likeliest]
        return {**self._token(share.token, share.logprob), "top_logprobs": tops}

    def _token(self, token: int, logprob: float) -> Object:
        text = self._text(token)
        # Parts of characters have no text of their own.
        return {"token": text, "logprob": logprob, "bytes": None if BROKEN in text else list(text.encode())}

    def _text(self, token: int) -> str:
        return self._tokenizer.decode([token], special=True)


def vectors_reply(vectors: NDArray[np.float32], model: str, tokens: int, *, encoded: bool) -> Object:
    """Vectors of texts, as numbers or as base64 of f32 in little-endian order."""

    def shown(vector: NDArray[np.float32]) -> object:
        return base64.b64encode(vector.astype("<f4").tobytes()).decode() if encoded else vector.tolist()

    data = [{"object": "embedding", "index": place, "embedding": shown(each)} for place, each in enumerate(vectors)]
    return {
        "object": "list",
        "data": data,
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
