"""nnc quantize: a GGUF file with weights in other blocks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from nnc import language
from nnc.cli.options import AsJson, BackendName
from nnc.cli.terminal import Json, add_row, count, output, table, write_json
from nnc.errors import UsageError

Source = Annotated[Path, typer.Argument(metavar="FILE", help="A GGUF file, or a folder of Hugging Face.")]
To = Annotated[str, typer.Option(metavar="FORMAT", help="q8_0 q4_0 q4_1 q5_0 q5_1 q2_k … q6_k, f16 or f32.")]
Target = Annotated[Path, typer.Option("--output", metavar="OUT.gguf", help="The file to write.")]
Calibration = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help="Texts or chats: errors count by what weights are multiplied with there."),
]


def quantize(
    model: Source,
    to: To,
    target: Target,
    calibration: Calibration = None,
    backend: BackendName = "",
    json: AsJson = False,
) -> int:
    """Write a GGUF file whose matrices have another format; norms and biases stay as they are.

    nnc quantize model.gguf --to q4_k --output smaller.gguf
    """
    try:
        report = language.quantize(model, to, target, calibration=calibration, backend=backend)
    except ImportError as error:
        fix = "pip install 'nnc[language]'"
        raise UsageError("language", got=str(error), need="the extra language", fix=fix) from None
    if json:
        formats: dict[str, Json] = dict(report.formats)
        write_json({"output": str(target), "bytes": report.nbytes, "formats": formats, "error": report.error})
        return 0
    rows = table(target.name, "format", "tensors", numbers=("tensors",))
    for name, tensors in report.formats.items():
        add_row(rows, name, count(tensors))
    output().print(rows)
    sys.stdout.write(f"{count(report.nbytes)} bytes, weights that changed are off by {report.error:.2%}\n")
    return 0
