"""Small trainings whose losses torch gives too (benchmarks/finetune_losses.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers

import nnc
from nnc.language import FineTuning

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "rope_theta": 10000.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
USUAL: dict[str, Any] = {
    "rank": 4, "alpha": 8.0, "context": 24, "epochs": 2, "batch": 2, "rate": 1e-2, "warmup": 0.1, "seed": 3,
}  # fmt: skip
# Features and inner features of a network, and what is asked for beside the usual.
CASES: dict[str, tuple[int, int, dict[str, Any]]] = {
    "lora": (32, 48, {}),
    # Rows of whole blocks of 256.
    "qlora": (256, 512, {"method": "qlora"}),
    "full": (32, 48, {"method": "full"}),
    "dpo": (32, 48, {"beta": 0.5}),
    "targets": (32, 48, {"targets": ("*.query", "*.value"), "accumulate": 2, "decay": 0.1}),
}


def write_model(folder: Path, features: int, hidden: int) -> Path:
    """A folder of a small LLaMA of drawn weights, whose tokens are words."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {**CONFIG, "hidden_size": features, "intermediate_size": hidden, "head_dim": features // 4}
    (folder / "config.json").write_text(json.dumps(config))
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (48, features), "model.norm.weight": (features,), "lm_head.weight": (48, features),
    }  # fmt: skip
    for layer in range(2):
        place = f"model.layers.{layer}"
        for name, (rows, columns) in {
            "self_attn.q_proj": (features, features),
            "self_attn.k_proj": (features // 2, features),
            "self_attn.v_proj": (features // 2, features),
            "self_attn.o_proj": (features, features),
            "mlp.gate_proj": (hidden, features),
            "mlp.up_proj": (hidden, features),
            "mlp.down_proj": (features, hidden),
        }.items():
            shapes[f"{place}.{name}.weight"] = (rows, columns)
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{place}.{name}.weight"] = (features,)
    draw = np.random.default_rng(11).standard_normal
    tensors = {
        name: draw(shape, np.float32) * np.float32(shape[1] ** -0.5) if len(shape) == 2 else np.ones(shape, np.float32)
        for name, shape in shapes.items()
    }
    nnc.save(folder / "model.safetensors", dict(tensors))
    words = Tokenizer(models.WordLevel({f"w{word}": word for word in range(48)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "w2"}))
    return folder


def write_data(place: Path, *, preferences: bool) -> Path:
    """Words that count up; of preferences, the other answer counts down."""
    generator, rows = np.random.default_rng(5), []
    for _ in range(20):
        size, first = int(generator.integers(3, 9)), int(generator.integers(3, 30))
        prompt = _words(range(first, first + size)) + " "
        up = _words(range(first + size, first + size + 5))
        down = _words(range(first + size, first + size - 4, -1))
        row = {"prompt": prompt, "completion": up}
        rows.append({"prompt": prompt, "chosen": up, "rejected": down} if preferences else row)
    place.write_text("\n".join(map(json.dumps, rows)))
    return place


def _words(numbers: range) -> str:
    return " ".join(f"w{number % 48}" for number in numbers)


def tuning_of(folder: Path, name: str, **changed: Any) -> FineTuning:
    """The training of a case, its files in a folder."""
    features, hidden, options = CASES[name]
    model = write_model(folder / "model", features, hidden)
    data = write_data(folder / "data.jsonl", preferences=name == "dpo")
    return FineTuning(model, data, folder / "output", **{**USUAL, **options, **changed})


def losses_of(tuning: FineTuning) -> list[float]:
    """Train to the end: the loss of each batch."""
    losses, before = list[float](), [0.0, 0]

    def listen(progress: nnc.nn.Progress) -> None:
        # What is told is the mean since the epoch began, over examples.
        total, count = progress.loss * progress.examples, progress.examples
        losses.append((total - before[0]) / (count - before[1]))
        before[:] = (0.0, 0) if progress.epoch_done else (total, count)

    tuning.train([listen])
    return losses
