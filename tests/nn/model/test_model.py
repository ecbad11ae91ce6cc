from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from nnc import nn, ops
from nnc.core.settings import SETTINGS
from nnc.core.values.dtype import BF16, F16, F32, F64, TOLERANCE, DType
from nnc.core.values.storage import Storage
from nnc.dynamic import DynamicGraph
from nnc.errors import ArgumentError, AttributeValueError, DTypeError, FormatError, ShapeError, UsageError
from nnc.nn.steps.keys import StepKey, StepKind
from nnc.symbolic.compiler.place.memory_statement import COMPILING, EXEC_BYTES, START
from nnc.symbolic.passes import Pass

Array = NDArray[np.float64]


def dense(**options: object) -> nn.Model:
    """Two dense layers with a mean squared error, on the reference backend."""
    layer = nn.Sequential(hidden=nn.Dense(5), act=nn.Tanh(), out=nn.Dense(2))
    options = {"loss": nn.MeanSquaredError(), "seed": 3, "backend": "reference", **options}
    return nn.Model(layer, (4,), **options)  # type: ignore[arg-type]  # options by name


def classifier(**options: object) -> nn.Model:
    layer = nn.Sequential(nn.Convolution(3), nn.ReLU(), nn.MaxPool(), nn.Flatten(), head=nn.Dense(4))
    return nn.Model(layer, (4, 4, 1), backend="reference", **options)  # type: ignore[arg-type]  # options by name


def examples(count: int, seed: int = 0) -> tuple[Array, Array]:
    generator = np.random.default_rng(seed)
    inputs = generator.standard_normal((count, 4))
    return inputs, np.stack([inputs.sum(1), inputs[:, 0] * inputs[:, 1]], 1)


def bits(model: nn.Model) -> bytes:
    """Everything that training changes."""
    tensors = {**model.tensors(), **model.states}
    return b"".join(tensors[name].numpy().tobytes() for name in sorted(tensors)) + str(model.updates).encode()


# ---- parameters


def test_parameters_have_paths_and_shapes() -> None:
    model = classifier()
    assert {path: tensor.shape for path, tensor in model.parameters.items()} == {
        "0.weight": (3, 3, 1, 3),
        "0.bias": (3,),
        "head.weight": (12, 4),
        "head.bias": (4,),
    }
    assert model.output_shape == (4,)
    assert not any(model.parameters["0.bias"].numpy())


def test_a_summary_has_a_row_per_layer() -> None:
    inner = nn.Sequential(nn.Dense(3), nn.ReLU())
    model = nn.Model(nn.Sequential(first=inner, last=nn.Dense(2, bias=False)), (4,))
    rows = [(row.name, row.layer, row.output, row.parameters) for row in model.summary()]
    assert rows == [
        ("first.0", "Dense(units=3, bias=True)", (3,), 15),
        ("first.1", "ReLU()", (3,), 0),
        ("last", "Dense(units=2, bias=False)", (2,), 6),
    ]
    assert sum(row.parameters for row in model.summary()) == sum(
        tensor.spec.elements for tensor in model.parameters.values()
    )


def test_a_summary_tells_bytes_and_work_and_prints_a_table() -> None:
    model = nn.Model(nn.Sequential(nn.Dense(3), nn.BatchNorm(), nn.ReLU()), (4,))
    dense, norm, relu = model.summary()
    assert (dense.parameter_bytes, dense.output_bytes, dense.work) == (4 * 15, 4 * 3, 2 * 3 * 4)
    assert norm.parameters == 2 * 3
    assert norm.parameter_bytes >= 4 * 4 * 3  # statistics are held, and not trained
    assert (relu.parameter_bytes, relu.seconds) == (0, None)
    lines = str(model.summary()).splitlines()
    assert lines[0].split() == [
        "name",
        "layer",
        "output",
        "parameters",
        "parameter",
        "bytes",
        "output",
        "bytes",
        "work",
    ]
    assert lines[-1].split()[:2] == ["total", "21"]
    assert len(lines) == 3 + 4
    assert repr(model.summary()) == str(model.summary())
    assert model.summary()[:1] == (dense,)
    assert str(nn.Model(nn.Sequential(), (4,)).summary()).splitlines()[-1].split() == ["total", "0", "0", "0", "0"]


