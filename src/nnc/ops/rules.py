"""What every operator must say of itself, and the one function that defines an operator.

`INFER`, `INPLACE`, `GRADIENT` and `PATTERN` are open attributes: each is the column of its own values, and
anyone may add another without touching this package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from nnc.arguments import shown
from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.device import Device
from nnc.core.values.spec import OptionalSpecs, TensorSpec
from nnc.errors import ArityError, AttributeValueError, DeviceError, DTypeError, NotDifferentiableError, UsageError
from nnc.graph import VARIADIC, Op, OpAttr, Registry, default_registry
from nnc.graph.composition import OPTIONAL_INPUTS
from nnc.ops.batching import BATCHED, BatchedCall, batched_alike
from nnc.ops.examples import EXAMPLE, IMAGE, MATRIX, Example
from nnc.ops.operand import Operand
from nnc.ops.permutation import PERMUTED, Permutation, Permuted, permuted_alike
from nnc.ops.precision import FULL, PRECISION, Precision
from nnc.ops.work import WORK

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

A = TypeVar("A")

Specs = tuple[TensorSpec, ...]
# How fields of attributes that hold floats are annotated, and the names of such fields.
_OF_NUMBERS = frozenset({"float", "Positive", "Rate", "Share", "tuple[float, ...]"})
_NUMBERS: dict[type, tuple[str, ...]] = {}
Gradients = tuple[Operand | None, ...]


@dataclass(frozen=True, slots=True)
class Inplace:
    """Pairs (input, output) that may share memory (`allowed`), and those that must (`enforced`)."""

    allowed: tuple[tuple[int, int], ...] = ()
    enforced: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Applied(Generic[A]):
    """An application of an operator, as its gradient rule sees it.

    `needed[i]` tells whether anybody wants the gradient of input i; a rule may return None there.
    """

    attrs: A
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    needed: tuple[bool, ...]

    def optional(self, index: int) -> Operand | None:
        """Input `index`, or None when it is absent; an absent input has only absent ones behind it."""
        return self.inputs[index] if index < len(self.inputs) else None

    def wants(self, index: int) -> bool:
        """Does anybody want the gradient of input `index`, which may be absent?"""
        return index < len(self.needed) and self.needed[index]


@dataclass(frozen=True, slots=True)
class NotDifferentiable:
    """Why an operator has no gradient."""

    reason: str


class Pattern(IntEnum):
    """How an operator may take part in fusion (NNVM's classes; larger is harder to fuse)."""

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCTION = 3
    FUSABLE_OUTPUT = 4
    OPAQUE = 8


# `Any`: a column holds rules of all operators; `operator` below checks each rule against its own attrs.
InferRule = Callable[[Any, Specs], Specs]
InplaceRule = Callable[[Any], Inplace]
GradientRule = Callable[[Any, Gradients], Gradients]

INFER = OpAttr[InferRule]("infer")
INPLACE = OpAttr[InplaceRule]("inplace")
GRADIENT = OpAttr[GradientRule | NotDifferentiable]("gradient")
PATTERN = OpAttr[Pattern]("pattern")
# Per input that serves nothing but the output written over it: that output, which stands in for the input.
STAND_INS = OpAttr[Mapping[int, int]]("stand-ins")


# Operators that say themselves where their results lie, and take operands of several devices: whoever is named here.
MIXED_DEVICES = OpAttr[bool]("mixed devices")


# Kinds of element types that an operator accepts.
FLOATS = ("float",)
CONTINUOUS = (*FLOATS, "complex")
NUMBERS = (*FLOATS, "int", "uint")
# What can be added and multiplied, though not always compared.
ARITHMETIC = (*NUMBERS, "complex")


@dataclass(frozen=True, slots=True)
class NoAttrs:
    """Attributes of an operator that has none."""


def operator(
    name: str,
    attributes: type[A],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...] = ("y",),
    *,
    infer: Callable[[A, Specs], Specs],
    gradient: Callable[[Applied[A], Gradients], Gradients] | NotDifferentiable,
    inplace: Inplace | Callable[[A], Inplace] = Inplace(),
    pattern: Pattern = Pattern.OPAQUE,
    optional: tuple[int, ...] = (),
    variadic: bool = False,
    precision: Precision = FULL,
    work: Callable[[A, OptionalSpecs, Sequence[TensorSpec]], int] | None = None,
    permuted: Callable[[A, OptionalSpecs, Permutation], Permuted | None] | None = None,
    stand_ins: Mapping[int, int] = MappingProxyType({}),
    batched: Callable[[BatchedCall[A]], tuple[Operand, ...]] | None = None,
    example: Example | None = None,
    registry: Registry = default_registry,
    doc: str,
) -> Op[A]:
    """Define an operator with all that it says of itself; neither inference nor gradient can be left out.

    `optional` inputs may be absent; `variadic` takes any number. What may be left out is explained where its column
    is: `nnc.ops.precision`, `work`, `permutation`, `repetition` (`stand_ins`), `batching` and `examples`. A pointwise
    operator on permuted operands, or on a batch of them, is the same operator: it needs no `permuted` and no `batched`.
    """
    op = Op(name, attributes, VARIADIC if variadic else inputs, outputs, registry=registry, doc=doc)
    describe(
        op,
        infer=infer,
        gradient=gradient,
        inplace=inplace,
        pattern=pattern,
        optional=optional,
        precision=precision,
        work=work,
        permuted=permuted,
        stand_ins=stand_ins,
        batched=batched,
        example=example,
    )
    return op


