"""Models: a layer with parameters, compiled steps for training and evaluation, and what they cost in memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import Count, Positive, Size, checked, explained
from nnc.concrete import TuneOptions, checked_tuning
from nnc.core.dtype import BF16, F16, F32, DType
from nnc.core.forking import fork_safe_rlock
from nnc.core.recent import RecentlyUsed
from nnc.core.settings import SETTINGS
from nnc.core.shield import Shield
from nnc.core.spec import Shape, TensorSpec, check_shape
from nnc.core.tensor import Tensor, as_array
from nnc.errors import ArityError, DataError, FormatError, MemoryLimitError, NotFiniteError, ShapeError, UsageError
from nnc.nn.combine import Sequential
from nnc.nn.data import Batches, DataSet, Examples
from nnc.nn.example_rules import ExampleRules
from nnc.nn.guard import gradient_norm, guarded
from nnc.nn.initializers import generator_for
from nnc.nn.layer import Layer, ParameterSpec, Scope
from nnc.nn.losses import Loss, SoftmaxCrossEntropy
from nnc.nn.optimizers import Adam, Optimizer
from nnc.nn.training import Listener, fit
from nnc.ops.operand import T
from nnc.symbolic import Arena, Budget, Compiled, MemoryStatement, Symbol, SymbolicGraph, compile, minimize
from nnc.symbolic.minimization import steering_dtype
from nnc.symbolic.passes import DEFAULT, Beforehand, Pass, Report, precompute, simplify
from nnc.symbolic.passes.precision import lower_precision

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class LayerSummary:
    """One line of a model's summary."""

    name: str
    layer: str
    output: Shape
    parameters: int


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Bytes of a step, before anything of it is allocated; weights and state live outside the arena.

    All steps of a model take turns in one arena. `arena` is what it has by the steps that were made so far, of which
    `programs` are kept (at most `SETTINGS.kept_programs`); a step that needs more makes it grow.

    `gradients` counts one buffer per parameter: what the fused update saves, and no part of the total. `budget` is what
    a limit on memory costs, if it costs anything, and `precision` that of products where it is not the parameters'.
    """

    step: MemoryStatement
    weights: int
    gradients: int
    optimizer_state: int
    budget: Budget | None = None
    precision: DType | None = None
    arena: int = 0
    programs: int = 0

    @property
    def total(self) -> int:
        """Arena, weights and optimizer state together."""
        return max(self.arena, self.step.arena) + self.weights + self.optimizer_state

    def __str__(self) -> str:
        beside = f"weights {self.weights} B, optimizer state {self.optimizer_state} B, together {self.total} B"
        if self.programs:
            beside += f"; {self.programs} programs share an arena of {self.arena} B"
        cost = "" if self.budget is None else f"; {self.budget}"
        precision = "" if self.precision is None else f"; products in {self.precision.name}"
        return f"{self.step}; {beside}{cost}{precision}"


@dataclass(frozen=True, slots=True, eq=False)
class ModelStep:
    """A compiled graph with the symbols that a step writes and reads, and what each pass did to the graph before.

    Any thread may run it: steps that share an arena take turns.
    """

    compiled: Compiled
    inputs: Symbol
    target: Symbol | None
    results: tuple[Symbol, ...]
    passes: tuple[Report, ...] = ()

    def run(self, inputs: ArrayLike, target: ArrayLike | None = None) -> tuple[NDArray[np.generic], ...]:
        """Write the batch, run, and give the results: arrays of the caller's own."""
        return self.compiled.exclusively(lambda: tuple(np.array(view) for view in self.views(inputs, target)))

    def views(self, inputs: ArrayLike, target: ArrayLike | None = None) -> tuple[NDArray[np.generic], ...]:
        """The same without a copy: arrays over the arena, whose next run writes over them.

        Nobody else runs in the arena until they are read if that is within `compiled.exclusively`.
        """
        self.compiled.write(self.inputs, inputs)
        if self.target is not None:
            if target is None:
                raise ArityError("step", got="inputs alone", need="a target too")
            self.compiled.write(self.target, target)
        self.compiled.run()
        return tuple(self.compiled.tensor(symbol).numpy() for symbol in self.results)


