"""Fused operators: y = e(x₀, x₁, …), an expression of operators as one command.

    values = x₀ … x_{n-1}, then one per step: step(values[operands]);  y = the value of the last step

    fused_pointwise    every step is pointwise
    fused_reduction    pointwise steps, and a reduction as the last one
    fused_output       a product or a convolution as the first step, and pointwise steps on its result

The expression is data: steps of commands and of the positions of their operands. Its inference and its gradient are
those of its steps. Nothing between the first read and the last write needs memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeVar

from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.device import CPU
from nnc.core.values.spec import OptionalSpecs, TensorSpec
from nnc.errors import AttributeValueError
from nnc.graph import Op
from nnc.ops.decomposition import by_decomposition
from nnc.ops.elementwise.pointwise import square
from nnc.ops.examples import MATRIX, Example
from nnc.ops.movement.broadcast import BROADCAST_TO, REDUCE_SUM, ReduceAttrs
from nnc.ops.movement.copy import contiguous, stop_gradient
from nnc.ops.movement.fill import FILL
from nnc.ops.operand import T
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import PATTERN, Inplace, NoAttrs, Pattern, Specs, infer, operator
from nnc.ops.work import present, work

V = TypeVar("V")

# Steps that only move or make values; no arithmetic is done twice when they are repeated along an axis.
MOVES: frozenset[Op[Any]] = frozenset((FILL, contiguous, BROADCAST_TO))


@dataclass(frozen=True, slots=True)
class FusedStep:
    """value = command(values[operands]); absent optional inputs are left out behind the last operand."""

    command: AnyCommand
    operands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FusedAttrs:
    """The number of inputs, and the steps; a step reads inputs and the values of earlier steps."""

    inputs: int
    steps: tuple[FusedStep, ...]

    def __post_init__(self) -> None:
        if self.inputs < 1 or not self.steps:
            got = f"{self.inputs} inputs and {len(self.steps)} steps"
            raise AttributeValueError("fused", got=got, need="one input or more, and one step or more")
        last = len(self.steps) - 1
        for place, step in enumerate(self.steps):
            op = step.command.op
            ends = (place == 0 and is_head(op)) or (place == last and is_reduction(op))
            if not is_fusable(op) and not ends:
                got = f"a step of {op.name} at {place} of {len(self.steps)}"
                need = "pointwise operators with one output, behind one product or before one reduction"
                raise AttributeValueError("fused", got=got, need=need)
            if not all(0 <= operand < self.inputs + place for operand in step.operands):
                got = f"operands {list(step.operands)}"
                raise AttributeValueError("fused", got=got, need=f"values before the value {self.inputs + place}")

    @property
    def pattern(self) -> Pattern:
        """The class of the whole: that of its product or of its reduction, else that of pointwise operators."""
        if is_head(self.steps[0].command.op):
            return Pattern.FUSABLE_OUTPUT
        return Pattern.REDUCTION if is_reduction(self.steps[-1].command.op) else Pattern.BROADCAST

    def __str__(self) -> str:
        names = [f"x{index}" for index in range(self.inputs)]
        for step in self.steps:
            operands = ", ".join(names[operand] for operand in step.operands)
            names.append(f"{step.command}({operands})")
        return names[-1]

    __repr__ = __str__


def is_fusable(op: Op[Any]) -> bool:
    """True for operators that compute each element of one output from one element of each input."""
    if op in MOVES:
        return True
    # Without inputs, an element is computed from its place; with any number of them, it is an expression already. What
    # stops gradients is taken away by passes, but for a wanted result, which is a copy.
    return _is_plain(op) and op is not stop_gradient and PATTERN[op] in (Pattern.ELEMENTWISE, Pattern.BROADCAST)


def is_reduction(op: Op[Any]) -> bool:
    """True for operators that combine the elements of one input into one output, along axes."""
    return _is_plain(op) and PATTERN[op] is Pattern.REDUCTION and isinstance(op.inputs, tuple) and len(op.inputs) == 1


def is_head(op: Op[Any]) -> bool:
    """True for operators whose one output can be worked on while it is written."""
    return _is_plain(op) and PATTERN[op] is Pattern.FUSABLE_OUTPUT


def _is_plain(op: Op[Any]) -> bool:
    return isinstance(op.inputs, tuple) and op.inputs != () and isinstance(op.outputs, tuple) and len(op.outputs) == 1


def evaluate(attrs: FusedAttrs, inputs: Sequence[V], step: Callable[[AnyCommand, Sequence[V | None]], V]) -> list[V]:
    """All values of the expression over anything: the inputs, then `step(command, operands)` for each step."""
    values = list(inputs)
    for part in attrs.steps:
        given = [values[operand] for operand in part.operands]
        absent = len(part.command.op.inputs) - len(given) if isinstance(part.command.op.inputs, tuple) else 0
        values.append(step(part.command, [*given, *repeat(None, absent)]))
    return values


def result_of(attrs: FusedAttrs, inputs: Sequence[V], step: Callable[[AnyCommand, Sequence[V | None]], V]) -> V:
    """The last of these values; each of the others is let go behind its last reader."""
    last = {operand: place for place, entry in enumerate(attrs.steps) for operand in entry.operands}
    values = dict(enumerate(inputs))
    for place, entry in enumerate(attrs.steps):
        given = [values[operand] for operand in entry.operands]
        for operand in set(entry.operands):
            if last[operand] == place:
                del values[operand]
        absent = len(entry.command.op.inputs) - len(given) if isinstance(entry.command.op.inputs, tuple) else 0
        values[len(inputs) + place] = step(entry.command, [*given, *repeat(None, absent)])
    return values[len(inputs) + len(attrs.steps) - 1]


# What was inferred last of each expression: refusal, inference, work and kernels ask one after another, a tenth of a
# millisecond each; so many expressions.
_LAST: dict[int, tuple[FusedAttrs, Specs, Specs]] = {}
MOST_LAST = 512


def specs_of(attrs: FusedAttrs, specs: Specs) -> Specs:
    """The specs of all values."""
    last = _LAST.get(id(attrs))
    # By identity: whether two specs are equal depends on sizes, and may be a guard (`nnc.core.values.sizes`).
    if last is not None and last[0] is attrs and [*map(id, last[1])] == [*map(id, specs)]:
        return last[2]
    made = tuple(evaluate(attrs, [given.on(CPU) for given in specs], _step_spec))
    if len(_LAST) >= MOST_LAST:
        _LAST.clear()
    _LAST[id(attrs)] = (attrs, specs, made)
    return made


def _step_spec(command: AnyCommand, given: Sequence[TensorSpec | None]) -> TensorSpec:
    """What a step makes, wherever that is: all values of an expression are in one place."""
    return infer(command.op, command.attrs, tuple(given))[0].on(CPU)


def replay(attrs: FusedAttrs, inputs: Sequence[T]) -> T:
    """The same value from the operators of the expression, one command each."""
    first = inputs[0]
    return evaluate(attrs, inputs, lambda command, operands: first.apply(command, operands)[0])[-1]


def _infer(pattern: Pattern) -> Callable[[FusedAttrs, Specs], Specs]:
    def rule(attrs: FusedAttrs, specs: Specs) -> Specs:
        if attrs.pattern is not pattern:
            raise AttributeValueError("fused", got=str(attrs), need=f"an expression for {FUSED[attrs.pattern].name}")
        if len(specs) != attrs.inputs:
            raise AttributeValueError("fused", got=f"{len(specs)} inputs", need=f"{attrs.inputs}")
        return specs_of(attrs, specs)[-1:]

    return rule


def _inplace(attrs: FusedAttrs) -> Inplace:
    """Every input: one that has the shape of the result is read where the result is written, and nowhere else."""
    return Inplace(allowed=tuple((position, 0) for position in range(attrs.inputs)))


def _work(attrs: FusedAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    """Σ over steps of their work; what only moves or makes values is none of its own there."""
    values = specs_of(attrs, tuple(map(present, inputs)))
    done = (
        work(step.command, [values[place] for place in step.operands], [value])
        for step, value in zip(attrs.steps, values[attrs.inputs :], strict=True)
        if step.command.op not in MOVES
    )
    return max(sum(done), outputs[0].elements)


def _expression(*commands: AnyCommand) -> FusedAttrs:
    """One command on the result of another."""
    return FusedAttrs(1, tuple(FusedStep(command, (place,)) for place, command in enumerate(commands)))


def _fused(
    name: str,
    pattern: Pattern,
    doc: str,
    example: Example,
    inplace: Callable[[FusedAttrs], Inplace] | None = None,
) -> Op[FusedAttrs]:
    return operator(
        name,
        FusedAttrs,
        (),
        infer=_infer(pattern),
        gradient=by_decomposition(lambda attrs, inputs: (replay(attrs, inputs),)),
        inplace=inplace or Inplace(),
        pattern=pattern,
        variadic=True,
        work=_work,
        example=example,
        doc=doc,
    )


_SQUARE = Command(square, NoAttrs())

FUSED_POINTWISE = _fused(
    "fused_pointwise",
    Pattern.BROADCAST,
    "y = an expression of pointwise operators of the inputs",
    Example(_expression(_SQUARE), (MATRIX,)),
    _inplace,
)
FUSED_REDUCTION = _fused(
    "fused_reduction",
    Pattern.REDUCTION,
    "y = a reduction of an expression of pointwise operators of the inputs",
    Example(_expression(_SQUARE, Command(REDUCE_SUM, ReduceAttrs((1,)))), (MATRIX,)),
)
FUSED_OUTPUT = _fused(
    "fused_output",
    Pattern.FUSABLE_OUTPUT,
    "y = an expression of pointwise operators of a product and of inputs",
    Example(FusedAttrs(2, (FusedStep(Command(GEMM, GemmAttrs()), (0, 1)), FusedStep(_SQUARE, (2,)))), (MATRIX, MATRIX)),
)

FUSED: Mapping[Pattern, Op[FusedAttrs]] = {PATTERN[op]: op for op in (FUSED_POINTWISE, FUSED_REDUCTION, FUSED_OUTPUT)}
