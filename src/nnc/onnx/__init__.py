"""ONNX: files of the field's exchange format as symbolic graphs of ours. Needs the extra `onnx`.

file.py       a file, bytes or a ModelProto, read and bounded; external data mapped
node.py       nodes and what a row of the table is given
importer.py   a graph of the file as a symbolic graph, for fixed sizes; what only computes shapes is folded
rows/         one row per operator, in a file per family
operators.py  the table
runner.py     OnnxModel: run, plan, train
trainable.py  OnnxLayer: a part of a file inside a Model, to be trained
exporter.py   a graph of ours as nodes of a file
exports/      one row per operator of ours, in a file per family
saving.py     save: a model or a graph as a file
backend.py    the class that ONNX's own test suite asks for
coverage.py   that suite, and a page of what passes
"""

from nnc.onnx import absence as absence
from nnc.onnx.exports import EXPORTS
from nnc.onnx.file import OnnxFile, read
from nnc.onnx.operators import ROWS
from nnc.onnx.runner import OnnxModel, load, unsupported
from nnc.onnx.saving import ExportedGraph, exported, save
from nnc.onnx.trainable import OnnxLayer

__all__ = [
    "EXPORTS",
    "ROWS",
    "ExportedGraph",
    "OnnxFile",
    "OnnxLayer",
    "OnnxModel",
    "exported",
    "load",
    "read",
    "save",
    "unsupported",
]
