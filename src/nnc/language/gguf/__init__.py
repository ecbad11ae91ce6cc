"""GGUF, the file format of llama.cpp: metadata, a vocabulary and tensors in blocks of few bits.

file_format.py  the kinds of values and element types, one table each
gguf_reader.py  a file read or mapped, bounds checked before use
gguf_writer.py  a file written, tensor by tensor
"""

from nnc.language.gguf.file_format import ELEMENT_TYPES, ElementType, MetadataValue, TensorRow, ValueKind
from nnc.language.gguf.gguf_reader import GgufFile, read_gguf
from nnc.language.gguf.gguf_writer import TensorSource, write_gguf

__all__ = [
    "ELEMENT_TYPES",
    "ElementType",
    "GgufFile",
    "MetadataValue",
    "TensorRow",
    "TensorSource",
    "ValueKind",
    "read_gguf",
    "write_gguf",
]
