"""The bytes of generation with a file's model, before anything of its weights is read."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Literal

from nnc.arguments import Count, Size, checked
from nnc.core.precautions.reading import fill, opened
from nnc.errors import UsageError
from nnc.language.architectures import EncoderFiles, ModelFiles, open_files
from nnc.nn.steps.keys import CacheType
from nnc.nn.steps.model_memory import ModelMemory

# Positions unless others are asked for: files name up to a million, whose caches nobody expects.
USUAL_CONTEXT = 4096
# Bytes that are read to learn how fast a disk is, and how many at a time.
MOST_MEASURED, PART = 1 << 26, 1 << 20
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
    mapped: bool = False,
    window: Size = 0,
    sinks: Size = 0,
    prefix: Size = 0,
) -> ModelMemory:
    """The bytes that a file's model takes in `batch` rows of `context` tokens; nothing of its weights is read.

    Whole pages of 256 of the first `prefix` tokens are those of all rows, as a server of so many slots has them.

    `cache` is what keys and values are held in, and `draft` who proposes tokens, as `load` has them. The rows are those
    of a batch, or the slots of a server, each of which has caches of a draft's model too. With `mapped` weights it says
    which bytes are `resident`, and how many are `read` for each token (`read_rate` says how fast).
    """
    files = limited(open_files(path, mapped=mapped), window, sinks)
    length = context_of(files, context)
    model = files.model(length)
    model.cache_type = cache
    own = model.memory(batch, "generate", length, prefix)
    if mapped:
        held, read = files.tensors.mapped_bytes(files.decoder(length).decoder)
        own = replace(own, mapped=held, read=read)
    if draft is None or draft == NGRAM:
        return own
    proposing = open_files(draft)
    length = min(length, proposing.facts.context)
    return with_draft(own, memory(draft, context=length, cache=cache, window=window, sinks=sinks), batch)


def with_draft(own: ModelMemory, draft: ModelMemory, rows: int) -> ModelMemory:
    """The bytes of both models, where each of so many rows has its own caches of the draft's."""
    return replace(
        own,
        arena=max(own.arena, own.step.arena) + max(draft.arena, draft.step.arena),
        weights=own.weights + draft.weights,
        cache=own.cache + rows * draft.cache,
        kept_bytes=own.kept_bytes + draft.kept_bytes,
    )


def read_rate(path: Path | str) -> float:
    """Bytes a second that a file is read with from its disk, measured on at most 64 MB that memory does not hold."""
    with opened(path, "a readable file") as (handle, size):
        count = min(size, MOST_MEASURED)
        if hasattr(os, "posix_fadvise"):
            # What others keep mapped stays in memory, and is read faster than the disk is.
            os.posix_fadvise(handle, 0, count, os.POSIX_FADV_DONTNEED)
        part, began = bytearray(PART), time.perf_counter()
        for start in range(0, count, PART):
            fill(Path(path), handle, memoryview(part)[: min(PART, count - start)], start)
        return count / max(time.perf_counter() - began, 1e-9)


def limited(files: ModelFiles, window: int, sinks: int) -> ModelFiles:
    """The files of a model that sees the last `window` tokens and the first `sinks`; all where the window is 0."""
    if sinks and not window:
        raise UsageError("sinks", got=f"{sinks} first tokens", need="a window of last ones beside them")
    return replace(files, window=window, sinks=sinks)


def context_of(files: ModelFiles | EncoderFiles, asked: int) -> int:
    """The positions that a model is opened with; UsageError for more than its file names."""
    most = files.facts.context
    if asked > most:
        raise UsageError("context", got=f"{asked} tokens", need=f"at most {most}, for which the model was trained")
    return asked or min(most, USUAL_CONTEXT)
