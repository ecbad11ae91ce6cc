"""Names of tensors in files, and what they become: rows of regular expressions, the first that fits counts.

`parts` are the names, for `{}`, of what lies one behind the other in the rows of a matrix [out, in]; their numbers of
rows follow from the network. `ignored` rows have no name: masks, tables of angles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from nnc.classes import dataclass
from nnc.core.values.spec import Shape
from nnc.errors import FormatError, UsageError

MOST_EXPERTS = 1024
QKV = ("query", "key", "value")
GATED = ("gate", "widen")
# As many parts as the first axis of the tensor has.
EXPERTS = ("expert",)


@dataclass(frozen=True, slots=True)
class NameRow:
    """Names that match as a whole, and the template of ours. Where `transposed`, matrices are [in, out]."""

    pattern: str
    ours: str = ""
    parts: tuple[str, ...] = ()
    transposed: bool = False


@dataclass(frozen=True, slots=True)
class StoredPart:
    """Where a tensor of ours lies: a tensor of the file, or the part of this number of its rows."""

    name: str
    part: int = 0
    parts: tuple[str, ...] = ()
    transposed: bool = False
    # The matrices [out, in] of so many experts lie one behind the other.
    experts: int = 0


def _blocks(prefix: str, rows: Mapping[str, str], *, transposed: bool = False) -> tuple[NameRow, ...]:
    """Rows for parts of each block, by number, with their weights and biases."""
    made = []
    for theirs, ours in rows.items():
        parts = QKV if ours == "attention.{}" else GATED if ours == "feed_forward.{}" else ()
        pattern = rf"{prefix}\.(\d+)\.{theirs}\.(weight|bias)"
        made.append(NameRow(pattern, rf"block\1.{ours}.\2", parts, transposed))
    return tuple(made)


def _experts(prefix: str, rows: Mapping[str, str]) -> tuple[NameRow, ...]:
    """Rows for the matrices of experts, by the numbers of block and expert."""
    return tuple(
        NameRow(
            rf"(?:model\.)?layers\.(\d+)\.{prefix}\.(\d+)\.{theirs}\.weight",
            rf"block\1.feed_forward.expert\2.{ours}.weight",
        )
        for theirs, ours in rows.items()
    )


_ENDS = (
    NameRow(r"token_embd\.weight", "tokens.weight"),
    NameRow(r"position_embd\.weight", "positions.weight"),
    NameRow(r"output_norm\.(weight|bias)", r"norm.\1"),
    NameRow(r"output\.(weight|bias)", r"head.\1"),
    NameRow(r"rope_freqs\.weight|rope_factors_(?:long|short)\.weight|blk\.\d+\.attn_rot_embd"),
)
_GGUF_BLOCK = {
    "attn_norm": "attention_norm",
    "attn_q": "attention.query",
    "attn_k": "attention.key",
    "attn_v": "attention.value",
    "attn_qkv": "attention.{}",
    "attn_output": "attention.output",
    "attn_q_norm": "attention.query_norm",
    "attn_k_norm": "attention.key_norm",
    "post_attention_norm": "attention_post_norm",
    "ffn_norm": "feed_forward_norm",
    "ffn_gate": "feed_forward.gate",
    "ffn_up": "feed_forward.widen",
    "ffn_down": "feed_forward.narrow",
    "ffn_gate_inp": "feed_forward.router",
    "ffn_gate_shexp": "feed_forward.shared.gate",
    "ffn_up_shexp": "feed_forward.shared.widen",
    "ffn_down_shexp": "feed_forward.shared.narrow",
    "ffn_gate_inp_shexp": "feed_forward.shared_gate",
    "post_ffw_norm": "feed_forward_post_norm",
}
_GGUF_EXPERTS = tuple(
    NameRow(rf"blk\.(\d+)\.ffn_{theirs}_exps\.weight", rf"block\1.feed_forward.expert{{}}.{ours}.weight", EXPERTS)
    for theirs, ours in (("gate", "gate"), ("up", "widen"), ("down", "narrow"))
)
GGUF = (*_ENDS, *_blocks("blk", _GGUF_BLOCK), *_GGUF_EXPERTS)
# The gate lies in the same matrix as what it opens.
GGUF_FUSED = (*_ENDS, *_blocks("blk", {**_GGUF_BLOCK, "ffn_up": "feed_forward.{}"}))

_HUGGING_ENDS = (
    NameRow(r"(?:model\.)?embed_tokens\.weight", "tokens.weight"),
    NameRow(r"(?:model\.)?norm\.(weight|bias)", r"norm.\1"),
    NameRow(r"lm_head\.(weight|bias)", r"head.\1"),
    NameRow(r"(?:model\.)?(?:layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq"),
)
_HUGGING_BLOCK = {
    "input_layernorm": "attention_norm",
    r"self_attn\.q_proj": "attention.query",
    r"self_attn\.k_proj": "attention.key",
    r"self_attn\.v_proj": "attention.value",
    r"self_attn\.qkv_proj": "attention.{}",
    r"self_attn\.o_proj": "attention.output",
    r"self_attn\.q_norm": "attention.query_norm",
    r"self_attn\.k_norm": "attention.key_norm",
    "post_attention_layernorm": "feed_forward_norm",
    r"mlp\.gate_proj": "feed_forward.gate",
    r"mlp\.up_proj": "feed_forward.widen",
    r"mlp\.gate_up_proj": "feed_forward.{}",
    r"mlp\.down_proj": "feed_forward.narrow",
}
HUGGING = (*_HUGGING_ENDS, *_blocks(r"(?:model\.)?layers", _HUGGING_BLOCK))
HUGGING_MIXTRAL = (
    *HUGGING,
    *_blocks(r"(?:model\.)?layers", {r"block_sparse_moe\.gate": "feed_forward.router"}),
    *_experts(r"block_sparse_moe\.experts", {"w1": "gate", "w3": "widen", "w2": "narrow"}),
)
_QWEN_SHARED = {
    r"mlp\.gate": "feed_forward.router",
    r"mlp\.shared_expert\.gate_proj": "feed_forward.shared.gate",
    r"mlp\.shared_expert\.up_proj": "feed_forward.shared.widen",
    r"mlp\.shared_expert\.down_proj": "feed_forward.shared.narrow",
    r"mlp\.shared_expert_gate": "feed_forward.shared_gate",
}
HUGGING_QWEN_EXPERTS = (
    *HUGGING,
    *_blocks(r"(?:model\.)?layers", _QWEN_SHARED),
    *_experts(r"mlp\.experts", {"gate_proj": "gate", "up_proj": "widen", "down_proj": "narrow"}),
)
# Gemma 2 and 3: four norms in a block, of which this name is another one.
_POST_NORMS = {
    "post_attention_layernorm": "attention_post_norm",
    "pre_feedforward_layernorm": "feed_forward_norm",
    "post_feedforward_layernorm": "feed_forward_post_norm",
}
HUGGING_POST = (*_HUGGING_ENDS, *_blocks(r"(?:model\.)?layers", {**_HUGGING_BLOCK, **_POST_NORMS}))
HUGGING_GPT2 = (
    NameRow(r"(?:transformer\.)?wte\.weight", "tokens.weight"),
    NameRow(r"(?:transformer\.)?wpe\.weight", "positions.weight"),
    NameRow(r"(?:transformer\.)?ln_f\.(weight|bias)", r"norm.\1"),
    NameRow(r"lm_head\.weight", "head.weight"),
    NameRow(r"(?:transformer\.)?h\.\d+\.attn\.(?:masked_)?bias"),
    *_blocks(
        r"(?:transformer\.)?h",
        {
            "ln_1": "attention_norm",
            r"attn\.c_attn": "attention.{}",
            r"attn\.c_proj": "attention.output",
            "ln_2": "feed_forward_norm",
            r"mlp\.c_fc": "feed_forward.widen",
            r"mlp\.c_proj": "feed_forward.narrow",
        },
        transposed=True,
    ),
)


def pieces_of(place: str, rows: Sequence[NameRow], shapes: Mapping[str, Shape]) -> dict[str, StoredPart]:
    """Where each tensor of ours lies; FormatError for a name that no row knows, and for two of one name."""
    pieces: dict[str, StoredPart] = {}
    for name, shape in shapes.items():
        made = _applied(rows, name, shape)
        if made is None:
            need = "names of its architecture's tensors"
            raise FormatError(place, got=f"a tensor {name!r}", need=need, fix="convert the model again")
        for path, piece in made.items():
            if path in pieces:
                raise FormatError(place, got=f"two tensors for {path}", need="one", fix="convert the model again")
            pieces[path] = piece
    return pieces


def module_of(rows: Sequence[NameRow], path: str) -> tuple[str, tuple[str, ...]]:
    """The name in a folder of the matrix that holds a layer of ours, and the layers that lie in it, if several do.

    >>> module_of(HUGGING, "block2.attention.query"), module_of(HUGGING_GPT2, "block0.attention.key")
    (('model.layers.2.self_attn.q_proj', ()), ('transformer.h.0.attn.c_attn', ('query', 'key', 'value')))
    """
    name, parts = stored_name(rows, f"{path}.weight")
    return name.removesuffix(".weight"), parts


def stored_name(rows: Sequence[NameRow], path: str) -> tuple[str, tuple[str, ...]]:
    """The name of the tensor that holds one of ours, and the parts that lie in it, if several do.

    >>> stored_name(GGUF, "norm.weight"), stored_name(GGUF, "block3.feed_forward.expert7.gate.weight")
    (('output_norm.weight', ()), ('blk.3.ffn_gate_exps.weight', ('expert',)))
    """
    for row in rows:
        groups = re.findall(r"\((?!\?)([^)]*)\)", row.pattern)
        for part in row.parts or ("",):
            fitting = re.escape(row.ours).replace(r"\{\}", r"\d+" if row.parts == EXPERTS else part)
            for number, group in enumerate(groups, 1):
                fitting = fitting.replace(rf"\\{number}", f"({group})")
            matched = re.fullmatch(fitting, path)
            if not row.ours or matched is None:
                continue
            name = row.pattern
            for prefix in ("model", "transformer"):
                name = name.replace(rf"(?:{prefix}\.)?", f"{prefix}.")
            for group, value in zip(groups, matched.groups(), strict=True):
                name = name.replace(f"({group})", value, 1)
            return name.replace(r"\.", "."), row.parts
    raise UsageError("adapter", got=path, need="a tensor that files have a name for")


def _applied(rows: Sequence[NameRow], name: str, shape: Shape) -> dict[str, StoredPart] | None:
    for row in rows:
        matched = re.fullmatch(row.pattern, name)
        if matched is None:
            continue
        if not row.ours:
            return {}
        whole = matched.expand(row.ours)
        if not row.parts:
            return {whole: StoredPart(name, transposed=row.transposed)}
        if row.parts == EXPERTS:
            count = min(shape[0], MOST_EXPERTS) if len(shape) == 3 else 0
            return {whole.replace("{}", str(each)): StoredPart(name, each, experts=count) for each in range(count)}
        return {
            whole.replace("{}", part): StoredPart(name, place, row.parts, row.transposed)
            for place, part in enumerate(row.parts)
        }
    return None
