"""Numbers of a network as a file gives them, under the names of config.json or of GGUF."""

from __future__ import annotations

from typing import Any

from nnc.classes import dataclass
from nnc.errors import FormatError
from nnc.language.architectures.given_values import GivenValues
from nnc.language.architectures.rotary_scaling import RotaryPlace, Turns, turns_of
from nnc.language.architectures.tensor_names import MOST_EXPERTS

SLIDING, FULL = "sliding_attention", "full_attention"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What all architectures have; `context`: how many positions the file names."""

    features: int
    layers: int
    heads: int
    key_value_heads: int
    hidden: int
    width: int
    epsilon: float
    context: int
    rotated: int
    base: float
    local_base: float
    scaling: GivenValues
    window: int
    layer_kinds: tuple[str, ...]
    score_cap: float
    logit_cap: float
    query_scalar: float
    experts: int = 0
    used_experts: int = 0
    expert_hidden: int = 0
    shared_hidden: int = 0
    # Whether the shares of experts sum to 1, where the file says it.
    sums_to_one: bool | None = None

    def renormalized(self, usual: bool) -> bool:
        """Whether the shares of experts that are used sum to 1."""
        return usual if self.sums_to_one is None else self.sums_to_one

    def turns(self, context: int) -> Turns:
        """What scaling makes of the positions up to `context`."""
        return turns_of(self.scaling, RotaryPlace(self.base, self.rotated // 2, context, self.context))


def facts_of(values: GivenValues, scaling: GivenValues) -> ModelFacts:
    """The numbers; FormatError where one is missing or cannot be."""
    features, heads = values.integer("hidden_size", "n_embd", "dim", "embedding_length"), _heads(values)
    if not features or not heads or (features % heads and not values.has("head_dim", "attention.key_length")):
        raise FormatError(values.place, got=f"{features} features, {heads} heads", need="a width of heads")
    width = values.integer("head_dim", "attention.key_length", default=features // heads)
    share = scaling.number("partial_rotary_factor", default=values.number("partial_rotary_factor", default=1.0))
    rotated = values.integer("rope.dimension_count", default=int(width * share))
    full = scaling.inside(FULL) if scaling.has(FULL) else scaling
    local = scaling.inside(SLIDING)
    facts = ModelFacts(
        features=features,
        layers=values.integer("num_hidden_layers", "n_layer", "n_layers", "block_count"),
        heads=heads,
        key_value_heads=values.integer("num_key_value_heads", "attention.head_count_kv", default=heads),
        hidden=values.integer(
            "intermediate_size", "n_inner", "hidden_dim", "feed_forward_length", default=4 * features
        ),
        width=width,
        epsilon=values.number(
            "rms_norm_eps", "layer_norm_epsilon", "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon",
            default=1e-5,
        ),
        context=values.integer("max_position_embeddings", "n_positions", "context_length"),
        rotated=rotated,
        base=full.number("rope_theta", default=values.number("rope_theta", "rope.freq_base", default=10_000.0)),
        local_base=local.number("rope_theta", default=_local_base(values)),
        scaling=full,
        window=values.integer("sliding_window", "attention.sliding_window", default=0),
        layer_kinds=values.texts("layer_types"),
        score_cap=values.number("attn_logit_softcapping", default=0.0),
        logit_cap=values.number("final_logit_softcapping", default=0.0),
        query_scalar=values.number("query_pre_attn_scalar", default=0.0),
        **_expert_numbers(values),
    )  # fmt: skip
    _check(values.place, facts)
    return facts


def _expert_numbers(values: GivenValues) -> dict[str, Any]:
    """What is said of experts, by the name of the fact."""
    sums_to_one = values.flag("norm_topk_prob", default=False) if values.has("norm_topk_prob") else None
    return {
        "experts": values.integer("num_local_experts", "num_experts", "expert_count", default=0),
        "used_experts": values.integer("num_experts_per_tok", "expert_used_count", default=0),
        "expert_hidden": values.integer("moe_intermediate_size", "expert_feed_forward_length", default=0),
        "sums_to_one": sums_to_one,
        "shared_hidden": values.integer(
            "shared_expert_intermediate_size", "expert_shared_feed_forward_length", default=0
        ),
    }


def _local_base(values: GivenValues) -> float:
    return values.number("rope_local_base_freq", "rope.freq_base_swa", default=10_000.0)


def _heads(values: GivenValues) -> int:
    return values.integer("num_attention_heads", "n_head", "n_heads", "attention.head_count")


def _check(place: str, facts: ModelFacts) -> None:
    """FormatError for numbers that no network has."""
    counts = (facts.layers, facts.hidden, facts.context, facts.width, facts.key_value_heads)
    if not all(counts) or max(counts) > 1 << 24 or facts.layers > 1000:
        raise FormatError(place, got=f"sizes {counts}", need="1 or more, and at most 1,000 layers")
    if facts.epsilon <= 0 or facts.base <= 0 or facts.local_base <= 0 or facts.heads % facts.key_value_heads:
        got = f"{facts.heads} heads for {facts.key_value_heads}, epsilon {facts.epsilon:g}, base {facts.base:g}"
        raise FormatError(place, got=got, need="heads a multiple of those of keys, numbers above 0")
    if facts.rotated % 2 or facts.rotated > facts.width:
        raise FormatError(place, got=f"{facts.rotated} features that turn of {facts.width}", need="pairs within a head")
    if facts.experts > MOST_EXPERTS or (facts.experts and not 1 <= facts.used_experts <= facts.experts):
        got = f"{facts.used_experts} of {facts.experts} experts"
        raise FormatError(place, got=got, need=f"1 or more of at most {MOST_EXPERTS:,}")
    if len(facts.layer_kinds) not in (0, facts.layers) or not set(facts.layer_kinds) <= {SLIDING, FULL}:
        raise FormatError(place, got="other kinds of layers", need=f"{SLIDING} or {FULL} for each")
