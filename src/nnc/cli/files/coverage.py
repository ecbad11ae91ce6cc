"""nnc onnx-coverage: which of ONNX's own node tests pass."""

from __future__ import annotations

from typing import Annotated

import typer

from nnc.cli.files.onnx_model import extra
from nnc.cli.options import AsJson, BackendName
from nnc.cli.terminal import Json, add_row, count, output, table, write_json
from nnc.errors import UsageError

Plain = Annotated[bool, typer.Option("--no-passes", help="Run the graphs as they are imported.")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="The page docs/onnx-operators.md.")]


def onnx_coverage(
    backend: BackendName = "", plain: Plain = False, json: AsJson = False, markdown: AsMarkdown = False
) -> int:
    """Run the node tests of the installed ONNX package: how many pass, are refused, or are wrong.

    nnc onnx-coverage --backend llvm
    """
    if json and markdown:
        raise UsageError("onnx-coverage", got="--json and --markdown", need="one of them", fix="leave one out")
    coverage = extra("nnc.onnx.coverage")
    outcomes = coverage.outcomes(backend, ()) if plain else coverage.outcomes(backend)
    if markdown:
        typer.echo(coverage.page(outcomes), nl=False)
        return 0
    totals: dict[str, Json] = coverage.totals(outcomes)
    if json:
        write_json(totals)
        return 0
    rows = table("ONNX node tests", "outcome", "tests", numbers=("tests",))
    for name, number in totals.items():
        add_row(rows, name, count(number) if isinstance(number, int) else "")
    output().print(rows)
    return 0
