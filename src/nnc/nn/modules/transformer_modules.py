"""Transformers as PyTorch has them, layers of `nn.MultiheadAttention` and `nn.Linear` under their names there.

    layer = nn.TransformerEncoderLayer(d_model=16, nhead=4, batch_first=True)
    y = nn.TransformerEncoder(layer, num_layers=2)(x, src_key_padding_mask=padding)

Inputs are [steps, batch, features] unless `batch_first`, masks as those of `nn.MultiheadAttention`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from nnc.arguments import Count, Positive, Probability, checked
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.nn.layers.attention import causal_mask
from nnc.nn.layers.initializers import glorot_uniform
from nnc.nn.layers.layer import Layer
from nnc.nn.layers.normalization import LayerNorm
from nnc.nn.layers.random import Dropout
from nnc.nn.modules.attention_modules import MultiheadAttention
from nnc.nn.modules.containers import ModuleList
from nnc.nn.modules.linear import Linear
from nnc.nn.modules.module import Module
from nnc.nn.modules.starting_values import renewed
from nnc.numerics import gelu, relu

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Array: TypeAlias = Any
ACTIVATIONS = {"relu": relu, "gelu": gelu}
Activation: TypeAlias = Literal["relu", "gelu"] | Callable[[Any], Any]


class _TransformerLayer(Module):
    """What the layers of encoders and decoders share: x + f(norm(x)), or norm(x + f(x)), and a body of two products."""

    norm_first: bool

    def _begin(self, d_model: int, hidden: int, dropout: float, activation: Activation, bias: bool) -> None:
        self.linear1, self.dropout = Linear(d_model, hidden, bias), Dropout(dropout)
        self.linear2 = Linear(hidden, d_model, bias)
        self.activation = ACTIVATIONS[activation] if isinstance(activation, str) else activation

    def _joined(self, x: Array, norm: Layer, dropout: Layer, body: Callable[[Array], Array]) -> Array:
        if self.norm_first:
            return x + dropout(body(norm(x)))
        return norm(x + dropout(body(x)))

    def _fed_forward(self, x: Array) -> Array:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


@checked
class TransformerEncoderLayer(_TransformerLayer):
    """x = norm1(x + self_attn(x)); y = norm2(x + linear2(activation(linear1(x)))), norms before sums if `norm_first`.

    >>> layer = nn.TransformerEncoderLayer(d_model=16, nhead=4, dim_feedforward=32, batch_first=True)
    >>> layer(nnc.ones((2, 5, 16))).shape
    (2, 5, 16)
    """

    def __init__(
        self,
        d_model: Count,
        nhead: Count,
        dim_feedforward: Count = 2048,
        dropout: Probability = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: Positive = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first)
        self._begin(d_model, dim_feedforward, dropout, activation, bias)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)

    def forward(
        self, src: Array, src_mask: Array = None, src_key_padding_mask: Array = None, is_causal: bool = False
    ) -> Array:
        """[steps, batch, features], or batch first."""

        def attended(x: Array) -> Array:
            options = {"attn_mask": src_mask, "key_padding_mask": src_key_padding_mask, "is_causal": is_causal}
            return self.self_attn(x, x, x, need_weights=False, **options)[0]

        x = self._joined(src, self.norm1, self.dropout1, attended)
        return self._joined(x, self.norm2, self.dropout2, self._fed_forward)


@checked
class TransformerDecoderLayer(_TransformerLayer):
    """As an encoder's layer, with attention to a memory between the two: `multihead_attn` and `norm2`.

    >>> layer = nn.TransformerDecoderLayer(d_model=16, nhead=4, dim_feedforward=32, batch_first=True)
    >>> layer(nnc.ones((2, 5, 16)), nnc.ones((2, 7, 16))).shape
    (2, 5, 16)
    """

    def __init__(
        self,
        d_model: Count,
        nhead: Count,
        dim_feedforward: Count = 2048,
        dropout: Probability = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: Positive = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first)
        self._begin(d_model, dim_feedforward, dropout, activation, bias)
        self.norm1, self.norm2, self.norm3 = (LayerNorm(d_model, layer_norm_eps, bias=bias) for _ in range(3))
        self.dropout1, self.dropout2, self.dropout3 = Dropout(dropout), Dropout(dropout), Dropout(dropout)

    def forward(
        self,
        tgt: Array,
        memory: Array,
        tgt_mask: Array = None,
        memory_mask: Array = None,
        tgt_key_padding_mask: Array = None,
        memory_key_padding_mask: Array = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Array:
        """[steps, batch, features], or batch first."""

        def attended(x: Array) -> Array:
            options = {"attn_mask": tgt_mask, "key_padding_mask": tgt_key_padding_mask, "is_causal": tgt_is_causal}
            return self.self_attn(x, x, x, need_weights=False, **options)[0]

        def looked_up(x: Array) -> Array:
            masks = {"attn_mask": memory_mask, "key_padding_mask": memory_key_padding_mask}
            return self.multihead_attn(x, memory, memory, need_weights=False, is_causal=memory_is_causal, **masks)[0]

        x = self._joined(tgt, self.norm1, self.dropout1, attended)
        x = self._joined(x, self.norm2, self.dropout2, looked_up)
        return self._joined(x, self.norm3, self.dropout3, self._fed_forward)


@checked
class TransformerEncoder(Module):
    """`num_layers` copies of a layer on top of each other, and a norm where there is one.

    >>> layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    >>> nn.TransformerEncoder(layer, num_layers=2)(nnc.ones((2, 5, 16))).shape
    (2, 5, 16)
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: Count,
        norm: Layer | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self, src: Array, mask: Array = None, src_key_padding_mask: Array = None, is_causal: bool | None = None
    ) -> Array:
        """[steps, batch, features], or batch first."""
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        return src if self.norm is None else self.norm(src)


