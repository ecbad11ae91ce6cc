"""Sequences that are packed into one row are each what they are alone, in values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnc import nn
from nnc.core.values.dtype import I32
from nnc.errors import ArityError
from nnc.nn.zoo.decoder import Decoder, Rotary

SIZES = {"vocabulary": 11, "features": 16, "layers": 2, "heads": 4, "hidden": 24}
KINDS: dict[str, dict[str, Any]] = {
    "rotary": {"key_value_heads": 2, "rotary": Rotary(interleaved=True)},
    "factors": {"rotary": Rotary(factors=(1.0, 2.0))},
    "places": {"steps": 12, "rotary": None, "rms": False, "gated": False},
    "windows": {"window": (3, 0), "local": Rotary(100.0)},
    "caps": {"score_cap": 2.0, "logit_cap": 3.0, "window": (0, 4)},
}
TOKENS = np.array([[1, 2, 3, 4, 5, 6, 7, 8, 9], [9, 8, 7, 6, 5, 4, 3, 2, 1]], np.int32)
# Sequences of 4, 3 and 2 tokens; and of 9.
STARTS = np.array([[0, 0, 0, 0, 4, 4, 4, 7, 7], [0] * 9], np.int32)
PACKED = (nn.Input((9,), I32), nn.Input((9,), I32))


@pytest.mark.parametrize("backend", ["reference", "llvm"])
@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences_are_what_they_are_alone(kind: str, backend: str) -> None:
    layer = Decoder(**SIZES, **KINDS[kind])
    packed = nn.Model(layer, PACKED, backend=backend, seed=3)
    alone = nn.Model(layer, (nn.UpTo(12),), input_dtype=I32, backend=backend, seed=3)
    logits = packed.predict((TOKENS, STARTS))
    for row, start, stop in ((0, 0, 4), (0, 4, 7), (0, 7, 9), (1, 0, 9)):
        want = alone.predict(TOKENS[row : row + 1, start:stop])[0]
        np.testing.assert_allclose(logits[row, start:stop], want, rtol=1e-4, atol=1e-5)


def test_an_update_by_packed_sequences_is_that_by_rows_that_are_filled_up() -> None:
    layer, loss = Decoder(**SIZES, key_value_heads=2), nn.TokenCrossEntropy()
    packed = nn.Model(layer, PACKED, loss=loss, optimizer=nn.SGD(0.1, 0.0), seed=1, backend="reference")
    rows = nn.Model(layer, (9,), input_dtype=I32, loss=loss, optimizer=nn.SGD(0.1, 0.0), seed=1, backend="reference")
    labels = np.roll(TOKENS, -1, 1)
    labels[0, [3, 6, 8]] = -100
    tokens, wanted = np.zeros((4, 9), np.int32), np.full((4, 9), -100, np.int32)
    for place, (row, start, stop) in enumerate(((0, 0, 4), (0, 4, 7), (0, 7, 9), (1, 0, 9))):
        tokens[place, : stop - start] = TOKENS[row, start:stop]
        wanted[place, : stop - start] = labels[row, start:stop]
    first, _ = packed.train_on_batch((TOKENS, STARTS), labels)
    second, _ = rows.train_on_batch(tokens, wanted)
    assert first == pytest.approx(second, rel=1e-5)
    for path, value in packed.state_dict().items():
        np.testing.assert_allclose(value, rows.state_dict()[path], rtol=1e-4, atol=1e-6)


def test_a_third_input_is_an_error() -> None:
    with pytest.raises(ArityError, match="3 inputs; need tokens, and starts or none"):
        nn.Model(Decoder(**SIZES), (*PACKED, nn.Input((9,), I32)))
