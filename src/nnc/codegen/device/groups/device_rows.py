"""Which generators have kernels of groups, which are asked first: a row for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from nnc.classes import dataclass
from nnc.codegen.device.groups.attentions.attention_gradients import GroupAttentionGradient
from nnc.codegen.device.groups.attentions.group_cached_attention import GroupCachedAttention
from nnc.codegen.device.groups.attentions.summed_attention import SummedAttention
from nnc.codegen.device.groups.block_rows import GroupBlockRows
from nnc.codegen.device.groups.correlations import GroupCorrelation
from nnc.codegen.device.groups.group_column_norms import GroupColumnNorm
from nnc.codegen.device.groups.group_elements import GroupElements
from nnc.codegen.device.groups.group_reductions import GroupReduction
from nnc.codegen.device.groups.group_row_sums import GroupRowSums
from nnc.codegen.device.groups.group_rows import GroupRows
from nnc.codegen.device.groups.group_transpositions import GroupTransposition
from nnc.codegen.device.groups.group_updates import GroupUpdate
from nnc.codegen.device.groups.matrices.group_attention import GroupAttention
from nnc.codegen.device.groups.matrices.matrix_correlations import MatrixGroupCorrelation
from nnc.codegen.device.groups.matrices.matrix_products import MatrixGroupProduct
from nnc.codegen.device.groups.products import GroupProduct
from nnc.codegen.device.groups.vector_products import GroupVectorProduct
from nnc.codegen.device.groups.weight_gradients import GroupWeightGradient
from nnc.codegen.frame.kernel import Generator
from nnc.codegen.frame.widened import Widened
from nnc.codegen.ir.builder import Module
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.convolutions.correlation import Correlation
from nnc.codegen.kernels.convolutions.weight_gradient import WeightGradient
from nnc.codegen.kernels.convolutions.winograd import Winograd
from nnc.codegen.kernels.elementwise.pointwise import Pointwise
from nnc.codegen.kernels.indexing.indexing import Selection
from nnc.codegen.kernels.movement.transposition import Transposition
from nnc.codegen.kernels.normalization.normalization import RowNormalization
from nnc.codegen.kernels.normalization.normalization_columns import ColumnNormalization
from nnc.codegen.kernels.normalization.softmax import Softmax
from nnc.codegen.kernels.optimizer.optimizer import OptimizerUpdate
from nnc.codegen.kernels.products.gemm import Gemm
from nnc.codegen.kernels.products.gemv import Gemv
from nnc.codegen.kernels.quantization.blocks import BlockRows
from nnc.codegen.kernels.reduction.reduction import Reduction
from nnc.codegen.kernels.sequence.attention import Attention
from nnc.codegen.kernels.sequence.cached_attention import CachedAttention


class GroupKernel(Protocol):
    """A kernel whose items are each done by a group of `threads` threads."""

    @property
    def threads(self) -> int:
        """Of a group, a power of two."""

    @property
    def paired(self) -> bool:
        """Whether a processor should hold two groups of 256 threads at once, at the price of registers."""

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Write the functions of all phases."""


# `Any`: each row takes generators of its own type.
Row = Callable[[Any, TargetDescription], "GroupKernel | None"]
DEVICE_ROWS: Mapping[type[Any], tuple[Row, ...]] = {
    Gemm: (GroupVectorProduct.of_product, MatrixGroupProduct.of, GroupProduct.of),
    Gemv: (GroupVectorProduct.of,),
    BlockRows: (GroupBlockRows.of,),
    Correlation: (MatrixGroupCorrelation.of, GroupCorrelation.of),
    Winograd: (GroupCorrelation.of_tiles,),
    WeightGradient: (GroupWeightGradient.of,),
    Widened: (GroupAttention.of, GroupAttentionGradient.of_widened),
    Attention: (SummedAttention.of, GroupAttentionGradient.of),
    CachedAttention: (GroupCachedAttention.of,),
    Softmax: (GroupRows.of_softmax,),
    RowNormalization: (GroupRows.of_norm,),
    ColumnNormalization: (GroupColumnNorm.of,),
    OptimizerUpdate: (GroupUpdate.of,),
    Pointwise: (GroupElements.of,),
    Selection: (GroupRowSums.of,),
    Reduction: (GroupReduction.of,),
    Transposition: (GroupTransposition.of,),
}


# Kernels of groups in each tile that fits, by name: which is the fastest, a measurement says (`nnc.TuneOptions`).
Tiles = Callable[[Any, TargetDescription], "Mapping[str, GroupKernel]"]
TILES: Mapping[type[Any], tuple[Tiles, ...]] = {
    Gemm: (MatrixGroupProduct.in_tiles, GroupProduct.in_tiles),
    Correlation: (GroupCorrelation.in_tiles,),
}


@dataclass(frozen=True, slots=True)
class InTiles:
    """A generator whose kernel of groups was chosen."""

    inner: Generator
    group: GroupKernel

    def workspace(self, target: TargetDescription) -> int:
        """That of the generator."""
        return self.inner.workspace(target)

    def scratch(self, target: TargetDescription) -> int:
        """That of the generator."""
        return self.inner.scratch(target)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """The functions of groups."""
        return self.group.emit(module, name)


def tile_variants(generator: Generator, target: TargetDescription) -> dict[str, InTiles]:
    """The generator with each kernel of groups but the one that it has anyway."""
    usual = group_kernel(generator, target)
    if usual is None:
        return {}
    ways = [way for tiles in TILES.get(type(generator), ()) for way in tiles(generator, target).items()]
    return {name: InTiles(generator, group) for name, group in ways if group != usual}


def group_kernel(generator: Generator, target: TargetDescription) -> GroupKernel | None:
    """The kernel of groups that was chosen, or the first one that serves a generator, if there is one."""
    if isinstance(generator, InTiles):
        return generator.group
    rows = DEVICE_ROWS.get(type(generator), ())
    return next((kernel for row in rows if (kernel := row(generator, target)) is not None), None)
