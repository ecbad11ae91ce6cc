"""Models: a layer with parameters, compiled steps for training and evaluation, and what they cost in memory."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import Count, Positive, Size, checked, explained, shown
from nnc.classes import dataclass
from nnc.concrete import TuneOptions, checked_tuning
from nnc.core.precautions.shield import Shield
from nnc.core.values.command import AnyCommand
from nnc.core.values.dtype import F32, DType
from nnc.core.values.spec import Shape, TensorSpec
from nnc.core.values.tensor import Tensor, as_array
from nnc.errors import (
    ArityError,
    DataError,
    FormatError,
    NotFiniteError,
    UsageError,
)
from nnc.nn.inference.frozen_generation import FrozenGeneration, freeze_generation
from nnc.nn.inference.quantization_report import (
    LayerQuantization,
    QuantizationReport,
    measure_quantization,
    relative_error,
)
from nnc.nn.layers.functional import Functional
from nnc.nn.layers.initializers import generator_for
from nnc.nn.layers.layer import Input, Layer, ParameterSpec, Randomness, Scope, UpTo
from nnc.nn.model.load_report import LoadReport
from nnc.nn.model.summary import LayerSummary, summarize
from nnc.nn.optimization.interruption import PassState, UpdateMark
from nnc.nn.optimization.loss_scale import LossScale, Scaling
from nnc.nn.optimization.losses import Loss, SoftmaxCrossEntropy
from nnc.nn.optimization.metrics import Metric, Tally, metrics_of
from nnc.nn.optimization.optimizers import Adam, Optimizer
from nnc.nn.steps.html import table_of
from nnc.nn.steps.model_memory import ModelMemory
from nnc.nn.steps.model_tensors import ModelTensors
from nnc.nn.steps.open_sizes import Arrays, OpenSizes, largest, one_or_all
from nnc.nn.steps.programs import Met, ModelPrograms
from nnc.nn.steps.steps import GENERATE, WITH_OUTPUTS, ModelStep, StepBuilder, Values, optimizers_of, shapes_at
from nnc.nn.training.sources import Data, Validation, source_of, validation_of
from nnc.nn.training.training import Callback, History, Listener, Run, callbacks_of
from nnc.nn.training.training_page import TrainingPage
from nnc.ops.operand import T
from nnc.symbolic import Symbol, SymbolicGraph, compile
from nnc.symbolic.passes import DEFAULT, Pass, QuantizationMode

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Mean loss and mean score (accuracy, for classes) over `count` examples."""

    loss: float
    score: float
    count: int
    metrics: Mapping[str, float] = field(default_factory=dict)


# What a pass without an update is called.
BACKWARD = "backward"
KINDS = ("train", "evaluate", "predict", "freeze", BACKWARD, "apply", GENERATE)


