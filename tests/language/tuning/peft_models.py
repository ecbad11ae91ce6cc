"""Adapters as PEFT writes them, of drawn products, for small models (benchmarks/peft_logits.py)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import nnc

CASES = ("llama", "phi3", "gpt2")


@cache
def peft_cases() -> dict[str, dict[str, Any]]:
    """adapter_config, shapes of tensors and some logits, by the name of the model."""
    held: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "peft_logits.json").read_text())
    return held


def write_peft(folder: Path, case: dict[str, Any]) -> Path:
    """The adapter of a case."""
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(case["config"]))
    draw = np.random.default_rng(1).standard_normal
    tensors = {name: draw(shape, np.float32) * np.float32(0.3) for name, shape in sorted(case["shapes"].items())}
    nnc.save(folder / "adapter_model.safetensors", dict(tensors))
    return folder
