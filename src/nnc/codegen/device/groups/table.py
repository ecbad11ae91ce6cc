"""Which generators have kernels of groups, which are asked first: a row for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from nnc.codegen.device.groups.products import GroupProduct
from nnc.codegen.frame.kernel import Generator, Phase
from nnc.codegen.ir.builder import Module
from nnc.codegen.kernels.products.gemm import Gemm


class GroupKernel(Protocol):
    """A kernel whose items are each done by a group of `threads` threads."""

    @property
    def threads(self) -> int:
        """Of a group, a power of two."""

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Write the functions of all phases."""


# `Any`: each row takes generators of its own type.
DEVICE_ROWS: Mapping[type[Any], Callable[[Any], GroupKernel | None]] = {Gemm: GroupProduct.of}


def group_kernel(generator: Generator) -> GroupKernel | None:
    """The kernel of groups that serves a generator, if there is one."""
    row = DEVICE_ROWS.get(type(generator))
    return None if row is None else row(generator)
