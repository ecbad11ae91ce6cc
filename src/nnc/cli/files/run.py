"""nnc run: an ONNX model on arrays of files, or on random ones."""

from __future__ import annotations

import time
from json import dumps
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from nnc.cli.files.onnx_model import Array, ModelFile, Sizes, load, named, random_feeds
from nnc.cli.options import AsJson, BackendName, DeviceName, placed
from nnc.cli.terminal import Json, add_row, output, table, write_json
from nnc.core.precautions.reading import opened
from nnc.core.precautions.replacement import make_folder
from nnc.errors import FormatError, UsageError

Inputs = Annotated[list[str] | None, typer.Option("--input", metavar="NAME=FILE.npy", help="The elements of an input.")]
Random = Annotated[bool, typer.Option("--random", help="Random elements for inputs that are not given.")]
Folder = Annotated[Path | None, typer.Option("--output", metavar="DIR", help="Write each output to DIR/NAME.npy.")]


def run(
    model: ModelFile,
    input: Inputs = None,
    random: Random = False,
    size: Sizes = None,
    folder: Folder = None,
    backend: BackendName = "",
    device: DeviceName = "",
    json: AsJson = False,
) -> int:
    """Run an ONNX model.

    nnc run model.onnx --input x=x.npy --output results
    """
    with placed(device):
        loaded = load(model, size, backend)
    feeds = {name: _array(path) for name, path in (named("--input", text) for text in input or ())}
    if random:
        feeds = random_feeds(loaded) | feeds
    began = time.perf_counter()
    results = {name: np.asarray(value) for name, value in loaded.run(feeds).items() if value is not None}
    seconds = time.perf_counter() - began
    if folder is not None:
        make_folder(folder)
        for name, value in results.items():
            if value.dtype == object:  # text, or maps of classes
                (folder / f"{_file_name(name)}.json").write_text(dumps(value.tolist()), encoding="utf-8")
            else:
                np.save(folder / f"{_file_name(name)}.npy", value, allow_pickle=False)
    if json:
        facts: dict[str, Json] = {name: f"{result.dtype}{list(result.shape)}" for name, result in results.items()}
        write_json({"seconds": seconds, "outputs": facts})
        return 0
    rows = table(model.name, "output", "elements", "shape")
    for name, value in results.items():
        add_row(rows, name, str(value.dtype), str(list(value.shape)))
    output().print(rows)
    return 0


def _array(path: str) -> Array:
    try:
        with opened(path, "a .npy file"):
            array: Array = np.load(path, allow_pickle=False)
    except ValueError as error:
        raise FormatError("--input", got=f"{path}: {error}", need="a .npy file") from None
    if not isinstance(array, np.ndarray):
        raise FormatError("--input", got=f"{path}: an archive", need="a .npy file")
    return array


def _file_name(name: str) -> str:
    """The name of an output without what would lead to another folder."""
    safe = "".join(entry if entry.isalnum() or entry in "-_." else "_" for entry in name).lstrip(".")
    if not safe:
        raise UsageError("--output", got=f"an output named {name!r}", need="a name with a letter or digit")
    return safe
