"""nnc ops: every operator with what it says of itself and who can run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from types import MappingProxyType
from typing import Any

from nnc.cli.options import AsJson
from nnc.cli.terminal import Json, add_row, output, table, write_json
from nnc.core.command import Command
from nnc.core.dispatch import DISPATCHER
from nnc.core.dtype import I32
from nnc.core.spec import TensorSpec, spec
from nnc.errors import UsageError
from nnc.graph import Op
from nnc.graph.registry import Names
from nnc.ops import OPERATORS, window_of
from nnc.ops.broadcast import BROADCAST_TO, REDUCE_SUM, BroadcastAttrs, ReduceAttrs
from nnc.ops.convolution import (
    CONVOLUTION,
    CONVOLUTION_DATA_GRADIENT,
    CONVOLUTION_WEIGHT_GRADIENT,
    ConvolutionAttrs,
    ConvolutionGradientAttrs,
)
from nnc.ops.fill import FILL, FillAttrs
from nnc.ops.gemm import GEMM, GemmAttrs
from nnc.ops.movement import CONCATENATE, EMBED, TRANSPOSE, ConcatenateAttrs, EmbedAttrs, TransposeAttrs
from nnc.ops.optimizer import ADAM, SGD
from nnc.ops.pointwise import CAST, WHERE, CastAttrs
from nnc.ops.pooling import (
    AVERAGE_POOL,
    AVERAGE_POOL_GRADIENT,
    MAX_POOL,
    MAX_POOL_GATHER,
    MAX_POOL_GRADIENT,
    AveragePoolGradientAttrs,
    PoolAttrs,
)
from nnc.ops.reduction import ARGMAX, REDUCE_MAX, REDUCE_MEAN, REDUCE_MIN
from nnc.ops.rules import GRADIENT, INPLACE, PATTERN, NotDifferentiable, infer
from nnc.ops.softmax import LABEL_DIFFERENCE, SOFTMAX_CROSS_ENTROPY, SOFTMAX_CROSS_ENTROPY_GRADIENT

UNTOLD = "?"


@dataclass(frozen=True, slots=True)
class Example:
    """A small application of an operator in f32, on which backends are asked whether they claim it."""

    attrs: object
    inputs: tuple[TensorSpec, ...]


_MATRIX, _ROW, _SCALAR, _LABELS = spec((4, 4)), spec((4,)), spec(()), spec((4,), I32)
_IMAGE, _HALF, _FILTER = spec((2, 8, 8, 4)), spec((2, 4, 4, 4)), spec((3, 3, 4, 4))
_GUESSES = (_MATRIX, _IMAGE)
_POOL = PoolAttrs((2, 2), window_of(2, stride=2))
_SAME = window_of(3, padding="same")
_LAST = ReduceAttrs((1,))

# Operators that are not served by default attributes on equal shapes. `Any`: operators of all attribute types.
EXAMPLES: Mapping[Op[Any], Example] = MappingProxyType(
    {
        FILL: Example(FillAttrs(0.0, _MATRIX), ()),
        CAST: Example(CastAttrs(I32), (_MATRIX,)),
        WHERE: Example(WHERE.attributes(), (spec((4, 4), "bool"), _MATRIX, _MATRIX)),
        REDUCE_SUM: Example(_LAST, (_MATRIX,)),
        REDUCE_MEAN: Example(_LAST, (_MATRIX,)),
        REDUCE_MAX: Example(_LAST, (_MATRIX,)),
        REDUCE_MIN: Example(_LAST, (_MATRIX,)),
        ARGMAX: Example(_LAST, (_MATRIX,)),
        BROADCAST_TO: Example(BroadcastAttrs((4, 4)), (_ROW,)),
        TRANSPOSE: Example(TransposeAttrs((1, 0)), (_MATRIX,)),
        CONCATENATE: Example(ConcatenateAttrs(0), (_MATRIX, _MATRIX)),
        EMBED: Example(EmbedAttrs((8, 4), 0, (4, 1)), (_MATRIX,)),
        GEMM: Example(GemmAttrs(), (_MATRIX, _MATRIX, _ROW)),
        CONVOLUTION: Example(ConvolutionAttrs(_SAME), (_IMAGE, _FILTER, _ROW)),
        CONVOLUTION_DATA_GRADIENT: Example(ConvolutionGradientAttrs(_SAME, 1, (8, 8)), (_IMAGE, _FILTER)),
        CONVOLUTION_WEIGHT_GRADIENT: Example(ConvolutionGradientAttrs(_SAME, 1, (3, 3)), (_IMAGE, _IMAGE)),
        MAX_POOL: Example(_POOL, (_IMAGE,)),
        MAX_POOL_GRADIENT: Example(_POOL, (_HALF, _IMAGE, _HALF)),
        MAX_POOL_GATHER: Example(_POOL, (_IMAGE, _IMAGE, _HALF)),
        AVERAGE_POOL: Example(_POOL, (_IMAGE,)),
        AVERAGE_POOL_GRADIENT: Example(AveragePoolGradientAttrs(_POOL, (8, 8)), (_HALF,)),
        SOFTMAX_CROSS_ENTROPY: Example(SOFTMAX_CROSS_ENTROPY.attributes(), (_MATRIX, _LABELS)),
        SOFTMAX_CROSS_ENTROPY_GRADIENT: Example(SOFTMAX_CROSS_ENTROPY_GRADIENT.attributes(), (_ROW, _MATRIX, _LABELS)),
        LABEL_DIFFERENCE: Example(LABEL_DIFFERENCE.attributes(), (_MATRIX, _MATRIX, _LABELS)),
        SGD: Example(SGD.attributes(), (_MATRIX, _MATRIX, _MATRIX, _SCALAR)),
        ADAM: Example(ADAM.attributes(), (_MATRIX, _MATRIX, _MATRIX, _MATRIX, _SCALAR, _SCALAR)),
    }
)


@dataclass(frozen=True, slots=True)
class Description:
    """One operator.

    `gradient` is empty where there is one, else the reason. `backends` are those that claim the example in f32;
    they and the in-place pairs are None where they depend on attributes and shapes of which there is no example.
    """

    name: str
    meaning: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    pattern: str
    gradient: str
    inplace: tuple[tuple[str, str], ...] | None
    backends: tuple[str, ...] | None


def ops(json: AsJson = False) -> int:
    """List the operators: inputs, outputs, backends that claim f32, gradient, fusion pattern, in-place pairs."""
    found = [describe(op) for op in OPERATORS]
    if json:
        write_json({"operators": [_facts(description) for description in found]})
        return 0
    columns = ("operator", "inputs → outputs", "backends", "gradient", "pattern", "in place")
    rows = table(f"{len(found)} operators", *columns)
    for row in found:
        add_row(
            rows,
            row.name,
            f"{', '.join(row.inputs)} → {', '.join(row.outputs)}",
            UNTOLD if row.backends is None else " ".join(row.backends),
            f"none: {row.gradient}" if row.gradient else "yes",
            row.pattern,
            UNTOLD if row.inplace is None else " ".join(f"{source}→{target}" for source, target in row.inplace),
        )
    output().print(rows)
    return 0


def example_of(op: Op[Any]) -> Example | None:
    """The operator's row, or default attributes on equal shapes; None where its rule takes none of these."""
    if op in EXAMPLES:
        return EXAMPLES[op]
    if any(each.default is MISSING and each.default_factory is MISSING for each in fields(op.attributes)):
        return None
    attrs = op.attributes()
    arity = len(op.inputs) if isinstance(op.inputs, tuple) else 1
    return next((Example(attrs, (shape,) * arity) for shape in _GUESSES if _fits(op, attrs, (shape,) * arity)), None)


