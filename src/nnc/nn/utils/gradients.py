"""Gradients of parameters within bounds, between `loss.backward()` and `optimizer.step()`; parameters as one vector."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeAlias

from nnc import numerics as n
from nnc.arguments import Positive, checked
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.state import assign
from nnc.dynamic.variable import Variable
from nnc.errors import ShapeError

ParametersOrOne: TypeAlias = Variable | Iterable[Variable]


@checked
def clip_grad_norm_(parameters: ParametersOrOne, max_norm: Positive, norm_type: float = 2.0) -> ArrayOperand:
    """grad = grad · min(1, max_norm / (norm + 1e-6)), norm that of all gradients together; gives that norm.

    >>> w = nnc.variable([3.0, 4.0])
    >>> (w * w).sum().backward()
    >>> nn.utils.clip_grad_norm_([w], 1.0).item()
    10.0
    >>> [round(slope, 6) for slope in w.grad.tolist()]
    [0.6, 0.8]
    """
    given = _with_gradients(parameters)
    norm = get_total_norm([gradient for _, gradient in given], norm_type)
    factor = n.minimum(max_norm / (norm + 1e-6), 1.0)
    for parameter, gradient in given:
        parameter.grad = gradient * factor.astype(gradient.dtype)
    return norm


@checked
def clip_grad_value_(parameters: ParametersOrOne, clip_value: Positive) -> None:
    """Each element of each gradient in ±`clip_value`."""
    for parameter, gradient in _with_gradients(parameters):
        parameter.grad = n.clip(gradient, -clip_value, clip_value)


@checked
def get_total_norm(tensors: ArrayOperand | Iterable[ArrayOperand], norm_type: float = 2.0) -> ArrayOperand:
    """The norm of all elements of all tensors: (Σ |x|ᵖ)^(1/p), the largest for p = ∞."""
    values = [tensors] if isinstance(tensors, ArrayOperand) else list(tensors)
    if not values:
        return n.zeros(())
    if math.isinf(norm_type):
        return n.max(n.stack([n.max(n.abs(value)) for value in values]))
    if norm_type == 2.0:
        return n.sqrt(sum((n.square(value).sum() for value in values[1:]), n.square(values[0]).sum()))
    sums = [(n.abs(value) ** norm_type).sum() for value in values]
    return sum(sums[1:], sums[0]) ** (1.0 / norm_type)


@checked
def parameters_to_vector(parameters: Iterable[Variable]) -> ArrayOperand:
    """All elements in a row.

    >>> nn.utils.parameters_to_vector([nnc.ones((2, 2)), nnc.zeros(1)]).tolist()
    [1.0, 1.0, 1.0, 1.0, 0.0]
    """
    return n.concatenate([n.reshape(parameter, (-1,)) for parameter in parameters])


@checked
def vector_to_parameters(vec: Variable, parameters: Iterable[Variable]) -> None:
    """Give the parameters the elements of a vector, one after the other."""
    given = list(parameters)
    if vec.shape != (sum(parameter.size for parameter in given),):
        need = f"{sum(parameter.size for parameter in given)} elements"
        raise ShapeError("vector_to_parameters", got=str(vec.spec), need=need)
    place = 0
    for parameter in given:
        part = vec[place : place + parameter.size]
        assign(parameter, part.reshape(parameter.shape).astype(parameter.dtype))
        place += parameter.size


def _with_gradients(parameters: ParametersOrOne) -> list[tuple[Variable, ArrayOperand]]:
    """The parameters that have a gradient, each with it."""
    given = [parameters] if isinstance(parameters, Variable) else list(parameters)
    return [(parameter, parameter.grad) for parameter in given if parameter.grad is not None]
