"""A compiled function over memory of its own: what a library is made of.

bound = bound_on(compile(function), "target:aarch64", x, y)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nnc.classes import dataclass
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.tensor import Tensor
from nnc.dynamic.transforms.compilation import CompiledFunction, contiguous_tensor
from nnc.dynamic.tree import Tree
from nnc.errors import UsageError
from nnc.symbolic import Compiled


@dataclass(frozen=True, slots=True, eq=False)
class BoundFunction:
    """A program, the tensors of its arguments by name, and those of its results."""

    compiled: Compiled
    given: Mapping[str, Tensor]
    made: tuple[Tensor, ...]


def bound_on(function: CompiledFunction[..., Any], backend: str, *args: Tree) -> BoundFunction:
    """The program for these arguments by a backend; values that it uses beside them are those of now.

    UsageError for a function that draws random numbers or renews variables: what lasts has no place in a call.
    """
    twin = CompiledFunction(function.function, replace(function.options, backend=backend, autotune=False))
    program, arrays = twin._program(args, {})
    draft = program.draft
    if draft.renewed or len(draft.inputs) > len(arrays) + len(draft.captured):
        got = "a function that renews variables or draws random numbers"
        raise UsageError("library", got=got, need="results of arguments alone", origin=caller_origin())
    given = [Tensor.empty(symbol.spec) for symbol in draft.inputs[: len(arrays)]]
    captured = [contiguous_tensor(variable) for variable in draft.captured]
    made = [Tensor.empty(symbol.spec) for symbol in draft.outputs]
    pairs = zip((*draft.inputs, *draft.outputs), (*given, *captured, *made), strict=True)
    names = [symbol.name or f"x{place}" for place, symbol in enumerate(draft.inputs[: len(arrays)])]
    return BoundFunction(program.compiled.rebind(dict(pairs)), dict(zip(names, given, strict=True)), tuple(made))
