"""Writes tests/language/tuning/torch_losses.json: losses of small trainings by torch and peft, and how far ours are.

PYTHONPATH=src:. python benchmarks/finetune_losses.py    needs torch, transformers and peft
"""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path

import numpy as np
import peft
import torch
import transformers
from tests.language.tuning.tuned_models import CASES, USUAL, losses_of, tuning_of

from nnc.core.values import blocks
from nnc.language import FineTuning
from nnc.nn.data import Batches

PLACE = Path(__file__).parents[1] / "tests/language/tuning/torch_losses.json"


def main() -> None:
    held = {}
    for name in CASES:
        with tempfile.TemporaryDirectory() as folder:
            tuning = tuning_of(Path(folder), name, backend="llvm")
            held[name] = torch_losses(tuning, name)
            ours = losses_of(tuning)
            worst = max(abs(a - b) for a, b in zip(held[name], ours, strict=True))
            print(f"{name}: {len(ours)} losses, {ours[0]:.4f} to {ours[-1]:.4f}, largest difference {worst:.2e}")
    PLACE.write_text(json.dumps({name: [round(loss, 7) for loss in row] for name, row in held.items()}) + "\n")


def torch_losses(tuning: FineTuning, name: str) -> list[float]:
    """The losses of updates by torch: of accumulated batches, the mean."""
    options = {**USUAL, **CASES[name][2]}
    tuning.write()
    model = network(tuning, options.get("method", "lora"))
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=1.0, weight_decay=options.get("decay", 0.0))
    if name == "dpo":
        batches = [(batch.inputs, *batch.labels) for batch in epochs(tuning)]
    else:
        batches = [(*batch.inputs, batch.labels) for batch in epochs(tuning)]
    losses, each = [], options.get("accumulate", 1)
    per_epoch = len(batches) // options["epochs"]
    for epoch in range(options["epochs"]):
        own = batches[epoch * per_epoch : (epoch + 1) * per_epoch]
        for start in range(0, len(own), each):
            part = own[start : start + each]
            optimizer.zero_grad()
            rows = sum(len(batch[0]) for batch in part)
            total = 0.0
            for batch in part:
                loss = loss_of(model, [torch.from_numpy(array) for array in batch], options)
                (loss * len(batch[0]) / rows).backward()
                total += loss.item() * len(batch[0]) / rows
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            for group in optimizer.param_groups:
                group["lr"] = rate(len(losses) + 1, tuning.updates, options)
            optimizer.step()
            losses.append(total)
    return losses


def epochs(tuning: FineTuning) -> list:
    source = Batches(tuning._examples(), tuning.options.batch, seed=tuning.options.seed)
    return [batch for _ in range(tuning.options.epochs) for batch in source]


def network(tuning: FineTuning, method: str):
    """The model by transformers, with our adapter as it begins."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        tuning.files.place, dtype=torch.float32, attn_implementation="eager"
    )
    if method == "full":
        return model
    state, tensors = model.state_dict(), tuning.model.tensors()
    for path, kind in tuning.network.decoder.packed:
        values = blocks.dequantize(np.array(tensors[path].numpy()), kind)
        state[tuning.files.tensors.pieces[path].name].copy_(torch.from_numpy(values))
    return peft.PeftModel.from_pretrained(model, str(tuning.output), is_trainable=True)


def rate(step: int, updates: int, options: dict) -> float:
    warm = round(options["warmup"] * updates)
    if step <= warm:
        return options["rate"] * (step - 1) / warm
    return options["rate"] * (1 + math.cos(math.pi * (step - warm - 1) / (updates - warm))) / 2


def loss_of(model, batch: list, options: dict):
    if batch[0].ndim == 3:
        return preference_loss(model, *batch, options["beta"])
    tokens, starts, labels = (array.long() for array in batch)
    columns = torch.arange(tokens.shape[1])
    seen = (columns[None, None] <= columns[None, :, None]) & (columns[None, None] >= starts[:, :, None])
    mask = torch.where(seen, 0.0, -1e30)[:, None]
    logits = model(input_ids=tokens, attention_mask=mask, position_ids=columns[None] - starts).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def preference_loss(model, tokens, labels, before, beta: float):
    batch, pair, steps = tokens.shape
    logits = model(input_ids=tokens.reshape(-1, steps).long()).logits
    labels = labels.reshape(-1, steps).long()
    logs = logits.log_softmax(-1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    after = torch.where(labels >= 0, logs, 0.0).sum(-1).reshape(batch, pair)
    gained = after - before
    return -torch.nn.functional.logsigmoid(beta * (gained[:, 0] - gained[:, 1])).mean()


if __name__ == "__main__":
    main()
