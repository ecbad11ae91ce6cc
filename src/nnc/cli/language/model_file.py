"""A language model's file for a command: which files are such, what they take, and options that commands share."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, cast

import typer

from nnc import language
from nnc.classes import dataclass
from nnc.cli.options import bytes_of
from nnc.cli.terminal import complain, plain, size
from nnc.core.precautions.reading import read_file
from nnc.errors import FormatError, MemoryLimitError, UsageError
from nnc.nn.steps.keys import CacheType
from nnc.nn.steps.model_memory import ModelMemory
from nnc.symbolic.passes import QuantizationMode

CONFIG = "config.json"
MOST_FORM_BYTES = 1 << 20

LanguageFile = Annotated[Path, typer.Argument(metavar="FILE", help="A GGUF file, or a folder of Hugging Face.")]
Context = Annotated[
    int, typer.Option(min=0, metavar="N", help="Tokens of prompt and answer together. Default: 4,096 or the model's.")
]
CacheKind = Annotated[CacheType, typer.Option("--cache", help="What keys and values of earlier tokens are held in.")]
Window = Annotated[
    int, typer.Option(min=0, metavar="N", help="Of earlier tokens the last N alone, whose caches are all there is.")
]
Prefix = Annotated[
    int, typer.Option(min=0, metavar="N", help="So many first tokens are those of all rows, and lie in memory once.")
]
Sinks = Annotated[int, typer.Option(min=0, metavar="N", help="Beside the window the first N tokens.")]
Limit = Annotated[
    int | None, typer.Option(parser=bytes_of, metavar="BYTES", help="Refuse what takes more before it is loaded.")
]
Adapter = Annotated[
    Path | None, typer.Option(metavar="DIR", help="An adapter of nnc finetune, or of PEFT, for this model.")
]
GrammarFile = Annotated[
    Path | None,
    typer.Option("--grammar", metavar="FILE.gbnf", help="Tokens of a grammar alone (llama.cpp's notation)."),
]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", metavar="FILE.json", help="JSON alone that this schema describes.")
]
DraftOf = Annotated[
    str | None,
    typer.Option("--draft", metavar="FILE|ngram", help="Who proposes tokens: a smaller model, or the text before."),
]
MinP = Annotated[float | None, typer.Option(help="Draw only from those that are so likely beside the likeliest.")]


@dataclass(frozen=True, slots=True)
class Caching:
    """What is held of earlier tokens, and in what."""

    cache: CacheType = "f32"
    window: int = 0
    sinks: int = 0
    # So many first tokens are those of all rows.
    prefix: int = 0


ALL_OF_F32 = Caching()


def is_language_file(path: Path) -> bool:
    """Whether a file, or a folder, is that of a language model."""
    return path.suffix == ".gguf" or path.name == CONFIG or os.path.isfile(path / CONFIG)


def opened(
    path: Path,
    context: int,
    limit: int | None,
    backend: str,
    quantize: str | None = None,
    adapter: Path | None = None,
    caching: Caching = ALL_OF_F32,
    draft: str | None = None,
    slots: int = 1,
) -> language.LanguageModel:
    """The model; MemoryLimitError before it is loaded where it takes more, UsageError where the extra is absent."""
    mapped = False
    if limit is not None:
        memory, mapped = statement_within(path, limit, context, slots, caching, draft)
        if memory.resident > limit:
            got = f"{size(memory.resident)} of weights, caches and arena"
            raise MemoryLimitError(
                "--limit", got=got, need=f"at most {size(limit)}", fix="a smaller --context, --window, or --cache int8"
            )
        if mapped:
            complain(streaming(memory, language.read_rate(path)))
    try:
        mode = cast("QuantizationMode | None", quantize)
        return language.load(
            path, context=context, quantize=mode, adapter=adapter, cache=caching.cache, draft=draft, mapped=mapped,
            window=caching.window, sinks=caching.sinks, backend=backend,
        )  # fmt: skip
    except ImportError as error:
        fix = "pip install 'nnc[language]'"
        raise UsageError("language", got=str(error), need="the extra language", fix=fix) from None


def statement_within(
    path: Path, limit: int | None, context: int, rows: int, caching: Caching, draft: str | None
) -> tuple[ModelMemory, bool]:
    """The statement, and whether it leaves weights in their file, as above a limit, of GGUF files."""

    def memory(*, mapped: bool) -> ModelMemory:
        return language.memory(
            path, context=context, batch=rows, cache=caching.cache, draft=draft, mapped=mapped,
            window=caching.window, sinks=caching.sinks, prefix=caching.prefix,
        )  # fmt: skip

    whole = memory(mapped=False)
    if limit is None or whole.total <= limit or path.suffix != ".gguf":
        return whole, False
    return memory(mapped=True), True


def streaming(memory: ModelMemory, rate: float) -> str:
    """What stays in memory of a model whose weights are mapped, and how fast tokens come where none of them does."""
    return (
        f"{size(memory.resident)} resident, {size(memory.mapped)} of weights stay in the file; a token reads "
        f"{size(memory.read)}: at least {rate / max(memory.read, 1):.1f} tokens/s from a disk of {size(int(rate))}/s, "
        "as fast as usual where memory holds them"
    )


def answer_form(grammar: Path | None, schema: Path | None) -> str | dict[str, object] | None:
    """What an answer is to be of, by the file of a grammar or of a schema."""
    if grammar is not None and schema is not None:
        raise UsageError("--grammar", got="it beside --schema", need="one or the other")
    if grammar is not None:
        return read_file(grammar, "a grammar", MOST_FORM_BYTES).decode(errors="replace")
    if schema is None:
        return None
    try:
        held = json.loads(read_file(schema, "a JSON schema", MOST_FORM_BYTES).decode())
    except (ValueError, RecursionError):
        held = None
    if not isinstance(held, dict):
        raise FormatError(str(schema), got="no object of JSON", need="a JSON schema")
    return held


def shown(pieces: Iterable[str]) -> str:
    """Write pieces as they come; the whole text. What steers a terminal is escaped, new lines and tabs are not."""
    written = []
    for piece in pieces:
        written.append(piece)
        sys.stdout.write("".join(each if each in "\n\t" else plain(each) for each in piece))
        sys.stdout.flush()
    return "".join(written)


class Pace:
    """How fast tokens come."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def tell(self, count: int) -> None:
        """One line on standard error: tokens and tokens per second, the reading of the prompt among them."""
        seconds = time.perf_counter() - self._began
        complain(f"{count} tokens in {seconds:.1f} s, {count / max(seconds, 1e-9):.1f} tokens/s")
