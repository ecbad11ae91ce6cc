"""Writes tests/language/tuning/peft_logits.json: logits of small networks with drawn adapters.

PYTHONPATH=src:. python benchmarks/peft_logits.py    needs torch, transformers and peft
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import peft
import torch
import transformers
from tests.language.small_models import COLUMNS, ROWS, TOKENS, write_folder
from tests.language.tuning.peft_models import CASES, write_peft

PLACE = Path(__file__).parents[1] / "tests/language/tuning/peft_logits.json"
# In each a module of a rank of its own.
OTHER_RANKS = {"llama": "down_proj", "phi3": "qkv_proj", "gpt2": "c_attn"}


def main() -> None:
    held = {}
    for name in CASES:
        with tempfile.TemporaryDirectory() as place:
            folder = write_folder(Path(place) / "model", name)
            other = OTHER_RANKS[name]
            config = peft.LoraConfig(
                r=3, lora_alpha=5, target_modules="all-linear", rank_pattern={other: 2}, alpha_pattern={other: 7},
                use_rslora=name == "phi3", task_type="CAUSAL_LM", fan_in_fan_out=name == "gpt2",
            )  # fmt: skip
            model = peft.get_peft_model(loaded(folder), config)
            model.save_pretrained(f"{place}/adapter")
            held_config = json.loads((Path(place) / "adapter/adapter_config.json").read_text())
            shapes = {key: list(each.shape) for key, each in peft.get_peft_model_state_dict(model).items()}
            case = {"config": {**held_config, "base_model_name_or_path": ""}, "shapes": shapes}
            adapter = write_peft(Path(place) / "adapter", case)
            made = peft.PeftModel.from_pretrained(loaded(folder), str(adapter)).double()
            logits = made(torch.from_numpy(TOKENS.astype(np.int64))).logits[0].detach().numpy()
            rows = np.round(logits[ROWS, :COLUMNS], 9).tolist()
            held[name] = {**case, "largest": float(np.abs(logits).max()), "logits": rows}
    lines = [f"{json.dumps(name)}: {json.dumps(case)}" for name, case in held.items()]
    PLACE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def loaded(folder: Path) -> torch.nn.Module:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


if __name__ == "__main__":
    main()
