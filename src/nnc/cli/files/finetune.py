"""nnc finetune: an ONNX model with another head, trained within a limit and saved as one; or a language model."""

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from nnc.classes import dataclass
from nnc.cli.files.onnx_model import Array, Sizes, extra, load
from nnc.cli.language.model_file import Context, is_language_file
from nnc.cli.language.tuning import (
    Accumulate,
    Alpha,
    Beta,
    Method,
    Resume,
    Targets,
    TuningRequest,
    Width,
    finetune_language,
)
from nnc.cli.options import AsJson, BackendName, Seed, bytes_of
from nnc.cli.terminal import plain, write_json
from nnc.core.precautions.reading import opened
from nnc.errors import DataError, FormatError, UsageError
from nnc.nn import Adam, Cosine, Dense, Flatten, Model, Progress, Sequential

TunedFile = Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX or GGUF file, or a folder of Hugging Face.")]
Data = Annotated[
    Path,
    typer.Option(
        metavar="PATH",
        help="x and y in a .npz, rows with the label last in a .csv, or a folder of .npy per class; "
        "language models: chats or texts in a .jsonl, or a text.",
    ),
]
Head = Annotated[str, typer.Option(metavar="TENSOR", help="ONNX: the tensor of the file that the new head reads.")]
Classes = Annotated[int, typer.Option(min=2, help="ONNX: classes of the new head.")]
Trainable = Annotated[
    list[str] | None, typer.Option(metavar="PATTERN", help="ONNX: weights that are trained, * for all (default).")
]
Rank = Annotated[
    int, typer.Option("--lora", min=0, metavar="RANK", help="ONNX: products of this rank beside weights that stay.")
]
Limit = Annotated[
    int | None,
    typer.Option(parser=bytes_of, metavar="BYTES", help="The limit on the arena of a step; language models: in all."),
]
Epochs = Annotated[
    int | None, typer.Option(min=1, max=100_000, help="Times through the data. Default: 5; language models: 1.")
]
Batch = Annotated[
    int | None, typer.Option(min=1, max=1 << 20, help="Examples of each update. Default: 32; language models: 1.")
]
Rate = Annotated[
    float | None,
    typer.Option(min=0.0, help="The first rate; it falls to 0. Default: 0.001; language models: by the method."),
]
Target = Annotated[
    Path | None,
    typer.Option(
        "--output", metavar="FILE", help="Default: MODEL-finetuned.onnx; language models: the folder MODEL-adapter."
    ),
]
# One of this many examples is kept for the test.
TEST_EVERY = 5


def finetune(
    model: TunedFile,
    data: Data,
    head: Head = "",
    classes: Classes = 2,
    limit: Limit = None,
    trainable: Trainable = None,
    lora: Rank = 0,
    size: Sizes = None,
    epochs: Epochs = None,
    batch: Batch = None,
    rate: Rate = None,
    target: Target = None,
    method: Method = "lora",
    rank: Width = 16,
    alpha: Alpha = None,
    targets: Targets = None,
    context: Context = 0,
    accumulate: Accumulate = 1,
    beta: Beta = 0.1,
    resume: Resume = False,
    seed: Seed = 0,
    backend: BackendName = "",
    json: AsJson = False,
) -> int:
    """Train an ONNX model with a new head of CLASSES, or a language model on chats or texts, within a limit on memory.

    nnc finetune model.onnx --data digits.npz --head features --classes 10 --limit 300MB

    nnc finetune model.gguf --data chats.jsonl --method qlora --limit 600MB --output adapter
    """
    if is_language_file(model):
        request = TuningRequest(
            data, target, method, rank, alpha, tuple(targets or ()), context, batch, accumulate, epochs, rate, beta,
            limit, seed, resume, backend,
        )  # fmt: skip
        return finetune_language(model, request, json=json)
    if not head:
        need = "--head, the tensor of an ONNX model that the new head reads"
        raise UsageError("finetune", got=f"{model} without --head", need=need, fix="nnc inspect names its tensors")
    asked = _HeadRequest(head, classes, limit, tuple(trainable or ("*",)), lora, epochs or 5, batch or 32)
    return _finetune_head(model, data, asked, 1e-3 if rate is None else rate, size, target, json=json)


@dataclass(frozen=True, slots=True)
class _HeadRequest:
    """What is trained of an ONNX model."""

    head: str
    classes: int
    limit: int | None
    trainable: tuple[str, ...]
    lora: int
    epochs: int
    batch: int


