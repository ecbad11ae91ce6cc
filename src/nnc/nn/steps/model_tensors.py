"""The tensors of a model: parameters, statistics and what training keeps beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from nnc.core.precautions.forking import fork_safe_rlock
from nnc.core.running.file_device import Folder
from nnc.core.running.filed_tensors import FiledTensors
from nnc.core.values.device import CPU, Device
from nnc.core.values.dtype import I64, DType
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import UsageError
from nnc.nn.layers.initializers import generator_for
from nnc.nn.layers.layer import ParameterSpec
from nnc.nn.optimization.optimizer_base import Optimizer
from nnc.nn.state.generators import PlacedInitializer
from nnc.nn.steps.keys import StepKind
from nnc.nn.steps.sharding import Sharding
from nnc.nn.steps.step_graph import DRAWS, PART, SCALE
from nnc.nn.steps.training_steps import GRADIENT, SHARE, optimizers_of
from nnc.parallel import joined
from nnc.parallel.block_operators import joined_blocks
from nnc.parallel.tensor_shards import piece_of
from nnc.symbolic.minimization import steering_dtype

# Of a process that has all of it.
ALONE = Sharding()


class ModelTensors:
    """Tensors by group and name. A group is made when it is first asked for, once, whichever thread asks.

    Parameters and statistics are those of `specs` and start from `seed`; what training keeps starts from zero.
    """

    def __init__(self, seed: int, dtype: DType, device: Device = CPU, sharding: Sharding = ALONE) -> None:
        self.specs: dict[str, ParameterSpec] = {}
        self.sharding = sharding
        self.device = device
        self._seed = seed
        self._steering = TensorSpec((), steering_dtype(dtype))
        self._groups: dict[str, dict[str, Tensor]] = {}
        # Where states of the optimizer lie in a file.
        self.state_folder: Folder | None = None
        self._filed: FiledTensors | None = None
        # Over the memory of the numbers that steer a pass, on a device beside it: each is written before each of them.
        self._arrays: dict[str, NDArray[np.generic]] = {}
        self._making = fork_safe_rlock()

    def keep_by(self, sharding: Sharding) -> None:
        """Shards by another rule; UsageError where there are tensors of which it would keep other parts."""
        kept = [name for name in ("parameters", "statistics", "states", "gradients") if name in self._groups]
        if kept and sharding != self.sharding and (sharding.is_parted or self.sharding.is_parted):
            need, fix = "a model without tensors", "give mesh and zero_stage when it is made"
            raise UsageError("Model", got=f"other ranks or shards beside its {kept[0]}", need=need, fix=fix)
        self.sharding = sharding

    def copy(self) -> ModelTensors:
        """The same values in memory of its own."""
        # Another thread may make a group meanwhile.
        made = dict(self._groups)
        groups = {name: {path: tensor.clone() for path, tensor in group.items()} for name, group in made.items()}
        return self._with(groups)

    def moved(self, device: Device) -> ModelTensors:
        """The same values on a device; those that are there are the same tensors."""
        made = dict(self._groups)
        groups = {name: {path: tensor.to(device) for path, tensor in group.items()} for name, group in made.items()}
        copied = self._with(groups)
        copied.device = device
        return copied

    def _zeros(self, spec: TensorSpec) -> Tensor:
        return Tensor.zeros(spec.on(self.device))

    def share(self) -> ModelTensors:
        """The same parameters and statistics; what training keeps is made anew."""
        return self._with({"parameters": self.parameters, "statistics": self.statistics})

    def _with(self, groups: dict[str, dict[str, Tensor]]) -> ModelTensors:
        copied = ModelTensors.__new__(ModelTensors)
        copied.__setstate__({**self.__getstate__(), "specs": dict(self.specs), "_groups": groups})
        return copied

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name not in ("_making", "_arrays", "_filed")}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._arrays, self._filed = {}, None
        self.keep_states_in(self.state_folder)
        self._making = fork_safe_rlock()

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The tensors that are trained, by path."""
        return self._group("parameters", lambda: self._first_values(trainable=True))

    @property
    def statistics(self) -> dict[str, Tensor]:
        """The tensors that layers renew in training, by path."""
        return self._group("statistics", lambda: self._first_values(trainable=False))

    @property
    def draws(self) -> Tensor:
        """The counter that random layers draw by."""
        return self._group(DRAWS, lambda: {DRAWS: self._zeros(TensorSpec((), I64))})[DRAWS]

    @property
    def share_of_each(self) -> Tensor:
        """What sums over examples are multiplied with to be means."""
        return self._group(SHARE, lambda: {SHARE: self._zeros(self._steering)})[SHARE]

    @property
    def loss_scale(self) -> Tensor:
        """What the loss is multiplied with."""
        return self._group(SCALE, lambda: {SCALE: self._zeros(self._steering)})[SCALE]

    @property
    def part(self) -> Tensor:
        """Which part of the whole batch is ours, of several ranks."""
        return self._group(PART, lambda: {PART: self._zeros(self._steering)})[PART]

    def states(self, optimizer: Optimizer) -> dict[str, Tensor]:
        """The optimizer's tensors, by path and name."""
        return self._group("states", lambda: self._first_states(self.state_specs(optimizer)))

    def keep_states_in(self, folder: Folder | None) -> None:
        """Have them in a file of this folder, or in memory, with the values that they have."""
        before = self._groups.get("states")
        on_host = before is not None and all(tensor.spec.device.is_host for tensor in before.values())
        if before is not None and on_host and (folder is not None or self._filed is not None):
            filed, made = self._placed({name: tensor.spec for name, tensor in before.items()}, folder)
            for name, tensor in before.items():
                made[name].copy_from(tensor)
            self._groups["states"], self._filed = made, filed
        self.state_folder = folder

    def _first_states(self, specs: Mapping[str, TensorSpec]) -> dict[str, Tensor]:
        self._filed, made = self._placed(specs, self.state_folder)
        return made

    def _placed(
        self, specs: Mapping[str, TensorSpec], folder: Folder | None
    ) -> tuple[FiledTensors | None, dict[str, Tensor]]:
        """Zeros, and the file in which they lie where there is a folder."""
        if folder is None or not specs or not self.device.is_host:
            return None, {name: self._zeros(spec) for name, spec in specs.items()}
        filed = FiledTensors(specs, folder)
        return filed, dict(filed.tensors)

    def scalars(self, optimizer: Optimizer) -> dict[str, Tensor]:
        """The numbers that steer the optimizer, by name."""
        return self._group("scalars", lambda: {name: self._zeros(self._steering) for name in optimizer.scalars(1)})

    def gradients(self, optimizer: Optimizer) -> dict[str, Tensor]:
        """Sums of the gradients that no update followed yet, by path."""
        paths, spec_of = optimizers_of(optimizer, self.own_specs), self.sharding.gradient_spec
        return self._group("gradients", lambda: {path: self._zeros(spec_of(self.specs[path])) for path in paths})

    def errors(self, optimizer: Optimizer) -> dict[str, Tensor]:
        """What sums of gradients in few bits lost, by name: it comes into the next ones."""
        rows = [self.specs[path] for path in optimizers_of(optimizer, self.own_specs)]
        specs = self.sharding.error_specs(rows)
        return self._group("errors", lambda: {name: self._zeros(spec) for name, spec in specs.items()})

    def state_specs(self, optimizer: Optimizer) -> dict[str, TensorSpec]:
        """The optimizer's state for each parameter."""
        return {
            f"{path}.{name}": spec
            for path, part in optimizers_of(optimizer, self.own_specs).items()
            for name, spec in part.state_specs(self.sharding.state_spec(self.specs[path])).items()
        }

    def assign(self, tensors: Mapping[str, Tensor]) -> frozenset[str]:
        """Have these in the place of ours; the paths of those that can be: whole ones of the host, of the same spec."""
        rows = self.own_specs.items() if self.device.is_host else ()
        fit = {
            path: tensor
            for path, row in rows
            if (tensor := tensors.get(path)) is not None
            and tensor.spec == row.spec
            and tensor.is_contiguous
            and self.sharding.has_whole(row)
        }
        for group, trainable in (("parameters", True), ("statistics", False)):
            paths = [path for path, row in self.own_specs.items() if row.trainable is trainable]
            if fit.keys() & paths:
                ours = self._groups.get(group, {})
                rest = {
                    path: ours[path] if path in ours else self._first(self.specs[path])
                    for path in paths
                    if path not in fit
                }
                self._groups[group] = {path: fit[path] if path in fit else rest[path] for path in paths}
        return frozenset(fit)

    @property
    def mapped_bytes(self) -> int:
        """Bytes of parameters and statistics that are those of a file, which all processes share that map it."""
        groups = (self._groups.get(name, {}) for name in ("parameters", "statistics"))
        tensors = (tensor for group in groups for tensor in group.values())
        return sum(tensor.spec.nbytes for tensor in tensors if tensor.storage.file is not None)

    def homes(self, kind: StepKind, optimizer: Optimizer) -> dict[str, Tensor]:
        """The tensors that a step of this kind reads and renews, by name."""
        homes = self.parameters | self.statistics
        if kind.differentiates:
            homes[DRAWS], homes[SCALE], homes[PART] = self.draws, self.loss_scale, self.part
        if kind.updates:
            homes |= self.states(optimizer) | self.scalars(optimizer) | self.errors(optimizer)
        if kind.sums_gradients:
            homes |= {f"{GRADIENT}{path}": tensor for path, tensor in self.gradients(optimizer).items()}
            homes[SHARE] = self.share_of_each
        return homes

    def steer(self, draws: int, scale: float, optimizer: Optimizer, values: Mapping[str, float]) -> None:
        """Write the numbers that a training pass reads: how many there were, the loss's scale, the optimizer's own."""
        if self._filed is not None:
            self._filed.announce()
        arrays, is_host = self._arrays, self.device.is_host
        if not arrays:
            made = {
                name: tensor.numpy() if is_host else np.empty((), tensor.dtype.numpy)
                for name, tensor in self._steered(optimizer).items()
            }
            arrays = self._arrays = made
        arrays[DRAWS][...] = draws
        arrays[SCALE][...] = scale
        for name, value in values.items():
            arrays[name][...] = value
        if not is_host:
            for name, tensor in self._steered(optimizer).items():
                tensor.copy_from(arrays[name])

    def _steered(self, optimizer: Optimizer) -> dict[str, Tensor]:
        """The tensors of the numbers that steer a pass."""
        return {DRAWS: self.draws, SCALE: self.loss_scale, **self.scalars(optimizer)}

    def forget(self, group: str) -> None:
        """Make this group anew when it is next asked for."""
        self._groups.pop(group, None)
        self._arrays = {}

    def _group(self, name: str, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        if name not in self._groups:
            with self._making:
                if name not in self._groups:
                    self._groups[name] = make()
        return self._groups[name]

    def _first_values(self, *, trainable: bool) -> dict[str, Tensor]:
        rows = {path: row for path, row in self.own_specs.items() if row.trainable is trainable}
        return {path: self._first(row) for path, row in rows.items()}

    @property
    def has_all(self) -> bool:
        """Whether this process has all of every parameter."""
        return all(map(self.sharding.has_whole, self.specs.values()))

    @property
    def own_specs(self) -> dict[str, ParameterSpec]:
        """The parameters that this process keeps: those of its stage, in a pipeline."""
        return {path: row for path, row in self.specs.items() if self.sharding.keeps(row)}

    def _first(self, parameter: ParameterSpec) -> Tensor:
        if isinstance(parameter.initializer, PlacedInitializer):
            placed = parameter.initializer.placed(parameter.spec)
            if placed is not None:
                return placed.to(self.device)
        # The memory first: there is a typed error when the machine has not that much.
        tensor = Tensor.empty(parameter.spec.on(CPU), "parameter")
        parameter.initializer(generator_for(self._seed, parameter.path), tensor.numpy())
        if self.sharding.splits(parameter) or self.sharding.is_block(parameter):
            tensor = Tensor.from_numpy(self.kept_of(parameter.path, tensor.numpy()))
        return tensor.to(self.device)

    def kept_of(self, path: str, whole: NDArray[np.generic]) -> NDArray[np.generic]:
        """What this rank keeps of a parameter's values."""
        group, row = self.sharding.group, self.specs[path]
        if row.place is not None and self.sharding.is_block(row):
            whole = row.place.cut(whole, joined(row.place.group).rank)
        if group is None or not self.sharding.splits(row):
            return whole
        return piece_of(whole, joined(group).rank, group.size)

    def whole(self, path: str, tensor: Tensor | None) -> Tensor:
        """A parameter, gathered from all ranks where each has a part; None where another stage has it."""
        row = self.specs[path]
        kept = None if tensor is None else self._gathered(path, tensor)
        if self.sharding.pipe is None:
            assert kept is not None
            return kept
        values = np.zeros(row.spec.shape, row.spec.dtype.numpy) if kept is None else kept.copied()
        return Tensor.from_numpy(joined(self.sharding.pipe).broadcast(values, row.stage))

    def _gathered(self, path: str, tensor: Tensor) -> Tensor:
        group, row = self.sharding.group, self.specs[path]
        spec = self.sharding.own(row)
        if group is not None and self.sharding.splits(row):
            values = np.empty(spec.elements, tensor.dtype.numpy)
            joined(group).gather_pieces(tensor.copied(), values)
            tensor = Tensor.from_numpy(values.reshape(spec.shape))
        if row.place is None or not self.sharding.is_block(row):
            return tensor
        size = row.spec.shape[row.place.axis]
        return Tensor.from_numpy(joined_blocks(tensor.copied(), row.place, size))
