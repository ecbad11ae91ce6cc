"""Models: a layer with parameters, compiled steps for training and evaluation, and what they cost in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Count, Positive, Probability, Size, checked, explained
from nnc.concrete import TuneOptions, checked_tuning
from nnc.core.running.device_context import present
from nnc.core.values.device import AnyDevice, current_device, device_of
from nnc.core.values.dtype import F32, DType
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.variable import Variable
from nnc.errors import ArityError, DataError
from nnc.nn.inference.frozen_generation import FrozenGeneration, freeze_generation
from nnc.nn.inference.frozen_step import FrozenWeights
from nnc.nn.layers.initializers import generator_for
from nnc.nn.layers.layer import Input, Layer, UpTo
from nnc.nn.model.by_name import LossChoice, LossWeights, losses_of, optimizer_of
from nnc.nn.model.eager_model import eager_outputs, follow, leaves_of
from nnc.nn.model.figures import Evaluation
from nnc.nn.model.model_option import ModelOption
from nnc.nn.model.model_saving import save_model
from nnc.nn.model.spans import rows_between, spans
from nnc.nn.model.summary import ModelSummary, summarize, timed
from nnc.nn.model.updating import ModelUpdates
from nnc.nn.optimization.chains import OptimizerChain
from nnc.nn.optimization.loss_scale import LossScale
from nnc.nn.optimization.metrics import Metric, Tally, metrics_of
from nnc.nn.optimization.optimizer_base import Optimizer
from nnc.nn.optimization.optimizers import Adam
from nnc.nn.steps.frozen_steps import products
from nnc.nn.steps.keys import StepKey, StepKind
from nnc.nn.steps.model_options import ModelOptions, OffloadFolder, input_specs
from nnc.nn.steps.model_step import ModelStep, Values
from nnc.nn.steps.open_sizes import Arrays, one_or_all
from nnc.nn.steps.sharding import ZeroStage
from nnc.nn.steps.training_steps import commands_of, kinds_of, optimizers_of
from nnc.nn.training.sources import Data, Validation, of_rank, parts_of, source_of, together, tried_metrics
from nnc.nn.training.training import Callback, History, Listener, Run, callbacks_of
from nnc.nn.training.training_page import TrainingPage
from nnc.parallel import Mesh, Pipeline
from nnc.parallel.compression import Compression
from nnc.symbolic import SymbolicGraph
from nnc.symbolic.compiler import Arena, ArenaLimit
from nnc.symbolic.passes import DEFAULT, Pass, QuantizationMode
from nnc.symbolic.quantization_report import (
    LayerQuantization,
    QuantizationReport,
    measure_quantization,
    relative_error,
)
from nnc.symbolic.text.tables import table_of
from nnc.vocabulary.answers import Answering
from nnc.vocabulary.network_names import MODEL


@explained
@checked
class Model(ModelUpdates, Answering):
    """`layer` applied to batches of `input_shape`, trained by `optimizer` on `loss`.

    A model of several inputs has an `Input` for each of them in the place of a shape, and takes tuples of arrays; one
    of several outputs has a loss for each (`loss=[…]`, or by the names of its outputs), whose sum by `loss_weights` is
    minimized, or one of all (`JointLoss`, or any function of two tuples). A `Functional` layer says its inputs itself.

    Parameters start from `seed`; the same seed gives the same bits. They are made when they are first needed: a model
    that is only asked for its shapes, summary or memory has none. Steps are made for each batch size; what is the same
    at all of them is made once, and results are those of a model for that size alone.

    With `precision` (bf16, or f16, for which the loss is scaled) products and what lies between them run in 16 bits;
    parameters, their updates, sums, statistics and the loss stay in `dtype` (`nnc.symbolic.passes.numbers.precision`).
    `clip_norm` is the largest 2-norm of all gradients together that an update follows, `clip_value` the largest
    element. The optimizer may be set anew at any time: state is kept where the commands stay the same.

    `passes` run on the graph of each step before it is planned (`nnc.symbolic.passes`).
    With a `memory_limit`, in bytes, of all arenas or by device, the arena of each step takes no more; `memory` tells
    what a step computes again for that, and results are the same bit by bit. A step that cannot meet it so runs in the
    `allowed_precision` (bf16 or f16), where one is given; MemoryLimitError where that does not suffice either.
    Values may wait in a file of the `offload_folder`. Steps lie in the `arena`, where several share one (`nnc.arena`).

    With `nan_guard` an update whose loss or gradients are not finite changes nothing and is a NotFiniteError; the arena
    holds a second buffer for parameters and states then.
    With a `loss_scale` gradients are those of the scaled loss, divided by the scale, which changes as it goes
    (`LossScale`): what overflows is left out, weights, statistics and the count of updates stay. NotFiniteError where
    no smaller scale is left.

    With `autotune` kernels are measured before a run; with `deterministic` they are fixed (`nnc.symbolic.compile`).
    Parameters, states and programs are on the `device`, or where arrays are made (`nnc.device`); inputs and targets go
    there, results come back. What the device has no kernel for runs on the host. `to(device)` moves them.

    With a `mesh` the model is one of many: `fit` gives each rank its part of a batch, updates follow the mean of all
    gradients, batch norms the statistics of the whole batch (`nnc.parallel`); shards by `zero_stage` are of optimizer's
    state (1), sums of gradients (2) and weights (3). Ranks along `tensor` share products, those along `pipe` stages.
    Gradients are summed in 16 or 8 bits with `compress="bf16"` or `"int8"`, with what that loses in the next sum.
    """

    forms: ClassVar[Mapping[str, str]] = MODEL
    spoken: ClassVar[str] = "model"
    dtype = ModelOption[DType]()
    input_dtype = ModelOption[DType]()
    precision = ModelOption[DType | None]()
    clip_norm = ModelOption[float | None]()
    clip_value = ModelOption[float | None]()
    nan_guard = ModelOption[bool]()
    loss_scale = ModelOption[LossScale | None]()
    memory_limit = ModelOption[ArenaLimit | None]()
    allowed_precision = ModelOption[DType | None]()
    passes = ModelOption[tuple[Pass, ...]]()
    autotune = ModelOption[TuneOptions | bool]()
    deterministic = ModelOption[bool]()

    def __init__(
        self,
        layer: Layer,
        input_shape: Iterable[int | UpTo | Input] | None = None,
        *,
        loss: LossChoice | None = None,
        loss_weights: LossWeights | None = None,
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
        memory_limit: ArenaLimit | None = None,
        allowed_precision: DType | None = None,
        offload_folder: OffloadFolder | None = None,
        passes: Iterable[Pass] = DEFAULT,
        autotune: TuneOptions | bool = False,
        deterministic: bool = False,
        mesh: Mesh | None = None,
        zero_stage: ZeroStage = 0,
        pipeline: Pipeline | None = None,
        compress: Compression | None = None,
        device: AnyDevice | None = None,
        arena: Arena | None = None,
    ) -> None:
        checked_tuning("Model", autotune, deterministic)
        input_dtype = dtype if input_dtype is None else input_dtype
        if isinstance(optimizer, OptimizerChain):
            optimizer, norm, value = optimizer.for_models()
            clip_norm, clip_value = norm or clip_norm, value or clip_value
        inputs, open_axes = input_specs(layer, input_shape, dtype, input_dtype)
        options = ModelOptions(
            layer=layer,
            inputs=inputs,
            open=open_axes,
            losses=(),
            joint=None,
            optimizer=Adam() if optimizer is None else optimizer,
            seed=seed,
            dtype=dtype,
            input_dtype=input_dtype,
            backend=backend,
            precision=precision,
            clip_norm=clip_norm,
            clip_value=clip_value,
            nan_guard=nan_guard,
            loss_scale=loss_scale,
            memory_limit=memory_limit if arena is None else arena.within(memory_limit),
            allowed_precision=allowed_precision,
            passes=tuple(passes),
            autotune=autotune,
            deterministic=deterministic,
            mesh=mesh,
            zero_stage=zero_stage,
            pipeline=pipeline or Pipeline(),
            compress=compress,
            device=current_device() if device is None else present(device_of(device)),
            arena=arena,
            offload_folder=offload_folder,
        )
        super().__init__(options)
        options.sharding.check([*optimizers_of(options.optimizer, self.specs).values()])
        self.metrics: tuple[str | Metric, ...] = ()
        self.losses, self.joint = losses_of("Model", layer, len(self.outputs), loss or (), loss_weights)
        self._start()

    @property
    def optimizer(self) -> Optimizer:
        """How parameters follow their gradients; it may be set to another one between two updates.

        State and the count of steps go on where each parameter's command is of the same kind, as where the rate is
        another one; otherwise they begin anew, and a schedule at its first step.
        """
        return self.options.optimizer

    @optimizer.setter
    @checked
    def optimizer(self, optimizer: Optimizer) -> None:
        if isinstance(optimizer, OptimizerChain):
            optimizer, self.clip_norm, self.clip_value = optimizer.for_models()
        old, specs = self.options.optimizer, self.specs

        def change() -> None:
            self.options.sharding.check([*optimizers_of(optimizer, specs).values()])
            self.options = replace(self.options, optimizer=optimizer)
            if commands_of(old, specs) != commands_of(optimizer, specs) or (
                tuple(old.scalars(1)) != tuple(optimizer.scalars(1))
            ):
                self._start()
                self._own.forget("scalars")
            before, after = kinds_of(old, specs), kinds_of(optimizer, specs)
            if before != after:
                self._own.forget("states")
                self.since = self.updates
            if before.keys() != after.keys():
                # Sums of gradients are kept for the parameters that are trained.
                self._own.forget("gradients")
                self._own.forget("errors")
                self._summed = 0

        with self._programs.making:
            self.exclusively(change)

    @checked
    def compile(
        self,
        optimizer: str | Optimizer | None = None,
        loss: LossChoice | None = None,
        metrics: Iterable[str | Metric] = (),
        *,
        loss_weights: LossWeights | None = None,
    ) -> None:
        """Optimizer, losses and metrics of `fit` set anew, some by Keras' names: "adam", "mse", ["accuracy"].

        Weights stay; what is None stays too. Losses of classes are of logits.
        """
        chosen = self.joint or self.losses if loss is None else loss
        losses = losses_of("compile", self.layer, len(self.outputs), chosen, loss_weights)
        if optimizer is not None:
            self.optimizer = optimizer_of(optimizer)

        def change() -> None:
            (self.losses, self.joint), self.metrics = losses, tuple(metrics)
            self._start()

        with self._programs.making:
            self.exclusively(change)

    def save(self, path: Path | str) -> None:
        """Write what the model is made of and its tensors; `nnc.nn.load_model(path)` gives the model again."""
        save_model(path, self)

    def __call__(self, x: Any, *, training: bool = False) -> Any:  # noqa: ANN401  # arrays and operands of all kinds
        """The output for `x`, an array or an eager or traced value, to which gradients flow; see `dynamic_evaluate`."""
        return eager_outputs(self, x, None, training)

    def trainable_parameters(self) -> dict[str, Variable]:
        """A leaf for each parameter by path, over its memory: what `value_and_grad(model, loss)` goes by."""
        return leaves_of(self)

    def follow(self, rule: Optimizer, gradients: Mapping[str, ArrayOperand], rate: float | ArrayOperand | None) -> None:
        """One update by gradients by path, as `rule.update(model, gradients)` has it."""
        follow(self, rule, gradients, rate)

    @checked
    def summary(self, *, time: bool = False) -> ModelSummary:
        """One row per layer, nested ones in order: what `LayerSummary` says. Prints as a table.

        With `time` predictions of one example of zeros are run, and each layer's kernels are measured.
        """
        graph = SymbolicGraph("summary")
        rows, _ = summarize(self.layer, "", self._input_symbols(graph), graph)
        return ModelSummary(timed(rows, self.predict, self.inputs) if time else rows)

    def __repr__(self) -> str:
        return f"Model({self._title()}, by {type(self.optimizer).__name__})"

    def _repr_html_(self) -> str:
        """The summary, for notebooks."""
        summary = self.summary()
        return table_of(f"Model: {self._title()}, by {self.optimizer}", summary.columns, summary.cells)

    def _title(self) -> str:
        inputs, outputs = (", ".join(map(str, specs)) for specs in (self.inputs, self.outputs))
        return f"{self.parameter_count():,} parameters, {inputs} to {outputs}"

    @checked
    def freeze(self, batch: int, length: int = 0, *, quantize: QuantizationMode | None = None) -> ModelStep:
        """The prediction step for `batch` examples with weights of its own: those that the model has now.

        What depends on weights alone, such as a batch norm that is folded into them, is computed here, once. Whatever
        happens to the model's tensors later does not reach the step. Where these are mapped (`nnc.load`), so are they:
        processes that freeze the same model have its weights in memory once.

        With `quantize` the weights of products and convolutions are 8-bit integers, one scale per output channel:
        "weights" multiplies in f32, "dynamic" also has each activation in 8 bits, by a scale found in each run, and
        sums integers (`nnc.symbolic.passes`). `quantization_report` says what that does to each layer.
        """
        self.check_whole("freeze")
        key = StepKey(StepKind.FREEZE, batch, length, quantization=quantize)
        frozen = FrozenWeights.of(self._programs.plan(key), self.tensors(), self.options)
        return frozen.step(self.between_updates("freeze", frozen.take), self.options.arena)

    @checked
    def freeze_generation(self, batch: Count = 1, *, quantize: QuantizationMode | None = None) -> FrozenGeneration:
        """What `generate` takes in the place of this model: with weights of its own, those that the model has now.

        All programs of a generation share them, with `quantize` in 8 bits, as `freeze` has them; `batch` is the usual
        number of rows, and any other is served too. UsageError for a model that cannot keep what it read.
        """
        self.check_whole("freeze")
        key = self._sizes.generation_key(batch)

        def take() -> FrozenGeneration:
            return freeze_generation(self._builder(), self.tensors(), self.outputs, key, quantize)

        return self.between_updates("freeze", take)

    @checked
    def quantization_report(self, inputs: Values, quantize: QuantizationMode = "dynamic") -> QuantizationReport:
        """What `freeze(quantize=...)` does to each product, and to the outputs, on these examples."""
        rules, length = self._sizes.rules_for("predict", inputs)
        examples = rules.checked_inputs("quantization_report", inputs)
        if not len(examples[0]):
            raise DataError("quantization_report", got="no examples", need="at least one")
        product = self._builder().begin(StepKind.FREEZE)
        feeds = dict(zip(products(product, len(examples[0]), length), examples, strict=True))
        tensors = self.tensors()

        def measure() -> tuple[LayerQuantization, ...]:
            weights = {symbol: tensors[path] for path, symbol in product.given.items()}
            return measure_quantization(product.graph, weights, feeds, quantize, self.backend)

        layers = self.between_updates("quantization_report", measure)
        step = self.freeze(len(examples[0]), length, quantize=quantize)
        error = relative_error(self._predict_all(inputs, 256), step.run(one_or_all(examples)))
        return QuantizationReport(quantize, layers, error)

    @checked
    def fit(
        self,
        data: Data,
        targets: Values | None = None,
        batch_size: Count | None = None,
        epochs: Size = 1,
        *,
        validation_data: Validation | None = None,
        validation_split: Probability = 0.0,
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
        (`nnc.nn.metrics`) of both, of the first output, or those of `compile`. Each update is by the mean gradient of
        `accumulate` batches. A `validation_split` keeps the last part of arrays back, to validate with.

        `callbacks` are told what happens, functions after each update. `stop` is asked after each update; when it says
        so, training ends there and can be taken up again from `batches.state()` with the same result as without the
        stop. The same holds after Ctrl-C, and after an error of a callback: the position moves on with the update.

        `report` is a file for a page to look at: curves, the memory map of the step, and the time of its layers.
        """
        data, targets, validation = parts_of(self._sizes, data, targets, validation_data, validation_split)
        seed = int(generator_for(self.seed, f"fit.{self.updates}").integers(2**31))
        source = of_rank(source_of(self._sizes, data, targets, batch_size, seed), self.options.ranks)
        figures = tried_metrics(metrics or self.metrics, self._sizes)

        def validate() -> dict[str, float]:
            return {} if validation is None else self.evaluate(*validation, metrics=figures).of_validation()

        return Run(
            self,
            source,
            source.state().epoch + epochs,
            callbacks_of(callbacks if report is None else (*callbacks, TrainingPage(report))),
            stop,
            Tally(figures) if figures else None,
            accumulate,
            validate,
            together(self.options.all_ranks),
        ).train()

    @checked
    def evaluate(
        self, inputs: Values, target: Values, batch_size: Count = 256, *, metrics: Iterable[str | Metric] = ()
    ) -> Evaluation:
        """Mean loss and score over all examples, and metrics of the first output, or those of `compile`.

        DataError where there are no examples.
        """
        loss = score = 0.0
        rules, length = self._sizes.rules_for("evaluate", inputs)
        examples = rules.checked_inputs("evaluate", inputs)
        count = len(examples[0])
        targets = rules.checked_targets("evaluate", target, count)
        tally = Tally(metrics_of(metrics or self.metrics))
        if not count:
            raise DataError("evaluate", got="no examples", need="at least one: a mean is over something")
        for start, stop in spans(count, batch_size):
            key = StepKey(StepKind.EVALUATE, stop - start, length, outputs=bool(tally.metrics))
            part, wanted = rows_between(examples, start, stop), rows_between(targets, start, stop)
            results = partial(self._programs.step(key).run, one_or_all(part), one_or_all(wanted))
            batch_loss, batch_score, *outputs = self.between_updates("evaluate", results)
            loss += float(batch_loss.item()) * (stop - start)
            score += float(batch_score.item())
            if tally.metrics:
                tally.add(outputs[0], wanted[0])
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
        for start, stop in spans(count, batch_size):
            step = self._programs.step(StepKey(StepKind.PREDICT, stop - start, length))
            part = rows_between(examples, start, stop)
            self.between_updates("predict", partial(_predict, step, part, rows_between(results, start, stop)))
        return results


def _predict(step: ModelStep, examples: Arrays, results: Arrays) -> None:
    for result, view in zip(results, step.views(one_or_all(examples)), strict=True):
        result[...] = view