def test_a_summary_with_times_measures_each_layer() -> None:
    layers = nn.Sequential(first=nn.Dense(64), deep=nn.Sequential(nn.Dense(64), nn.Tanh()), last=nn.Dense(2))
    model = nn.Model(layers, (256,))
    rows = model.summary(time=True)
    assert [row.name for row in rows] == ["first", "deep.0", "deep.1", "last"]
    assert all(row.seconds is not None for row in rows)
    assert sum(row.seconds or 0.0 for row in rows) > 0
    assert str(rows).splitlines()[0].endswith("ms")


def test_the_same_seed_gives_the_same_bits_and_another_one_others() -> None:
    one, same, other = (dense(seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(one[path].tobytes() == same[path].tobytes() for path in one)
    assert not np.array_equal(one["hidden.weight"], other["hidden.weight"])


def test_first_values_do_not_depend_on_other_layers() -> None:
    plain = dense().state_dict()
    layer = nn.Sequential(extra=nn.Dense(4), hidden=nn.Dense(5), act=nn.Tanh(), out=nn.Dense(2))
    deeper = nn.Model(layer, (4,), loss=nn.MeanSquaredError(), seed=3).state_dict()
    for path, values in plain.items():
        np.testing.assert_array_equal(values, deeper[path])


@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64])
def test_a_model_of_any_float_type_trains(dtype: DType) -> None:
    model = dense(dtype=dtype, optimizer=nn.Adam(0.05))
    inputs, target = examples(16)
    narrow = [array.astype(dtype.numpy) for array in (inputs, target)]
    losses = [model.train_on_batch(*narrow)[0] for _ in range(40)]
    assert losses[-1] < 0.6 * losses[0]
    assert model.predict(narrow[0]).dtype == dtype.numpy


# ---- state


def test_a_state_moves_to_another_model() -> None:
    one, other = dense(seed=1), dense(seed=2)
    inputs, _ = examples(6)
    assert not np.array_equal(one.predict(inputs), other.predict(inputs))
    other.load_state_dict(one.state_dict())
    np.testing.assert_array_equal(one.predict(inputs), other.predict(inputs))


def test_a_state_is_a_copy() -> None:
    model = dense()
    state = model.state_dict()
    state["out.bias"][:] = 7
    assert not model.parameters["out.bias"].numpy().any()


