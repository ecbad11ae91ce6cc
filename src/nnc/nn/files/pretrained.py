"""Weights of others: files of Hugging Face's transformers, whose names and layouts become those of our networks.

A family is a table of rows: a regular expression for whole names, what the name becomes in PyTorch's layouts
(`nnc.nn.files.torch_names`), and where several tensors lie in one, the names of these parts along its last axis.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.errors import FormatError, UsageError
from nnc.nn.files.torch_names import load_torch_state_dict
from nnc.nn.model.load_report import LoadReport
from nnc.nn.model.model import Model
from nnc.nn.state.tensor_files import stored_tensors


@dataclass(frozen=True, slots=True)
class NameRule:
    """Names that match `pattern` as a whole become `name`, a template of its groups; no name, and they are left out.

    With `parts` the tensor is cut evenly along its last axis, and `{}` in the name stands for each of them. Matrices
    that are `transposed` are [in, out], unlike PyTorch's.
    """

    pattern: str
    name: str
    parts: tuple[str, ...] = ()
    transposed: bool = False

    def applied(self, name: str, array: NDArray[np.generic]) -> dict[str, NDArray[np.generic]] | None:
        """The tensors that this one is; None where the name is none of these."""
        matched = re.fullmatch(self.pattern, name)
        if matched is None:
            return None
        if not self.name:
            return {}
        whole = matched.expand(self.name)
        arrays = np.split(array, len(self.parts), -1) if self.parts else [array]
        names = [whole.replace("{}", part) for part in self.parts] or [whole]
        if self.transposed and array.ndim == 2:
            arrays = [value.T for value in arrays]
        return dict(zip(names, arrays, strict=True))


def _layers(prefix: str, rows: Mapping[str, str]) -> tuple[NameRule, ...]:
    """Rows for the parts of each layer, by number."""
    return tuple(
        NameRule(rf"{prefix}\.(\d+)\.{theirs}\.(weight|bias)", rf"block\1.{ours}.\2") for theirs, ours in rows.items()
    )


_GPT2 = (
    NameRule(r"(?:transformer\.)?wte\.weight", "tokens.weight"),
    NameRule(r"(?:transformer\.)?wpe\.weight", "positions.weight"),
    NameRule(r"(?:transformer\.)?ln_f\.(weight|bias)", r"norm.\1"),
    NameRule(
        r"(?:transformer\.)?h\.(\d+)\.attn\.c_attn\.(weight|bias)",
        r"block\1.attention.{}.\2",
        ("query", "key", "value"),
        transposed=True,
    ),
    *(
        NameRule(rf"(?:transformer\.)?h\.(\d+)\.{theirs}\.(weight|bias)", rf"block\1.{ours}.\2", transposed=True)
        for theirs, ours in {
            "ln_1": "attention_norm",
            r"attn\.c_proj": "attention.output",
            "ln_2": "feed_forward_norm",
            r"mlp\.c_fc": "feed_forward.widen",
            r"mlp\.c_proj": "feed_forward.narrow",
        }.items()
    ),
    # Masks, and the table of tokens once more.
    NameRule(r"(?:transformer\.)?h\.\d+\.attn\.(?:masked_)?bias|lm_head\.weight", ""),
)
_BERT = (
    NameRule(r"(?:bert\.)?embeddings\.word_embeddings\.weight", "tokens.weight"),
    NameRule(r"(?:bert\.)?embeddings\.position_embeddings\.weight", "positions.weight"),
    NameRule(r"(?:bert\.)?embeddings\.token_type_embeddings\.weight", "sentence_types"),
    NameRule(r"(?:bert\.)?embeddings\.LayerNorm\.(weight|bias)", r"norm.\1"),
    NameRule(r"(?:bert\.)?pooler\.dense\.(weight|bias)", r"pooler.\1"),
    *_layers(
        r"(?:bert\.)?encoder\.layer",
        {
            **{rf"attention\.self\.{name}": f"attention.{name}" for name in ("query", "key", "value")},
            r"attention\.output\.dense": "attention.output",
            r"attention\.output\.LayerNorm": "attention_norm",
            r"intermediate\.dense": "feed_forward.widen",
            r"output\.dense": "feed_forward.narrow",
            r"output\.LayerNorm": "feed_forward_norm",
        },
    ),
    NameRule(r"(?:bert\.)?embeddings\.position_ids|cls\..*", ""),
)
_VIT = (
    NameRule(r"(?:vit\.)?embeddings\.cls_token", "class_token"),
    NameRule(r"(?:vit\.)?embeddings\.position_embeddings", "positions.weight"),
    NameRule(r"(?:vit\.)?embeddings\.patch_embeddings\.projection\.(weight|bias)", r"patches.\1"),
    NameRule(r"(?:vit\.)?layernorm\.(weight|bias)", r"norm.\1"),
    NameRule(r"classifier\.(weight|bias)", r"classes.\1"),
    *_layers(
        r"(?:vit\.)?encoder\.layer",
        {
            **{rf"attention\.attention\.{name}": f"attention.{name}" for name in ("query", "key", "value")},
            r"attention\.output\.dense": "attention.output",
            "layernorm_before": "attention_norm",
            r"intermediate\.dense": "feed_forward.widen",
            r"output\.dense": "feed_forward.narrow",
            "layernorm_after": "feed_forward_norm",
        },
    ),
    NameRule(r"(?:vit\.)?pooler\..*", ""),
)
_LLAMA = (
    NameRule(r"model\.embed_tokens\.weight", "tokens.weight"),
    NameRule(r"model\.norm\.weight", "norm.weight"),
    NameRule(r"lm_head\.weight", "head.weight"),
    *_layers(
        r"model\.layers",
        {
            r"self_attn\.q_proj": "attention.query",
            r"self_attn\.k_proj": "attention.key",
            r"self_attn\.v_proj": "attention.value",
            r"self_attn\.o_proj": "attention.output",
            "input_layernorm": "attention_norm",
            "post_attention_layernorm": "feed_forward_norm",
            r"mlp\.gate_proj": "feed_forward.gate",
            r"mlp\.up_proj": "feed_forward.widen",
            r"mlp\.down_proj": "feed_forward.narrow",
        },
    ),
    NameRule(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq", ""),
)
_UNIT = {"convolution": "convolution", "normalization": "norm"}


def _resnet(parts: Sequence[str]) -> tuple[NameRule, ...]:
    """Blocks of these convolutions; stages count from 0 there and from 1 here."""
    rows = [NameRule(r"classifier\.1\.(weight|bias)", r"classes.\1")]
    for theirs, ours in _UNIT.items():
        rows.append(NameRule(rf"(?:resnet\.)?embedder\.embedder\.{theirs}\.(\w+)", rf"stem.{ours}.\1"))
        for stage in range(4):
            place = rf"(?:resnet\.)?encoder\.stages\.{stage}\.layers\.(\d+)"
            block = rf"stage{stage + 1}_\1.sum"
            rows.append(NameRule(rf"{place}\.shortcut\.{theirs}\.(\w+)", rf"{block}.shortcut.{ours}.\2"))
            for number, part in enumerate(parts):
                rows.append(NameRule(rf"{place}\.layer\.{number}\.{theirs}\.(\w+)", rf"{block}.body.{part}.{ours}.\2"))
    return tuple(rows)


HUGGING_FACE: Mapping[str, tuple[NameRule, ...]] = MappingProxyType(
    {
        "gpt2": _GPT2,
        "bert": _BERT,
        "vit": _VIT,
        "llama": _LLAMA,
        "resnet_basic": _resnet(("first", "second")),
        "resnet_bottleneck": _resnet(("narrow", "middle", "widen")),
    }
)
# The family of each class of network.
FAMILIES: Mapping[str, str] = MappingProxyType({"GPT": "gpt2", "BERT": "bert", "ViT": "vit", "LLaMA": "llama"})


@checked
def load_pretrained(
    model: Model, path: Path | str, names: str | Sequence[NameRule] = "", *, strict: bool = True
) -> LoadReport:
    """Set the model's tensors from safetensors of Hugging Face's names: a file, an index of several, or their folder.

    `names` is one of `HUGGING_FACE`, that of the network's class unless given, or rules of one's own. Files are read
    whole before anything is set. What a file holds beside the network, such as a pooler that it lacks, is left out;
    what the network lacks otherwise is a FormatError, or in the report where that is not `strict`.
    """
    rules = _rules(model, names)
    weights: dict[str, NDArray[np.generic]] = {}
    for name, tensor in stored_tensors(path).items():
        for given, array in _applied(rules, name, tensor.numpy()).items():
            if given in weights:
                raise FormatError(str(path), got=f"two tensors for {given}", need="one", fix="look at the rules")
            spec = model.specs.get(given)
            # Axes of size 1 in front are those of a batch.
            lone = spec is not None and array.ndim > spec.spec.rank and array.shape[0] == 1
            weights[given] = array.reshape(array.shape[array.ndim - spec.spec.rank :]) if lone and spec else array
    if not any(path.startswith("pooler.") for path in model.specs):
        weights = {name: array for name, array in weights.items() if not name.startswith("pooler.")}
    return load_torch_state_dict(model, weights, strict=strict)


def _rules(model: Model, names: str | Sequence[NameRule]) -> Sequence[NameRule]:
    if not isinstance(names, str):
        return names
    family = names or FAMILIES.get(type(model.layer).__name__, "")
    if family not in HUGGING_FACE:
        got = f"names={names!r} for a {type(model.layer).__name__}"
        raise UsageError("load_pretrained", got=got, need=f"one of {', '.join(HUGGING_FACE)}, or rules")
    return HUGGING_FACE[family]


def _applied(rules: Sequence[NameRule], name: str, array: NDArray[np.generic]) -> Mapping[str, NDArray[np.generic]]:
    """By the first rule that fits; under its own name where none does."""
    for rule in rules:
        made = rule.applied(name, array)
        if made is not None:
            return made
    return {name: array}
