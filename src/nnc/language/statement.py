"""The bytes of generation with a file's model, before anything of its weights is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from nnc.arguments import Count, Size, checked
from nnc.errors import UsageError
from nnc.language.architectures import EncoderFiles, ModelFiles, open_files
from nnc.nn.steps.keys import CacheType
from nnc.nn.steps.model_memory import ModelMemory

# Positions unless others are asked for: files name up to a million, whose caches nobody expects.
USUAL_CONTEXT = 4096
# Who proposes what followed the last few tokens where they stood before: no model.
NGRAM: Literal["ngram"] = "ngram"


@checked
def memory(
    path: Path | str,
    *,
    context: Size = 0,
    batch: Count = 1,
    cache: CacheType = "f32",
    draft: Path | str | None = None,
) -> ModelMemory:
    """The bytes that a file's model takes in `batch` rows of `context` tokens; nothing of its weights is read.

    `cache` is what keys and values are held in, and `draft` who proposes tokens, as `load` has them. The rows are those
    of a batch, or the slots of a server, each of which has caches of a draft's model too.
    """
    files = open_files(path)
    length = context_of(files, context)
    model = files.model(length)
    model.cache_type = cache
    own = model.memory(batch, "generate", length)
    if draft is None or draft == NGRAM:
        return own
    proposing = open_files(draft)
    return with_draft(own, memory(draft, context=min(length, proposing.facts.context), cache=cache), batch)


def with_draft(own: ModelMemory, draft: ModelMemory, rows: int) -> ModelMemory:
    """The bytes of both models, where each of so many rows has its own caches of the draft's."""
    return replace(
        own,
        arena=max(own.arena, own.step.arena) + max(draft.arena, draft.step.arena),
        weights=own.weights + draft.weights,
        cache=own.cache + rows * draft.cache,
        kept_bytes=own.kept_bytes + draft.kept_bytes,
    )


def context_of(files: ModelFiles | EncoderFiles, asked: int) -> int:
    """The positions that a model is opened with; UsageError for more than its file names."""
    most = files.facts.context
    if asked > most:
        raise UsageError("context", got=f"{asked} tokens", need=f"at most {most}, for which the model was trained")
    return asked or min(most, USUAL_CONTEXT)
