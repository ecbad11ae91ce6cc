"""nnc embed: a vector for each text, by a language model."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from nnc import language
from nnc.cli.language.model_file import Context, LanguageFile
from nnc.cli.options import AsJson, BackendName
from nnc.cli.terminal import Json, write_json
from nnc.errors import UsageError

Texts = Annotated[list[str] | None, typer.Argument(metavar="TEXT …", help="Texts; lines of standard input if none.")]


def embed(
    model: LanguageFile,
    texts: Texts = None,
    context: Context = 0,
    backend: BackendName = "",
    json: AsJson = False,
) -> int:
    """Write a JSON line with a vector of length 1 for each text: the mean over its tokens behind the last norm.

    nnc embed model.gguf "a text" "another one"
    """
    given = texts or [line.rstrip("\n") for line in sys.stdin if line.strip()]
    if not given:
        raise UsageError("nnc embed", got="no texts", need="texts as arguments, or lines of standard input")
    try:
        vectors = language.embed(model, given, context=context, backend=backend)
    except ImportError as error:
        fix = "pip install 'nnc[language]'"
        raise UsageError("language", got=str(error), need="the extra language", fix=fix) from None
    rows: list[list[Json]] = [[float(value) for value in vector] for vector in vectors]
    if json:
        write_json({"texts": list[Json](given), "vectors": list[Json](rows)})
        return 0
    for text, row in zip(given, rows, strict=True):
        write_json({"text": text, "vector": row})
    return 0
