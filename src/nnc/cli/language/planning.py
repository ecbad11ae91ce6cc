"""nnc plan with a language model's file: weights, caches and arena, before anything of them is read."""

from __future__ import annotations

from pathlib import Path

from nnc import language
from nnc.cli.terminal import Json, add_row, complain, count, output, table, write_json
from nnc.nn.steps.keys import CacheType


def plan_language(
    path: Path, context: int, batch: int, cache: CacheType, draft: str | None, limit: int | None, *, json: bool
) -> int:
    """Print the statement; 1 where it is above the limit."""
    memory = language.memory(path, context=context, batch=batch, cache=cache, draft=draft)
    facts: dict[str, Json] = {
        "weight_bytes": memory.weights,
        "cache_bytes": memory.cache,
        "arena_bytes": max(memory.arena, memory.step.arena),
        "total_bytes": memory.total,
        "process_bytes": memory.process,
    }
    if json:
        write_json(facts)
    else:
        rows = table(path.name, "what", "bytes", numbers=("bytes",))
        for name, value in facts.items():
            add_row(rows, name.removesuffix("_bytes"), count(value) if isinstance(value, int) else "")
        output().print(rows)
    if limit is not None and memory.total > limit:
        complain(
            f"plan: got {memory.total} bytes; need at most {limit}. Fix: a smaller --context or --batch, --cache int8"
        )
        return 1
    return 0