Damage = Callable[[dict[str, object]], object]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda state: state.pop("out.bias"), "missing: out.bias"),
        (lambda state: state.update(more=np.zeros(2)), "unexpected: more"),
        (lambda state: state.update({"out.bias": np.zeros(3)}), "of another shape: out.bias"),
        (lambda state: state.update({"out.bias": np.array(["a", "b"])}), "of another kind: out.bias"),
        (lambda state: state.update({"out.bias": np.zeros(2, complex)}), "of another kind: out.bias"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(damage: Damage, told: str) -> None:
    model = dense()
    before = bits(model)
    state: dict[str, object] = {path: values + 1 for path, values in model.state_dict().items()}
    damage(state)
    with pytest.raises(FormatError, match=told):
        model.load_state_dict(state)  # type: ignore[arg-type]  # what does not fit is the point
    assert bits(model) == before


# ---- training against plain NumPy


def forward(weights: Mapping[str, Array], x: Array) -> tuple[Array, Array]:
    hidden = np.tanh(x @ weights["hidden.weight"] + weights["hidden.bias"])
    return hidden, hidden @ weights["out.weight"] + weights["out.bias"]


def gradients_of(weights: Mapping[str, Array], x: Array, target: Array) -> tuple[float, dict[str, Array]]:
    hidden, output = forward(weights, x)
    error = output - target
    slope = 2 * error / error.size
    inner = slope @ weights["out.weight"].T * (1 - hidden**2)
    return float(np.mean(error**2)), {
        "out.weight": hidden.T @ slope,
        "out.bias": slope.sum(0),
        "hidden.weight": x.T @ inner,
        "hidden.bias": inner.sum(0),
    }


class NumpySgd:
    def __init__(self, rate: float, momentum: float, decay: float, nesterov: bool) -> None:
        self.rate, self.momentum, self.decay, self.nesterov = rate, momentum, decay, nesterov
        self.moments: dict[str, Array] = {}

    def update(self, name: str, w: Array, g: Array, step: int) -> Array:
        slope = g + self.decay * w
        m = self.moments[name] = self.momentum * self.moments.get(name, np.zeros_like(w)) + slope
        return w - self.rate * (slope + self.momentum * m if self.nesterov else m)


class NumpyAdam:
    def __init__(self, rate: float, beta1: float, beta2: float, epsilon: float, decay: float, decoupled: bool) -> None:
        self.rate, self.beta1, self.beta2, self.epsilon = rate, beta1, beta2, epsilon
        self.decay, self.decoupled = decay, decoupled
        self.moments: dict[str, tuple[Array, Array]] = {}

    def update(self, name: str, w: Array, g: Array, step: int) -> Array:
        if not self.decoupled:
            g = g + self.decay * w
        m, v = self.moments.get(name, (np.zeros_like(w), np.zeros_like(w)))
        m, v = self.beta1 * m + (1 - self.beta1) * g, self.beta2 * v + (1 - self.beta2) * g * g
        self.moments[name] = (m, v)
        move = (m / (1 - self.beta1**step)) / (np.sqrt(v / (1 - self.beta2**step)) + self.epsilon)
        return w - self.rate * (move + (self.decay * w if self.decoupled else 0))


@pytest.mark.parametrize(
    ("optimizer", "plain"),
    [
        (nn.SGD(0.1, momentum=0.0), NumpySgd(0.1, 0.0, 0.0, False)),
        (nn.SGD(0.1, momentum=0.8, decay=0.01), NumpySgd(0.1, 0.8, 0.01, False)),
        (nn.SGD(0.1, momentum=0.8, nesterov=True), NumpySgd(0.1, 0.8, 0.0, True)),
        (nn.Adam(0.02), NumpyAdam(0.02, 0.9, 0.999, 1e-8, 0.0, False)),
        (nn.Adam(0.02, beta1=0.7, epsilon=1e-3, decay=0.1), NumpyAdam(0.02, 0.7, 0.999, 1e-3, 0.1, False)),
        (nn.Adam(0.02, decay=0.1, decoupled=True), NumpyAdam(0.02, 0.9, 0.999, 1e-8, 0.1, True)),
    ],
    ids=["sgd", "momentum", "nesterov", "adam", "adam-decay", "adam-decoupled"],
)
def test_training_is_that_of_a_numpy_loop(optimizer: nn.Optimizer, plain: NumpySgd | NumpyAdam) -> None:
    model = dense(dtype=F64, optimizer=optimizer)
    weights = model.state_dict()
    for step in range(1, 26):
        x, target = examples(8, seed=step)
        want, gradients = gradients_of(weights, x, target)
        weights = {name: plain.update(name, w, gradients[name], step) for name, w in weights.items()}
        got, _ = model.train_on_batch(x, target)
        assert got == pytest.approx(want, rel=1e-9)
    for name, w in model.state_dict().items():
        np.testing.assert_allclose(w, weights[name], rtol=1e-8, atol=1e-10)


def test_schedules_steer_each_update() -> None:
    schedule = nn.Cosine(0.5, steps=10, end=0.1)
    model = dense(dtype=F64, optimizer=nn.SGD(schedule, momentum=0.0))
    weights = model.state_dict()
    x, target = examples(8)
    for step in range(1, 13):
        _, gradients = gradients_of(weights, x, target)
        weights = {name: w - schedule.rate(step) * gradients[name] for name, w in weights.items()}
        model.train_on_batch(x, target)
    for name, w in model.state_dict().items():
        np.testing.assert_allclose(w, weights[name], rtol=1e-9)


def test_the_same_training_gives_the_same_bits() -> None:
    def trained() -> bytes:
        model = dense()
        for step in range(5):
            model.train_on_batch(*examples(8, seed=step))
        return bits(model)

    assert trained() == trained()


def test_batches_of_any_size_share_parameters() -> None:
    model = dense(optimizer=nn.SGD(0.05))
    inputs, target = examples(10)
    losses = []
    for _ in range(20):
        losses.append(model.train_on_batch(inputs[:8], target[:8])[0])
        model.train_on_batch(inputs[8:], target[8:])
    assert losses[-1] < losses[0]
    assert model.updates == 40


def test_a_batch_that_does_not_fit_changes_nothing() -> None:
    model = dense()
    inputs, target = examples(4)
    model.train_on_batch(inputs, target)
    before = bits(model)
    for wrong in ((inputs[:, :3], target), (inputs, target[:3]), (inputs, target[:, :1]), (inputs[:0], target[:0])):
        with pytest.raises(ShapeError):
            model.train_on_batch(*wrong)
    assert bits(model) == before


def test_labels_must_be_integers() -> None:
    model = classifier()
    with pytest.raises(DTypeError):
        model.train_on_batch(np.zeros((2, 4, 4, 1)), np.array([0.5, 1.5]))
    assert model.updates == 0


# ---- evaluation, prediction


def test_evaluation_and_prediction_take_a_smaller_last_batch() -> None:
    model = dense(dtype=F64)
    inputs, target = examples(10)
    want = forward(model.state_dict(), inputs)[1]
    for size in (1, 3, 4, 10, 64):
        np.testing.assert_allclose(model.predict(inputs, size), want, rtol=1e-12)
        result = model.evaluate(inputs, target, size)
        assert result.count == 10
        assert result.loss == pytest.approx(np.mean((want - target) ** 2))
        assert result.score == pytest.approx(np.mean((want - target) ** 2))


def test_accuracy_is_the_share_of_right_answers() -> None:
    model = classifier()
    inputs = np.random.default_rng(0).standard_normal((11, 4, 4, 1)).astype(np.float32)
    logits = model.predict(inputs)
    labels = logits.argmax(1)
    labels[:3] = (labels[:3] + 1) % 4
    result = model.evaluate(inputs, labels, 4)
    assert result.score == pytest.approx(8 / 11)
    shifted = logits - logits.max(1, keepdims=True)
    expected = np.mean(np.log(np.exp(shifted).sum(1)) - shifted[np.arange(11), labels])
    assert result.loss == pytest.approx(expected, rel=1e-5)
    loss, right = model.train_on_batch(inputs, labels)
    assert (loss, right) == (pytest.approx(expected, rel=1e-5), 8.0)


def test_nothing_in_gives_nothing_out() -> None:
    assert dense().predict(np.zeros((0, 4))).shape == (0, 2)


def test_evaluation_changes_nothing() -> None:
    model = dense()
    inputs, target = examples(6)
    model.train_on_batch(inputs, target)
    before = bits(model)
    model.evaluate(inputs, target, 4)
    model.predict(inputs, 4)
    assert bits(model) == before


@pytest.mark.parametrize("size", [0, -3])
def test_batch_sizes_are_positive(size: int) -> None:
    model = dense()
    with pytest.raises(ArgumentError, match="batch_size"):
        model.predict(np.zeros((2, 4)), size)
    with pytest.raises(ShapeError, match="batch size"):
        model.memory(size)


def test_a_prediction_is_not_a_view_of_the_next_one() -> None:
    model = dense()
    first = model.predict(examples(4, 0)[0])
    kept = first.copy()
    model.predict(examples(4, 1)[0])
    np.testing.assert_array_equal(first, kept)


def normalized(**options: object) -> nn.Model:
    """Convolutions with a batch norm behind them, in front of them and without one."""
    layer = nn.Sequential(
        nn.Convolution(8),
        nn.BatchNorm(),
        nn.ReLU(),
        nn.Convolution(4, kernel=1),
        nn.BatchNorm(),
        nn.Flatten(),
        head=nn.Dense(3),
    )
    return nn.Model(layer, (6, 6, 2), **options)  # type: ignore[arg-type]  # options by name


@pytest.mark.parametrize("backend", ["reference", ""])
@pytest.mark.parametrize("precision", [None, BF16])
def test_a_frozen_step_predicts_what_the_model_did(backend: str, precision: DType | None) -> None:
    model = normalized(backend=backend, precision=precision)
    x = np.random.default_rng(0).standard_normal((4, 6, 6, 2), dtype=np.float32)
    model.train_on_batch(x, [0, 1, 2, 0])
    want = model.predict(x)
    step = model.freeze(4)
    tolerance = TOLERANCE[F32 if precision is None else precision]
    room = tolerance.absolute + tolerance.relative * np.abs(want).max()
    np.testing.assert_allclose(step.run(x)[0], want, rtol=0, atol=room)
    first = np.array(step.run(x)[0])
    model.train_on_batch(x, [0, 1, 2, 0])
    assert step.run(x)[0].tobytes() == first.tobytes()
    other = model.freeze(4)
    assert other.run(x)[0].tobytes() != first.tobytes()
    assert step.run(x)[0].tobytes() == first.tobytes()


def test_a_frozen_step_does_no_work_on_weights() -> None:
    model = normalized(backend="reference", passes=(Pass.PRUNING,))
    step = model.freeze(1)
    graph = step.compiled.planned.graph
    names = [graph.execs[key].command.op.name for key in graph.execs.toposort()]
    assert names == ["convolution", "relu", "convolution", "gemm"]
    own = sum(symbol.spec.nbytes for symbol in model._programs.plan(StepKey(StepKind.FREEZE, 1)).frozen)
    assert model.memory(1, "freeze").weights == own == step.compiled.memory().bound
    assert own < model.memory(1, "predict").weights


def test_a_layer_without_parameters_is_frozen_too() -> None:
    model = nn.Model(nn.Sequential(nn.ReLU(), nn.Flatten()), (2, 2), backend="reference")
    assert model.memory(1, "freeze").weights == 0
    assert model.freeze(1).run([[[-1, 2], [3, -4]]])[0].tolist() == [[0, 2, 3, 0]]


def test_the_same_layers_run_eagerly() -> None:
    model = dense(dtype=F64)
    inputs, target = examples(4)
    graph = DynamicGraph(backend="reference")
    variables = {path: graph.variable(values) for path, values in model.state_dict().items()}
    output = model.apply(graph.constant(inputs), variables)
    np.testing.assert_array_equal(output.numpy(), model.predict(inputs))
    loss = model.loss.build(output, graph.constant(target))
    slopes = graph.backward([loss], list(variables.values()))
    _, gradients = gradients_of(model.state_dict(), inputs, target)
    for path, slope in zip(variables, slopes, strict=True):
        np.testing.assert_allclose(slope.numpy(), gradients[path], rtol=1e-9, atol=1e-12)


# ---- memory


def test_memory_is_stated_before_it_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    model = dense(optimizer=nn.Adam())
    allocate = Storage.allocate

    def refuse(nbytes: int, label: str = "") -> Storage:
        raise AssertionError(label)

    monkeypatch.setattr(Storage, "allocate", refuse)
    statement = model.memory(64)
    monkeypatch.setattr(Storage, "allocate", allocate)
    weights = 4 * (4 * 5 + 5 + 5 * 2 + 2)
    assert (statement.weights, statement.gradients, statement.optimizer_state) == (weights, weights, 2 * weights)
    assert statement.total == statement.step.arena + 3 * weights
    assert statement.step.lower_bound <= statement.step.arena < statement.step.without_reuse
    step = model.training_step(64)
    inputs, target = examples(64)
    step.run(inputs, target)
    assert step.compiled.tensor(step.inputs[0]).storage.nbytes == statement.step.arena


def test_the_statement_for_a_process_counts_results_programs_scratch_and_what_a_frozen_step_lies_beside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SETTINGS, "threads", 2)
    model = normalized()
    kept = 0
    for kind in ("train", "evaluate", "predict", "freeze"):
        memory = model.memory(3, kind)
        step = memory.step
        assert step.program == EXEC_BYTES * len(
            model._programs.plan(StepKey.parse("memory", kind, 3, 0)).step.compiled.planned.order
        )
        assert memory.kept_bytes == kept + step.program
        kept = memory.kept_bytes
        assert memory.beside == (model.memory(3, "predict").weights if kind == "freeze" else 0)
        beyond = memory.beside + memory.kept_bytes + step.outputs + step.scratch + step.compiling + START
        assert memory.process == memory.total + beyond
        assert step.running < step.running + step.compiling == COMPILING
        assert f"{memory.process} B ({step.compiling} B of it for compiling)" in str(memory)
    assert model.memory(3, "predict").step.outputs == 3 * 3 * 4
    monkeypatch.setattr(SETTINGS, "threads", 6)
    assert normalized().memory(3).step.scratch == 3 * model.memory(3).step.scratch > 0


