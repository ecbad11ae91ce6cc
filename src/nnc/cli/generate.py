"""nnc generate: text that a trained language model writes, character by character."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, cast

import typer

from nnc.cli.options import AsJson, BackendName, NoCache, Threads, checkpoint_of, leave_cache
from nnc.cli.predict import Trained
from nnc.cli.programs.text import REPLACEMENT, UNKNOWN, alphabet_of, codes_of
from nnc.cli.recipe import Notes
from nnc.cli.recipes import RECIPES, recipe_of
from nnc.cli.terminal import write_json
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.settings import SETTINGS
from nnc.errors import DataError, UsageError
from nnc.nn import load_checkpoint, read_position, stream
from nnc.symbolic.passes import QuantizationMode

MAX_SEED = 2**63 - 1
MAX_LENGTH = 2**31 - 1
TEMPERATURE = 0.8

Prompt = Annotated[str, typer.Option(metavar="TEXT", help="What the text begins with. Default: a new line.")]
Length = Annotated[int, typer.Option(min=1, max=MAX_LENGTH, help="How many characters to write.")]
Temperature = Annotated[float | None, typer.Option(help="Below 1 likely characters become likelier. Default: 0.8.")]
TopK = Annotated[int | None, typer.Option(min=1, help="Draw from so many of the likeliest characters only.")]
TopP = Annotated[float | None, typer.Option(help="Draw from the fewest that are so likely together.")]
Greedy = Annotated[bool, typer.Option("--greedy", help="Always the likeliest character: nothing is drawn.")]
Seed = Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Same seed, same text.")]
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
    greedy: Greedy = False,
    seed: Seed = 0,
    quantize: Quantize = None,
    backend: BackendName = "",
    threads: Threads = None,
    no_cache: NoCache = False,
    json: AsJson = False,
) -> int:
    """Write on from a prompt with a model of nnc train text; each character is shown as soon as it is known.

    nnc generate text.safetensors --prompt "def " --length 300 --top-p 0.9
    """
    leave_cache(no_cache)
    if threads is not None:
        SETTINGS.threads = threads
    DISPATCHER.candidates(backend)
    if greedy and (temperature, top_k, top_p) != (None, None, None):
        raise UsageError("--greedy", got="it beside --temperature, --top-k or --top-p", need="one or the other")
    place = checkpoint_of(checkpoint) if checkpoint in RECIPES else Path(checkpoint)
    position, notes = read_position(place), Notes.of(place)
    if notes.program != "text":
        raise UsageError("nnc generate", got=f"a checkpoint of {notes.program}", need="one of nnc train text")
    model = recipe_of("text").model(notes.facts, notes.examples, notes.batch_size, position.batches.seed, backend)
    load_checkpoint(place, model)
    characters = alphabet_of(notes.facts)
    codes = codes_of(prompt, characters).tolist()
    if UNKNOWN in codes:
        unknown = prompt[codes.index(UNKNOWN)]
        raise DataError("--prompt", got=f"{unknown!r}", need=f"the {len(characters)} characters of its training")
    heat = TEMPERATURE if temperature is None and not greedy else temperature
    mode = cast("QuantizationMode | None", quantize)
    source = model if mode is None else model.freeze_generation(quantize=mode)
    tokens = stream(source, codes, length, temperature=heat, top_k=top_k, top_p=top_p, seed=seed, sliding=True)
    written = (f"{REPLACEMENT}{characters}"[token] for token in tokens)
    if json:
        text = "".join(written)
        write_json({"checkpoint": str(place), "prompt": prompt, "seed": seed, "length": length, "text": text})
        return 0
    sys.stdout.write(prompt)
    for character in written:
        sys.stdout.write(character)
        sys.stdout.flush()
    sys.stdout.write("\n")
    return 0
