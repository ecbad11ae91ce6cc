"""Encoders of texts: a row each, and the network that files make of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from nnc.classes import dataclass
from nnc.errors import FormatError
from nnc.language.architectures.facts import ModelFacts
from nnc.language.architectures.given_values import GivenValues
from nnc.language.architectures.tensor_names import NameRow
from nnc.nn.layers import GELU, GELUTanh, ReLU, SiLU
from nnc.nn.layers.layer import Layer
from nnc.nn.zoo.encoder import TextEncoder

_LAYER = {
    r"attention\.self\.query": "attention.query",
    r"attention\.self\.key": "attention.key",
    r"attention\.self\.value": "attention.value",
    r"attention\.output\.dense": "attention.output",
    r"attention\.output\.LayerNorm": "attention_norm",
    r"intermediate\.dense": "feed_forward.widen",
    r"output\.dense": "feed_forward.narrow",
    r"output\.LayerNorm": "feed_forward_norm",
}
_DISTIL_LAYER = {
    r"attention\.q_lin": "attention.query",
    r"attention\.k_lin": "attention.key",
    r"attention\.v_lin": "attention.value",
    r"attention\.out_lin": "attention.output",
    "sa_layer_norm": "attention_norm",
    r"ffn\.lin1": "feed_forward.widen",
    r"ffn\.lin2": "feed_forward.narrow",
    "output_layer_norm": "feed_forward_norm",
}
_GGUF_LAYER = {
    "attn_q": "attention.query",
    "attn_k": "attention.key",
    "attn_v": "attention.value",
    "attn_output": "attention.output",
    "attn_output_norm": "attention_norm",
    "ffn_up": "feed_forward.widen",
    "ffn_down": "feed_forward.narrow",
    "layer_output_norm": "feed_forward_norm",
}


def _rows(own: str, prefix: str, layers: Mapping[str, str]) -> tuple[NameRow, ...]:
    """Names under what the whole network is called, or without it; heads of other tasks are not read."""
    whole = rf"(?:{own}\.)?" if own else ""
    return (
        NameRow(rf"{whole}embeddings\.word_embeddings\.weight", "tokens.weight"),
        NameRow(rf"{whole}embeddings\.position_embeddings\.weight", "positions.weight"),
        NameRow(rf"{whole}embeddings\.token_type_embeddings\.weight", "types.weight"),
        NameRow(rf"{whole}embeddings\.LayerNorm\.(weight|bias)", r"norm.\1"),
        NameRow(rf"{whole}(?:embeddings\.position_ids|pooler\..*)|(?:cls|lm_head|classifier|vocab_\w+)\..*"),
        *(
            NameRow(rf"{whole}{prefix}\.(\d+)\.{theirs}\.(weight|bias)", rf"block\1.{ours}.\2")
            for theirs, ours in layers.items()
        ),
    )


_GGUF = (
    NameRow(r"token_embd\.weight", "tokens.weight"),
    NameRow(r"position_embd\.weight", "positions.weight"),
    NameRow(r"token_types\.weight", "types.weight"),
    NameRow(r"token_embd_norm\.(weight|bias)", r"norm.\1"),
    NameRow(r"cls(?:\.\w+)?\.(?:weight|bias)"),
    *(NameRow(rf"blk\.(\d+)\.{theirs}\.(weight|bias)", rf"block\1.{ours}.\2") for theirs, ours in _GGUF_LAYER.items()),
)


@dataclass(frozen=True, slots=True)
class EncoderArchitecture:
    """How files call it, the names of its tensors there, and whether places begin behind those that pad a text."""

    name: str
    names: tuple[NameRow, ...]
    padded_places: bool = False


ROWS: Sequence[EncoderArchitecture] = (
    EncoderArchitecture("bert", _rows("bert", r"encoder\.layer", _LAYER)),
    EncoderArchitecture("roberta", _rows("roberta", r"encoder\.layer", _LAYER), padded_places=True),
    EncoderArchitecture("xlm-roberta", _rows("roberta", r"encoder\.layer", _LAYER), padded_places=True),
    EncoderArchitecture("distilbert", _rows("distilbert", r"transformer\.layer", _DISTIL_LAYER)),
)
ENCODERS: Mapping[str, EncoderArchitecture] = MappingProxyType({row.name: row for row in ROWS})
# GGUF files of all of them are called so, and have the places of texts alone.
GGUF_ENCODER = EncoderArchitecture("bert", _GGUF)
ACTIVATIONS: Mapping[str, Layer] = MappingProxyType(
    {"gelu": GELU(), "relu": ReLU(), "silu": SiLU(), "gelu_new": GELUTanh(), "gelu_pytorch_tanh": GELUTanh()}
)


def encoder_of(
    row: EncoderArchitecture, values: GivenValues, facts: ModelFacts, shapes: Mapping[str, Sequence[int]]
) -> TextEncoder:
    """The network of these numbers, whose tables have these shapes by our paths."""
    activation, place = values.text("hidden_act", "activation", default="gelu"), values.place
    if activation not in ACTIVATIONS:
        raise FormatError(place, got=f"activation {activation!r}", need=f"one of {', '.join(ACTIVATIONS)}")
    tokens, places = (shapes.get(f"{name}.weight", ()) for name in ("tokens", "positions"))
    offset = values.integer("pad_token_id", default=1) + 1 if row.padded_places else 0
    if len(tokens) != 2 or len(places) != 2 or places[0] <= offset:
        raise FormatError(place, got="no tables of tokens and places", need="[tokens, features], [places, features]")
    return TextEncoder(
        vocabulary=tokens[0],
        features=facts.features,
        layers=facts.layers,
        heads=facts.heads,
        hidden=facts.hidden,
        steps=places[0] - offset,
        offset=offset,
        types=_count(shapes.get("types.weight", ())),
        epsilon=values.number("layer_norm_eps", "attention.layer_norm_epsilon", default=1e-12),
        activation=ACTIVATIONS[activation],
    )


def _count(shape: Iterable[int]) -> int:
    return next(iter(shape), 0)
