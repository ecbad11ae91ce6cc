"""Networks over tokens: an LSTM language model, GPT (Radford et al. 2019) and BERT's encoder (Devlin et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass

from nnc.nn.combine import Sequential
from nnc.nn.layer import Layer, Scope, T
from nnc.nn.layers import (
    GRU,
    LSTM,
    Dense,
    Embedding,
    GELUTanh,
    LayerNorm,
    PositionEmbedding,
    Tanh,
    TransformerBlock,
)
from nnc.nn.layers.embedding import broadcast_rows, normal
from nnc.ops import add, gemm, reshape, slice_axis


def lstm_language_model(vocabulary: int = 10_000, units: int = 650, layers: int = 2) -> Sequential:
    """The medium model of Zaremba et al. (2014) without dropout: 19,775,200 parameters."""
    return Sequential(tokens=Embedding(vocabulary, units), memory=LSTM(units, layers), classes=Dense(vocabulary))


def gru_language_model(vocabulary: int = 10_000, units: int = 650, layers: int = 2) -> Sequential:
    """The same with gated recurrent units: 18,087,800 parameters."""
    return Sequential(tokens=Embedding(vocabulary, units), memory=GRU(units, layers), classes=Dense(vocabulary))


@dataclass(frozen=True, slots=True)
class GPT(Layer):
    """Tokens[batch, t] to logits[batch, t, vocabulary]; the token table also gives the logits."""

    vocabulary: int
    steps: int
    features: int
    layers: int
    heads: int
    bias: bool = True

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to tokens."""
        tokens = Embedding(self.vocabulary, self.features)
        y = PositionEmbedding(self.steps).build(scope.inside("positions"), tokens.build(scope.inside("tokens"), x))
        block = TransformerBlock(self.heads, causal=True, bias=self.bias, activation=GELUTanh())
        for layer in range(self.layers):
            y = block.build(scope.inside(f"block{layer}"), y)
        y = LayerNorm(bias=self.bias).build(scope.inside("norm"), y)
        return gemm(y, tokens.table(scope.inside("tokens")), transpose_b=True)


def gpt_6x384(vocabulary: int = 65, steps: int = 256) -> GPT:
    """6 layers of 384 features and 6 heads over characters: 10,745,088 parameters."""
    return GPT(vocabulary, steps, 384, 6, 6, bias=False)


def gpt2_small() -> GPT:
    """12 layers of 768 features and 12 heads: 124,439,808 parameters."""
    return GPT(50_257, 1024, 768, 12, 12)


@dataclass(frozen=True, slots=True)
class BERT(Layer):
    """Tokens[batch, t] of one sentence to a vector[batch, features] = tanh(dense(y[first token]))."""

    vocabulary: int = 30_522
    steps: int = 512
    features: int = 768
    layers: int = 12
    heads: int = 12

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to tokens."""
        y = Embedding(self.vocabulary, self.features).build(scope.inside("tokens"), x)
        y = PositionEmbedding(self.steps).build(scope.inside("positions"), y)
        types = scope.parameter("sentence_types", (2, self.features), y, normal)
        y = add(y, broadcast_rows(slice_axis(types, 0, 0, 1), y))
        y = LayerNorm(epsilon=1e-12).build(scope.inside("norm"), y)
        for layer in range(self.layers):
            block = TransformerBlock(self.heads, norm_first=False, epsilon=1e-12)
            y = block.build(scope.inside(f"block{layer}"), y)
        first = reshape(slice_axis(y, 1, 0, 1), (y.shape[0], self.features))
        return Tanh().build(scope, Dense(self.features).build(scope.inside("pooler"), first))


def bert_base() -> BERT:
    """12 layers of 768 features and 12 heads: 109,482,240 parameters."""
    return BERT()
