"""Networks over tokens: an LSTM language model, GPT (Radford et al. 2019), LLaMA (Touvron et al. 2023), BERT's encoder
(Devlin et al. 2019) and the encoder and decoder of Vaswani et al. (2017)."""

from __future__ import annotations

from nnc.arguments import Count, Positive, Rate, Share, Size, checked
from nnc.classes import dataclass
from nnc.core.values.dtype import F32
from nnc.errors import ArityError
from nnc.nn.layers import (
    Dense,
    Dropout,
    Embedding,
    GELUTanh,
    LayerNorm,
    PositionEmbedding,
    ReLU,
    RMSNorm,
    SiLU,
    Tanh,
    TransformerBlock,
)
from nnc.nn.layers.combine import Sequential
from nnc.nn.layers.embedding import broadcast_rows, normal
from nnc.nn.layers.layer import Layer, MultiLayer, Scope, T
from nnc.nn.modules.recurrent_layers import GRU, LSTM
from nnc.ops import add, affine, concatenate, cos, gemm, index_select, reshape, rotary_angles, sin, slice_axis
from nnc.ops.movement.generate import arange_like


def lstm_language_model(vocabulary: int = 10_000, units: int = 650, layers: int = 2) -> Sequential:
    """The medium model of Zaremba et al. (2014) without dropout: 19,775,200 parameters."""
    return Sequential(tokens=Embedding(vocabulary, units), memory=LSTM(units, layers=layers), classes=Dense(vocabulary))


def gru_language_model(vocabulary: int = 10_000, units: int = 650, layers: int = 2) -> Sequential:
    """The same with gated recurrent units: 18,087,800 parameters."""
    return Sequential(tokens=Embedding(vocabulary, units), memory=GRU(units, layers=layers), classes=Dense(vocabulary))


@checked
@dataclass(frozen=True, slots=True)
class GPT(Layer):
    """Tokens[batch, t] to logits[batch, t, vocabulary]; the token table also gives the logits."""

    vocabulary: Count
    steps: Count
    features: Count
    layers: Count
    heads: Count
    bias: bool = True
    dropout: Share = 0.0

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to tokens."""
        tokens = Embedding(self.vocabulary, self.features)
        y = PositionEmbedding(self.steps).build(scope.inside("positions"), tokens.build(scope.inside("tokens"), x))
        y = Dropout(self.dropout).build(scope.inside("dropout"), y)
        block = TransformerBlock(self.heads, causal=True, bias=self.bias, activation=GELUTanh(), dropout=self.dropout)
        for layer in range(self.layers):
            y = block.build(scope.inside(f"block{layer}"), y)
        y = LayerNorm(bias=self.bias).build(scope.inside("norm"), y)
        return gemm(scope.wanted(y), tokens.table(scope.inside("tokens")), transpose_b=True)


def gpt_6x384(vocabulary: int = 65, steps: int = 256) -> GPT:
    """6 layers of 384 features and 6 heads over characters: 10,745,088 parameters."""
    return GPT(vocabulary, steps, 384, 6, 6, bias=False)


def gpt2_small() -> GPT:
    """12 layers of 768 features and 12 heads: 124,439,808 parameters."""
    return GPT(50_257, 1024, 768, 12, 12)


def gpt2_medium() -> GPT:
    """24 layers of 1,024 features and 16 heads: 354,823,168 parameters."""
    return GPT(50_257, 1024, 1024, 24, 16)


def gpt2_large() -> GPT:
    """36 layers of 1,280 features and 20 heads: 774,030,080 parameters."""
    return GPT(50_257, 1024, 1280, 36, 20)


def gpt2_xl() -> GPT:
    """48 layers of 1,600 features and 25 heads: 1,557,611,200 parameters."""
    return GPT(50_257, 1024, 1600, 48, 25)


@checked
@dataclass(frozen=True, slots=True)
class LLaMA(Layer):
    """Tokens[batch, t] to logits[batch, t, vocabulary]: RMS norms, rotary positions, shared key heads, SwiGLU.

    The token table also gives the logits where it is `tied`. With a `window` a token sees so many, itself among them.
    """

    vocabulary: Count
    features: Count
    layers: Count
    heads: Count
    key_value_heads: Size
    hidden: Count
    rotary_base: Rate = 10_000.0
    epsilon: Positive = 1e-5
    tied: bool = False
    window: Size = 0

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to tokens."""
        tokens = Embedding(self.vocabulary, self.features)
        y = tokens.build(scope.inside("tokens"), x)
        block = TransformerBlock(
            self.heads,
            self.hidden,
            causal=True,
            bias=False,
            epsilon=self.epsilon,
            activation=SiLU(),
            key_value_heads=self.key_value_heads,
            rotary_base=self.rotary_base,
            window=self.window,
            gated=True,
            rms=True,
        )
        for layer in range(self.layers):
            y = block.build(scope.inside(f"block{layer}"), y)
        y = scope.wanted(RMSNorm(epsilon=self.epsilon).build(scope.inside("norm"), y))
        if self.tied:
            return gemm(y, tokens.table(scope.inside("tokens")), transpose_b=True)
        return Dense(self.vocabulary, bias=False).build(scope.inside("head"), y)


def llama2_7b() -> LLaMA:
    """32 layers of 4,096 features and 32 heads: 6,738,415,616 parameters."""
    return LLaMA(32_000, 4096, 32, 32, 32, 11_008)


