"""nnc plan with a language model's file: weights, caches and arena, before anything of them is read."""

from __future__ import annotations

from pathlib import Path

from nnc import language
from nnc.cli.language.model_file import Caching, statement_within, streaming
from nnc.cli.terminal import Json, add_row, complain, count, output, table, write_json


def plan_language(
    path: Path, context: int, batch: int, caching: Caching, draft: str | None, limit: int | None, *, json: bool
) -> int:
    """Print the statement; 1 where it is above the limit."""
    memory, mapped = statement_within(path, limit, context, batch, caching, draft)
    facts: dict[str, Json] = {
        "weight_bytes": memory.weights,
        "cache_bytes": memory.cache,
        "arena_bytes": max(memory.arena, memory.step.arena),
        "total_bytes": memory.total,
        "process_bytes": memory.process,
    }
    rate = language.read_rate(path) if mapped else 0.0
    if mapped:
        facts |= {
            "resident_bytes": memory.resident,
            "mapped_bytes": memory.mapped,
            "read_per_token_bytes": memory.read,
            "disk_bytes_per_second": int(rate),
        }
    if json:
        write_json(facts)
    else:
        rows = table(path.name, "what", "bytes", numbers=("bytes",))
        for name, value in facts.items():
            add_row(rows, name.removesuffix("_bytes"), count(value) if isinstance(value, int) else "")
        output().print(rows)
    if mapped and not json:
        complain(streaming(memory, rate))
    if limit is not None and memory.resident > limit:
        complain(f"plan: got {memory.resident} bytes; need at most {limit}. Fix: a smaller --context or --cache int8")
        return 1
    return 0
