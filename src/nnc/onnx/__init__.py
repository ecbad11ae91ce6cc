"""ONNX: files of the field's exchange format as symbolic graphs of ours. Needs the extra `onnx`.

file.py       a file, bytes or a ModelProto, read and bounded
stored/       where elements are: apart from the message, or in files beside it
node.py       nodes and what a row of the table is given
importer.py   a graph of the file as a symbolic graph, for fixed sizes; what only computes shapes is folded
rows/         one row per operator, in a file per family
operators.py  the table
subgraphs.py  parts of a graph of the file: what leads to a tensor, and a graph in two
runner.py     OnnxModel: run, plan, train
file_loading.py  load: a model of a file
made/         how a program is made of a file, or found on the disk, and one at work
kept/         what a run needs of a file whose program is on the disk, without the package `onnx`
trainable.py  OnnxLayer: a part of a file inside a Model, to be trained
exporter.py   a graph of ours as nodes of a file
exports/      one row per operator of ours, in a file per family
written/      files that are written: models, modules, functions and graphs
backend.py    the class that ONNX's own test suite asks for
coverage.py   that suite, and a page of what passes
"""

from typing import TYPE_CHECKING

from nnc.core.running.late_names import late_names
from nnc.onnx import absence as absence
from nnc.vocabulary.names import ONNX

if TYPE_CHECKING:
    from nnc.onnx.exports import EXPORTS
    from nnc.onnx.file import OnnxFile, read
    from nnc.onnx.file_loading import load
    from nnc.onnx.made.making import unsupported
    from nnc.onnx.operators import ROWS
    from nnc.onnx.runner import OnnxModel
    from nnc.onnx.trainable import OnnxLayer
    from nnc.onnx.written.function_export import export
    from nnc.onnx.written.saving import ExportedGraph, exported, save

# Modules are imported when a name of theirs is first used: a run needs neither models of ours nor what writes files.
_HOMES = {
    "EXPORTS": "exports",
    **dict.fromkeys(("OnnxFile", "read"), "file"),
    "ROWS": "operators",
    "OnnxModel": "runner",
    "load": "file_loading",
    **dict.fromkeys(("ExportedGraph", "exported", "save"), "written.saving"),
    "export": "written.function_export",
    "OnnxLayer": "trainable",
    "unsupported": "made.making",
}

if not TYPE_CHECKING:
    # A type checker reads the imports above instead, so that a name that is not there stays an error.
    __getattr__ = late_names(__name__, _HOMES, globals(), ONNX)

__all__ = [
    "EXPORTS",
    "ROWS",
    "ExportedGraph",
    "OnnxFile",
    "OnnxLayer",
    "OnnxModel",
    "export",
    "exported",
    "load",
    "read",
    "save",
    "unsupported",
]