def test_a_training_step_copies_no_parameter() -> None:
    for optimizer in (nn.Adam(), nn.SGD()):
        assert classifier(optimizer=optimizer).training_step(8).compiled.bindings.copies == ()


def test_steps_are_compiled_once_per_batch_size() -> None:
    model = dense()
    assert model.training_step(4) is model.training_step(4)
    assert model.training_step(4) is not model.training_step(5)
    assert model.evaluation_step(4) is not model.prediction_step(4)


# ---- what a model refuses


def test_a_layer_that_does_not_fit_is_refused_when_the_model_is_made() -> None:
    with pytest.raises(ShapeError, match="Convolution"):
        nn.Model(nn.Convolution(3), (4,))
    with pytest.raises(ShapeError, match="at least two dimensions"):
        nn.Model(nn.Dense(3), ())
    with pytest.raises(ShapeError):
        nn.Model(nn.Dense(3), (-1,))


def test_layers_refuse_values_that_make_no_sense() -> None:
    for make in (lambda: nn.Dense(0), lambda: nn.Convolution(0), lambda: nn.Convolution(3, kernel=0)):
        with pytest.raises(AttributeValueError):
            make()


def test_operators_on_layers_outputs_are_those_of_ops() -> None:
    model = nn.Model(nn.Sequential(nn.Flatten(), nn.Softmax()), (2, 2), backend="reference")
    x = np.arange(8.0).reshape(2, 2, 2)
    graph = DynamicGraph(backend="reference")
    want = ops.softmax(ops.reshape(graph.constant(x.astype(np.float32)), (2, 4)))
    np.testing.assert_array_equal(model.predict(x), want.numpy())


