"""Custom commands: an operator made of Python functions, at home in every layer.

    DOUBLE = custom_operator("double", infer=lambda attrs, specs: specs, kernel=double)
    y = apply(DOUBLE, NoAttrs(), x)

`infer` maps specs to specs, `kernel` computes NumPy arrays from NumPy arrays, and `gradient`, if there is one, is
written in operators, so that it can be differentiated again. The kernel is the value of the open attribute `KERNEL`,
which the reference backend consults for operators that it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from numpy.typing import NDArray

from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import RegistryError
from nnc.graph import Op, OpAttr, Registry, default_registry
from nnc.ops.rules import Applied, Gradients, Inplace, NoAttrs, NotDifferentiable, Specs, operator

__all__ = ["KERNEL", "custom_operator"]

A = TypeVar("A")

# `Any`: elements of any type.
Arrays = Sequence[NDArray[Any] | None]
ArrayKernel = Callable[[A, Arrays, Sequence[NDArray[Any]]], None]

# `Any`: a column holds kernels of all operators; `custom_operator` checks each against its own attributes.
KERNEL = OpAttr[ArrayKernel[Any]]("kernel")

# A kernel on tensors wherever they lie, for operators that run programs of their own.
TensorKernel = Callable[[A, Sequence[Tensor | None], Sequence[Tensor]], None]
TENSOR_KERNEL = OpAttr[TensorKernel[Any]]("tensor kernel")

NOTHING_SHARED = Inplace()
NO_GRADIENT = NotDifferentiable("its author gave no gradient")


def custom_operator(
    name: str,
    attributes: type[A] = NoAttrs,  # type: ignore[assignment]  # the default of a type variable needs Python 3.13
    inputs: tuple[str, ...] = ("x",),
    outputs: tuple[str, ...] = ("y",),
    *,
    infer: Callable[[A, Specs], Specs],
    kernel: ArrayKernel[A],
    gradient: Callable[[Applied[A], Gradients], Gradients] | NotDifferentiable = NO_GRADIENT,
    inplace: Inplace | Callable[[A], Inplace] = NOTHING_SHARED,
    optional: tuple[int, ...] = (),
    variadic: bool = False,
    registry: Registry = default_registry,
    doc: str = "",
) -> Op[A]:
    """Define an operator whose kernel is a Python function `kernel(attrs, inputs, outputs)` on NumPy arrays.

    The kernel writes every element of `outputs` and may not write `inputs`, which it gets read-only; an absent
    optional input is None. An output lies in the memory of an input only where `inplace` allows it.
    """
    op = operator(
        name,
        attributes,
        inputs,
        outputs,
        infer=_checked(name, () if variadic else outputs, infer),
        gradient=gradient,
        inplace=inplace,
        optional=optional,
        variadic=variadic,
        registry=registry,
        doc=doc,
    )
    KERNEL.set(op, _guarded(kernel))
    return op


def _checked(name: str, outputs: tuple[str, ...], infer: Callable[[A, Specs], Specs]) -> Callable[[A, Specs], Specs]:
    """The rule, with a typed error when it does not give one spec per output."""

    def rule(attrs: A, specs: Specs) -> Specs:
        results = infer(attrs, specs)
        sound = isinstance(results, tuple) and all(isinstance(spec, TensorSpec) for spec in results)
        if not sound or (outputs and len(results) != len(outputs)):
            need = f"a tuple of {len(outputs) or 'one or more'} TensorSpec"
            raise RegistryError(name, got="something else from the infer rule", need=need, fix="mend the rule")
        return results

    return rule


def _guarded(kernel: ArrayKernel[A]) -> ArrayKernel[A]:
    """The kernel on inputs that it cannot write."""

    def run(attrs: A, inputs: Arrays, outputs: Sequence[NDArray[Any]]) -> None:
        kernel(attrs, [None if array is None else _read_only(array) for array in inputs], outputs)

    return run


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view
