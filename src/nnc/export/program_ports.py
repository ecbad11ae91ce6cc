"""What libraries are made of, compiled for a target: models, ONNX files, programs.

ports = ports_of(model, "target:aarch64", batch=1, quantize=None, sizes={})
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from nnc.classes import dataclass
from nnc.nn import Model
from nnc.symbolic import Compiled, Symbol
from nnc.symbolic.passes import QuantizationMode

UNSUITED = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True, eq=False)
class ProgramPorts:
    """A program compiled for a target, and its inputs and outputs by the names that they have in C."""

    compiled: Compiled
    inputs: Mapping[str, Symbol]
    outputs: Mapping[str, Symbol]


@runtime_checkable
class ExportableModel(Protocol):
    """A model that compiles itself for another backend, such as an ONNX file."""

    def compiled_for(self, backend: str, **sizes: int) -> tuple[Compiled, Mapping[str, Symbol], Mapping[str, Symbol]]:
        """The program of these open dimensions, and its inputs and outputs by name."""


def ports_of(
    source: Model | ExportableModel | ProgramPorts,
    backend: str,
    batch: int,
    quantize: QuantizationMode | None,
    sizes: Mapping[str, int],
) -> ProgramPorts:
    """The program of a source for a backend."""
    match source:
        case ProgramPorts():
            return source
        case Model():
            return _prediction(source, backend, batch, quantize)
        case _:
            compiled, inputs, outputs = source.compiled_for(backend, **sizes)
            return ProgramPorts(compiled, _named(inputs), _named(outputs))


def _prediction(model: Model, backend: str, batch: int, quantize: QuantizationMode | None) -> ProgramPorts:
    twin = copy.copy(model)
    twin.backend, twin.autotune = backend, False
    step = twin.freeze(batch, quantize=quantize)
    return ProgramPorts(step.compiled, _numbered("input", step.inputs), _numbered("output", step.results))


def _numbered(word: str, symbols: Sequence[Symbol]) -> dict[str, Symbol]:
    return {word if len(symbols) == 1 else f"{word}_{number}": symbol for number, symbol in enumerate(symbols)}


def _named(symbols: Mapping[str, Symbol]) -> dict[str, Symbol]:
    """By names that C has; what becomes one name gets numbers."""
    named: dict[str, Symbol] = {}
    for text, symbol in symbols.items():
        plain = UNSUITED.sub("_", text)
        plain = plain if plain[:1].isalpha() else f"port_{plain}"
        name, number = plain, 1
        while name in named:
            number += 1
            name = f"{plain}_{number}"
        named[name] = symbol
    return named
