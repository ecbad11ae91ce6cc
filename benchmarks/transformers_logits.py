"""Writes logits.json and encodings.json of tests/language/architectures, of small networks, by transformers.

python -P benchmarks/transformers_logits.py    needs torch and transformers, which import a package named kernels
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

TOKENS = [3, 17, 5, 44, 40, 41, 42, 8, 9, 10, 11, 27]
USUAL = {
    "vocab_size": 48,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}
LONG = {
    "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0, 1.1], "long_factor": [1.5, 2.0],
    "original_max_position_embeddings": 8,
}  # fmt: skip
GEMMA = {"head_dim": 8, "sliding_window": 5, "query_pre_attn_scalar": 12}
PHI3 = {"sliding_window": 6, "original_max_position_embeddings": 8, "rope_parameters": LONG}
GPT2 = {"vocab_size": 48, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 64, "eos_token_id": 2}
QWEN = {"num_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 12}
CASES = {
    "llama": ("LlamaConfig", {**USUAL, "rope_parameters": LLAMA3}),
    "llama_biases": ("LlamaConfig", {**USUAL, "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}),
    "llama_yarn": ("LlamaConfig", {**USUAL, "rope_parameters": YARN}),
    "mistral": ("MistralConfig", {**USUAL, "sliding_window": 5}),
    "qwen2": ("Qwen2Config", USUAL),
    "qwen3": ("Qwen3Config", {**USUAL, "head_dim": 8, "tie_word_embeddings": True}),
    "phi3": ("Phi3Config", {**USUAL, **PHI3}),
    "gemma": ("GemmaConfig", {**USUAL, "head_dim": 8}),
    "gemma2": ("Gemma2Config", {**USUAL, **GEMMA}),
    "gemma3": ("Gemma3TextConfig", {**USUAL, **GEMMA, "num_hidden_layers": 7}),
    "gpt2": ("GPT2Config", GPT2),
    "mixtral": ("MixtralConfig", {**USUAL, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 5}),
    "qwen2_moe": ("Qwen2MoeConfig", {**USUAL, **QWEN, "shared_expert_intermediate_size": 10}),
    "qwen3_moe": ("Qwen3MoeConfig", {**USUAL, **QWEN, "head_dim": 8, "norm_topk_prob": True}),
}  # fmt: skip

ENCODER = {key: value for key, value in USUAL.items() if key not in ("num_key_value_heads", "bos_token_id")}
DISTIL = {
    "vocab_size": 48, "dim": 16, "hidden_dim": 24, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 64,
    "pad_token_id": 0,
}  # fmt: skip
ENCODERS = {
    "bert": ("BertConfig", ENCODER),
    "roberta": ("RobertaConfig", {**ENCODER, "pad_token_id": 1, "hidden_act": "gelu_new"}),
    "xlm-roberta": ("XLMRobertaConfig", {**ENCODER, "pad_token_id": 1, "type_vocab_size": 1}),
    "distilbert": ("DistilBertConfig", DISTIL),
}


def main() -> None:
    """Write the files."""
    write("logits.json", {name: logits(*case) for name, case in CASES.items()})
    write("encodings.json", {name: encoding(*case) for name, case in ENCODERS.items()})


def logits(kind: str, options: dict[str, object]) -> dict[str, object]:
    """Those of a language model."""
    own = {"experts_implementation": "eager"} if "experts" in str(options) else {}
    config, shapes, model = drawn(kind, options, transformers.AutoModelForCausalLM, own)
    return recorded(config, shapes, model(torch.tensor([TOKENS])).logits)


def encoding(kind: str, options: dict[str, object]) -> dict[str, object]:
    """What an encoder gives for tokens, in the middle of a batch that is filled up."""
    config, shapes, model = drawn(kind, options, transformers.AutoModel, {})
    return recorded(config, shapes, model(torch.tensor([TOKENS])).last_hidden_state)


def drawn(
    kind: str, options: dict[str, object], loader: type, own: dict[str, str]
) -> tuple[transformers.PretrainedConfig, dict[str, list[int]], torch.nn.Module]:
    """The configuration, the shapes of the tensors in its file, and a model whose tensors are drawn, in f64."""
    config = getattr(transformers, kind)(**options, attn_implementation="eager")
    with tempfile.TemporaryDirectory() as folder:
        loader.from_config(config).save_pretrained(folder)
        # Files may have other names than the network: experts are apart in them.
        stored = load_file(f"{folder}/model.safetensors")
        generator = np.random.default_rng(0)
        shapes = {path: list(stored[path].shape) for path in sorted(stored)}
        values = {
            path: torch.from_numpy(generator.standard_normal(shape, np.float32) * np.float32(0.3))
            for path, shape in shapes.items()
        }
        save_file(values, f"{folder}/model.safetensors", {"format": "pt"})
        model = loader.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager", **own).eval()
    return config, shapes, model


def recorded(
    config: transformers.PretrainedConfig, shapes: dict[str, list[int]], result: torch.Tensor
) -> dict[str, object]:
    """What the tests read: some numbers of some rows."""
    values = result[0].detach().numpy()
    held = {key: value for key, value in config.to_dict().items() if key not in ("transformers_version", "dtype")}
    rows = [[round(float(value), 9) for value in row[:6]] for row in values[[0, 5, 11]]]
    return {"config": held, "shapes": shapes, "largest": float(np.abs(values).max()), "logits": rows}


def write(name: str, cases: dict[str, dict[str, object]]) -> None:
    """A case on each line."""
    place = Path(__file__).parents[1] / "tests/language/architectures" / name
    lines = [f"{json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items()]
    place.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
