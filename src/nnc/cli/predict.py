"""nnc predict: what a trained model says of inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnc.cli.options import AsJson, BackendName, DeviceName, NoCache, checkpoint_of, leave_cache, placed
from nnc.cli.recipe import BLOCKS, LETTERS, Notes, Questions, Recipe
from nnc.cli.recipes import RECIPES, recipe_of
from nnc.cli.terminal import output, plain, write_json
from nnc.core.running.dispatch import DISPATCHER
from nnc.errors import UsageError
from nnc.nn import load_checkpoint, read_position

Trained = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="What nnc train wrote; a program's name for ./PROGRAM.safetensors.")
]
Inputs = Annotated[
    list[str] | None, typer.Argument(metavar="[INPUT]...", help="Of what the model is asked, as it was trained.")
]
Indices = Annotated[
    list[int] | None,
    typer.Option("--index", min=0, help="digits: an example, counted over the whole data set; cartpole: an episode."),
]


def predict(
    checkpoint: Trained,
    inputs: Inputs = None,
    index: Indices = None,
    backend: BackendName = "",
    device: DeviceName = "",
    no_cache: NoCache = False,
    json: AsJson = False,
) -> int:
    """Say what a trained model makes of inputs; the checkpoint knows what it was trained for.

    nnc predict table.safetensors more.csv
    """
    leave_cache(no_cache)
    DISPATCHER.candidates(backend)
    place = checkpoint_of(checkpoint) if checkpoint in RECIPES else Path(checkpoint)
    position, notes = read_position(place), Notes.of(place)
    if checkpoint in RECIPES and checkpoint != notes.program:
        raise UsageError("nnc predict", got=f"{place}, a checkpoint of {notes.program}", need=f"one of {checkpoint}")
    recipe, questions = recipe_of(notes.program), Questions(tuple(inputs or ()), tuple(index or ()))
    _check(notes.program, recipe, questions)
    with placed(device):
        model = recipe.model(notes.facts, notes.examples, notes.batch_size, position.batches.seed, backend)
        load_checkpoint(place, model)
        answers = recipe.answers(model, notes.facts, questions)
    if json:
        predictions = [answer.facts() for answer in answers]
        write_json({"program": notes.program, "checkpoint": str(place), "predictions": [*predictions]})
        return 0
    console = output()
    ink = LETTERS if console.options.ascii_only else BLOCKS
    for answer in answers:
        console.print("\n".join(map(plain, answer.lines(ink))), soft_wrap=True)
    return 0


def _check(program: str, recipe: Recipe, questions: Questions) -> None:
    """UsageError for inputs where examples have numbers, and the other way round."""
    for name in ("inputs", "indices"):
        if getattr(questions, name) and recipe.asked != name:
            got = f"{'INPUT' if name == 'inputs' else '--index'} for a model of {program}"
            raise UsageError("nnc predict", got=got, need=f"{recipe.asked} only", fix="leave it out")
    if recipe.asked == "inputs" and not questions.inputs:
        raise UsageError("nnc predict", got="no INPUT", need=recipe.paths or "inputs as in training", fix="name some")