def describe(
    op: Op[A],
    *,
    infer: Callable[[A, Specs], Specs],
    gradient: Callable[[Applied[A], Gradients], Gradients] | NotDifferentiable,
    inplace: Inplace | Callable[[A], Inplace] = Inplace(),
    pattern: Pattern = Pattern.OPAQUE,
    optional: tuple[int, ...] = (),
    precision: Precision = FULL,
    work: Callable[[A, OptionalSpecs, Sequence[TensorSpec]], int] | None = None,
    permuted: Callable[[A, OptionalSpecs, Permutation], Permuted | None] | None = None,
    stand_ins: Mapping[int, int] = MappingProxyType({}),
    batched: Callable[[BatchedCall[A]], tuple[Operand, ...]] | None = None,
    example: Example | None = None,
) -> None:
    """Set all that an operator says of itself, as in `operator`."""
    if op.attributes is NoAttrs:
        op.plain = Command(op, NoAttrs())
    INFER.set(op, infer)
    GRADIENT.set(op, gradient)
    INPLACE.set(op, inplace if callable(inplace) else lambda attrs: inplace)
    PATTERN.set(op, pattern)
    _NUMBERS[op.attributes] = tuple(
        [row.name for row in fields(cast("type[DataclassInstance]", op.attributes)) if row.type in _OF_NUMBERS]
    )
    OPTIONAL_INPUTS.set(op, optional)
    PRECISION.set(op, precision)
    STAND_INS.set(op, stand_ins)
    if work is not None:
        WORK.set(op, work)
    one_output = isinstance(op.outputs, tuple) and len(op.outputs) == 1
    pointwise = pattern <= Pattern.BROADCAST and isinstance(op.inputs, tuple) and bool(op.inputs) and one_output
    if permuted is not None or pointwise:
        PERMUTED.set(op, permuted or permuted_alike)
    if batched is not None or pointwise:
        BATCHED.set(op, batched or batched_alike)
    if example is not None:
        EXAMPLE.set(op, example)


def check_arity(op: Op[Any], specs: tuple[TensorSpec | None, ...]) -> None:
    """ArityError when the number of inputs is wrong or a required one is absent."""
    if op.inputs is VARIADIC:
        if not specs or None in specs:
            raise ArityError(op.name, got=f"{len(specs)} inputs", need="one or more, all present")
        return
    names: tuple[str, ...] = op.inputs  # type: ignore[assignment]  # ops of this project name their inputs statically
    if None not in specs and len(specs) == len(names):
        return
    absent = [
        names[index]
        for index, spec in enumerate(specs[: len(names)])
        if spec is None and index not in OPTIONAL_INPUTS[op]
    ]
    if len(specs) != len(names) or absent:
        got = f"{len(specs)} inputs" + (f" without {', '.join(absent)}" if absent else "")
        raise ArityError(op.name, got=got, need=f"{len(names)} ({', '.join(names)})")


