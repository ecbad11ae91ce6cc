"""The bytes of generation with a file's model, before anything of its weights is read."""

from __future__ import annotations

from pathlib import Path

from nnc.arguments import Count, Size, checked
from nnc.errors import UsageError
from nnc.language.architectures import EncoderFiles, ModelFiles, open_files
from nnc.nn.steps.keys import CacheType
from nnc.nn.steps.model_memory import ModelMemory

# Positions unless others are asked for: files name up to a million, whose caches nobody expects.
USUAL_CONTEXT = 4096


@checked
def memory(path: Path | str, *, context: Size = 0, batch: Count = 1, cache: CacheType = "f32") -> ModelMemory:
    """The bytes that a file's model takes in `batch` rows of `context` tokens; nothing of its weights is read.

    `cache` is what keys and values are held in, as `load` has it.
    """
    files = open_files(path)
    length = context_of(files, context)
    model = files.model(length)
    model.cache_type = cache
    return model.memory(batch, "generate", length)


def context_of(files: ModelFiles | EncoderFiles, asked: int) -> int:
    """The positions that a model is opened with; UsageError for more than its file names."""
    most = files.facts.context
    if asked > most:
        raise UsageError("context", got=f"{asked} tokens", need=f"at most {most}, for which the model was trained")
    return asked or min(most, USUAL_CONTEXT)
