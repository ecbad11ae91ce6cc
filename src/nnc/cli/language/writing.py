"""nnc generate with a language model's file: a text written on from a prompt, streamed."""

from __future__ import annotations

import sys
from pathlib import Path

from nnc.classes import dataclass
from nnc.cli.language.model_file import ALL_OF_F32, Caching, Pace, opened, shown
from nnc.cli.terminal import write_json


@dataclass(frozen=True, slots=True)
class Writing:
    """What `nnc generate` was asked for."""

    prompt: str
    length: int
    context: int
    limit: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    stop: tuple[str, ...]
    seed: int
    quantize: str | None
    backend: str
    adapter: Path | None = None
    grammar: str | dict[str, object] | None = None
    caching: Caching = ALL_OF_F32
    draft: str | None = None


def write_on(path: Path, asked: Writing, *, json: bool) -> int:
    """Stream the text, and say how fast it came."""
    model = opened(
        path, asked.context, asked.limit, asked.backend, asked.quantize, asked.adapter, asked.caching, asked.draft
    )
    length = min(asked.length, model.context - 1)
    pieces = model.stream(
        asked.prompt, length, temperature=asked.temperature, top_k=asked.top_k, top_p=asked.top_p, min_p=asked.min_p,
        stop=asked.stop, seed=asked.seed, grammar=asked.grammar,
    )  # fmt: skip
    if json:
        text = "".join(pieces)
        write_json({"file": str(path), "prompt": asked.prompt, "seed": asked.seed, "length": length, "text": text})
        return 0
    pace = Pace()
    sys.stdout.write(asked.prompt)
    shown(pieces)
    sys.stdout.write("\n")
    sys.stdout.flush()
    pace.tell(pieces.written)
    return 0
