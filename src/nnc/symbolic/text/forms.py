"""Commands in the text: attributes as JSON, or as a shorter text where there is one.

A body is written as the number of its block. A Python function is written by its name, and reading it is refused.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_origin

from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.dtype import DType, dtype_of
from nnc.core.values.exact import are_the_same
from nnc.core.values.spec import TensorSpec
from nnc.errors import FormatError, UsageError
from nnc.graph import Codec, Forms, Json, Registry, decode_call, default_registry, encode_call
from nnc.ops.composed.fused import FusedStep
from nnc.symbolic.bodies import holding
from nnc.symbolic.ir import Body
from nnc.symbolic.text.line import Line

# The class that a field with a function has by its type hint. `Any`: a class to the run time, to the checker a form.
FUNCTION: Any = get_origin(Callable[..., object])


def forms_of(registry: Registry, bodies: Sequence[Body] = ()) -> Forms:
    """How attributes are written; operators are looked up in `registry`, and blocks in `bodies`."""

    def decode_step(data: Json, where: str) -> FusedStep:
        line = _line(data, where)
        op = line.match(r"\w+", "an operator")[0]
        command = read_command(registry, forms, line, op, line.attributes())
        operands = []
        while not line.at_end():
            operands.append(line.integer())
        return FusedStep(command, tuple(operands))

    def decode_body(data: Json, where: str) -> Body:
        if type(data) is not int or not 0 <= data < len(bodies):
            raise FormatError(where, got=f"JSON of type {type(data).__name__}", need="a block below the line")
        return bodies[data]

    forms = (
        Forms()
        .add(DType, Codec(lambda dtype: dtype.name, lambda data, where: dtype_of(_line(data, where).text)))
        .add(TensorSpec, Codec(str, lambda data, where: _line(data, where).spec()))
        .add(FusedStep, Codec(_encode_step, decode_step))
        .add(Body, Codec(lambda body: None, decode_body))
        .add(FUNCTION, Codec(_name_of, refuse_function))
    )
    return forms


def write_command(command: AnyCommand) -> str:
    """`affine(scale=2.0)`: the attributes that differ from their defaults, without bodies."""
    encoded = encode_call(command.op, command.attrs, WRITING)["attributes"]
    assert isinstance(encoded, dict)
    hidden = {name for name, _ in blocks_of(command)}
    defaults = {field.name: field.default for field in dataclasses.fields(command.attrs)}
    shown = [
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in encoded.items()
        if name not in hidden and not are_the_same(getattr(command.attrs, name), defaults[name])
    ]
    return f"{command.op.name}({', '.join(shown)})" if shown else command.op.name


def read_command(registry: Registry, forms: Forms, line: Line, op: str, attributes: dict[str, Json]) -> AnyCommand:
    """The operator of this name with the attributes."""
    where = line.where
    try:
        return Command(*decode_call(holding(registry, op), {"op": op, "attributes": attributes}, where, forms))
    except FormatError:
        raise
    except UsageError as error:
        raise FormatError(where, got=str(error), need="attributes that the operator allows") from None


def blocks_of(command: AnyCommand) -> Iterator[tuple[str, int | None]]:
    """The attributes that are bodies, by name, and by place where there is a tuple of them."""
    for field in dataclasses.fields(command.attrs):
        value = getattr(command.attrs, field.name)
        if isinstance(value, Body):
            yield field.name, None
        elif isinstance(value, tuple) and value and isinstance(value[0], Body):
            yield from ((field.name, place) for place in range(len(value)))


def _line(data: Json, where: str) -> Line:
    if not isinstance(data, str):
        raise FormatError(where, got=f"JSON of type {type(data).__name__}", need="a text")
    return Line(data, 0)


def _encode_step(step: FusedStep) -> Json:
    return " ".join((write_command(step.command), *map(str, step.operands)))


def _name_of(function: Callable[..., object]) -> Json:
    return f"python {getattr(function, '__qualname__', type(function).__qualname__)}"


def refuse_function(data: Json, where: str) -> Callable[..., object]:
    """FormatError: what a function does is in no file."""
    raise FormatError(where, got="a Python function by name", need="a test or choice that is data: a symbol, a count")


WRITING = forms_of(default_registry)