@explained
@checked
class Model:
    """`layer` applied to batches of `input_shape`, trained by `optimizer` on `loss`.

    A model of several inputs has an `Input` for each of them in the place of a shape, and takes tuples of arrays; one
    of several outputs has a loss for each, whose sum is minimized. A `Functional` layer says its inputs itself.

    Parameters start from `seed`; the same seed gives the same bits. They are made when they are first needed: a model
    that is only asked for its shapes, summary or memory has none. Steps are compiled once per batch size.

    With `precision` (bf16, or f16, for which the loss is scaled) products and what lies between them run in 16 bits;
    parameters, their updates, sums, statistics and the loss stay in `dtype` (`nnc.symbolic.passes.precision`).
    `clip_norm` is the largest 2-norm of all gradients together that an update follows, `clip_value` the largest
    element. The optimizer may be set anew at any time: state is kept where the commands stay the same.

    `passes` run on the graph of each step before it is planned (`nnc.symbolic.passes`).

    With a `memory_limit`, in bytes, the arena of each step takes no more; `memory` tells what a step computes again
    for that, and results are the same bit by bit. A step that cannot meet it so runs in the `allowed_precision` (bf16
    or f16), where one is given; MemoryLimitError where that does not suffice either.

    With `nan_guard` an update whose loss or gradients are not finite changes nothing and is a NotFiniteError; the arena
    holds a second buffer for parameters and states then.

    With a `loss_scale` gradients are those of the scaled loss, divided by the scale, which changes as it goes
    (`LossScale`): what overflows is left out, weights, statistics and the count of updates stay. NotFiniteError where
    no smaller scale is left.

    With `autotune` the kernels of a step are measured before its first run and the fastest kept; with `deterministic`
    they are fixed (`nnc.symbolic.compile`).
    """

    def __init__(
        self,
        layer: Layer,
        input_shape: Iterable[int | UpTo | Input] | None = None,
        *,
        loss: Loss | Sequence[Loss] | None = None,
        optimizer: Optimizer | None = None,
        seed: int = 0,
        dtype: DType = F32,
        input_dtype: DType | None = None,
        backend: str = "",
        precision: DType | None = None,
        clip_norm: Positive | None = None,
        clip_value: Positive | None = None,
        nan_guard: bool = False,
        loss_scale: LossScale | None = None,
        memory_limit: Size | None = None,
        allowed_precision: DType | None = None,
        passes: Iterable[Pass] = DEFAULT,
        autotune: TuneOptions | bool = False,
        deterministic: bool = False,
    ) -> None:
        checked_tuning("Model", autotune, deterministic)
        self.layer = layer
        self.dtype = dtype
        self.input_dtype = dtype if input_dtype is None else input_dtype
        if input_shape is None:
            if not isinstance(layer, Functional):
                raise ArityError("Model", got="no input_shape", need="the shape of an example")
            input_shape = layer.inputs
        self.inputs = self._input_specs(tuple(input_shape))
        self.input_shape = self.inputs[0].shape
        self._optimizer = Adam() if optimizer is None else optimizer
        self.seed = seed
        self.backend = backend
        self.precision = precision
        self.clip_norm = clip_norm
        self.clip_value = clip_value
        self.nan_guard = nan_guard
        self.loss_scale = loss_scale
        self.scaling = Scaling(1.0) if loss_scale is None else loss_scale.start()
        self.memory_limit = memory_limit
        self.allowed_precision = allowed_precision
        self.passes = tuple(passes)
        self.autotune = autotune
        self.deterministic = deterministic
        self._own = ModelTensors(seed, dtype)
        self.outputs = self._explore()
        self.output_shape = self.outputs[0].shape
        losses = (loss,) if isinstance(loss, Loss) else tuple(loss or [SoftmaxCrossEntropy() for _ in self.outputs])
        if len(losses) != len(self.outputs):
            got = f"{len(losses)} losses for {len(self.outputs)} outputs"
            raise ArityError("Model", got=got, need="a loss for each output")
        self.losses = losses
        self.loss = losses[0]
        self._met: Met = {}
        self.updates = self.since = self.draws = self._summed = 0
        self._mark = UpdateMark()
        self._start()

    def _start(self) -> None:
        """What a copy has of its own beside its tensors: programs, and the sizes that they are made for."""
        self._sizes = OpenSizes(self.inputs, self.open, self.losses, self._explore, self._builder)
        self._programs = ModelPrograms(
            self._builder, self._homes, self._sizes, self.precision, self.allowed_precision, self._met
        )

    def _input_specs(self, sizes: tuple[int | UpTo | Input, ...]) -> tuple[TensorSpec, ...]:
        """Of one input by its shape, or of each `Input`, without the batch; open axes are as large as they get."""
        inputs = [one for one in sizes if isinstance(one, Input)]
        shapes = [one.shape for one in inputs] or [cast("tuple[int | UpTo, ...]", sizes)]
        self.open = tuple(bool(shape) and isinstance(shape[0], UpTo) for shape in shapes)
        if not inputs:
            return (TensorSpec(largest(shapes[0], "input_shape"), self.input_dtype),)
        if len(inputs) < len(sizes):
            raise UsageError("Model", got=f"input_shape={shown(sizes)}", need="a shape, or an Input for each input")
        return tuple(TensorSpec(largest(one.shape, "Input"), one.dtype or self.dtype) for one in inputs)

    @property
    def optimizer(self) -> Optimizer:
        """How parameters follow their gradients; it may be set to another one between two updates.

        State and the count of steps go on where each parameter's command is of the same kind, as where the rate is
        another one; otherwise they begin anew, and a schedule at its first step.
        """
        return self._optimizer

    @optimizer.setter
    @checked
    def optimizer(self, optimizer: Optimizer) -> None:
        def change() -> None:
            before = _kinds(self._optimizer, self.specs), tuple(self._optimizer.scalars(1))
            commands = _commands(self._optimizer, self.specs)
            self._optimizer = optimizer
            if commands != _commands(optimizer, self.specs) or before[1] != tuple(optimizer.scalars(1)):
                self._start()
                self._own.forget("scalars")
            if before[0] != _kinds(optimizer, self.specs):
                self._own.forget("states")
                self.since = self.updates
            if before[0].keys() != _kinds(optimizer, self.specs).keys():
                # Sums of gradients are kept for the parameters that are trained.
                self._own.forget("gradients")
                self._summed = 0

        with self._programs.making:
            self.exclusively(change)

    # ---- copies

    def share(self) -> Model:
        """A model over the same parameters and statistics, with programs and an optimizer's state of its own.

        What training changes in one is changed in the other; a copy (`copy`, `deepcopy`, `pickle`) has its own tensors.
        """
        shared = Model.__new__(Model)
        shared.__setstate__({**self._options(), "_own": self._own.share(), "updates": 0, "since": 0, "_summed": 0})
        shared.scaling = Scaling(1.0) if shared.loss_scale is None else shared.loss_scale.start()
        return shared

    def exclusively(self, work: Callable[[], R]) -> R:
        """What `work` gives, such as by reading all weights; no other thread runs a step of this model meanwhile."""
        return self._programs.arena.runs.exclusively(work)

    def accept_interrupted_update(self) -> None:
        """Go on with the tensors as they are behind an update that broke off (InterruptedUpdateError)."""
        self._mark.underway = 0

    def between_updates(self, subject: str, work: Callable[[], R]) -> R:
        """`exclusively`; InterruptedUpdateError where the last update broke off while it wrote the tensors."""

        def turn() -> R:
            self._mark.check(subject)
            return work()

        return self.exclusively(turn)

    def __getstate__(self) -> dict[str, object]:
        """Options, and tensors as they are between two steps. Programs are bound to memory and made anew."""
        return self.between_updates("copy", lambda: {**self._options(), "_own": self._own.copy()})

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._start()

    def __copy__(self) -> Model:
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, object]) -> Model:
        copied, state = Model.__new__(Model), self.__getstate__()
        own = state.pop("_own")
        copied.__setstate__({**copy.deepcopy(state, memo), "_own": own})
        return copied

    def _options(self) -> dict[str, object]:
        options = {name: value for name, value in vars(self).items() if name not in _MADE_ANEW}
        return options | {"_met": dict(self._met)}

    # ---- parameters

    def _explore(self, length: int = 0) -> tuple[TensorSpec, ...]:
        """Build once on a batch of one: what tensors there are, and what comes out, without the batch."""

        def resolve(parameter: ParameterSpec) -> Symbol:
            self.specs.setdefault(parameter.path, parameter)
            return graph.input(parameter.spec, parameter.path)

        graph = SymbolicGraph("probe")
        outputs = self.layer.build_many(Scope(resolve), self._input_symbols(graph, length))
        return tuple(replace(output.spec, shape=output.shape[1:]) for output in outputs)

    def _input_symbols(self, graph: SymbolicGraph, length: int = 0) -> tuple[Symbol, ...]:
        """Inputs for one example."""
        shapes = shapes_at(self.inputs, self.open, length)
        specs = (replace(spec, shape=(1, *shape)) for spec, shape in zip(self.inputs, shapes, strict=True))
        return tuple(graph.input(spec, "input") for spec in specs)

    # ---- open sizes

    def padding(self, kind: str = "train") -> str:
        """Why steps of this kind are compiled for each size there is, if they are; an empty text where they are not.

        Else the first two sizes are compiled as they are, and any other runs in the program of the next power of two
        (from 16), where what fills it up changes neither results, losses, scores nor statistics.
        """
        reasons = [self._sizes.obstacle(kind, axis) for axis in range(1 + any(self.open))]
        return "; ".join(reason for reason in reasons if reason)

    def cache_obstacle(self) -> str:
        """Why generation reads all tokens at each step; an empty text where it keeps what earlier ones left."""
        return self._sizes.cache_obstacle()

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Examples and steps of the training steps that are compiled as they are; a checkpoint keeps them."""
        return self._met.get("train", ())

    @sizes.setter
    def sizes(self, sizes: tuple[tuple[int, int], ...]) -> None:
        self._met["train"] = sizes

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
        return self._own.states(self.optimizer)

    @property
    def scalars(self) -> dict[str, Tensor]:
        """The numbers that steer the optimizer, by name."""
        return self._own.scalars(self.optimizer)

    @property
    def gradients(self) -> dict[str, Tensor]:
        """Sums over examples of the gradients that no update followed yet, by path (`backward`)."""
        return self._own.gradients(self.optimizer)

    def _homes(self, kind: str) -> dict[str, Tensor]:
        return self._own.homes(kind, self._optimizer)

    def tensors(self) -> dict[str, Tensor]:
        """Parameters and statistics by path: all that makes up the model."""
        return self.parameters | self.statistics

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
        """Copies of all parameters and statistics by path."""

        def copies() -> dict[str, NDArray[np.generic]]:
            return {path: np.array(tensor.numpy()) for path, tensor in self.tensors().items()}

        return self.between_updates("state_dict", copies)

    def load_state_dict(
        self, values: Mapping[str, ArrayLike], *, strict: bool = True, rename: Mapping[str, str] | None = None
    ) -> LoadReport:
        """Set parameters and statistics; FormatError lists what is missing or unfit, and then nothing is set.

        Unless `strict`, what fits is set and the rest reported. `rename` maps regular expressions to their replacements
        in the names of `values`, one after the other: `{r"^encoder\\.": "body."}`.
        """
        renamed = {_renamed(path, rename or {}): as_array(value) for path, value in values.items()}
        if len(renamed) < len(values):
            raise FormatError("state", got="two tensors of one name", need="a name for each", fix="look at `rename`")
        tensors = self.tensors()
        report = LoadReport.of(tensors, renamed)
        if strict and not report.complete:
            raise FormatError("state", got=str(report), need=f"the {len(tensors)} tensors of this model")

        def load() -> None:
            with Shield():
                for path in report.loaded:
                    tensors[path].copy_from(renamed[path])
                if report.complete:
                    self.accept_interrupted_update()

        self.exclusively(load)
        return report

    def zip_map(
        self, function: Callable[..., ArrayLike], *others: Model, pattern: str = "*", parameters_only: bool = False
    ) -> None:
        """w = function(w, those of the other models) for all tensors whose paths fit the pattern (as file names do).

        A mean of weights over time: `mean.zip_map(lambda m, w: 0.999 * m + 0.001 * w, model)`.
        """

        states = [other.state_dict() for other in others]

        def values(path: str, tensor: Tensor) -> NDArray[np.generic]:
            return as_array(function(np.array(tensor.numpy()), *(state[path] for state in states)))

        def renew() -> None:
            tensors = self.parameters if parameters_only else self.tensors()
            own = {path: one for path, one in tensors.items() if fnmatchcase(path, pattern)}
            missing = {path for state in states for path in own.keys() - state.keys()}
            if missing:
                got = f"no {sorted(missing)[0]} in another model"
                raise FormatError("zip_map", got=got, need="models of the same tensors")
            found = {path: values(path, one) for path, one in own.items()}
            report = LoadReport.of(own, found)
            if not report.complete:
                raise FormatError("zip_map", got=str(report), need="values of the same shapes and kinds")
            with Shield():
                for path, array in found.items():
                    own[path].copy_from(array)

        self.exclusively(renew)

    def summary(self) -> tuple[LayerSummary, ...]:
        """One row per layer, nested ones in order: name, options, output shape without the batch, parameters."""
        graph = SymbolicGraph("summary")
        return tuple(summarize(self.layer, "", self._input_symbols(graph), graph)[0])

    def __repr__(self) -> str:
        return f"Model({self._title()}, by {type(self.optimizer).__name__})"

    def _repr_html_(self) -> str:
        """The summary, for notebooks."""
        rows = [(row.name, row.layer, list(row.output), f"{row.parameters:,}") for row in self.summary()]
        caption = f"Model: {self._title()}, by {self.optimizer}"
        return table_of(caption, ("name", "layer", "output", "parameters"), rows)

    def _title(self) -> str:
        inputs, outputs = (", ".join(map(str, specs)) for specs in (self.inputs, self.outputs))
        return f"{self.parameter_count():,} parameters, {inputs} to {outputs}"

    # ---- steps

    @explained
    def training_step(self, batch: int, length: int = 0) -> ModelStep:
        """The compiled step of one update for `batch` examples; its results are the loss and the score."""
        return self._programs.step(("train", batch, length))

    @explained
    def evaluation_step(self, batch: int, length: int = 0) -> ModelStep:
        """The compiled forward step with loss and score for `batch` examples."""
        return self._programs.step(("evaluate", batch, length))

    @explained
    def prediction_step(self, batch: int, length: int = 0) -> ModelStep:
        """The compiled forward step for `batch` examples; its result is the output."""
        return self._programs.step(("predict", batch, length))

    @explained
    def generation_step(self, batch: int, length: int, steps: int, caches: dict[str, Tensor]) -> ModelStep:
        """The compiled step that reads `steps` more tokens in each row, over caches with room for `length` by path.

        Sizes are rounded up to powers of two, and caches made that are not there yet. Inputs are tokens and their
        positions, both [batch, steps], and ends[batch], the step of each row behind which scores[batch, vocabulary]
        are asked for.
        """
        return self._programs.over(self._sizes.generation_key(batch, length, steps), self.tensors(), caches)

    @checked
    def freeze(self, batch: int, length: int = 0, *, quantize: QuantizationMode | None = None) -> ModelStep:
        """The prediction step for `batch` examples with weights of its own: those that the model has now.

        What depends on weights alone, such as a batch norm that is folded into them, is computed here, once. Whatever
        happens to the model's tensors later does not reach the step.

        With `quantize` the weights of products and convolutions are 8-bit integers, one scale per output channel:
        "weights" multiplies in f32, "dynamic" also has each activation in 8 bits, by a scale found in each run, and
        sums integers (`nnc.symbolic.passes.quantization`). `quantization_report` says what that does to each layer.
        """
        program = self._programs.plan((f"freeze+{quantize}" if quantize else "freeze", batch, length))
        before, tensors = program.beforehand, self.tensors()
        assert before is not None
        now = {symbol: tensors[path] for path, symbol in program.given.items()}
        own = {symbol: Tensor.empty(symbol.spec, "frozen weight") for symbol in program.frozen}
        given = {inner: now[symbol] for symbol, inner in before.parameters.items()}
        bind = {inner: own[symbol] for symbol, inner in before.results.items() if symbol in own}
        weights = compile(
            before.graph,
            tuple(bind),
            given=given,
            bind=bind,
            backend=self.backend,
            deterministic=self.deterministic,
        )

        def take() -> None:
            for symbol in own.keys() & now.keys():
                own[symbol].copy_from(now[symbol])
            weights.run()

        self.between_updates("freeze", take)
        frozen = program.step.compiled.rebind(own)
        frozen.clear()
        return replace(program.step, compiled=frozen)

    @checked
    def freeze_generation(self, batch: Count = 1, *, quantize: QuantizationMode | None = None) -> FrozenGeneration:
        """What `generate` takes in the place of this model: with weights of its own, those that the model has now.

        All programs of a generation share them, with `quantize` in 8 bits, as `freeze` has them; `batch` is the usual
        number of rows, and any other is served too. UsageError for a model that cannot keep what it read.
        """
        _, rows, capacity = self._sizes.generation_key(batch)

        def take() -> FrozenGeneration:
            sizes = (rows, capacity)
            return freeze_generation(self._builder(), self.tensors(), self.outputs, self.precision, sizes, quantize)

        return self.between_updates("freeze", take)

    @checked
    def quantization_report(self, inputs: Values, quantize: QuantizationMode = "dynamic") -> QuantizationReport:
        """What `freeze(quantize=...)` does to each product, and to the outputs, on these examples."""
        rules, length = self._sizes.rules_for("predict", inputs)
        examples = rules.checked_inputs("quantization_report", inputs)
        if not len(examples[0]):
            raise DataError("quantization_report", got="no examples", need="at least one")
        graph, given, symbols = self._builder().products(len(examples[0]), length)
        tensors, feeds = self.tensors(), dict(zip(symbols, examples, strict=True))

        def measure() -> tuple[LayerQuantization, ...]:
            weights = {symbol: tensors[path] for path, symbol in given.items()}
            return measure_quantization(graph, weights, feeds, quantize, self.backend)

        layers = self.between_updates("quantization_report", measure)
        step = self.freeze(len(examples[0]), length, quantize=quantize)
        error = relative_error(self._predict_all(inputs, 256), step.run(one_or_all(examples)))
        return QuantizationReport(quantize, layers, error)

    @explained
    def memory(self, batch: int, kind: str = "train", length: int = 0) -> ModelMemory:
        """The bytes of a step for `batch` examples, one of `KINDS`; nothing is allocated.

        Open axes are of size `length`, or as large as they get: the most that any length takes. Of generation it is
        the most that any prompt takes, where rows have room for `length` tokens.
        """
        if kind.partition("+")[0] not in KINDS:
            raise UsageError("memory", got=f"kind {kind!r}", need=", ".join(KINDS))
        key = self._sizes.generation_key(batch, length) if kind == GENERATE else (kind, batch, length)
        program = self._programs.plan(key)
        compiled, precision = program.step.compiled, program.precision
        statement, budget = compiled.memory(), compiled.budget
        found = ModelMemory(statement, 0, 0, 0, budget, precision, kept_bytes=self._programs.kept.nbytes)
        weights = sum(row.spec.nbytes for row in self.specs.values())
        if kind.partition("+")[0] == "freeze":
            return replace(found, weights=sum(one.spec.nbytes for one in program.frozen), beside=weights)
        found = replace(found, weights=weights, arena=self._programs.arena.nbytes, programs=len(self._programs.bound()))
        if kind == GENERATE:
            return replace(found, cache=sum(one.spec.nbytes for one in program.caches.values()))
        if kind.partition("+")[0] not in ("train", "backward", "apply"):
            return found
        gradients = sum(row.spec.nbytes for row in self.specs.values() if row.trainable)
        state = sum(spec.nbytes for spec in self._own.state_specs(self.optimizer).values())
        summed = 0 if kind.startswith("train") else gradients
        return replace(found, gradients=gradients, optimizer_state=state, beside=summed)

    def _builder(self) -> StepBuilder:
        return StepBuilder(
            self.layer,
            self.specs,
            self.inputs,
            self.open,
            self.losses,
            self.optimizer,
            self.seed,
            self.dtype,
            self.backend,
            self.clip_norm,
            self.clip_value,
            self.nan_guard,
            self.loss_scale is not None,
            self.memory_limit,
            self.passes,
            self.autotune,
            self.deterministic,
        )

    # ---- use

    def train_on_batch(
        self, inputs: Values, target: Values, *, done: Callable[[], object] = lambda: None
    ) -> tuple[float, float]:
        """One update, with a call of `done`; returns the batch's mean loss and its summed score.

        Ctrl-C waits for the end of the update, so weights, `updates` and what `done` counts change together; a second
        one does not wait. Compiling, before the first update of a batch size, can be interrupted at any time.

        An error, such as one of a custom command, that comes before the update writes its first tensor leaves all as it
        was. One that comes later may leave tensors half renewed: from then on the model is an InterruptedUpdateError,
        until a checkpoint or a whole state is loaded, or `accept_interrupted_update` called.
        """
        return self.training_pass(inputs, target, done=done)[:2]

    def backward(
        self, inputs: Values, target: Values, *, done: Callable[[], object] = lambda: None
    ) -> tuple[float, float]:
        """Add the gradients of a batch to `gradients`, where they wait for `apply_gradients`; loss and score.

        Several calls count as one batch of all their examples, but for statistics, which each call renews.
        """
        return self.training_pass(inputs, target, done=done, update=False)[:2]

    def training_pass(
        self,
        inputs: Values,
        target: Values,
        *,
        done: Callable[[], object] = lambda: None,
        update: bool = True,
        outputs: bool = False,
    ) -> tuple[float, float, tuple[NDArray[np.generic], ...]]:
        """`train_on_batch`, or `backward` without the update; with `outputs` the model's outputs are given too."""
        subject = "train_on_batch" if update else BACKWARD
        rules, length = self._sizes.rules_for(subject, inputs)
        examples = rules.checked_inputs(subject, inputs)
        count = len(examples[0])
        targets = rules.checked_targets(subject, target, count)
        key = self._programs.fitting("train", count, length) if update and count else ("backward", count, length)
        step = self._programs.step((key[0] + (WITH_OUTPUTS if outputs else ""), *key[1:]))
        step.compiled.allocate()
        examples, targets = (
            self._sizes.padded(key, examples, count, length),
            self._sizes.padded_targets(key, targets),
        )

        def run() -> tuple[float, float, tuple[NDArray[np.generic], ...]]:
            self._own.draws.copy_from(self.draws)
            self._own.loss_scale.copy_from(self.scaling.scale)
            if update:
                self._steer()
            loss, score, *others = step.views(one_or_all(examples), one_or_all(targets))
            finite = True
            if len(others) > outputs * len(self.outputs):
                finite = self._is_finite(loss, others.pop(0))
            self.draws += 1
            self.updates += update and finite
            self._summed += count if finite and not update else 0
            shapes = ((count, *spec.shape) for spec in rules.outputs)
            real = tuple(np.array(one[_region(shape)]) for one, shape in zip(others, shapes))
            return float(loss.item()), float(score.item()), real

        return self._whole(subject, step, run, done)

    def apply_gradients(self, *, done: Callable[[], object] = lambda: None) -> None:
        """One update by the mean of `gradients` over their examples, which are zero then, with a call of `done`."""
        if not self._summed:
            raise UsageError("apply_gradients", got="no gradients", need="a call of backward before")
        step = self._programs.step(("apply", 1, 0))
        step.compiled.allocate()

        def run() -> None:
            self._own.share_of_each.copy_from(1.0 / self._summed)
            self._steer()
            total = step.views()
            if total:
                self._is_finite(total[0], total[0], scaled=False)
            self.zero_gradients()
            self.updates += 1

        self._whole("apply_gradients", step, run, done)

    def _whole(self, subject: str, step: ModelStep, run: Callable[[], R], done: Callable[[], object]) -> R:
        """What `run` gives, which runs the step and counts it, with a call of `done`: one change that Ctrl-C awaits."""

        def turn() -> R:
            with Shield(breakable=True):
                of_weights = subject != BACKWARD
                return self._mark.during(self.updates + 1, step.compiled, run, done, of_weights=of_weights)

        return self.between_updates(subject, turn)

    def zero_gradients(self) -> None:
        """Forget the gradients that no update followed."""

        def zero() -> None:
            self._summed = 0
            for tensor in self.gradients.values():
                tensor.numpy()[...] = 0

        self.exclusively(zero)

    def pass_state(self) -> PassState:
        """What passes without an update change: statistics, sums of gradients, the count of draws, the loss's scale."""

        def copies(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[np.generic]]:
            return {path: np.array(one.numpy()) for path, one in tensors.items()}

        def take() -> PassState:
            gradients = copies(self.gradients) if self._summed else {}
            return PassState(copies(self.statistics), gradients, self._summed, self.draws, self.scaling)

        return self.between_updates(BACKWARD, take)

    def take_back_passes(self, state: PassState) -> None:
        """Nothing of the passes since then has happened, be it that one of them broke off while it wrote."""

        def restore() -> None:
            for path, values in state.statistics.items():
                self.statistics[path].copy_from(values)
            for path, tensor in self.gradients.items():
                tensor.copy_from(state.gradients.get(path, 0))
            self._summed, self.draws, self.scaling = state.summed, state.draws, state.scaling
            if not self._mark.of_weights:
                self.accept_interrupted_update()

        self.exclusively(restore)

    def _steer(self) -> None:
        """Write the scalars of the next update."""
        scalars = self.scalars
        for name, value in self.optimizer.scalars(self.updates - self.since + 1).items():
            scalars[name].copy_from(value)

    def _is_finite(self, loss: NDArray[np.generic], total: NDArray[np.generic], *, scaled: bool = True) -> bool:
        """False where the guard held back what a smaller scale of the loss may mend; NotFiniteError for all else."""
        finite = bool(np.isfinite(float(total.item())))
        rule = self.loss_scale if scaled else None
        if rule is not None and (finite or rule.may_fall(self.scaling)):
            self.scaling = rule.after(self.scaling, finite=finite)
            return finite
        if finite:
            return True
        got, need = f"update {self.updates + 1} of loss {loss.item():g}", "finite loss, gradients and statistics"
        error = NotFiniteError("train_on_batch", got=got, need=need, fix="a lower rate, or inputs that are finite")
        error.step, error.loss = self.updates + 1, float(loss.item())
        raise error

    @checked
    def fit(
        self,
        data: Data,
        targets: Values | None = None,
        *,
        epochs: Size = 1,
        batch_size: Count | None = None,
        validation_data: Validation | None = None,
        metrics: Iterable[str | Metric] = (),
        callbacks: Iterable[Callback | Listener] = (),
        accumulate: Count = 1,
        stop: Callable[[], bool] = lambda: False,
        report: Path | str | None = None,
    ) -> History:
        """Train for `epochs` more epochs; a row of figures per epoch.

        `data` is arrays of inputs beside `targets`, a data set, `Batches`, a `DataFrame` of batches, or any iterable of
        pairs (inputs, targets).
        Of data and arrays batches of `batch_size` (32) are drawn, in an order that the model's seed and the updates
        done so far decide: called again, it goes on with other orders. Batches go on from where they stand: an epoch
        that was begun counts as one.

        After each epoch rows hold `loss` and `score` and, of `validation_data`, `val_loss` and `val_score`; `metrics`
        (`nnc.nn.metrics`) of both, of the first output. Each update is by the mean gradient of `accumulate` batches.

        `callbacks` are told what happens, functions after each update. `stop` is asked after each update; when it says
        so, training ends there and can be taken up again from `batches.state()` with the same result as without the
        stop. The same holds after Ctrl-C, and after an error of a callback: the position moves on with the update.

        `report` is a file for a page to look at: curves, the memory map of the step, and the time of its layers.
        """
        seed = int(generator_for(self.seed, f"fit.{self.updates}").integers(2**31))
        source = source_of(self._sizes, data, targets, batch_size, seed)
        figures = self._fitting_metrics(metrics)
        validation = validation_of(self._sizes, validation_data)

        def validate() -> dict[str, float]:
            if validation is None:
                return {}
            found = self.evaluate(*validation, metrics=figures)
            return {"val_loss": found.loss, "val_score": found.score} | {
                f"val_{name}": value for name, value in found.metrics.items()
            }

        return Run(
            self,
            source,
            source.state().epoch + epochs,
            callbacks_of(callbacks if report is None else (*callbacks, TrainingPage(report))),
            stop,
            Tally(figures) if figures else None,
            accumulate,
            validate,
        ).train()

    def _fitting_metrics(self, metrics: Iterable[str | Metric]) -> tuple[Metric, ...]:
        """The metrics, each tried on an output and a target of zeros: one that does not fit says so before training."""
        found, spec = metrics_of(metrics), self.outputs[0]
        shape = (1, *spec.shape)
        dtype = self.loss.target_dtype or spec.dtype
        Tally(found).add(np.zeros(shape, spec.dtype.numpy), np.zeros(self.loss.target_shape(shape), dtype.numpy))
        return found

    @checked
    def evaluate(
        self, inputs: Values, target: Values, batch_size: Count = 256, *, metrics: Iterable[str | Metric] = ()
    ) -> Evaluation:
        """Mean loss and score over all examples, and metrics of the first output; DataError where there are none."""
        loss = score = 0.0
        rules, length = self._sizes.rules_for("evaluate", inputs)
        examples = rules.checked_inputs("evaluate", inputs)
        count = len(examples[0])
        targets = rules.checked_targets("evaluate", target, count)
        tally = Tally(metrics_of(metrics))
        if not count:
            raise DataError("evaluate", got="no examples", need="at least one: a mean is over something")
        for start, stop in _spans(count, batch_size):
            key = self._programs.fitting("evaluate", stop - start, length)
            step = self._programs.step((key[0] + (WITH_OUTPUTS if tally.metrics else ""), *key[1:]))
            wanted = _rows(targets, start, stop)
            part = self._sizes.padded(key, _rows(examples, start, stop), stop - start, length)
            results = partial(step.run, one_or_all(part), one_or_all(self._sizes.padded_targets(key, wanted)))
            batch_loss, batch_score, *outputs = self.between_updates("evaluate", results)
            loss += float(batch_loss.item()) * (stop - start)
            score += float(batch_score.item())
            if tally.metrics:
                tally.add(outputs[0][_region((stop - start, *rules.outputs[0].shape))], wanted[0])
        return Evaluation(loss / count, score / count, count, tally.values())

    @checked
    def predict(self, inputs: Values, batch_size: Count = 256) -> NDArray[np.generic]:
        """The output for every example."""
        if len(self.outputs) > 1:
            raise ArityError("predict", got=f"{len(self.outputs)} outputs", need="one output", fix="use predict_all")
        return self._predict_all(inputs, batch_size)[0]

    @checked
    def predict_all(self, inputs: Values, batch_size: Count = 256) -> tuple[NDArray[np.generic], ...]:
        """Each of the outputs for every example."""
        return self._predict_all(inputs, batch_size)

    def _predict_all(self, inputs: Values, batch_size: int) -> tuple[NDArray[np.generic], ...]:
        rules, length = self._sizes.rules_for("predict", inputs)
        examples = rules.checked_inputs("predict", inputs)
        count = len(examples[0])
        results = tuple(np.empty((count, *spec.shape), spec.dtype.numpy) for spec in rules.outputs)
        for start, stop in _spans(count, batch_size):
            key = self._programs.fitting("predict", stop - start, length)
            step = self._programs.step(key)
            part = self._sizes.padded(key, _rows(examples, start, stop), stop - start, length)
            self.between_updates("predict", partial(_predict, step, part, _rows(results, start, stop)))
        return results


