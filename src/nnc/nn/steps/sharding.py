"""Which tensors of a model lie in shards on the ranks that train it: the stages of ZeRO (Rajbhandari et al. 2020).

stage 1   the optimizer's state: each rank updates its shard of the weights, and gathers those of the others
stage 2   sums of gradients over several batches too
stage 3   weights too: gathered in front of the layer that reads them, and once more for its gradient
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from nnc.classes import dataclass
from nnc.core.values.dtype import DType
from nnc.core.values.spec import TensorSpec
from nnc.errors import UsageError
from nnc.nn.optimization.optimizer_base import Optimizer
from nnc.nn.state.scope import ParameterSpec
from nnc.ops import cast, square, sum_of
from nnc.ops.elementwise.pointwise import sqrt
from nnc.ops.optimizer.update import row_of
from nnc.parallel import RankGroup, allreduce
from nnc.parallel.buckets import in_buckets, sums_over
from nnc.parallel.compression import Compression
from nnc.parallel.tensor_shards import own_shard, shard_size, shard_spec, shard_sums, unshard, unsharded
from nnc.symbolic import Symbol
from nnc.symbolic.minimization import global_norm

# Names of errors begin so.
ERROR, OWN_ERROR = "error.", "own_error."

ZeroStage: TypeAlias = Literal[0, 1, 2, 3]


@dataclass(frozen=True, slots=True)
class Sharding:
    """The stage, the ranks that share batches, and those that share products; of one process nothing is split.

    What is split by products is so first: shards are of our blocks.
    """

    stage: ZeroStage = 0
    group: RankGroup | None = None
    tensor: RankGroup | None = None
    pipe: RankGroup | None = None
    # Our stage, of those along `pipe`.
    pipe_stage: int = 0
    # In how few bits gradients are summed.
    compress: Compression | None = None
    # Whether sums of gradients are taken while others are computed, which costs the memory of some.
    beside: bool = False

    @property
    def is_parted(self) -> bool:
        """Whether ranks have other tensors than each other, be it only what sums in few bits lost."""
        return bool(self.stage or self.tensor or self.pipe or self.compress)

    def keeps(self, row: ParameterSpec) -> bool:
        """Whether a parameter is one of our stage."""
        return self.pipe is None or row.stage == self.pipe_stage

    def own(self, row: ParameterSpec) -> TensorSpec:
        """What of a parameter this rank computes with."""
        return row.spec if self.tensor is None else row.own

    def is_block(self, row: ParameterSpec) -> bool:
        """Whether that is a part."""
        return self.tensor is not None and row.place is not None

    def has_whole(self, row: ParameterSpec) -> bool:
        """Whether this process has all of a parameter."""
        return self.keeps(row) and not self.splits(row) and not self.is_block(row)

    def error_buckets(self, rows: Iterable[ParameterSpec]) -> list[list[ParameterSpec]]:
        """Whose gradients are summed together in few bits, from the end, as they are final; none otherwise."""
        if self.compress is None:
            return []
        return list(in_buckets(list(rows)[::-1], lambda row: row.spec.nbytes))

    def error_specs(self, rows: Iterable[ParameterSpec], *, whole: bool = False) -> dict[str, TensorSpec]:
        """What sums in few bits lose, by name: of each gradient on this rank, and of our piece of each bucket.

        `whole` are those of all ranks, one behind the other.
        """
        specs: dict[str, TensorSpec] = {}
        for number, bucket in enumerate(self.error_buckets(rows)):
            assert self.group is not None
            specs |= {
                f"{ERROR}{row.path}": replace(row.spec, shape=(self.group.size if whole else 1, *row.spec.shape))
                for row in bucket
            }
            elements = sum(row.spec.elements for row in bucket)
            length = elements if whole else shard_size(elements, self.group.size)
            specs[f"{OWN_ERROR}{number}"] = replace(bucket[0].spec, shape=(length,))
        return specs

    def state_spec(self, row: ParameterSpec) -> TensorSpec:
        """What of a parameter this rank updates."""
        return self._part(self.own(row)) if self.stage >= 1 else self.own(row)

    def gradient_spec(self, row: ParameterSpec) -> TensorSpec:
        """What of a sum of gradients this rank keeps."""
        return self._part(self.own(row)) if self.stage >= 2 else self.own(row)

    def weight_spec(self, row: ParameterSpec) -> TensorSpec:
        """What of a parameter this rank keeps; statistics are on each."""
        return self._part(self.own(row)) if self.splits(row) else self.own(row)

    def splits(self, row: ParameterSpec) -> bool:
        """Whether a rank has a shard of this parameter only."""
        return self.stage == 3 and self.group is not None and not row.statistic

    def _part(self, spec: TensorSpec) -> TensorSpec:
        return spec if self.group is None else shard_spec(spec, self.group)

    # ---- in graphs

    def whole(self, given: Symbol, row: ParameterSpec) -> Symbol:
        """What layers read, of what this rank keeps."""
        if self.group is None or not self.splits(row):
            return given
        (weight,) = unshard([given], [self.own(row).on(given.spec.device)], self.group)
        return weight

    def updated(self, given: Symbol, path: str) -> Symbol:
        """What an optimizer changes: our shard."""
        if self.group is None or self.stage not in (1, 2):
            return given
        return own_shard(given, self.group).named(path)

    def renewed(self, shards: Sequence[Symbol], given: Sequence[Symbol]) -> Sequence[Symbol]:
        """What takes the place of the parameters, of shards that were updated."""
        if self.group is None or self.stage not in (1, 2):
            return shards
        return unsharded(shards, [symbol.spec for symbol in given], self.group)

    def reduced(self, gradients: Sequence[Symbol]) -> Sequence[Symbol]:
        """Sums over all ranks of what each gives, as optimizers follow them; in stage 3 they come so."""
        if self.group is None or self.stage == 0:
            return sums_over(gradients, self.group, beside=self.beside)
        return gradients if self.stage == 3 else shard_sums(gradients, self.group)

    def summands(self, gradients: Sequence[Symbol]) -> Sequence[Symbol]:
        """What is added up over several batches."""
        return self.reduced(gradients) if self.stage == 2 else gradients

    def norm(self, rows: Sequence[ParameterSpec], gradients: Sequence[Symbol], dtype: DType) -> Symbol:
        """The 2-norm of the gradients of these parameters, of which we may have shards and blocks."""
        pairs = list(zip(rows, gradients, strict=True))
        blocks = [gradient for row, gradient in pairs if self.is_block(row)]
        others = [gradient for row, gradient in pairs if not self.is_block(row)]
        squares = [square(global_norm(part, dtype)) for part in (others, blocks) if part]
        if blocks:
            squares[-1] = allreduce(squares[-1], "sum", self.tensor)
        total = sum_of(*squares)
        if self.pipe is not None:
            total = allreduce(total, "sum", self.pipe)
        if self.group is not None and self.stage:
            total = allreduce(total, "sum", self.group)
        return cast(sqrt(total), dtype)

    @staticmethod
    def check_norm(pipe: RankGroup, trained: Iterable[ParameterSpec]) -> None:
        """UsageError, on each rank, for a stage that has no part of the norm of all gradients: others wait for it."""
        idle = set(range(pipe.size)) - {row.stage for row in trained}
        if idle:
            got = f"clip_norm or nan_guard, and no weight that is trained in stage {min(idle)}"
            fix = "train some of its weights, take fewer stages, or neither of the two"
            raise UsageError("Model", got=got, need="gradients in each stage", fix=fix)

    def check(self, optimizers: Sequence[Optimizer]) -> None:
        """UsageError for an optimizer that needs whole parameters."""
        if self.compress is not None and (self.group is None or self.stage or self.tensor or self.pipe):
            got, need = f"compress={self.compress!r} beside other parts than of data", "ranks along data alone"
            raise UsageError("Model", got=got, need=need, fix="mesh=nnc.parallel.Mesh(data=ranks.size), zero_stage=0")
        if self.stage == 0 and self.tensor is None:
            return
        if self.group is None:
            got, fix = f"zero_stage={self.stage} without ranks", "mesh=nnc.parallel.Mesh(data=ranks.size)"
            raise UsageError("Model", got=got, need="a mesh", fix=fix)
        for optimizer in optimizers:
            if row_of(optimizer.command()).whole:
                shared = f"zero_stage={self.stage}" if self.stage else "tensor parallel"
                got = f"{shared} with {type(optimizer).__name__}, which reads whole parameters"
                need, fix = "an optimizer that computes element by element", "Adam or SGD, or Mesh(data=…) alone"
                raise UsageError("Model", got=got, need=need, fix=fix)
