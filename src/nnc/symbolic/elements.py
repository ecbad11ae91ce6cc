"""Single elements, computed while a graph is looked at: by the oracle's kernels, in the element types of the exec."""

from __future__ import annotations

import numpy as np

from nnc.core.running.dispatch import DISPATCHER
from nnc.core.values.command import AnyCommand
from nnc.core.values.sizes import Numbers, follows, sizes_in
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.ops.number import Number, as_float
from nnc.ops.rules import infer
from nnc.symbolic.sharing.templates import GraphRenewal


def evaluate(command: AnyCommand, specs: list[TensorSpec], values: list[Number]) -> Number:
    """The result of a pointwise command on one element of each input.

    Where there are sizes in it that remember where they come from, so does the result.
    """
    sizes = [*sizes_in(command), *sizes_in(values)]
    if not sizes:
        return _evaluated(command, specs, values)

    def at(numbers: Numbers) -> Number:
        renewal = GraphRenewal(numbers)
        return _evaluated(renewal.of(command), specs, renewal.of(values))

    return follows(sizes, at, at({size.place: size.value for size in sizes}))


def _evaluated(command: AnyCommand, specs: list[TensorSpec], values: list[Number]) -> Number:
    inputs = tuple(map(_element, specs, values))
    given = tuple(tensor.spec for tensor in inputs)
    results = infer(command.op, command.attrs, given)
    output = Tensor.from_numpy(np.zeros((), results[0].dtype.numpy), results[0].dtype)
    DISPATCHER.claim(command, given, results, DISPATCHER.oracle).kernel.run(inputs, (output,), None)
    number: Number = output.numpy().item() if not results[0].dtype.is_float else float(output.numpy())
    return number


def _element(spec: TensorSpec, value: Number) -> Tensor:
    """A scalar of this type that holds the value."""
    held = as_float(value) if spec.dtype.is_float else int(value)
    with np.errstate(over="ignore"):
        return Tensor.from_numpy(np.full((), held, spec.dtype.numpy), spec.dtype)
