"""The bytes that each token of a vocabulary stands for, by how its decoder makes text of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from nnc.errors import UsageError
from nnc.language.text.tokenizer import TextTokenizer

# A space at the beginning of words, as sentencepiece writes it.
SPACE = "\u2581"
_HEXADECIMAL = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def token_bytes(tokenizer: TextTokenizer) -> list[bytes]:
    """The bytes by token; none for tokens of control. UsageError for a decoder that looks at several tokens."""
    decoder = tokenizer.encoder.decoder
    kinds = {part["type"] for part in _parts(json.loads(decoder.__getstate__()))} if decoder is not None else set()
    unknown = sorted(kinds - {"ByteLevel", "ByteFallback", "Replace", "Fuse", "Strip", "Metaspace"})
    if not kinds or unknown:
        got = f"a decoder {unknown[0] if unknown else 'that is none'!r}"
        raise UsageError("grammar", got=got, need="tokens of bytes (BPE), or of sentencepiece")
    added = tokenizer.encoder.get_added_tokens_decoder()
    letters = _letters() if "ByteLevel" in kinds else None
    count = tokenizer.encoder.get_vocab_size()
    made = [b""] * max(count, 1 + max(added, default=0))
    for text, token in tokenizer.encoder.get_vocab(with_added_tokens=False).items():
        if token < len(made):
            made[token] = _bytes_of(text, letters, fallback="ByteFallback" in kinds)
    for token, row in added.items():
        made[token] = b"" if row.special else row.content.encode(errors="replace")
    return made


def _parts(decoder: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [part for each in decoder["decoders"] for part in _parts(each)] if "decoders" in decoder else [decoder]


def _bytes_of(text: str, letters: Mapping[str, int] | None, *, fallback: bool) -> bytes:
    if letters is not None:
        known = all(letter in letters for letter in text)
        return bytes(letters[letter] for letter in text) if known else text.encode(errors="replace")
    single = _HEXADECIMAL.fullmatch(text) if fallback else None
    return bytes([int(single[1], 16)]) if single else text.replace(SPACE, " ").encode(errors="replace")


def _letters() -> dict[str, int]:
    """The letter that stands for each byte in vocabularies of GPT-2."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + place): byte for place, byte in enumerate(hidden)}