def _finetune_head(
    model: Path,
    data: Path,
    asked: _HeadRequest,
    rate: float,
    size: list[str] | None,
    target: Path | None,
    *,
    json: bool,
) -> int:
    """Train the network below a tensor with a head of its own, and save both as ONNX."""
    module = extra()
    x, y = examples(data, load(model, size, "").example_shape())
    if y.size and not 0 <= int(y.min()) <= int(y.max()) < asked.classes:
        raise DataError("--data", got=f"labels {y.min()}..{y.max()}", need=f"0..{asked.classes - 1}")
    body = module.OnnxLayer(module.read(model), asked.head, asked.trainable, asked.lora)
    updates = asked.epochs * -(-len(y) // asked.batch)
    layers = Sequential(body, Flatten(), Dense(asked.classes))
    trained = Model(layers, x.shape[1:], optimizer=Adam(Cosine(rate, updates)), memory_limit=asked.limit)
    memory = trained.memory(asked.batch)
    sys.stderr.write(plain(f"known before the first step: {memory.total} B, arena {memory.step.arena} B") + "\n")
    test = np.arange(len(y)) % TEST_EVERY == 0

    def told(progress: Progress) -> None:
        if progress.epoch_done:
            line = f"epoch {progress.epoch + 1}/{asked.epochs}  loss {progress.loss:.4f}  accuracy {progress.score:.2%}"
            sys.stderr.write(line + "\n")

    trained.fit(x[~test], y[~test], epochs=asked.epochs, batch_size=asked.batch, callbacks=(told,))
    score = trained.evaluate(x[test], y[test]).score
    place = target or model.with_name(f"{model.stem}-finetuned.onnx")
    module.save(trained, place)
    if json:
        write_json(
            {"accuracy": score, "arena_bytes": memory.step.arena, "total_bytes": memory.total, "target": str(place)}
        )
    else:
        sys.stdout.write(plain(f"accuracy {score:.4f} on {test.sum()} examples, saved as {place}") + "\n")
    return 0


def examples(path: Path, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Inputs and labels of a file or a folder; DataError where they do not fit."""
    if os.path.isdir(path):
        x, y = _folders(path)
    elif path.suffix == ".csv":
        x, y = _rows(path, shape)
    else:
        x, y = _archive(path)
    if len(x) != len(y) or len(y) < TEST_EVERY or x.shape[1:] != shape:
        got = f"inputs {list(x.shape)} and labels {list(y.shape)}"
        raise DataError("--data", got=got, need=f"as many of both, at least {TEST_EVERY}, inputs {list(shape)} each")
    return np.ascontiguousarray(x, np.float32), y.astype(np.int64)


def _example(path: Path) -> Array:
    with opened(path, "a .npy file"):
        example: Array = np.load(path, allow_pickle=False)
    return example


def _archive(path: Path) -> tuple[Array, Array]:
    try:
        with opened(path, "a .npz file"), np.load(path, allow_pickle=False) as archive:
            return archive["x"], archive["y"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError("--data", got=f"{path}: {error}", need="a .npz file with x and y") from None


def _rows(path: Path, shape: tuple[int, ...]) -> tuple[Array, Array]:
    with opened(path, "a CSV file"), path.open(newline="", encoding="utf-8") as file:
        try:
            table = np.array([[float(cell) for cell in row] for row in csv.reader(file) if row])
            return table[:, :-1].reshape(-1, *shape), table[:, -1].astype(np.int64)
        except (ValueError, IndexError) as error:
            raise FormatError("--data", got=f"{path}: {error}", need="rows of numbers, the label last") from None


def _folders(path: Path) -> tuple[Array, Array]:
    """One folder per class, in order of name; examples of the classes in turns, so that each part has all."""
    classes = sorted(value for value in path.iterdir() if value.is_dir())
    files = sorted(
        (place, label, file)
        for label, folder in enumerate(classes)
        for place, file in enumerate(sorted(folder.glob("*.npy")))
    )
    if not files:
        raise DataError("--data", got=f"{path} without classes", need="a folder of .npy files for each class")
    try:
        return np.stack([_example(file) for _, _, file in files]), np.array([value for _, value, _ in files])
    except ValueError as error:
        raise FormatError("--data", got=f"{path}: {error}", need="arrays of one shape") from None
