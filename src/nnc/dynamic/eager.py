"""Eager values on the default dynamic graph, which the whole process shares."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import Count, Size, checked, explained, shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.running.device_context import present
from nnc.core.values.device import AnyDevice, device_of
from nnc.core.values.dtype import DType
from nnc.core.values.tensor import Tensor
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.execution.lazy import COMMANDS, NBYTES, LazyReport
from nnc.dynamic.execution.memoization import BUDGET, ResultCache
from nnc.dynamic.graph import default_graph
from nnc.dynamic.traced import active_trace
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError


@explained
def tensor(
    value: ArrayLike | Tensor,
    dtype: DType | str | None = None,
    *,
    share: bool = False,
    requires_grad: bool = False,
    device: AnyDevice | None = None,
) -> Variable:
    """A constant: what is computed from it is recorded only beside variables.

    `value` is copied, or with `share` used where it is. Python's floats become f32; arrays keep their element type.
    With `requires_grad` it is what `variable` gives. Without a `device` it is on that of the context, `nnc.device`.

    >>> tensor([1.0, 2.0]) * 3
    Variable(f32[2], constant)
    [3. 6.]
    """
    graph = default_graph()
    if isinstance(value, Variable) and not value.device.is_host:
        # Copied where it is: the host does not see its elements.
        value = value.tensor
    made = graph.variable if requires_grad else graph.constant
    return made(value, dtype, share=share, device=None if device is None else present(device_of(device)))


@explained
def variable(
    value: ArrayLike | Tensor,
    dtype: DType | str | None = None,
    *,
    share: bool = False,
    requires_grad: bool = True,
    device: AnyDevice | None = None,
) -> Variable:
    """A leaf that gradients can be asked for: what is computed from it is recorded. Memory as in `tensor`.

    >>> w = nnc.variable([1.0, 2.0])
    >>> (w * w).sum().backward()
    >>> w.grad
    Variable(f32[2], constant)
    [2. 4.]
    """
    return tensor(value, dtype, share=share, requires_grad=requires_grad, device=device)


def as_operand(value: ArrayLike | Tensor | ArrayOperand, beside: ArrayOperand | None = None) -> ArrayOperand:
    """The operand itself; for an array a constant of the default graph, on the device of the operand `beside` it."""
    if isinstance(value, ArrayOperand):
        return value
    home = beside.device if isinstance(beside, ArrayOperand) else None
    if home is None and beside is not None:
        raise ArgumentError("as_operand", got=f"beside={shown(beside)}", need="an operand", origin=caller_origin())
    return default_graph().constant(value, device=home)


def as_operands(*values: ArrayLike | Tensor | ArrayOperand) -> tuple[ArrayOperand, ...]:
    """All as operands: arrays lie where the first operand does."""
    home = next((value for value in values if isinstance(value, ArrayOperand)), None)
    return tuple([as_operand(value, home) for value in values])


def host_values(value: ArrayOperand) -> NDArray[np.generic] | None:
    """The elements where the host has them: None of a traced value, and of one that lies on a device."""
    return value.numpy() if type(value) is Variable and value.device.is_host else None


def no_grad() -> AbstractContextManager[None]:
    """Inside, nothing is recorded on the default graph; in a compiled function no gradient flows through results.

    >>> w = nnc.variable([1.0, 2.0])
    >>> with nnc.no_grad():
    ...     y = w * 2
    >>> y.requires_grad
    False
    """
    trace = active_trace()
    return default_graph().no_grad() if trace is None else trace.recording(False)


def enable_grad() -> AbstractContextManager[None]:
    """Inside, what is computed on the default graph is recorded, within `no_grad` too.

    >>> w = nnc.variable([1.0, 2.0])
    >>> with nnc.no_grad(), nnc.enable_grad():
    ...     y = w * 2
    >>> y.requires_grad
    True
    """
    trace = active_trace()
    return default_graph().recorded() if trace is None else trace.recording(True)


@checked
def set_grad_enabled(mode: bool) -> AbstractContextManager[None]:
    """`enable_grad()` or `no_grad()`: training and validation by one loop.

    >>> with nnc.set_grad_enabled(False):
    ...     y = nnc.variable([1.0]) * 2
    >>> y.requires_grad
    False
    """
    return enable_grad() if mode else no_grad()


@checked
def inference_mode(mode: bool = True) -> AbstractContextManager[None]:
    """`no_grad()` under PyTorch's other name.

    >>> with nnc.inference_mode():
    ...     y = nnc.variable([1.0]) * 2
    >>> y.requires_grad
    False
    """
    return set_grad_enabled(not mode)


@checked
def lazy(most_commands: Count = COMMANDS, most_bytes: Count = NBYTES) -> AbstractContextManager[LazyReport]:
    """Inside, commands on the default graph wait, and run together when somebody looks at a value, or at the end.

    Values, errors (with the line of the command) and random numbers are those of plain eager code, bit for bit. They
    run at the latest when so many wait, or their results would take so many bytes.

    >>> with lazy() as report:
    ...     x = tensor([1.0, 2.0])
    ...     for _ in range(3):
    ...         y = (x * 2 + 1).sum().item()
    >>> print(report)
    9 commands in 3 runs, 2 of them as one program
    """
    return default_graph().lazy(most_commands, most_bytes)


@checked
def memoized(
    most_bytes: Size = BUDGET, policy: Literal["recent", "work"] = "recent", *, cache: ResultCache | None = None
) -> AbstractContextManager[ResultCache]:
    """Inside, equal commands on equal elements on the default graph are computed once.

    Results stay within the budget of bytes: those used last, or those that took most work per byte. A `cache` of
    another block goes on.

    >>> with memoized() as cache:
    ...     for _ in range(3):
    ...         y = (tensor([1.0, 2.0]) * 2).sum()
    >>> cache.hits, cache.misses
    (4, 2)
    """
    return default_graph().memoized(ResultCache(most_bytes, policy) if cache is None else cache)
