"""By how much a tokenizer's rules may make a text longer: a file of 1 KB could ask for a letter to become 10^15.

    Replace: its content for each character    Prepend: as often    templates: the text as often as they name it

Rules behind each other multiply.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tokenizers import Tokenizer as Encoder

from nnc.errors import FormatError

MOST_GROWTH = 1 << 10
# Beyond it nothing is counted.
ENDLESS = 1 << 64


def check_growth(place: str, encoder: Encoder) -> None:
    """FormatError for rules that would make a text more than 1,024 times as long."""
    growth = 1
    for part in (encoder.normalizer, encoder.pre_tokenizer, encoder.post_processor, encoder.decoder):
        if part is not None:
            growth *= _growth(json.loads(part.__getstate__()))
    if growth > MOST_GROWTH:
        got = f"rules by which a text may become {growth:,} times as long"
        raise FormatError(place, got=got, need=f"at most {MOST_GROWTH:,}")


def _growth(rule: Mapping[str, object]) -> int:
    """The product of a sequence; otherwise what one rule makes of a character."""
    match rule:
        case (
            {"normalizers": list(rules)}
            | {"pretokenizers": list(rules)}
            | {"processors": list(rules)}
            | {"decoders": list(rules)}
        ):
            growth = 1
            for each in rules:
                growth = min(growth * _growth(each), ENDLESS)
            return growth
        case {"type": "Replace", "content": str(content)}:
            return max(1, len(content))
        case {"type": "Prepend", "prepend": str(content)} | {"type": "Metaspace", "replacement": str(content)}:
            return 1 + len(content)
        case {"type": "TemplateProcessing", "single": list(single), "pair": list(pair), "special_tokens": dict(named)}:
            ids = (len(each["ids"]) for each in named.values())
            return max(1, len(single), len(pair)) * max((1, *ids))
    return 1
