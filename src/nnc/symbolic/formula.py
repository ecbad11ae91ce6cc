"""Formulas: composed expressions with arithmetic, turned into symbols once shapes are known.

x, w = Formula.variable("x"), Formula.variable("w")
y = Formula.of(GEMM, x, w, name="dense") * 2.0
infer_specs(y, x=spec((4, 3)), w=spec((3, 2)))          specs of everything, before any graph
(output,) = instantiate(y, graph, x=symbol, …)          execs in a symbolic graph
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from nnc.core.values.command import Command
from nnc.core.values.dtype import F64
from nnc.core.values.spec import TensorSpec
from nnc.errors import ArityError, AttributeValueError
from nnc.graph import Op
from nnc.graph.composition import Expression, Node, compose, variable
from nnc.ops.elementwise.pointwise import AFFINE, add, divide, multiply, power, square, subtract
from nnc.ops.movement.fill import FILL, FillAttrs, scalar_like
from nnc.ops.number import Number
from nnc.symbolic.ir import Symbol, SymbolicGraph

# Of numbers in divisions, which have no element type before they meet an operand.
ANY_TYPE = TensorSpec((), F64)


class Formula(Expression):
    """An expression over the operators of this package, with Python's arithmetic.

    A number that divides, or is divided, becomes a scalar of the other operand's element type in `instantiate`.
    """

    __slots__ = ()

    @classmethod
    def variable(cls, name: str, **labels: str) -> Self:
        """A named hole."""
        return cls(variable(name, **labels).outputs)

    @classmethod
    def of(cls, op: Op[object], *inputs: Expression, name: str = "", **options: object) -> Self:
        """`op` applied to inputs; see `nnc.graph.composition.compose`."""
        return cls(compose(op, *inputs, name=name, **options).outputs)

    def _scaled(self, scale: Number, shift: Number = -0.0) -> Self:
        return self.of(AFFINE, self, scale=scale, shift=shift)

    def __add__(self, other: Expression | Number) -> Self:
        return self.of(add, self, other) if isinstance(other, Expression) else self._scaled(1.0, other)

    def __radd__(self, other: Number) -> Self:
        return self._scaled(1.0, other)

    def __sub__(self, other: Expression | Number) -> Self:
        return self.of(subtract, self, other) if isinstance(other, Expression) else self._scaled(1.0, -other)

    def __rsub__(self, other: Number) -> Self:
        return self._scaled(-1.0, other)

    def __mul__(self, other: Expression | Number) -> Self:
        return self.of(multiply, self, other) if isinstance(other, Expression) else self._scaled(other)

    def __rmul__(self, other: Number) -> Self:
        return self._scaled(other)

    def __truediv__(self, other: Expression | Number) -> Self:
        if isinstance(other, Expression):
            return self.of(divide, self, other)
        if not other:
            raise AttributeValueError("divide", got="the divisor 0", need="another one, or a formula")
        return self.of(divide, self, self.of(FILL, value=other, spec=ANY_TYPE))

    def __rtruediv__(self, other: Number) -> Self:
        return self.of(divide, self.of(FILL, value=other, spec=ANY_TYPE), self)

    def __pow__(self, other: Expression | int) -> Self:
        if isinstance(other, Expression):
            return self.of(power, self, other)
        if other != 2:
            raise AttributeValueError("power", got=f"exponent {other}", need="2, or a formula")
        return self.of(square, self)

    def __neg__(self) -> Self:
        return self._scaled(-1.0)


def instantiate(expression: Expression, graph: SymbolicGraph, **inputs: Symbol) -> tuple[Symbol, ...]:
    """Append the expression's execs to `graph`, with a symbol for each variable; the symbols of its outputs.

    What a node comes after (`following`) becomes an order of the execs.
    """
    unknown = sorted(inputs.keys() - set(expression.variable_names()))
    if unknown:
        need = "variables of the expression: " + ", ".join(expression.variable_names())
        raise AttributeValueError("instantiate", got=", ".join(unknown), need=need)
    made: dict[Node, tuple[Symbol, ...]] = {}
    for node in expression.nodes():
        if node.op is None:
            if node.name not in inputs:
                raise ArityError("instantiate", got=f"no symbol for {node.name!r}", need="one per variable")
            made[node] = (inputs[node.name],)
            continue
        operands = [None if entry is None else made[entry.node][entry.index] for entry in node.inputs]
        if node.op is divide:
            operands = _typed(operands, node)
        made[node] = graph.apply(Command(node.op, node.attributes), operands, name=node.name)
        for earlier in node.after:
            for key in graph.writers(made[earlier][0].key):
                graph.connect(key, graph.writers(made[node][0].key)[-1])
    return tuple(made[output.node][output.index] for output in expression.outputs)


def _typed(operands: Sequence[Symbol | None], node: Node) -> list[Symbol | None]:
    """The operands of a division, a number among them as a scalar of the other's element type."""
    typed = list(operands)
    for place, entry in enumerate(node.inputs):
        other = operands[1 - place]
        attrs = None if entry is None else entry.node.attributes
        if other is not None and isinstance(attrs, FillAttrs) and attrs.spec is ANY_TYPE:
            typed[place] = scalar_like(other, attrs.value)
    return typed


def infer_specs(expression: Expression, **inputs: TensorSpec) -> dict[str, TensorSpec]:
    """The spec of every internal output by name, from those of the variables."""
    graph = SymbolicGraph("inference")
    symbols = {name: graph.input(spec, name) for name, spec in inputs.items()}
    internals = expression.internals()
    results = instantiate(internals, graph, **symbols)
    return {name: symbol.spec for name, symbol in zip(internals.output_names(), results, strict=True)}