def _fits(op: Op[Any], attrs: object, inputs: tuple[TensorSpec, ...]) -> bool:
    try:
        infer(op, attrs, inputs)
    except UsageError:
        return False
    return True


def describe(op: Op[Any]) -> Description:
    """What the registry and the backends say of an operator."""
    example, rule = example_of(op), GRADIENT[op]
    return Description(
        name=op.name,
        meaning=op.doc,
        inputs=_names(op.inputs, example),
        outputs=_names(op.outputs, example),
        pattern=PATTERN[op].name.lower(),
        gradient=rule.reason if isinstance(rule, NotDifferentiable) else "",
        inplace=None if example is None else _inplace(op, example),
        backends=None if example is None else _claimants(op, example),
    )


def _names(names: Names[Any], example: Example | None) -> tuple[str, ...]:
    """Names that depend on attributes are those of the example."""
    if isinstance(names, tuple):
        return names
    return names(example.attrs) if callable(names) and example is not None else ("…",)


def _inplace(op: Op[Any], example: Example) -> tuple[tuple[str, str], ...]:
    inputs, outputs = (_names(names, example) for names in (op.inputs, op.outputs))
    rule = INPLACE[op](example.attrs)
    return tuple((inputs[source], outputs[target]) for source, target in (*rule.enforced, *rule.allowed))


def _claimants(op: Op[Any], example: Example) -> tuple[str, ...]:
    command, outputs = Command(op, example.attrs), infer(op, example.attrs, example.inputs)
    usable = DISPATCHER.candidates()
    return tuple(backend.name for backend in usable if not backend.refusal(command, example.inputs, outputs))


def _facts(row: Description) -> dict[str, Json]:
    return {
        "name": row.name,
        "meaning": row.meaning,
        "inputs": list(row.inputs),
        "outputs": list(row.outputs),
        "backends": None if row.backends is None else list(row.backends),
        "differentiable": not row.gradient,
        "reason": row.gradient,
        "pattern": row.pattern,
        "inplace": None if row.inplace is None else [list(pair) for pair in row.inplace],
    }
