"""The network of a file as it is trained: on packed rows, or on pairs of answers."""

from __future__ import annotations

from nnc.classes import dataclass
from nnc.nn.layers.layer import Layer, MultiLayer, Scope, T
from nnc.nn.optimization.token_losses import log_probabilities
from nnc.ops import reshape


@dataclass(frozen=True, slots=True)
class PairedRows(MultiLayer):
    """Tokens[batch, 2, t] of two answers each to logits[batch, 2, t, vocabulary]."""

    decoder: Layer

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to tokens."""
        (tokens,) = inputs
        batch, pair, steps = tokens.shape
        (y,) = self.decoder.build_many(scope, (reshape(tokens, (batch * pair, steps)),))
        return (reshape(y, (batch, pair, *y.shape[1:])),)


@dataclass(frozen=True, slots=True)
class AnswerLikelihoods(MultiLayer):
    """Tokens and labels[batch, 2, t] of two answers each to log p[batch, 2] of the labels that are 0 or more."""

    pairs: PairedRows

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to tokens and labels."""
        tokens, labels = inputs
        (logits,) = self.pairs.build_many(scope, (tokens,))
        return (log_probabilities(logits, labels),)
