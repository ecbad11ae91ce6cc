"""How text is cut before pairs of bytes are merged: regular expressions by the name that GGUF files give them.

Each expression of a row cuts what those before it left whole, as in llama.cpp's table of the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from nnc.classes import dataclass

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_CASES = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_WORDS = r"|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CAPITALS = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
_SMALL = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@dataclass(frozen=True, slots=True)
class Cuts:
    """The expressions; whether a piece that is a token stays whole, and whether a text begins with the start token."""

    expressions: tuple[str, ...]
    whole: bool = False
    start: bool = False


_LLAMA3 = Cuts((_CASES + _WORDS + r"\p{N}{1,3}" + _REST,), whole=True, start=True)
# The names of two that tokenizers have steps of their own for.
PLAIN, DIGITS = "gpt-2", "smollm"
_DIGITS = Cuts((r"\p{N}", _GPT2))
_PLAIN = Cuts((_GPT2,))
CUTS: Mapping[str, Cuts] = MappingProxyType(
    {
        "": Cuts((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
        "default": Cuts((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
        **dict.fromkeys(("gpt-2", "gpt2", "phi-2", "mpt", "olmo", "jais"), _PLAIN),
        **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell"), _DIGITS),
        **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3"), _LLAMA3),
        **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "megrez"), Cuts((_CASES + _WORDS + r"\p{N}" + _REST,))),
        "tekken": Cuts((f"{_CAPITALS}|{_SMALL}" + r"|\p{N}" + _TAIL,), whole=True, start=True),
        "gpt-4o": Cuts((f"{_CAPITALS}{_CASES}?|{_SMALL}{_CASES}?" + r"|\p{N}{1,3}" + _TAIL,)),
    }
)
