"""Texts that a grammar lets be written, byte by byte, by drawing."""

from __future__ import annotations

import numpy as np

from nnc.language.constraints.grammar_rules import Grammar
from nnc.language.constraints.token_masks import TokenMasks

END = 256


def masks_of(grammar: Grammar) -> TokenMasks:
    """A vocabulary of all bytes, and an end."""
    return TokenMasks(grammar, [*(bytes([byte]) for byte in range(256)), b""], [END])


def drawn(masks: TokenMasks, seed: int, most: int = 20_000) -> str:
    """A text that is whole."""
    generator, state, made = np.random.default_rng(seed), masks.start, bytearray()
    while len(made) < most:
        allowed = np.flatnonzero(masks.allowed(state))
        assert len(allowed)
        if masks.ends(state) and (len(allowed) == 1 or generator.random() < 0.3):
            assert END in allowed
            return made.decode()
        token = int(generator.choice(allowed[allowed != END]))
        state = masks.after(state, token)
        made.append(token)
    raise AssertionError(f"no end within {most} bytes")


def accepts(masks: TokenMasks, text: str) -> bool:
    """Whether a text is one of the grammar."""
    state = masks.start
    for byte in text.encode():
        if not masks.allowed(state)[byte]:
            return False
        state = masks.after(state, byte)
    return masks.ends(state)
