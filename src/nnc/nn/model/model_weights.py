"""The tensors of a model by path: read, set, copied and shared, and never while a step writes them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import checked, explained_as
from nnc.core.precautions.shield import Shield
from nnc.core.running.device_context import present
from nnc.core.values.device import AnyDevice, Device, device_of
from nnc.core.values.dtype import I64
from nnc.core.values.serialize import save_tensors
from nnc.core.values.spec import Shape, TensorSpec
from nnc.core.values.tensor import Tensor, as_array
from nnc.errors import FormatError, UsageError
from nnc.nn.layers.layer import Layer, ParameterSpec, Randomness, Scope
from nnc.nn.model.load_report import LoadReport, renamed
from nnc.nn.model.model_option import ModelOption, RanksOption, StateFolderOption
from nnc.nn.model.rank_places import placed
from nnc.nn.model.tied_weights import with_ties, without_ties
from nnc.nn.optimization.interruption import UpdateMark
from nnc.nn.optimization.joint_losses import JointLoss
from nnc.nn.optimization.loss_scale import Scaling
from nnc.nn.optimization.losses import Loss
from nnc.nn.state.own_scope import LayerPaths
from nnc.nn.state.tensor_files import stored_tensors
from nnc.nn.steps.keys import CacheType, StepKind
from nnc.nn.steps.model_options import ModelOptions, OffloadFolder
from nnc.nn.steps.model_tensors import ModelTensors
from nnc.nn.steps.open_sizes import OpenSizes
from nnc.nn.steps.programs import Met, ModelPrograms
from nnc.nn.steps.sharding import ZeroStage
from nnc.nn.steps.step_builder import StepBuilder
from nnc.ops.operand import T
from nnc.parallel import Mesh, Pipeline, joined
from nnc.parallel.compression import Compression
from nnc.symbolic import Arena, Symbol, SymbolicGraph

R = TypeVar("R")


@explained_as("Model")
class ModelWeights:
    """What a model has whatever is done with it: options, tensors, and how many updates and draws there were."""

    layer = ModelOption[Layer]()
    inputs = ModelOption[tuple[TensorSpec, ...]]()
    open = ModelOption[tuple[bool, ...]]()
    losses = ModelOption[tuple[Loss, ...]]()
    joint = ModelOption[JointLoss | None]()
    seed = ModelOption[int]()
    backend = ModelOption[str]()
    mesh = RanksOption[Mesh | None]()
    zero_stage = RanksOption[ZeroStage]()
    pipeline = RanksOption[Pipeline]()
    compress = RanksOption[Compression | None]()
    cache_type = ModelOption[CacheType]()
    device = ModelOption[Device]()
    offload_folder = ModelOption[OffloadFolder | None]()
    state_folder = StateFolderOption()

    def __init__(self, options: ModelOptions) -> None:
        self.options = replace(options, layer=with_ties(options.layer))
        self.scaling = _first_scaling(options)
        self._own = ModelTensors(options.seed, options.dtype, options.device, options.sharding)
        self.outputs = self._explore()
        self._own.specs = placed(options, self.specs)
        self._met: Met = {}
        self.updates = self.since = self.draws = self._summed = 0
        self._agreed = set[StepKind]()
        self._mark = UpdateMark()

    def _start(self) -> None:
        """What a copy has of its own beside its tensors: programs, and the sizes that they are made for."""
        self._sizes = OpenSizes(self._explore, self._builder)
        self._programs = ModelPrograms(self._builder, self._homes, self._sizes, self._met)

    def _builder(self) -> StepBuilder:
        return StepBuilder(self.options, self.specs)

    def _homes(self, kind: StepKind) -> dict[str, Tensor]:
        return self._own.homes(kind, self.options.optimizer)

    @property
    def input_shape(self) -> Shape:
        """The shape of the first input, without the batch."""
        return self.inputs[0].shape

    @property
    def output_shape(self) -> Shape:
        """The shape of the first output, without the batch."""
        return self.outputs[0].shape

    @property
    def loss(self) -> Loss:
        """The loss of the first output; where one loss is of all, `joint` is it."""
        if self.joint is not None:
            raise UsageError("loss", got="one loss of all outputs", need="a loss of each", fix="model.joint")
        return self.losses[0]

    @property
    def arena(self) -> Arena | None:
        """The memory that steps share with other models (`nnc.arena`); None where it is the model's own."""
        return self.options.arena

    # ---- copies

    def share(self, layer: Layer | None = None) -> Self:
        """A model over the same parameters and statistics, with programs and an optimizer's state of its own.

        What training changes in one is changed in the other; a copy (`copy`, `deepcopy`, `pickle`) has its own tensors.
        With a `layer` it computes that, whose parameters are among those of this model.
        """
        shared = type(self).__new__(type(self))
        anew = {"_own": self._own.share(), "updates": 0, "since": 0, "_summed": 0}
        shared.__setstate__({**self._parts(), **anew})
        if layer is not None:
            shared.layer, before = layer, set(self.specs)
            shared.outputs = shared._explore()
            if further := sorted(set(shared.specs) - before):
                raise UsageError("share", got=f"a layer with a parameter {further[0]}", need="one that the model has")
        shared.scaling = _first_scaling(self.options)
        return shared

    def exclusively(self, work: Callable[[], R]) -> R:
        """What `work` gives, such as by reading all weights; no other thread runs a step of this model meanwhile."""
        return self._programs.arena.runs.exclusively(work)

    def accept_interrupted_update(self) -> None:
        """Go on with the tensors as they are behind an update that broke off (InterruptedUpdateError)."""
        self._mark.underway = 0

    @checked
    def to(self, device: AnyDevice) -> Self:
        """This model with its tensors on a device, states of the optimizer too; programs are made anew.

        DeviceError, with the devices that are there, for one that is not; then nothing has moved.
        """
        target = present(device_of(device))

        def move() -> None:
            own = self._own.moved(target)
            self.options = replace(self.options, device=target)
            self._own = own
            self._start()

        if target != self.options.device:
            with self._programs.making:
                self.between_updates("to", move)
        return self

    def keep_states_in(self, folder: OffloadFolder | None) -> None:
        """Have the optimizer's state in a file of the folder, or in memory, with its values; programs are made anew."""

        def move() -> None:
            self._own.keep_states_in(folder)
            self._start()

        with self._programs.making:
            self.between_updates("state_folder", move)

    def between_updates(self, subject: str, work: Callable[[], R]) -> R:
        """`exclusively`; InterruptedUpdateError where the last update broke off while it wrote the tensors."""

        def turn() -> R:
            self._mark.check(subject)
            return work()

        return self.exclusively(turn)

    def __getstate__(self) -> dict[str, object]:
        """Options, and tensors as they are between two steps. Programs are bound to memory and made anew."""
        return self.between_updates("copy", lambda: {**self._parts(), "_own": self._own.copy()})

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._start()

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        copied, state = type(self).__new__(type(self)), self.__getstate__()
        own = state.pop("_own")
        copied.__setstate__({**copy.deepcopy(state, memo), "_own": own})
        return copied

    def _parts(self) -> dict[str, object]:
        parts = {name: value for name, value in vars(self).items() if name not in _MADE_ANEW}
        return parts | {"_met": dict(self._met)}

    # ---- parameters

    def _explore(self, length: int = 0) -> tuple[TensorSpec, ...]:
        """Build once on a batch of one: what tensors there are, and what comes out, without the batch."""

        paths = LayerPaths(self.layer)

        def enter(scope: Scope[Symbol], layer: object) -> Scope[Symbol]:
            paths.enter(scope.path, layer)
            return scope

        def resolve(parameter: ParameterSpec) -> Symbol:
            # What a layer has of its own by earlier calls is where the model begins.
            known = self.specs.setdefault(parameter.path, paths.start(parameter))
            if known.request != parameter.request:
                got = (
                    f"{parameter.path} {known.request or 'without a request'} and {parameter.request or 'without one'}"
                )
                raise UsageError("parallel layers", got=got, need="one for each weight, wherever it is read")
            return graph.input(parameter.spec, parameter.path)

        graph = SymbolicGraph("probe")
        scope: Scope[Symbol] = Scope(resolve, entered=enter)
        outputs = self.layer.build_many(scope, self._input_symbols(graph, length))
        if any(layer.branches_in_training for layer in paths.layers.values()):
            randomness = Randomness(lambda: graph.input(TensorSpec((), I64)), self.seed)
            inputs = self._input_symbols(graph, length)
            self.layer.build_many(replace(scope, training=True, randomness=randomness), inputs)
        return tuple(replace(output.spec, shape=output.shape[1:]) for output in outputs)

    def _input_symbols(self, graph: SymbolicGraph, length: int = 0) -> tuple[Symbol, ...]:
        """Inputs for one example."""
        shapes = self.options.shapes_at(length)
        specs = (replace(spec, shape=(1, *shape)) for spec, shape in zip(self.inputs, shapes, strict=True))
        return tuple(graph.input(spec, "input") for spec in specs)

    @property
    def specs(self) -> dict[str, ParameterSpec]:
        """What tensors there are, by path, without their values."""
        return self._own.specs

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The tensors that are trained, by path."""
        return self._own.parameters

    @property
    def statistics(self) -> dict[str, Tensor]:
        """The tensors that layers renew in training, by path."""
        return self._own.statistics

    @property
    def states(self) -> dict[str, Tensor]:
        """The optimizer's tensors, by path and name."""
        return self._own.states(self.options.optimizer)

    @property
    def scalars(self) -> dict[str, Tensor]:
        """The numbers that steer the optimizer, by name."""
        return self._own.scalars(self.options.optimizer)

    @property
    def gradients(self) -> dict[str, Tensor]:
        """Sums over examples of the gradients that no update followed yet, by path (`backward`)."""
        return self._own.gradients(self.options.optimizer)

    def tensors(self) -> dict[str, Tensor]:
        """Parameters and statistics by path: all that makes up the model."""
        return self.parameters | self.statistics

    def whole_tensors(self) -> dict[str, Tensor]:
        """`tensors`, whole: ranks that keep shards of weights (`zero_stage=3`) call it together."""
        tensors = self.tensors()
        paths = tensors if self.options.pipe_ranks is None else self.specs
        return {path: self._own.whole(path, tensors.get(path)) for path in paths}

    def check_whole(self, subject: str) -> None:
        """UsageError where this process has shards of the weights only."""
        sharding = self.options.sharding
        if not self._own.has_all:
            fix = "a model without a mesh, with load_state_dict(model.state_dict())"
            split = "weights on several stages (pipe)" if sharding.pipe else "weights split among ranks (tensor)"
            got = "weights in shards (zero_stage=3)" if sharding.stage == 3 else split
            raise UsageError(subject, got=got, need="whole weights", fix=fix)

    def write_whole(self, path: Path | str, metadata: Mapping[str, str]) -> None:
        """A file of `whole_tensors`, which the first of the ranks that gathered them writes."""
        tensors, ranks = self.whole_tensors(), self.options.all_ranks
        if ranks is None or self._own.has_all or joined(ranks).rank == 0:
            save_tensors(path, tensors, metadata)

    def parameter_count(self) -> int:
        """Elements of all parameters."""
        return sum(row.spec.elements for row in self.specs.values() if row.trainable)

    def apply(
        self, x: T, tensors: Mapping[str, T], *, renewed: dict[str, T] | None = None, draws: T | None = None
    ) -> T:
        """The layer on any operand (a symbol or an eager variable), with its tensors of the same kind by path.

        With `renewed` it is applied as in training, and statistics that change are put there; random layers draw by
        `draws`, an i64 scalar, where it is given.
        """
        scope: Scope[T] = Scope(lambda parameter: _named(tensors, parameter.path))
        if renewed is not None:
            randomness = None if draws is None else Randomness(lambda: draws, self.seed)
            scope = replace(scope, training=True, renew=renewed.__setitem__, randomness=randomness)
        return self.layer.build(scope, x)

    def state_dict(self) -> dict[str, NDArray[np.generic]]:
        """Copies of all parameters and statistics by path, whole: ranks with `zero_stage=3` call it together."""

        def copies() -> dict[str, NDArray[np.generic]]:
            return {path: tensor.copied() for path, tensor in self.whole_tensors().items()}

        return self.between_updates("state_dict", copies)

    def load_state_dict(
        self,
        values: Mapping[str, ArrayLike | Tensor],
        *,
        strict: bool = True,
        rename: Mapping[str, str] | None = None,
        assign: bool = False,
    ) -> LoadReport:
        """Set parameters and statistics; FormatError lists what is missing or unfit, and then nothing is set.

        Unless `strict`, what fits is set and the rest reported. `rename` maps regular expressions to their replacements
        in the names of `values`, one after the other: `{r"^encoder\\.": "body."}`. With `assign` tensors of the same
        shape and type become the model's own, as in PyTorch: nothing is copied, and programs are made anew.
        """
        named = without_ties(self.layer, renamed(values, rename or {}))
        arrays = {path: as_array(v.numpy() if isinstance(v, Tensor) else v) for path, v in named.items()}
        report = LoadReport.of({path: row.spec for path, row in self.specs.items()}, arrays)
        if strict and not report.complete:
            raise FormatError("state", got=str(report), need=f"the {len(self.specs)} tensors of this model")

        def load() -> None:
            with Shield():
                whole = {path: v for path in report.loaded if assign and isinstance(v := named[path], Tensor)}
                taken = self._own.assign(whole)
                tensors = self.tensors()
                for path in tensors.keys() & set(report.loaded) - taken:
                    tensors[path].copy_from(self._own.kept_of(path, arrays[path]))
                if taken:
                    self._start()
                if report.complete:
                    self.accept_interrupted_update()

        with self._programs.making:
            self.exclusively(load)
        return report

    def save_weights(self, path: Path | str) -> None:
        """Write parameters and statistics by path into a safetensors file, as `nnc.save(path, model)` does.

        Ranks with `zero_stage=3` call it together, and the first one writes.
        """

        self.between_updates("save_weights", lambda: self.write_whole(path, {}))

    def load_weights(self, path: Path | str, *, strict: bool = True) -> LoadReport:
        """Set parameters and statistics to those of a file, as `load_state_dict` does."""
        return self.load_state_dict(stored_tensors(path), strict=strict)

    @overload
    def zip_map(
        self,
        function: Callable[[NDArray[Any], NDArray[Any]], ArrayLike],
        other: ModelWeights,
        /,
        *,
        pattern: str = "*",
        parameters_only: bool = False,
    ) -> None: ...
    @overload
    def zip_map(
        self,
        function: Callable[..., ArrayLike],
        *others: ModelWeights,
        pattern: str = "*",
        parameters_only: bool = False,
    ) -> None: ...
    def zip_map(
        self,
        function: Callable[..., ArrayLike],
        *others: ModelWeights,
        pattern: str = "*",
        parameters_only: bool = False,
    ) -> None:
        """w = function(w, those of the other models) for all tensors whose paths fit the pattern (as file names do).

        A mean of weights over time: `mean.zip_map(lambda m, w: 0.999 * m + 0.001 * w, model)`.
        """
        self.check_whole("zip_map")
        states = [other.state_dict() for other in others]

        def values(path: str, tensor: Tensor) -> NDArray[np.generic]:
            return as_array(function(tensor.copied(), *(state[path] for state in states)))

        def renew() -> None:
            tensors = self.parameters if parameters_only else self.tensors()
            own = {path: tensor for path, tensor in tensors.items() if fnmatchcase(path, pattern)}
            missing = {path for state in states for path in own.keys() - state.keys()}
            if missing:
                got = f"no {sorted(missing)[0]} in another model"
                raise FormatError("zip_map", got=got, need="models of the same tensors")
            renewed = {path: values(path, tensor) for path, tensor in own.items()}
            report = LoadReport.of(own, renewed)
            if not report.complete:
                raise FormatError("zip_map", got=str(report), need="values of the same shapes and kinds")
            with Shield():
                for path, array in renewed.items():
                    own[path].copy_from(array)

        self.exclusively(renew)


# What a copy of a model does not take along.
_MADE_ANEW = frozenset({"_programs", "_sizes"})


def _first_scaling(options: ModelOptions) -> Scaling:
    return Scaling(1.0) if options.loss_scale is None else options.loss_scale.start()


def _named(tensors: Mapping[str, T], path: str) -> T:
    """The tensor at `path`; FormatError when it is missing."""
    if path in tensors:
        return tensors[path]
    raise FormatError("apply", got=f"no tensor for {path}", need="one for each path of the model's tensors()")
