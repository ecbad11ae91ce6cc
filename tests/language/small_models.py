"""Small models of each architecture as files: weights are drawn by name, logits are those of transformers."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nnc
from nnc.core.values.blocks import FORMATS, quantize
from nnc.language.gguf import MetadataValue, TensorSource, write_gguf

ENCODERS = ("bert", "roberta", "xlm-roberta", "distilbert")
TOKENS = np.array([[3, 17, 5, 44, 40, 41, 42, 8, 9, 10, 11, 27]], np.int32)
# The rows and columns of logits that are kept.
ROWS, COLUMNS = [0, 5, 11], 6
GGUF_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "block_sparse_moe.gate": "ffn_gate_inp",
    "mlp.gate": "ffn_gate_inp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
}
# Matrices of experts, which GGUF files hold one behind the other.
EXPERTS = {"w1": "gate", "w3": "up", "w2": "down", "gate_proj": "gate", "up_proj": "up", "down_proj": "down"}


TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] | trim }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = ("h e", "l l", "he ll", "Ġ t", "Ġt he", "o Ġ", "i n", "Ġ Ġ")


@cache
def cases() -> dict[str, dict[str, Any]]:
    """Configurations, shapes of tensors and some logits, by name (benchmarks/transformers_logits.py)."""
    place = Path(__file__).parent / "architectures"
    held: dict[str, dict[str, Any]] = json.loads((place / "logits.json").read_text())
    return held | json.loads((place / "encodings.json").read_text())


def decoders() -> list[str]:
    """The cases that write texts."""
    return [name for name in cases() if name not in ENCODERS]


def weights(name: str) -> dict[str, NDArray[np.float32]]:
    """The tensors of a case under the names of transformers."""
    generator = np.random.default_rng(0)
    return {
        path: generator.standard_normal(shape, np.float32) * np.float32(0.3)
        for path, shape in cases()[name]["shapes"].items()
    }


def write_folder(folder: Path, name: str) -> Path:
    """A folder as `save_pretrained` writes it."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(cases()[name]["config"]))
    nnc.save(folder / "model.safetensors", dict(weights(name)))
    return folder