def llama3_8b() -> LLaMA:
    """32 layers of 4,096 features, 32 heads and 8 of keys and values: 8,030,261,248 parameters."""
    return LLaMA(128_256, 4096, 32, 32, 8, 14_336, rotary_base=500_000.0)


def tiny_llama() -> LLaMA:
    """22 layers of 2,048 features, 32 heads and 4 of keys and values: 1,100,048,384 parameters (Zhang et al. 2024)."""
    return LLaMA(32_000, 2048, 22, 32, 4, 5632)


def mistral_7b() -> LLaMA:
    """32 layers of 4,096 features that see 4,096 tokens each: 7,241,732,096 parameters (Jiang et al. 2023)."""
    return LLaMA(32_000, 4096, 32, 32, 8, 14_336, window=4096)


@checked
@dataclass(frozen=True, slots=True)
class BERT(MultiLayer):
    """Tokens[batch, t] to a vector[batch, features] = tanh(dense(y[first token])), or to y where it is not `pooled`.

    Further inputs are the mask [batch, t] of tokens that are there, and the sentence (0 or 1) of each.
    """

    vocabulary: Count = 30_522
    steps: Count = 512
    features: Count = 768
    layers: Count = 12
    heads: Count = 12
    hidden: Size = 0
    pooled: bool = True

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to tokens."""
        if not 1 <= len(inputs) <= 3:
            raise ArityError("BERT", got=f"{len(inputs)} inputs", need="tokens, mask, sentences")
        y = Embedding(self.vocabulary, self.features).build(scope.inside("tokens"), inputs[0])
        y = PositionEmbedding(self.steps).build(scope.inside("positions"), y)
        types = scope.parameter("sentence_types", (2, self.features), y, normal)
        first = broadcast_rows(slice_axis(types, 0, 0, 1), y)
        y = add(y, index_select(types, inputs[2]) if len(inputs) == 3 else first)
        y = LayerNorm(epsilon=1e-12).build(scope.inside("norm"), y)
        block = TransformerBlock(self.heads, self.hidden, norm_first=False, epsilon=1e-12)
        for layer in range(self.layers):
            (y,) = block.build_many(scope.inside(f"block{layer}"), (y, *inputs[1:2]))
        if not self.pooled:
            return (y,)
        start = reshape(slice_axis(y, 1, 0, 1), (y.shape[0], self.features))
        return (Tanh().build(scope, Dense(self.features).build(scope.inside("pooler"), start)),)


def bert_base() -> BERT:
    """12 layers of 768 features and 12 heads: 109,482,240 parameters."""
    return BERT()


def bert_large() -> BERT:
    """24 layers of 1,024 features and 16 heads: 335,141,888 parameters."""
    return BERT(features=1024, layers=24, heads=16)


@checked
@dataclass(frozen=True, slots=True)
class EncoderDecoder(MultiLayer):
    """Source[batch, s] and target tokens[batch, t] to logits[batch, t, vocabulary] of what follows each target token.

    A third input is the mask [batch, s] of source tokens that are there. One table of tokens serves both sides and
    gives the logits; positions are sines. Norms stand behind, and one more at the end of each side.
    """

    vocabulary: Count
    features: Count = 512
    layers: Count = 6
    heads: Count = 8
    hidden: Size = 0
    dropout: Share = 0.0

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to source and target tokens."""
        if not 2 <= len(inputs) <= 3:
            raise ArityError("EncoderDecoder", got=f"{len(inputs)} inputs", need="source, target, and a mask or none")
        source, target, *mask = inputs
        memory = self._side(scope, "encoder", source, (), tuple(mask))
        y = self._side(scope, "decoder", target, (memory,), tuple(mask))
        table = Embedding(self.vocabulary, self.features).table(scope.inside("tokens"))
        return (gemm(y, table, transpose_b=True),)

    def _side(self, scope: Scope[T], name: str, tokens: T, memory: tuple[T, ...], mask: tuple[T, ...]) -> T:
        table = Embedding(self.vocabulary, self.features)
        y = affine(table.build(scope.inside("tokens"), tokens), self.features**0.5)
        y = add(y, broadcast_rows(sines_of(y), y))
        y = Dropout(self.dropout).build(scope.inside(f"{name}_dropout"), y)
        block = TransformerBlock(
            self.heads,
            self.hidden,
            causal=bool(memory),
            norm_first=False,
            activation=ReLU(),
            memory=bool(memory),
            dropout=self.dropout,
        )
        for layer in range(self.layers):
            (y,) = block.build_many(scope.inside(f"{name}{layer}"), (y, *memory, *mask))
        return LayerNorm().build(scope.inside(f"{name}_norm"), y)


def transformer_base() -> EncoderDecoder:
    """6 + 6 layers of 512 features (Vaswani et al. 2017): 44,140,544 parameters and those of 37,000 tokens."""
    return EncoderDecoder(37_000)


def sines_of(x: T) -> T:
    """[steps, features] of x[batch, steps, features]: sines of t · 10,000^(-i / pairs), and then cosines."""
    pairs = x.shape[-1] // 2
    angles = rotary_angles(arange_like(x, x.shape[1], dtype=F32), pairs, dtype=x.spec.dtype)
    return concatenate([sin(angles), cos(angles)], 1)
