"""What a model is made of beside its tensors: layer, inputs, losses, optimizer, and how its steps are compiled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from nnc.arguments import shown
from nnc.classes import dataclass
from nnc.concrete import TuneOptions
from nnc.core.running.file_device import Folder, checked_folder
from nnc.core.values.device import CPU, Device
from nnc.core.values.dtype import DType
from nnc.core.values.spec import Shape, TensorSpec, check_shape
from nnc.errors import ArityError, ShapeError, UsageError
from nnc.nn.layers.functional import Functional
from nnc.nn.layers.layer import Input, Layer, UpTo
from nnc.nn.optimization.joint_losses import JointLoss
from nnc.nn.optimization.loss_scale import LossScale
from nnc.nn.optimization.losses import Loss
from nnc.nn.optimization.optimizer_base import Optimizer
from nnc.nn.steps.keys import CacheType
from nnc.nn.steps.objective import Objective
from nnc.nn.steps.sharding import Sharding, ZeroStage
from nnc.parallel import Mesh, Pipeline, RankGroup
from nnc.parallel.compression import Compression
from nnc.symbolic.compiler import Arena, ArenaLimit
from nnc.symbolic.passes import Pass

OffloadFolder = Folder


@dataclass(frozen=True, slots=True, eq=False)
class ModelOptions:
    """The options of a `Model`, whose docstring says what each does.

    `inputs` have shapes without the batch, open axes as large as they get; `open` says whose first axis is one.
    """

    layer: Layer
    inputs: tuple[TensorSpec, ...]
    open: tuple[bool, ...]
    losses: tuple[Loss, ...]
    joint: JointLoss | None
    optimizer: Optimizer
    seed: int
    dtype: DType
    input_dtype: DType
    backend: str
    precision: DType | None
    clip_norm: float | None
    clip_value: float | None
    nan_guard: bool
    loss_scale: LossScale | None
    memory_limit: ArenaLimit | None
    allowed_precision: DType | None
    passes: tuple[Pass, ...]
    autotune: TuneOptions | bool
    deterministic: bool
    mesh: Mesh | None = None
    zero_stage: ZeroStage = 0
    pipeline: Pipeline = Pipeline()
    stage: int | None = None
    compress: Compression | None = None
    cache_type: CacheType = "f32"
    device: Device = CPU
    arena: Arena | None = None
    offload_folder: OffloadFolder | None = None
    state_folder: OffloadFolder | None = None

    def __post_init__(self) -> None:
        """UsageError where a folder is none."""
        for name in ("offload_folder", "state_folder"):
            if (folder := getattr(self, name)) is not None:
                object.__setattr__(self, name, str(checked_folder(folder, name)))

    @property
    def guards_updates(self) -> bool:
        """Whether an update whose loss or gradients are not finite is held back."""
        return self.nan_guard or self.loss_scale is not None

    @property
    def objective(self) -> Objective:
        """What is minimized."""
        return Objective(self.losses, self.joint)

    @property
    def ranks(self) -> RankGroup | None:
        """The ranks that share each batch; None for a model of one process."""
        return None if self.mesh is None else self.mesh.group("data")

    @property
    def sharding(self) -> Sharding:
        """What lies in shards, and what is split."""
        # Stages have an order of their own, and a limit has no room for sums that are under way.
        beside = self.memory_limit is None and self.pipe_ranks is None
        groups = (self.ranks, self.tensor_ranks, self.pipe_ranks)
        return Sharding(self.zero_stage, *groups, self.pipe_stage, self.compress, beside)

    @property
    def pipe_ranks(self) -> RankGroup | None:
        """The ranks that have a stage each; None where there is one."""
        return None if self.mesh is None or self.mesh.pipe == 1 else self.mesh.group("pipe")

    @property
    def pipe_stage(self) -> int:
        """Our stage, or the one that is asked about where nobody launched as many ranks."""
        if self.stage is not None or self.mesh is None:
            return self.stage or 0
        return self.mesh.own_place()[2]

    @property
    def tensor_ranks(self) -> RankGroup | None:
        """The ranks that share each product; None where there is one."""
        return None if self.mesh is None or self.mesh.tensor == 1 else self.mesh.group("tensor")

    @property
    def all_ranks(self) -> RankGroup | None:
        """Every rank that the model is on."""
        return None if self.mesh is None else RankGroup(self.mesh.size)

    @property
    def alone(self) -> ModelOptions:
        """Those of one process."""
        return self if self.mesh is None else replace(self, mesh=None, zero_stage=0, stage=None, compress=None)

    @property
    def longest(self) -> int:
        """The largest size of all open axes that each of them can have; 0 where there is none."""
        return min((spec.shape[0] for spec, is_open in zip(self.inputs, self.open, strict=True) if is_open), default=0)

    def shapes_at(self, length: int) -> tuple[Shape, ...]:
        """Shapes of examples whose open axes are of this size; 0 stands for the largest."""
        pairs = zip(self.inputs, self.open, strict=True)
        return tuple((length, *spec.shape[1:]) if is_open and length else spec.shape for spec, is_open in pairs)


def input_specs(
    layer: Layer, input_shape: Iterable[int | UpTo | Input] | None, dtype: DType, input_dtype: DType
) -> tuple[tuple[TensorSpec, ...], tuple[bool, ...]]:
    """Of one input by its shape, or of each `Input`, without the batch; and which of them have an open axis."""
    if input_shape is None:
        if not isinstance(layer, Functional):
            raise ArityError("Model", got="no input_shape", need="the shape of an example")
        input_shape = layer.inputs
    sizes = tuple(input_shape)
    inputs = [size for size in sizes if isinstance(size, Input)]
    shapes = [given.shape for given in inputs] or [cast("tuple[int | UpTo, ...]", sizes)]
    open_axes = tuple(bool(shape) and isinstance(shape[0], UpTo) for shape in shapes)
    if not inputs:
        return (TensorSpec(largest(shapes[0], "input_shape"), input_dtype),), open_axes
    if len(inputs) < len(sizes):
        raise UsageError("Model", got=f"input_shape={shown(sizes)}", need="a shape, or an Input for each input")
    return tuple(TensorSpec(largest(given.shape, "Input"), given.dtype or dtype) for given in inputs), open_axes


def largest(sizes: Iterable[int | UpTo], what: str) -> Shape:
    """The shape, open axes as large as they get."""
    first, *others = tuple(sizes) or (None,)
    if any(isinstance(size, UpTo) for size in others):
        raise ShapeError(what, got=f"{list(others)} behind the first axis", need="one open axis, the first")
    whole = () if first is None else (first.most if isinstance(first, UpTo) else first, *others)
    return check_shape(cast("tuple[int, ...]", whole), what)