def gguf_parts(name: str) -> tuple[dict[str, MetadataValue | object], dict[str, NDArray[np.float32]]]:
    """Metadata and tensors of a GGUF file of a case of LLaMA or Qwen: rows of queries and keys as pairs for LLaMA."""
    config = cases()[name]["config"]
    architecture = {"mixtral": "llama"}.get(config["model_type"], config["model_type"].replace("_", ""))
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    base = (config.get("rope_parameters") or {}).get("rope_theta", 1e4)
    metadata: dict[str, Any] = {"general.architecture": architecture}
    numbers = {
        "embedding_length": config["hidden_size"],
        "block_count": config["num_hidden_layers"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": width,
        "feed_forward_length": config["intermediate_size"],
        "attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        "context_length": config["max_position_embeddings"],
        "rope.freq_base": float(base),
    }
    for key, names in {
        "attention.sliding_window": ("sliding_window",),
        "expert_count": ("num_local_experts", "num_experts"),
        "expert_used_count": ("num_experts_per_tok",),
        "expert_feed_forward_length": ("moe_intermediate_size",),
        "expert_shared_feed_forward_length": ("shared_expert_intermediate_size",),
    }.items():
        held = next((config[each] for each in names if config.get(each)), None)
        if held is not None:
            numbers[key] = held
    metadata |= {f"{architecture}.{key}": value for key, value in numbers.items()}
    tensors = {}
    experts: dict[str, list[NDArray[np.float32]]] = {}
    for path, array in weights(name).items():
        expert = re.fullmatch(r"model\.layers\.(\d+)\..*experts\.\d+\.(\w+)\.weight", path)
        if expert is not None:
            experts.setdefault(f"blk.{expert[1]}.ffn_{EXPERTS[expert[2]]}_exps.weight", []).append(array)
            continue
        if path.endswith("shared_expert_gate.weight"):
            array = array[0]
        if architecture == "llama" and re.search(r"[qk]_proj", path):
            array = _as_pairs(array, width)
        tensors[_gguf_name(path)] = array
    return metadata, tensors | {path: np.stack(arrays) for path, arrays in experts.items()}


def _as_pairs(array: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    halves = array.reshape(-1, 2, width // 2, *array.shape[1:])
    return halves.swapaxes(1, 2).reshape(array.shape)


def _gguf_name(path: str) -> str:
    if path in GGUF_NAMES:
        return GGUF_NAMES[path]
    _, _, layer, rest = path.split(".", 3)
    stem, _, kind = rest.rpartition(".")
    return f"blk.{layer}.{GGUF_NAMES[stem]}.{kind}"


def write_small_gguf(place: Path, name: str, kind: str = "f32", further: dict[str, object] | None = None) -> Path:
    """A GGUF file of a case, matrices in a block format where their rows are whole blocks."""
    metadata, tensors = gguf_parts(name)
    sources = [_stored(path, array, kind) for path, array in tensors.items()]
    write_gguf(place, {**metadata, **(further or {})}, sources)  # type: ignore[dict-item]  # plain values
    return place


def _stored(path: str, array: NDArray[np.float32], kind: str) -> TensorSource:
    if kind not in FORMATS or array.ndim < 2 or array.shape[1] % FORMATS[kind].size:
        return TensorSource.of(path, array)
    return TensorSource(path, array.shape, kind, lambda: quantize(array, kind))


def vocabulary() -> tuple[str, ...]:
    """Tokens of control, the 256 bytes as GPT-2 writes them, and a few merges."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    characters = [*map(chr, shown), *(chr(256 + place) for place in range(len(hidden)))]
    return (*CONTROL, *characters, *(merge.replace(" ", "") for merge in MERGES))


def text_values(**changed: object) -> dict[str, object]:
    """Metadata of a vocabulary of bytes, with a template of chats."""
    tokens = vocabulary()
    kinds = np.array([3] * len(CONTROL) + [1] * (len(tokens) - len(CONTROL)), np.int32)
    values: dict[str, object] = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": tokens,
        "token_type": kinds,
        "merges": MERGES,
        "eos_token_id": 2,
        "bos_token_id": 0,
        **changed,
    }
    held = {f"tokenizer.ggml.{key}": value for key, value in values.items() if value is not None}
    return {**held, "tokenizer.chat_template": TEMPLATE}


def write_text_model(place: Path, *, kind: str = "f32", context: int = 64, drawn: int = 0, **changed: object) -> Path:
    """A tiny decoder of drawn weights with a vocabulary of bytes, as a GGUF file."""
    features, hidden, tokens = 32, 64, len(vocabulary())
    generator = np.random.default_rng(drawn)
    numbers = {
        "embedding_length": features,
        "block_count": 1,
        "attention.head_count": 2,
        "attention.head_count_kv": 1,
        "feed_forward_length": hidden,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "context_length": context,
    }
    shapes = {
        "token_embd.weight": (tokens, features),
        "output_norm.weight": (features,),
        "blk.0.attn_norm.weight": (features,),
        "blk.0.attn_q.weight": (features, features),
        "blk.0.attn_k.weight": (features // 2, features),
        "blk.0.attn_v.weight": (features // 2, features),
        "blk.0.attn_output.weight": (features, features),
        "blk.0.ffn_norm.weight": (features,),
        "blk.0.ffn_gate.weight": (hidden, features),
        "blk.0.ffn_up.weight": (hidden, features),
        "blk.0.ffn_down.weight": (features, hidden),
    }
    sources = []
    for name, shape in shapes.items():
        values = generator.standard_normal(shape, np.float32)
        sources.append(_stored(name, values * np.float32(0.4) if len(shape) == 2 else np.abs(values) + 1, kind))
    values = {"general.architecture": "llama", **{f"llama.{key}": value for key, value in numbers.items()}}
    write_gguf(place, {**values, **text_values(**changed)}, sources)  # type: ignore[dict-item]  # plain values
    return place