# What a copy of a model does not take along.
_MADE_ANEW = frozenset({"_programs", "_sizes"})


def _predict(step: ModelStep, examples: Arrays, results: Arrays) -> None:
    for result, view in zip(results, step.views(one_or_all(examples)), strict=True):
        result[...] = view[_region(result.shape)]


def _region(shape: Shape) -> tuple[slice, ...]:
    """The first places of each axis: what is real of something padded."""
    return tuple(slice(size) for size in shape)


def _rows(arrays: Arrays, start: int, stop: int) -> Arrays:
    return tuple(array[start:stop] for array in arrays)


def _commands(optimizer: Optimizer, specs: Mapping[str, ParameterSpec]) -> dict[str, tuple[AnyCommand, str]]:
    """The command of each parameter and the name of its rate: what programs are made of."""
    found = optimizers_of(optimizer, specs)
    return {path: (one.command(), optimizer.rate_name(path)) for path, one in found.items()}


def _kinds(optimizer: Optimizer, specs: Mapping[str, ParameterSpec]) -> dict[str, object]:
    """What state each parameter has."""
    return {path: one.command().op for path, one in optimizers_of(optimizer, specs).items()}


def _named(tensors: Mapping[str, T], path: str) -> T:
    """The tensor at `path`; FormatError when it is missing."""
    if path not in tensors:
        raise FormatError("apply", got=f"no tensor for {path}", need="one for each path of the model's tensors()")
    return tensors[path]


def _renamed(path: str, rules: Mapping[str, str]) -> str:
    for pattern, replacement in rules.items():
        path = re.sub(pattern, replacement, path)
    return path


def _spans(count: int, size: int) -> Iterator[tuple[int, int]]:
    """[0, size), [size, 2 · size), … up to `count`."""
    for start in range(0, count, size):
        yield start, min(start + size, count)
