"""A folder's tokenizer as metadata of a GGUF file: as it is (tokenizer.huggingface.json), and as llama.cpp has it.

The latter is written for pairs of bytes that are cut as one of `CUTS` has it; we read the first where both are there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from nnc.language.gguf.file_format import Plain
from nnc.language.text.gguf_vocabulary import CONTROL, USER_DEFINED, WHOLE_KEY
from nnc.language.text.pre_tokenizers import CUTS, DIGITS, PLAIN
from nnc.language.text.tokenizer import TextTokenizer


def vocabulary_values(tokenizer: TextTokenizer) -> dict[str, Plain]:
    """Vocabulary, start and end tokens, and the template of chats."""
    text = tokenizer.encoder.to_str()
    values: dict[str, Plain] = {WHOLE_KEY: text}
    if tokenizer.template is not None:
        values["tokenizer.chat_template"] = tokenizer.template.source
    values |= _of_llama_cpp(json.loads(text), len(tokenizer))
    if tokenizer.start is not None:
        values["tokenizer.ggml.bos_token_id"] = tokenizer.start
        values["tokenizer.ggml.add_bos_token"] = tokenizer.encode("a")[0] == tokenizer.start
    if tokenizer.end is not None:
        values["tokenizer.ggml.eos_token_id"] = tokenizer.end
    return values


def _of_llama_cpp(held: Mapping[str, Any], count: int) -> dict[str, Plain]:
    """Tokens, merges and kinds; nothing where the tokenizer is not of this form."""
    model, cuts = held.get("model") or {}, _cuts(held.get("pre_tokenizer"))
    if model.get("type") != "BPE" or not cuts or model.get("byte_fallback"):
        return {}
    tokens, kinds = [f"[PAD{number}]" for number in range(count)], np.full(count, CONTROL, np.int32)
    for token, number in model.get("vocab", {}).items():
        tokens[number], kinds[number] = token, 1
    for row in held.get("added_tokens", ()):
        tokens[row["id"]], kinds[row["id"]] = row["content"], CONTROL if row.get("special") else USER_DEFINED
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model.get("merges", ())]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": cuts,
        "tokenizer.ggml.tokens": tuple(tokens),
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": tuple(merges),
    }


def _cuts(pre_tokenizer: Mapping[str, Any] | None) -> str:
    """The name of how a text is cut; empty where llama.cpp has none for it."""
    parts = (pre_tokenizer or {}).get("pretokenizers", [pre_tokenizer] if pre_tokenizer else [])
    kinds = [part.get("type") for part in parts]
    regular = bool(parts) and kinds[-1] == "ByteLevel" and bool(parts[-1].get("use_regex", True))
    if regular and kinds == ["ByteLevel"]:
        return PLAIN
    if regular and kinds == ["Digits", "ByteLevel"] and parts[0].get("individual_digits"):
        return DIGITS
    expressions = tuple(part.get("pattern", {}).get("Regex", "") for part in parts[:-1])
    if kinds[-1:] != ["ByteLevel"] or set(kinds[:-1]) != {"Split"}:
        return ""
    return next((name for name, cuts in CUTS.items() if name and cuts.expressions == expressions), "")
