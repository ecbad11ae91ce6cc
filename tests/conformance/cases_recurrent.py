"""Rows of the conformance table for recurrent networks."""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.case import FLOATS, Argument, Case, apart, positive

from nnc.core.values.spec import Shape
from nnc.ops.sequence.recurrent import (
    GRU,
    GRU_GRADIENT,
    LSTM,
    LSTM_GRADIENT,
    RNN,
    RNN_GRADIENT,
    Activation,
    RecurrentAttrs,
    RnnAttrs,
)

# Steps, batch, units.
SEQUENCES: tuple[Shape, ...] = ((1, 2, 3), (4, 2, 3), (3, 1, 1), (2, 0, 2), (3, 5, 9))


def rows() -> Iterator[Case]:
    """The three cells with their gradients, in both directions."""
    for steps, batch, units in SEQUENCES:
        state, weights = Argument((batch, units)), {gates: Argument((units, gates * units)) for gates in (1, 3, 4)}
        sequence = {gates: Argument((steps, batch, gates * units)) for gates in (1, 3, 4)}
        y = sequence[1]
        for reverse in (False, True):
            attrs, note = RecurrentAttrs(reverse), "reverse" * reverse
            yield Case(LSTM, attrs, (sequence[4], weights[4], state, state), FLOATS, note)
            back = (y, y, sequence[4], y, weights[4], state)
            yield Case(LSTM_GRADIENT, attrs, back, FLOATS, note)
            for bias in (None, Argument((3 * units,))):
                yield Case(GRU, attrs, (sequence[3], weights[3], state, bias), FLOATS, note)
            yield Case(GRU_GRADIENT, attrs, (y, sequence[4], y, weights[3], state), FLOATS, note)
            yield Case(RNN, RnnAttrs(reverse=reverse), (y, weights[1], state), FLOATS, note)
            yield Case(RNN_GRADIENT, RnnAttrs(reverse=reverse), (y, y, weights[1]), FLOATS, note)
            yield from _rectified(y, weights[1], state, reverse)


def _rectified(y: Argument, weights: Argument, state: Argument, reverse: bool) -> Iterator[Case]:
    """Recurrences with relu, kept above its kink."""
    attrs, note = RnnAttrs(Activation.RELU, reverse), f"relu{'-reverse' * reverse}"
    above = (Argument(y.shape, positive), Argument(weights.shape, positive), Argument(state.shape, positive))
    yield Case(RNN, attrs, above, FLOATS, note)
    yield Case(RNN_GRADIENT, attrs, (y, Argument(y.shape, apart), weights), FLOATS, note)