def test_kernels_of_a_model_are_measured_or_fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "cache_folder", tmp_path)
    layer, x = nn.Sequential(nn.Dense(70), nn.ReLU(), nn.Dense(3)), np.ones((4, 600), np.float32)
    fixed, tuned = (nn.Model(layer, (600,), **{option: True}) for option in ("deterministic", "autotune"))
    np.testing.assert_allclose(tuned.predict(x), fixed.predict(x), 1e-4, 1e-5)
    assert (tmp_path / "autotune.json").exists()
    with pytest.raises(UsageError, match="Model: got autotune and deterministic"):
        nn.Model(layer, (600,), autotune=True, deterministic=True)


# ---- what was asked for is done


def test_a_model_s_backend_serves_the_products_that_it_can() -> None:
    """Dense and ReLU are not fused into a product of another backend, and the values are those of BLAS."""
    layer = nn.Sequential(nn.Dense(16), nn.ReLU(), nn.Dense(8, bias=False), nn.LogSoftmax())
    model = nn.Model(layer, (32,), backend="blas")
    for step in (model.prediction_step(4), model.training_step(4), model.freeze(4)):
        products = [row for row in step.compiled.report() if "gemm" in str(row.command)]
        assert products
        assert {row.backend for row in products} == {"blas"}


def test_without_a_wish_products_are_fused_as_before() -> None:
    model = nn.Model(nn.Sequential(nn.Dense(16), nn.ReLU()), (32,))
    assert [str(row.command).partition("(")[0] for row in model.prediction_step(4).compiled.report()] == [
        "fused_output"
    ]