@checked
class TransformerDecoder(Module):
    """`num_layers` copies of a layer on top of each other, and a norm where there is one.

    >>> layer = nn.TransformerDecoderLayer(16, 4, 32, batch_first=True)
    >>> nn.TransformerDecoder(layer, num_layers=2)(nnc.ones((2, 5, 16)), nnc.ones((2, 7, 16))).shape
    (2, 5, 16)
    """

    def __init__(self, decoder_layer: Module, num_layers: Count, norm: Layer | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self, tgt: Array, memory: Array, tgt_mask: Array = None, memory_mask: Array = None, **masks: Array
    ) -> Array:
        """[steps, batch, features], or batch first."""
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, **masks)
        return tgt if self.norm is None else self.norm(tgt)


@checked
class Transformer(Module):
    """An encoder and a decoder, each with a norm at its end: `model(src, tgt)` gives [steps of tgt, batch, d_model].

    >>> model = nn.Transformer(16, 4, 1, 1, 32, batch_first=True)
    >>> model(nnc.ones((2, 7, 16)), nnc.ones((2, 5, 16))).shape
    (2, 5, 16)
    """

    def __init__(
        self,
        d_model: Count = 512,
        nhead: Count = 8,
        num_encoder_layers: Count = 6,
        num_decoder_layers: Count = 6,
        dim_feedforward: Count = 2048,
        dropout: Probability = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: Positive = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        norms = [LayerNorm(d_model, layer_norm_eps, bias=bias) for _ in range(2)]
        self.encoder = TransformerEncoder(TransformerEncoderLayer(*options), num_encoder_layers, norms[0])
        self.decoder = TransformerDecoder(TransformerDecoderLayer(*options), num_decoder_layers, norms[1])
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for path, parameter in self.named_parameters():
            if parameter.ndim > 1:
                renewed(parameter, path, glorot_uniform)

    def forward(
        self,
        src: Array,
        tgt: Array,
        src_mask: Array = None,
        tgt_mask: Array = None,
        memory_mask: Array = None,
        src_key_padding_mask: Array = None,
        tgt_key_padding_mask: Array = None,
        memory_key_padding_mask: Array = None,
        **causal: bool,
    ) -> Array:
        """[steps, batch, features], or batch first."""
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask)
        options = {
            "tgt_key_padding_mask": tgt_key_padding_mask,
            "memory_key_padding_mask": memory_key_padding_mask,
            **causal,
        }
        return self.decoder(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, **options)

    @staticmethod
    def generate_square_subsequent_mask(sz: int) -> ArrayOperand:
        """0 where a row sees a column, up to its own, and -∞ behind it: [sz, sz]."""
        return causal_mask("generate_square_subsequent_mask", sz, -math.inf)
