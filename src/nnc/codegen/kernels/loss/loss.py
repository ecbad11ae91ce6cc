"""Losses: loss[n] = ⊕ f(x[n, …], t[n, …]), reductions of pointwise chains in one pass over memory.

A loss that hands out probabilities too computes them in a second phase, which may write over x.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, WithoutScratch, WithSizes
from nnc.codegen.frame.row import KernelRow, Rows, Views, filled
from nnc.codegen.ir.builder import Module, Number
from nnc.codegen.ir.expression import CONSTANT, Instruction
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.elementwise.pointwise import Pointwise
from nnc.codegen.kernels.reduction.reduction import Reduction
from nnc.core.values.derived import Read
from nnc.core.values.dtype import dtype_of
from nnc.ops.loss import loss as ops
from nnc.ops.loss.loss import (
    LEAST,
    BinaryCrossEntropyAttrs,
    CategoricalCrossEntropyAttrs,
    Least,
    LossAttrs,
    LossReduction,
    SmoothL1Attrs,
)

X, TARGET = 0, 1


@dataclass(slots=True)
class _Chain:
    """A chain on x and the target, whose `kind` is their element type."""

    kind: str
    classes: int
    instructions: list[Instruction] = field(default_factory=list)

    def put(self, operation: str, *operands: int, numbers: tuple[Number, ...] = (), result: str = "") -> int:
        """The number of a new value."""
        self.instructions.append(Instruction(operation, operands, numbers, result))
        return len(self.instructions) + TARGET

    def constant(self, number: float) -> int:
        """A number as a value."""
        return self.put(CONSTANT, numbers=(number,), result=self.kind)

    def affine(self, value: int, scale: float, shift: float = 0.0) -> int:
        """scale · value + shift"""
        return self.put("affine", value, numbers=(scale, shift))

    def logarithm(self, value: int, least: float) -> int:
        """ln max(value, least)"""
        return self.put("log", self.put("maximum", value, self.constant(least)))

    @property
    def least(self) -> Least:
        """The least numbers of the element type."""
        return LEAST[dtype_of(self.kind)]


# Writes the elements of a loss into a chain; `Any`: attributes of all losses.
Elements = Callable[[Any, _Chain], int]


def _squared(attrs: LossAttrs, chain: _Chain) -> int:
    return chain.put("square", chain.put("subtract", X, TARGET))


def _smooth(attrs: SmoothL1Attrs, chain: _Chain) -> int:
    beta = float(attrs.beta)
    size = chain.put("absolute", chain.put("subtract", X, TARGET))
    near = chain.put("divide", chain.put("square", size), chain.constant(2 * beta))
    far = chain.affine(size, 1.0, -beta / 2)
    return chain.put("where", chain.put("less", size, chain.constant(beta)), near, far)


def _binary(attrs: BinaryCrossEntropyAttrs, chain: _Chain) -> int:
    least = chain.least
    scaled = chain.affine(TARGET, -attrs.positive_weight)
    positive = chain.put("multiply", scaled, chain.logarithm(X, least.probability))
    complement = chain.logarithm(chain.affine(X, -1.0, 1.0), least.complement)
    return chain.put("subtract", positive, chain.put("multiply", chain.affine(TARGET, -1.0, 1.0), complement))


def _sigmoid_binary(attrs: BinaryCrossEntropyAttrs, chain: _Chain) -> int:
    softplus = chain.put("softplus", chain.affine(X, -1.0))
    balance = chain.affine(TARGET, attrs.positive_weight - 1.0, 1.0)
    by_logit = chain.put("multiply", chain.affine(TARGET, -1.0, 1.0), X)
    return chain.put("add", by_logit, chain.put("multiply", balance, softplus))


def _categorical(attrs: CategoricalCrossEntropyAttrs, chain: _Chain) -> int:
    wanted = chain.affine(TARGET, attrs.smoothing - 1.0, -attrs.smoothing / chain.classes)
    return chain.put("multiply", wanted, chain.logarithm(X, chain.least.probability))


def _loss(elements: Elements, attrs: object, inputs: Views, outputs: Views, first: int, rule: str) -> Reduction:
    """The reduction of the elements over the axes from `first` on."""
    shape = inputs[0].shape
    chain = _Chain(inputs[0].scalar.name, shape[-1])
    chosen = elements(attrs, chain)
    marks = tuple(axis >= first for axis in range(len(shape)))
    operands = tuple(view.whole for view in inputs)
    return Reduction(
        rule, shape, operands, marks, outputs[0].scalar, tuple(chain.instructions), chosen, len(outputs) - 1
    )


def _per_example(elements: Elements) -> KernelRow:
    """The sum or the mean over all axes but the first."""

    def generate(attrs: LossAttrs, inputs: Views, outputs: Views) -> Generator:
        rule = "mean" if attrs.reduction is LossReduction.MEAN else "sum"
        return _loss(elements, attrs, inputs, outputs, 1, rule)

    return KernelRow(generate, filled, strided=True)


def _categorical_row(attrs: CategoricalCrossEntropyAttrs, inputs: Views, outputs: Views) -> Generator:
    return _loss(_categorical, attrs, inputs, outputs, len(inputs[0].shape) - 1, "sum")


@dataclass(frozen=True, slots=True)
class LossWithProbabilities(WithoutScratch, WithSizes):
    """A loss of logits, then the probabilities. Operands: x, target; loss, probability."""

    loss: Reduction
    probability: Pointwise

    def opened(self, read: Read, target: TargetDescription) -> LossWithProbabilities:
        """What both parts read."""
        return LossWithProbabilities(self.loss.opened(read, target), self.probability.opened(read, target))

    def workspace(self, target: TargetDescription) -> int:
        """What the loss needs."""
        return self.loss.workspace(target)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """The phases of the loss, and one for the probabilities."""
        return (*self.loss.emit(module, f"{name}_loss"), *self.probability.emit(module, f"{name}_probability"))


def _sigmoid_row(attrs: BinaryCrossEntropyAttrs, inputs: Views, outputs: Views) -> Generator:
    loss = _per_example(_sigmoid_binary).generate(attrs, inputs, outputs)
    assert isinstance(loss, Reduction)
    x, y = inputs[0], outputs[1]
    sigmoid = (Instruction("sigmoid", (0,)),)
    return LossWithProbabilities(loss, Pointwise(y.shape, (x.whole,), (y.whole,), sigmoid, (1,), arguments=(X, 3)))


ROWS: Rows = {
    ops.MEAN_SQUARED_ERROR: _per_example(_squared),
    ops.SMOOTH_L1: _per_example(_smooth),
    ops.BINARY_CROSS_ENTROPY: _per_example(_binary),
    ops.SIGMOID_BINARY_CROSS_ENTROPY: KernelRow(_sigmoid_row, filled, strided=True),
    ops.CATEGORICAL_CROSS_ENTROPY: KernelRow(_categorical_row, filled, strided=True),
}
