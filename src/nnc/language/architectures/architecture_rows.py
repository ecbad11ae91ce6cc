"""Architectures: a row each. What a network has beside the usual is read off the tensors that the file holds.

Biases, norms of heads and norms behind, a gate, a head of its own and learned places are there where their tensors
are; a row says what no tensor shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from nnc.classes import dataclass
from nnc.errors import FormatError
from nnc.language.architectures import tensor_names
from nnc.language.architectures.facts import SLIDING, ModelFacts
from nnc.language.architectures.tensor_names import NameRow
from nnc.nn.layers import GELUTanh, SiLU
from nnc.nn.layers.layer import Layer
from nnc.nn.zoo.decoder import Decoder, Experts, Rotary

Windows = Callable[[ModelFacts, int], int]


def _no_window(facts: ModelFacts, layer: int) -> int:
    return 0


def _every(facts: ModelFacts, layer: int) -> int:
    return facts.window


def _odd_full(facts: ModelFacts, layer: int) -> int:
    return 0 if layer % 2 else facts.window


def _sixth_full(facts: ModelFacts, layer: int) -> int:
    return 0 if layer % 6 == 5 else facts.window


@dataclass(frozen=True, slots=True)
class Architecture:
    """How files call it, the names of its tensors there, and what no tensor shows.

    In GGUF files of some, features that turn together are neighbours (`interleaved`). `window` says what layer i sees,
    where the file does not say it by layer. `gemma`: the table times √features, and in folders norms by 1 + weight.
    """

    name: str
    gguf: tuple[NameRow, ...] = tensor_names.GGUF
    hugging: tuple[NameRow, ...] = tensor_names.HUGGING
    activation: Layer = SiLU()
    interleaved: bool = False
    window: Windows = _no_window
    gemma: bool = False
    local: bool = False
    # Whether the shares of experts that are used sum to 1, where the file does not say it.
    renormalized: bool = True
    # Layers of the one size whose scores are scaled by features / heads.
    broad_layers: int = 0


_GELU = GELUTanh()
_LLAMA = Architecture("llama", interleaved=True, window=_every)
ROWS: Sequence[Architecture] = (
    _LLAMA,
    Architecture("mistral", interleaved=True, window=_every),
    Architecture("mixtral", hugging=tensor_names.HUGGING_MIXTRAL, interleaved=True, window=_every),
    Architecture("qwen2"),
    Architecture("qwen2_moe", hugging=tensor_names.HUGGING_QWEN_EXPERTS, renormalized=False),
    Architecture("qwen3_moe", hugging=tensor_names.HUGGING_QWEN_EXPERTS),
    Architecture("qwen3"),
    Architecture("phi3", gguf=tensor_names.GGUF_FUSED, window=_every),
    Architecture("gemma", activation=_GELU, gemma=True),
    Architecture(
        "gemma2", hugging=tensor_names.HUGGING_POST, activation=_GELU, window=_odd_full, gemma=True, broad_layers=46
    ),
    Architecture(
        "gemma3", hugging=tensor_names.HUGGING_POST, activation=_GELU, window=_sixth_full, gemma=True, local=True,
        broad_layers=62,
    ),
    Architecture("gpt2", hugging=tensor_names.HUGGING_GPT2, activation=_GELU),
)  # fmt: skip
ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType({row.name: row for row in ROWS})
# Other names in files.
MODEL_TYPES: Mapping[str, str] = MappingProxyType(
    {"gemma3_text": "gemma3", "smollm": "llama", "qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe"}
)
# Activations that files name, if they do.
ACTIVATIONS: Mapping[str, Layer] = MappingProxyType(
    {"silu": SiLU(), "swish": SiLU(), "gelu_new": _GELU, "gelu_pytorch_tanh": _GELU, "gelu_fast": _GELU}
)


def architecture_of(place: str, name: str) -> Architecture:
    """The row of this name; FormatError where there is none."""
    row = ARCHITECTURES.get(MODEL_TYPES.get(name, name))
    if row is None:
        raise FormatError(place, got=f"a model of architecture {name!r}", need=f"one of {', '.join(ARCHITECTURES)}")
    return row


def decoder_of(row: Architecture, facts: ModelFacts, paths: Iterable[str], vocabulary: int, context: int) -> Decoder:
    """The network of these numbers whose tensors have these paths, for positions up to `context`."""
    held, first = set(paths), "block0."
    turns = facts.turns(context)
    learned = "positions.weight" in held
    rotary = Rotary(facts.base, facts.rotated // 2, turns.factors, row.interleaved)
    local = Rotary(facts.local_base, facts.rotated // 2, (), row.interleaved) if row.local else None
    scale = _scale(row, facts) * turns.magnitude**2
    if turns.magnitude != 1.0 and facts.rotated != facts.width:
        raise FormatError(facts.scaling.place, got="scaled scores of heads that turn in part", need="whole heads")
    windows = tuple(_window(row, facts, layer) for layer in range(facts.layers))
    return Decoder(
        vocabulary=vocabulary,
        features=facts.features,
        layers=facts.layers,
        heads=facts.heads,
        hidden=facts.hidden,
        key_value_heads=facts.key_value_heads,
        width=facts.width,
        steps=facts.context if learned else 0,
        rotary=None if learned else rotary,
        local=local,
        window=windows if any(windows) else (),
        epsilon=facts.epsilon,
        activation=row.activation,
        gated=f"{first}feed_forward.gate.weight" in held or bool(facts.experts),
        experts=_experts(row, facts) if facts.experts else None,
        rms="norm.bias" not in held,
        query_bias=f"{first}attention.query.bias" in held,
        output_bias=f"{first}attention.output.bias" in held,
        feed_forward_bias=f"{first}feed_forward.widen.bias" in held,
        head_bias="head.bias" in held,
        head_norm=f"{first}attention.query_norm.weight" in held,
        post_norm=f"{first}attention_post_norm.weight" in held,
        tied="head.weight" not in held,
        token_scale=math.sqrt(facts.features) if row.gemma else 1.0,
        scale=scale,
        score_cap=facts.score_cap,
        logit_cap=facts.logit_cap,
    )


def _experts(row: Architecture, facts: ModelFacts) -> Experts:
    hidden = facts.expert_hidden or facts.hidden
    return Experts(facts.experts, facts.used_experts, hidden, facts.shared_hidden, facts.renormalized(row.renormalized))


def _window(row: Architecture, facts: ModelFacts, layer: int) -> int:
    if facts.layer_kinds:
        return facts.window if facts.layer_kinds[layer] == SLIDING else 0
    return row.window(facts, layer)


def _scale(row: Architecture, facts: ModelFacts) -> float:
    """1 / √ of the number that the file names, or of a head's width."""
    broad = row.broad_layers == facts.layers
    return 1.0 / math.sqrt(facts.query_scalar or (facts.features / facts.heads if broad else facts.width))
