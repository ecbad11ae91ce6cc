"""Functions from a registry: a front end that costs its operators nothing but their registration.

`operator_function(op, apply)` gives a function with the operator's inputs as positional-or-keyword parameters and its
attributes as keyword parameters. `stub(registry)` writes the same signatures as text for a `.pyi` file, so that type
checkers and editors know the generated functions.

For those who build on `nnc.graph` (seed 003, row R13 of docs/parity.md). nnc writes its own functions by hand, each
with its formula and its defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from inspect import Parameter, Signature, formatannotation
from typing import TypeVar

from nnc.errors import ArityError, AttributeValueError
from nnc.graph.registry import Op, Registry, did_you_mean

H = TypeVar("H")
R = TypeVar("R")


def operator_function(op: Op[object], apply: Callable[[Op[object], tuple[H, ...], object], R]) -> Callable[..., R]:
    """`function(*inputs, **attributes) = apply(op, inputs, op.attributes(**attributes))`."""
    signature = signature_of(op)

    def function(*inputs: H, **options: object) -> R:
        names = [name for name in options if name in _input_names(op)]
        keyword_inputs = {name: options.pop(name) for name in names}
        _check_options(op, options)
        try:
            bound = signature.bind(*inputs, **keyword_inputs, **options)
        except TypeError as error:
            raise ArityError(op.name, got=str(error), need=str(signature)) from None
        return apply(op, bound.args, op.attributes(**options))

    function.__name__ = function.__qualname__ = function_name(op)
    function.__doc__ = documentation(op)
    setattr(function, "__signature__", signature)  # noqa: B010 - no type knows the attribute
    return function


def signature_of(op: Op[object]) -> Signature:
    """Inputs first, positional or by name; then the attributes, by name only."""
    inputs = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in _input_names(op)]
    if not isinstance(op.inputs, tuple):
        inputs = [Parameter("inputs", Parameter.VAR_POSITIONAL)]
    attributes = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, annotation, default in _attribute_rows(op)
    ]
    return Signature([*inputs, *attributes])


def function_name(op: Op[object]) -> str:
    """The operator's name as a Python identifier."""
    return "".join(letter if letter.isalnum() else "_" for letter in op.name)


def documentation(op: Op[object]) -> str:
    """The docstring: what the operator says of itself, then its attributes."""
    rows = [f"    {name}: {annotation}" for name, annotation, _ in _attribute_rows(op)]
    return "\n".join([op.doc or f"{op.name}.", *(["", "Attributes:", *rows] if rows else [])])


def stub(registry: Registry, handle: str = "Symbol") -> str:
    """The text of a `.pyi` file: one function per operator, by name; `handle` is the type of inputs and outputs."""
    lines = [_stub_line(registry.op(name), handle) for name in registry.names() if name == registry.op(name).name]
    return "\n".join(lines) + "\n"


def _stub_line(op: Op[object], handle: str) -> str:
    is_fixed = isinstance(op.inputs, tuple)
    inputs = [f"{name}: {handle}" for name in _input_names(op)] if is_fixed else [f"*inputs: {handle}"]
    rows = [
        f"{name}: {annotation}" + ("" if default is Parameter.empty else " = ...")
        for name, annotation, default in _attribute_rows(op)
    ]
    star = ["*"] if rows and is_fixed else []
    is_single = isinstance(op.outputs, tuple) and len(op.outputs) == 1
    result = handle if is_single else f"tuple[{handle}, ...]"
    return f"def {function_name(op)}({', '.join([*inputs, *star, *rows])}) -> {result}: ..."


def _input_names(op: Op[object]) -> tuple[str, ...]:
    return op.inputs if isinstance(op.inputs, tuple) else ()


def _attribute_rows(op: Op[object]) -> list[tuple[str, str, object]]:
    """Name, annotation as text and default (`Parameter.empty` for none) per attribute."""
    rows: list[tuple[str, str, object]] = []
    for member in fields(op.attributes):  # type: ignore[arg-type]  # Op admits only dataclasses
        annotation = member.type if isinstance(member.type, str) else formatannotation(member.type)
        default = member.default if member.default is not MISSING else member.default_factory
        rows.append((member.name, annotation, Parameter.empty if default is MISSING else default))
    return rows


def _check_options(op: Op[object], options: dict[str, object]) -> None:
    known = [name for name, _, _ in _attribute_rows(op)]
    for name in options:
        if name not in known:
            raise AttributeValueError(
                op.name,
                got=f"the attribute {name!r}",
                need=f"one of {', '.join(known)}" if known else "no attribute",
                fix=did_you_mean(name, known),
            )
