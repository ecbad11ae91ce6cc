"""nnc generate: text that a trained language model writes, character by character."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, cast

import typer

from nnc.cli.language.model_file import (
    Adapter,
    CacheKind,
    Caching,
    Context,
    DraftOf,
    GrammarFile,
    Limit,
    MinP,
    SchemaFile,
    Sinks,
    Window,
    answer_form,
    is_language_file,
)
from nnc.cli.language.writing import Writing, write_on
from nnc.cli.options import (
    AsJson,
    BackendName,
    DeviceName,
    NoCache,
    Seed,
    Temperature,
    Threads,
    TopK,
    TopP,
    checkpoint_of,
    leave_cache,
    placed,
)
from nnc.cli.predict import Trained
from nnc.cli.programs.text import REPLACEMENT, UNKNOWN, alphabet_of, codes_of
from nnc.cli.recipe import Notes
from nnc.cli.recipes import RECIPES, recipe_of
from nnc.cli.terminal import Json, write_json
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.settings import SETTINGS
from nnc.errors import DataError, UsageError
from nnc.nn import load_checkpoint, read_position, stream
from nnc.symbolic.passes import QuantizationMode

MAX_LENGTH = 2**31 - 1
TEMPERATURE = 0.8

Prompt = Annotated[str, typer.Option(metavar="TEXT", help="What the text begins with. Default: a new line.")]
Length = Annotated[int, typer.Option(min=1, max=MAX_LENGTH, help="How many characters to write.")]
Greedy = Annotated[bool, typer.Option("--greedy", help="Always the likeliest character: nothing is drawn.")]
Stop = Annotated[list[str] | None, typer.Option(metavar="TEXT", help="End before this text; may be repeated.")]
Quantize = Annotated[
    str | None,
    typer.Option(metavar="weights|dynamic|q4_k|…", help="Weights in 8 bits (dynamic: activations too), or in blocks."),
]


def generate(
    checkpoint: Trained,
    prompt: Prompt = "\n",
    length: Length = 500,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    greedy: Greedy = False,
    seed: Seed = 0,
    quantize: Quantize = None,
    context: Context = 0,
    cache: CacheKind = "f32",
    window: Window = 0,
    sinks: Sinks = 0,
    draft: DraftOf = None,
    limit: Limit = None,
    adapter: Adapter = None,
    stop: Stop = None,
    grammar: GrammarFile = None,
    schema: SchemaFile = None,
    backend: BackendName = "",
    device: DeviceName = "",
    threads: Threads = None,
    no_cache: NoCache = False,
    json: AsJson = False,
) -> int:
    """Write on from a prompt: with a model of nnc train text, or with a language model's file (GGUF, Hugging Face).

    nnc generate text.safetensors --prompt "def " --length 300 --top-p 0.9

    nnc generate model.gguf --prompt "Once upon a time" --context 1024 --limit 500MB
    """
    leave_cache(no_cache)
    if threads is not None:
        SETTINGS.threads = threads
    DISPATCHER.candidates(backend)
    if greedy and (temperature, top_k, top_p, min_p) != (None, None, None, None):
        got = "it beside --temperature, --top-k, --top-p or --min-p"
        raise UsageError("--greedy", got=got, need="one or the other")
    heat = TEMPERATURE if temperature is None and not greedy else temperature
    asked = Writing(
        prompt,
        length,
        context,
        limit,
        heat,
        top_k,
        top_p,
        min_p,
        tuple(stop or ()),
        seed,
        quantize,
        backend,
        adapter,
        answer_form(grammar, schema),
        Caching(cache, window, sinks),
        draft,
    )
    with placed(device):
        if is_language_file(Path(checkpoint)):
            return write_on(Path(checkpoint), asked, json=json)
        return _write_characters(checkpoint, asked, json=json)


def _write_characters(checkpoint: str, asked: Writing, *, json: bool) -> int:
    """With a model of nnc train text."""
    place = checkpoint_of(checkpoint) if checkpoint in RECIPES else Path(checkpoint)
    position, notes = read_position(place), Notes.of(place)
    if notes.program != "text":
        raise UsageError("nnc generate", got=f"a checkpoint of {notes.program}", need="one of nnc train text")
    model = recipe_of("text").model(notes.facts, notes.examples, notes.batch_size, position.batches.seed, asked.backend)
    load_checkpoint(place, model)
    characters = alphabet_of(notes.facts)
    codes = codes_of(asked.prompt, characters).tolist()
    if UNKNOWN in codes:
        unknown = asked.prompt[codes.index(UNKNOWN)]
        raise DataError("--prompt", got=f"{unknown!r}", need=f"the {len(characters)} characters of its training")
    mode = cast("QuantizationMode | None", asked.quantize)
    source = model if mode is None else model.freeze_generation(quantize=mode)
    tokens = stream(
        source, codes, asked.length, temperature=asked.temperature, top_k=asked.top_k, top_p=asked.top_p,
        min_p=asked.min_p, seed=asked.seed, sliding=True,
    )  # fmt: skip
    written = (f"{REPLACEMENT}{characters}"[token] for token in tokens)
    if json:
        facts: dict[str, Json] = {"prompt": asked.prompt, "seed": asked.seed, "length": asked.length}
        write_json({"checkpoint": str(place), **facts, "text": "".join(written)})
        return 0
    sys.stdout.write(asked.prompt)
    for character in written:
        sys.stdout.write(character)
        sys.stdout.flush()
    sys.stdout.write("\n")
    return 0