def check_kinds(kinds: tuple[str, ...], *specs: TensorSpec | None) -> None:
    """DTypeError when the element type of a present input is of none of the kinds."""
    for spec in specs:
        if spec is not None and spec.dtype.kind not in kinds:
            got = ", ".join(str(spec) for spec in specs if spec is not None)
            raise DTypeError("element type", got=got, need=" or ".join(kinds), fix="cast() it first")


def infer(op: Op[A], attrs: A, specs: tuple[TensorSpec | None, ...]) -> Specs:
    """Specs of the outputs; the operator's own rule after the arity check. Errors carry the operator's name.

    Results lie where the operands lie, all of them on one device; without operands where the attributes say.
    """
    check_arity(op, specs)
    home = _home(op, specs)
    try:
        for name in _NUMBERS.get(op.attributes, ()):
            if type(value := getattr(attrs, name)) is not float:
                _check_number(name, value)
        results = INFER[op](attrs, specs)  # type: ignore[arg-type]  # absent optional inputs are handled by the rules
    except UsageError as error:
        # Rules are shared by families, so the operator's name is put in here, once for all of them.
        error.subject = op.name
        raise
    return results if home is None else tuple([spec.on(home) for spec in results])


def _check_number(name: str, value: object) -> None:
    """AttributeValueError for what no float holds: an integer that is larger, a complex number."""
    for number in value if isinstance(value, tuple) else (value,):
        try:
            float(number)
        except (OverflowError, TypeError, ValueError):
            raise AttributeValueError(name, got=f"{name}={shown(number)}", need="a number that a float holds") from None


def _home(op: Op[Any], specs: tuple[TensorSpec | None, ...]) -> Device | None:
    """The device of the operands; None for the host, where rules say so, and for operators with rules of their own."""
    home: Device | None = None
    for spec in specs:
        if spec is None or (device := spec.device.space) is home:
            continue
        if home is not None and device != home and op not in MIXED_DEVICES:
            shown = ", ".join(str(other) for other in specs if other is not None)
            got, fix = f"operands on {home} and on {device}: {shown}", f"x.to('{home}') or x.to('{device}')"
            raise DeviceError(op.name, got=got, need="operands on one device", fix=fix)
        home = home or device
    return None if home is None or home.is_host or op in MIXED_DEVICES else home


def single(gradients: Gradients) -> Operand:
    """The gradient of an operator's one output, which somebody wants."""
    (g,) = gradients
    assert g is not None
    return g


def differentiate(op: Op[A], applied: Applied[A], gradients: Gradients) -> Gradients:
    """Gradients of the inputs from those of the outputs; NotDifferentiableError with the operator's reason."""
    rule = GRADIENT[op]
    if isinstance(rule, NotDifferentiable):
        raise NotDifferentiableError(
            op.name, got="a gradient asked of its inputs", need="a differentiable operator", fix=rule.reason
        )
    return rule(applied, gradients)


def example_of(op: Op[Any]) -> Example:
    """The operator's row, or default attributes on equal shapes; UsageError where its rule takes none of these."""
    if op in EXAMPLE:
        return EXAMPLE[op]
    required = [each.name for each in fields(op.attributes) if each.default is MISSING]
    arity = 1 if op.inputs is VARIADIC or not isinstance(op.inputs, tuple) else len(op.inputs)
    guesses = () if required else tuple(Example(op.attributes(), (shape,) * arity) for shape in (MATRIX, IMAGE))
    for guess in guesses:
        if outputs_of(op, guess) is not None:
            return guess
    need = "attributes and inputs that its rule takes"
    raise UsageError(op.name, got="no example", need=need, fix="give operator() an example")


def outputs_of(op: Op[Any], example: Example) -> tuple[TensorSpec, ...] | None:
    """What the operator makes of an example, None where its rule refuses it."""
    try:
        return infer(op, example.attrs, example.inputs)
    except UsageError:
        return None