@dataclass(frozen=True, slots=True, eq=False)
class _Program:
    """A planned step and its precision, and the symbols that the model's tensors will be bound to, by their names.

    `beforehand` is the work on weights that a frozen step does no longer, and `frozen` what it reads instead of them.
    """

    step: ModelStep
    given: Mapping[str, Symbol]
    precision: DType | None
    beforehand: Beforehand | None = None
    frozen: tuple[Symbol, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Mean loss and mean score (accuracy, for classes) over `count` examples."""

    loss: float
    score: float
    count: int


FIT_FORMS = "fit(batches), fit(data_set, batch_size=…) or fit(inputs, targets, batch_size=…)"
KINDS = ("train", "evaluate", "predict", "freeze")
# Gradients down to 2^-34 are then above f16's smallest number, and those up to 63 below its largest.
F16_LOSS_SCALE = 1024.0


@explained
@checked
class Model:
    """`layer` applied to batches of `input_shape`, trained by `optimizer` on `loss`.

    Parameters start from `seed`; the same seed gives the same bits. They are made when they are first needed: a model
    that is only asked for its shapes, summary or memory has none. Steps are compiled once per batch size.

    With `precision` (bf16, or f16, for which the loss is scaled) products and what lies between them run in 16 bits;
    parameters, their updates, sums, statistics and the loss stay in `dtype` (`nnc.symbolic.passes.precision`).
    `clip_norm` is the largest 2-norm of all gradients together that an update follows.

    `passes` run on the graph of each step before it is planned (`nnc.symbolic.passes`).

    With a `memory_limit`, in bytes, the arena of each step takes no more; `memory` tells what a step computes again
    for that, and results are the same bit by bit. A step that cannot meet it so runs in the `allowed_precision` (bf16
    or f16), where one is given; MemoryLimitError where that does not suffice either.

    With `nan_guard` an update whose loss or gradients are not finite changes nothing and is a NotFiniteError; the arena
    holds a second buffer for parameters and states then.

    With `autotune` the kernels of a step are measured before its first run and the fastest kept; with `deterministic`
    they are fixed (`nnc.symbolic.compile`).
    """

    def __init__(
        self,
        layer: Layer,
        input_shape: Iterable[int],
        *,
        loss: Loss | None = None,
        optimizer: Optimizer | None = None,
        seed: int = 0,
        dtype: DType = F32,
        input_dtype: DType | None = None,
        backend: str = "",
        precision: DType | None = None,
        clip_norm: Positive | None = None,
        nan_guard: bool = False,
        memory_limit: Size | None = None,
        allowed_precision: DType | None = None,
        passes: Iterable[Pass] = DEFAULT,
        autotune: TuneOptions | bool = False,
        deterministic: bool = False,
    ) -> None:
        checked_tuning("Model", autotune, deterministic)
        self.layer = layer
        self.input_shape = check_shape(input_shape, "input_shape")
        self.loss = SoftmaxCrossEntropy() if loss is None else loss
        self.optimizer = Adam() if optimizer is None else optimizer
        self.seed = seed
        self.dtype = dtype
        self.input_dtype = dtype if input_dtype is None else input_dtype
        self.backend = backend
        self.precision = precision
        self.clip_norm = clip_norm
        self.nan_guard = nan_guard
        self.memory_limit = memory_limit
        self.allowed_precision = allowed_precision
        self.passes = tuple(passes)
        self.autotune = autotune
        self.deterministic = deterministic
        self.specs: dict[str, ParameterSpec] = {}
        self._output = self._explore()
        self.output_shape = self._output.shape[1:]
        self._rules = ExampleRules(self.input_shape, replace(self._output, shape=self.output_shape), self.loss)
        self.updates = 0
        self._tables: dict[str, dict[str, Tensor]] = {}
        self._start()

    def _start(self) -> None:
        """What programs are kept in: for all steps one arena, as large as the largest of them needs."""
        self._arena = Arena(0)
        self._steps: RecentlyUsed[tuple[str, int], ModelStep] = RecentlyUsed(_most_programs)
        self._plans: RecentlyUsed[tuple[str, int], _Program] = RecentlyUsed(_most_programs)
        self._making = fork_safe_rlock()

    # ---- copies

    def share(self) -> Model:
        """A model over the same parameters and statistics, with programs and an optimizer's state of its own.

        What training changes in one is changed in the other; a copy (`copy`, `deepcopy`, `pickle`) has its own tensors.
        """
        shared = Model.__new__(Model)
        tables = {"parameters": self.parameters, "statistics": self.statistics}
        shared.__setstate__({**self._options(), "_tables": tables, "updates": 0})
        return shared

    def exclusively(self, work: Callable[[], R]) -> R:
        """What `work` gives, such as by reading all weights; no other thread runs a step of this model meanwhile."""
        return self._arena.runs.exclusively(work)

    def __getstate__(self) -> dict[str, object]:
        """Options, and tensors as they are between two steps. Programs are bound to memory and made anew."""

        def tensors() -> dict[str, object]:
            # Another thread may make a table meanwhile.
            made = dict(self._tables)
            tables = {name: {path: one.clone() for path, one in table.items()} for name, table in made.items()}
            return {**self._options(), "_tables": tables}

        return self.exclusively(tensors)

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._start()

    def __copy__(self) -> Model:
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, object]) -> Model:
        copied, state = Model.__new__(Model), self.__getstate__()
        tables = state.pop("_tables")
        copied.__setstate__({**copy.deepcopy(state, memo), "_tables": tables})
        return copied

    def _options(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name not in _MADE_ANEW}

    # ---- parameters

    def _explore(self) -> TensorSpec:
        """Build once on a batch of one: what tensors there are, and what comes out."""

        def resolve(parameter: ParameterSpec) -> Symbol:
            self.specs.setdefault(parameter.path, parameter)
            return graph.input(parameter.spec, parameter.path)

        graph = SymbolicGraph("probe")
        return self.layer.build(Scope(resolve), self._input(graph, 1)).spec

    def _state_specs(self) -> dict[str, TensorSpec]:
        """The optimizer's state for each parameter."""
        return {
            f"{path}.{name}": self.specs[path].spec
            for path, optimizer in self._optimizers().items()
            for name in optimizer.state_names()
        }

    def _optimizers(self) -> dict[str, Optimizer]:
        """The optimizer of each parameter that one changes."""
        found = {path: self.optimizer.at(path) for path, row in self.specs.items() if row.trainable}
        return {path: optimizer for path, optimizer in found.items() if optimizer is not None}

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The tensors that are trained, by path."""
        return self._table(
            "parameters", lambda: {path: self._first(row) for path, row in self.specs.items() if row.trainable}
        )

    @property
    def statistics(self) -> dict[str, Tensor]:
        """The tensors that layers renew in training, by path."""
        return self._table(
            "statistics", lambda: {path: self._first(row) for path, row in self.specs.items() if not row.trainable}
        )

    @property
    def states(self) -> dict[str, Tensor]:
        """The optimizer's tensors, by path and name."""
        return self._table("states", lambda: {name: Tensor.zeros(spec) for name, spec in self._state_specs().items()})

    @property
    def scalars(self) -> dict[str, Tensor]:
        """The numbers that steer the optimizer, by name."""
        return self._table(
            "scalars",
            lambda: {name: Tensor.zeros(self._steering_spec()) for name in self.optimizer.scalars(1)},
        )

    def _steering_spec(self) -> TensorSpec:
        return TensorSpec((), steering_dtype(self.dtype))

    def _table(self, name: str, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        """Tensors that are made when they are first asked for, once, whichever thread asks."""
        if name not in self._tables:
            with self._making:
                if name not in self._tables:
                    self._tables[name] = make()
        return self._tables[name]

    def _first(self, parameter: ParameterSpec) -> Tensor:
        """A tensor with its first values."""
        # The memory first: there is a typed error when the machine has not that much.
        tensor = Tensor.empty(parameter.spec, "parameter")
        parameter.initializer(generator_for(self.seed, parameter.path), tensor.numpy())
        return tensor

    def tensors(self) -> dict[str, Tensor]:
        """Parameters and statistics by path: all that makes up the model."""
        return self.parameters | self.statistics

    def parameter_count(self) -> int:
        """Elements of all parameters."""
        return sum(row.spec.elements for row in self.specs.values() if row.trainable)

    def apply(self, x: T, tensors: Mapping[str, T], *, renewed: dict[str, T] | None = None) -> T:
        """The layer on any operand (a symbol or an eager variable), with its tensors of the same kind by path.

        With `renewed` it is applied as in training, and statistics that change are put there.
        """
        training = renewed is not None
        renew = renewed.__setitem__ if renewed is not None else None
        scope = Scope(lambda parameter: _named(tensors, parameter.path), training=training)
        return self.layer.build(scope if renew is None else replace(scope, renew=renew), x)

    def state_dict(self) -> dict[str, NDArray[np.generic]]:
        """Copies of all parameters and statistics by path."""
        return self.exclusively(lambda: {path: np.array(tensor.numpy()) for path, tensor in self.tensors().items()})

    def load_state_dict(self, values: Mapping[str, ArrayLike]) -> None:
        """Set all parameters and statistics; FormatError lists what is missing or unfit, and then nothing is set."""
        arrays = {path: as_array(value) for path, value in values.items()}
        tensors = self.tensors()
        shared = sorted(tensors.keys() & arrays.keys())
        faults = {
            "missing": sorted(tensors.keys() - arrays.keys()),
            "unexpected": sorted(arrays.keys() - tensors.keys()),
            "of another shape": [path for path in shared if arrays[path].shape != tensors[path].shape],
            "of another kind": [path for path in shared if not _fits(arrays[path], tensors[path])],
        }
        if any(faults.values()):
            got = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in faults.items() if names)
            raise FormatError("state", got=got, need=f"the {len(tensors)} tensors of this model")

        def load() -> None:
            with Shield():
                for path, tensor in tensors.items():
                    tensor.copy_from(arrays[path])

        self.exclusively(load)

    def summary(self) -> tuple[LayerSummary, ...]:
        """One row per layer, nested ones in order: name, options, output shape without the batch, parameters."""
        graph = SymbolicGraph("summary")
        return tuple(_summarize(self.layer, "", self._input(graph, 1), graph)[0])

    # ---- steps

    @explained
    def training_step(self, batch: int) -> ModelStep:
        """The compiled step of one update for `batch` examples; its results are the loss and the score."""
        return self._step("train", batch)

    @explained
    def evaluation_step(self, batch: int) -> ModelStep:
        """The compiled forward step with loss and score for `batch` examples."""
        return self._step("evaluate", batch)

    @explained
    def prediction_step(self, batch: int) -> ModelStep:
        """The compiled forward step for `batch` examples; its result is the output."""
        return self._step("predict", batch)

    @explained
    def freeze(self, batch: int) -> ModelStep:
        """The prediction step for `batch` examples with weights of its own: those that the model has now.

        What depends on weights alone, such as a batch norm that is folded into them, is computed here, once. Whatever
        happens to the model's tensors later does not reach the step.
        """
        program = self._plan("freeze", batch)
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

        self.exclusively(take)
        frozen = program.step.compiled.rebind(own)
        frozen.clear()
        return replace(program.step, compiled=frozen)

    @explained
    def memory(self, batch: int, kind: str = "train") -> ModelMemory:
        """The bytes of a step for `batch` examples, one of `KINDS`; nothing is allocated."""
        if kind not in KINDS:
            raise UsageError("memory", got=f"kind {kind!r}", need=", ".join(KINDS))
        program = self._plan(kind, batch)
        compiled, precision = program.step.compiled, program.precision
        statement, budget = compiled.memory(), compiled.budget
        if kind == "freeze":
            return ModelMemory(statement, sum(one.spec.nbytes for one in program.frozen), 0, 0, budget, precision)
        arena, programs = self._largest_arena(), len(self._steps)
        weights = sum(row.spec.nbytes for row in self.specs.values())
        if kind != "train":
            return ModelMemory(statement, weights, 0, 0, budget, precision, arena, programs)
        gradients = sum(row.spec.nbytes for row in self.specs.values() if row.trainable)
        state = sum(spec.nbytes for spec in self._state_specs().values())
        return ModelMemory(statement, weights, gradients, state, budget, precision, arena, programs)

    def _input(self, graph: SymbolicGraph, batch: int) -> Symbol:
        return graph.input(TensorSpec((batch, *self.input_shape), self.input_dtype), "input")

    def _step(self, kind: str, batch: int) -> ModelStep:
        """The planned step over the model's tensors."""
        return self._steps.get((kind, batch)) or self._make_step(kind, batch)

    def _make_step(self, kind: str, batch: int) -> ModelStep:
        with self._making:
            program = self._plan(kind, batch)
            homes = self.tensors() | (self.states | self.scalars if kind == "train" else {})
            bound = program.step.compiled.rebind({symbol: homes[name] for name, symbol in program.given.items()})
            step = replace(program.step, compiled=bound.in_arena_of(self._arena))
            kept = self._steps.put((kind, batch), step)
            self._arena.nbytes = self._largest_arena()
            return kept

    def _largest_arena(self) -> int:
        """Bytes of the arena that all steps share."""
        return max((step.compiled.memory().arena for step in self._steps.values()), default=0)

    def _plan(self, kind: str, batch: int) -> _Program:
        """The step without tensors: its memory is known, none of it is there."""
        if batch < 1:
            raise ShapeError("batch", got=f"batch size {batch}", need="batch size ≥ 1")
        with self._making:
            found = self._plans.get((kind, batch))
            return self._plans.put((kind, batch), self._within_limit(kind, batch)) if found is None else found

    def _within_limit(self, kind: str, batch: int) -> _Program:
        """The step in the usual precision, or in the allowed one where the limit cannot be met otherwise."""
        try:
            return self._compile(kind, batch, self.precision)
        except MemoryLimitError as error:
            if self.allowed_precision is None:
                self._advise(error, kind, batch)
                raise
            refused = error
        try:
            return self._compile(kind, batch, self.allowed_precision)
        except MemoryLimitError as error:
            raise min(refused, error, key=lambda one: one.smallest) from None

    def _advise(self, error: MemoryLimitError, kind: str, batch: int) -> None:
        """Name 16 bits as a way out where they take less than the smallest limit that f32 can meet."""
        if self.precision is None and self.dtype is F32:
            free = Model.__new__(Model)
            free.__setstate__({**self._options(), "memory_limit": None})
            enough = free._compile(kind, batch, BF16).step.compiled.memory().arena
            if enough < error.smallest:
                error.fix += f", or allow 16 bits (allowed_precision=BF16), where {enough} bytes suffice"

    def _compile(self, kind: str, batch: int, precision: DType | None) -> _Program:
        graph = SymbolicGraph(kind)
        symbols = {path: graph.input(row.spec, path) for path, row in self.specs.items()}
        given = dict(symbols)
        x = self._input(graph, batch)
        renewed: dict[str, Symbol] = {}
        output = self.apply(x, symbols, renewed=renewed if kind == "train" else None)
        if kind == "predict":
            return self._program(graph, given, x, None, (output,), {}, precision)
        if kind == "freeze":
            return self._frozen(graph, given, x, output, precision)
        target_spec = TensorSpec(self.loss.target_shape(output.shape), self.loss.target_dtype or self.dtype)
        target = graph.input(target_spec, "target")
        results: tuple[Symbol, ...] = (self.loss.build(output, target), self.loss.score(output, target))
        if kind == "evaluate":
            return self._program(graph, given, x, target, results, {}, precision)
        optimizers = self._optimizers()
        scalars = {name: graph.input(self._steering_spec(), name) for name in self.optimizer.scalars(1)}
        minimized = minimize(
            graph,
            {symbols[path]: optimizer.command() for path, optimizer in optimizers.items()},
            results[:1],
            [symbols[path] for path in optimizers],
            scalars=scalars,
            rates={symbols[path]: scalars[self.optimizer.rate_name(path)] for path in optimizers},
            clip_norm=self.clip_norm,
            loss_scale=F16_LOSS_SCALE if precision is F16 else 1.0,
        )
        given.update({state.name: state for update in minimized.updates for state in update.states})
        given.update(scalars)
        carry = minimized.carries() | {value: symbols[path] for path, value in renewed.items()}
        if self.nan_guard and minimized.updates:
            norm = minimized.norm or gradient_norm([update.gradient for update in minimized.updates])
            carry, total = guarded(carry, results[0], norm, renewed.values())
            results = (*results, total)
        return self._program(graph, given, x, target, results, carry, precision)

    def _program(
        self,
        graph: SymbolicGraph,
        given: Mapping[str, Symbol],
        inputs: Symbol,
        target: Symbol | None,
        results: tuple[Symbol, ...],
        carry: Mapping[Symbol, Symbol],
        precision: DType | None,
    ) -> _Program:
        later = dict.fromkeys(given.values())
        if precision is not None:
            lower_precision(graph, (*results, *carry), precision, later, self.backend)
        reports = simplify(graph, (*results, *carry), self.passes, backend=self.backend)
        compiled = self._lower(graph, results, later, carry)
        return _Program(ModelStep(compiled, inputs, target, results, reports), given, precision)

    def _frozen(
        self, graph: SymbolicGraph, given: Mapping[str, Symbol], inputs: Symbol, output: Symbol, precision: DType | None
    ) -> _Program:
        # Before the precision is lowered, so that weights are rounded once.
        reports = simplify(graph, (output,), (Pass.FROZEN_BATCH_NORM,), backend=self.backend)
        if precision is not None:
            lower_precision(graph, (output,), precision)
        before = precompute(graph, given.values(), (output,))
        reports += simplify(graph, (output,), self.passes, backend=self.backend)
        frozen = tuple(symbol for symbol in (*given.values(), *before.results) if graph.readers(symbol.key))
        ready = [before.results[symbol] for symbol in frozen if symbol in before.results]
        simplify(before.graph, ready, self.passes, backend=self.backend)
        compiled = self._lower(graph, (output,), dict.fromkeys(frozen), {})
        return _Program(ModelStep(compiled, inputs, None, (output,), reports), given, precision, before, frozen)

    def _lower(
        self,
        graph: SymbolicGraph,
        results: tuple[Symbol, ...],
        given: Mapping[Symbol, None],
        carry: Mapping[Symbol, Symbol],
    ) -> Compiled:
        """The graph compiled as this model asks."""
        return compile(
            graph,
            results,
            given=given,
            carry=carry,
            backend=self.backend,
            memory_limit=self.memory_limit,
            autotune=self.autotune,
            deterministic=self.deterministic,
        )

    # ---- use

    def train_on_batch(
        self, inputs: ArrayLike, target: ArrayLike, *, done: Callable[[], object] = lambda: None
    ) -> tuple[float, float]:
        """One update, with a call of `done`; returns the batch's mean loss and its summed score.

        Ctrl-C waits for the end of the update, so weights, `updates` and what `done` counts change together; a second
        one does not wait. Compiling, before the first update of a batch size, can be interrupted at any time.
        """
        examples = self._rules.checked_inputs("train_on_batch", inputs)
        targets = self._rules.checked_targets("train_on_batch", target, len(examples))
        step = self.training_step(len(examples))
        step.compiled.allocate()

        def update() -> tuple[float, float]:
            with Shield(breakable=True):
                scalars = self.scalars
                for name, value in self.optimizer.scalars(self.updates + 1).items():
                    scalars[name].copy_from(value)
                loss, score, *total = step.views(examples, targets)
                self._check_finite(loss, *total)
                self.updates += 1
                done()
                return float(loss.item()), float(score.item())

        return step.compiled.exclusively(update)

    def _check_finite(self, loss: NDArray[np.generic], total: NDArray[np.generic] | None = None) -> None:
        """NotFiniteError where an update was held back by the guard."""
        if total is None or np.isfinite(float(total.item())):
            return
        got, need = f"update {self.updates + 1} of loss {loss.item():g}", "finite loss, gradients and statistics"
        error = NotFiniteError("train_on_batch", got=got, need=need, fix="a lower rate, or inputs that are finite")
        error.step, error.loss = self.updates + 1, float(loss.item())
        raise error

    @checked
    def fit(
        self,
        data: Batches | DataSet | Examples | ArrayLike,
        targets: ArrayLike | None = None,
        *,
        epochs: Size = 1,
        batch_size: Count | None = None,
        listener: Listener | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Train for `epochs` more epochs on batches, a data set, or arrays of inputs and targets (`nnc.nn.fit`).

        Batches go on from where they stand. Of data and arrays batches of `batch_size` (32) are drawn, in an order that
        the model's seed and the updates done so far decide: called again, it goes on with other orders.
        """
        batches = data if isinstance(data, Batches) else self._batches(data, targets, batch_size or 32)
        if isinstance(data, Batches) and not (targets is None and batch_size is None):
            raise UsageError("fit", got="batches beside targets or a batch size", need="one source", fix=FIT_FORMS)
        return fit(self, batches, epochs, listener=listener, stop=stop)

    def _batches(self, data: DataSet | Examples | ArrayLike, targets: ArrayLike | None, size: int) -> Batches:
        """Batches of the examples, in an order of this moment's own."""
        seed = int(generator_for(self.seed, f"fit.{self.updates}").integers(2**31))
        if isinstance(data, DataSet | Examples):
            if targets is not None:
                raise UsageError("fit", got="a data set beside targets", need="one source", fix=FIT_FORMS)
            return Batches(data, size, seed=seed)
        inputs = self._rules.checked_inputs("fit", data)
        labels = self._rules.checked_targets("fit", targets, len(inputs))
        return Batches(Examples("arrays", inputs, labels), size, seed=seed)

    @checked
    def evaluate(self, inputs: ArrayLike, target: ArrayLike, batch_size: Count = 256) -> Evaluation:
        """Mean loss and score over all examples; DataError where there are none."""
        loss = score = 0.0
        examples = self._rules.checked_inputs("evaluate", inputs)
        targets = self._rules.checked_targets("evaluate", target, len(examples))
        if not len(examples):
            raise DataError("evaluate", got="no examples", need="at least one: a mean is over something")
        for start, stop in _spans(len(examples), batch_size):
            batch_loss, batch_score = self.evaluation_step(stop - start).run(examples[start:stop], targets[start:stop])
            loss += float(batch_loss.item()) * (stop - start)
            score += float(batch_score.item())
        count = len(examples)
        return Evaluation(loss / count, score / count, count)

    @checked
    def predict(self, inputs: ArrayLike, batch_size: Count = 256) -> NDArray[np.generic]:
        """The output for every example."""
        examples = self._rules.checked_inputs("predict", inputs)
        result = np.empty((len(examples), *self.output_shape), self._output.dtype.numpy)
        for start, stop in _spans(len(examples), batch_size):
            step = self.prediction_step(stop - start)
            step.compiled.exclusively(partial(_predict, step, examples[start:stop], result[start:stop]))
        return result


# What a copy of a model does not take along.
_MADE_ANEW = frozenset({"_arena", "_steps", "_plans", "_making"})


def _predict(step: ModelStep, examples: NDArray[np.generic], result: NDArray[np.generic]) -> None:
    result[...] = step.views(examples)[0]


def _most_programs() -> int:
    return SETTINGS.kept_programs


def _named(tensors: Mapping[str, T], path: str) -> T:
    """The tensor at `path`; FormatError when it is missing."""
    if path not in tensors:
        raise FormatError("apply", got=f"no tensor for {path}", need="one for each path of the model's tensors()")
    return tensors[path]


def _fits(values: NDArray[np.generic], tensor: Tensor) -> bool:
    """True when the values are numbers that the tensor's element type can take without a change of kind."""
    return bool(np.can_cast(values.dtype, tensor.dtype.numpy, "same_kind"))


def _spans(count: int, size: int) -> Iterator[tuple[int, int]]:
    """[0, size), [size, 2 · size), … up to `count`."""
    for start in range(0, count, size):
        yield start, min(start + size, count)


def _summarize(layer: Layer, name: str, x: Symbol, graph: SymbolicGraph) -> tuple[list[LayerSummary], Symbol]:
    if isinstance(layer, Sequential):
        rows: list[LayerSummary] = []
        for part, inner in layer.parts:
            inner_rows, x = _summarize(inner, f"{name}.{part}" if name else part, x, graph)
            rows.extend(inner_rows)
        return rows, x
    found: dict[str, int] = {}

    def resolve(parameter: ParameterSpec) -> Symbol:
        found[parameter.path] = parameter.spec.elements if parameter.trainable else 0
        return graph.input(parameter.spec, parameter.path)

    y = layer.build(Scope(resolve, name), x)
    return [LayerSummary(name, repr(layer), y.shape[1:], sum(found.values()))], y
