"""Compiled functions: the values of eager code, once recorded per signature, with gradients through them."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import ops
from nnc.core.settings import SETTINGS
from nnc.dynamic import Variable
from nnc.dynamic.graph import default_graph
from nnc.errors import ArgumentError, MemoryLimitError, SymbolError, UsageError
from nnc.symbolic import verify

X = np.array([[0.5, -1.0, 2.0], [1.0, 0.25, -0.5]], np.float32)


def line_of(text: str) -> str:
    lines = Path(__file__).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return f"{Path(__file__).name}:{number}"


def layer(parameters: dict[str, Any], x: Any, power: int = 2) -> Any:
    y = ops.tanh(x @ parameters["w"] + parameters["b"])
    return (y**power).mean()


PARAMETERS = {"w": np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2), "b": np.float32([0.1, -0.1])}


# ---- signatures


def test_a_result_through_which_no_gradient_flows_is_compiled() -> None:
    np.testing.assert_allclose(nnc.compile(lambda x: ops.stop_gradient(ops.exp(x)))(X), np.exp(X), rtol=1e-6)


def test_values_are_those_of_eager_code() -> None:
    eager = layer({name: nnc.tensor(value) for name, value in PARAMETERS.items()}, nnc.tensor(X))
    compiled = nnc.compile(layer)
    for _ in range(3):
        assert compiled(PARAMETERS, X).item() == pytest.approx(eager.item(), rel=1e-6)
    assert isinstance(compiled(PARAMETERS, X), Variable)
    assert compiled.recorded == 1


def test_containers_of_variables_are_a_part_of_the_signature() -> None:
    x, y = nnc.tensor(X), nnc.tensor(2 * X)
    compiled = nnc.compile(lambda *trees: trees)
    forms: list[tuple[Any, ...]] = [
        (x, y),
        ([x, y],),
        ((x, y),),
        ([x], y),
        ([x], [y]),
        ([x, [y]],),
        ({"a": x, "b": y},),
        ({"b": x, "a": y},),
        ([], x, y),
    ]
    for _ in range(2):
        for form in forms:
            assert repr(compiled(*form)) == repr(form)
    assert compiled.recorded == len(forms)


@pytest.mark.parametrize("count", [2, 40])
def test_each_call_goes_to_the_tensors_of_that_call(count: int) -> None:
    compiled = nnc.compile(lambda parts: [2 * part for part in parts])
    kept = []
    for factor in range(1, 5):
        parts = [nnc.tensor(factor * number * X) for number in range(count)]
        kept.append((factor, compiled(parts)))
    for factor, results in kept:
        for number, result in enumerate(results):
            np.testing.assert_array_equal(result.numpy(), 2 * factor * number * X)
    assert compiled.recorded == 1


def test_a_new_signature_is_recorded_anew() -> None:
    seen: list[object] = []

    @nnc.compile
    def function(x: Any, factor: object = 1, *, flag: bool = False) -> Any:
        seen.append((x.shape, x.dtype, factor, flag))
        return x * factor

    calls: list[tuple[Any, dict[str, Any]]] = [
        ((X,), {}),
        ((X, 1), {}),
        ((X, 1.0), {}),
        ((X, True), {}),
        ((X, 0.0), {}),
        ((X, -0.0), {}),
        ((X,), {"flag": True}),
        ((X[:1],), {}),
        ((X.astype(np.float64),), {}),
        ((nnc.tensor(X), np.float32(2.0)), {}),
    ]
    for _ in range(2):
        for args, kwargs in calls:
            function(*args, **kwargs)
    assert len(seen) == function.recorded == len(calls)
    assert repr(function).endswith("recorded 10 times")
    # Another array of the same spec is no new signature; neither is a variable in its place.
    np.testing.assert_array_equal(function(nnc.tensor(X + 1)), X + 1)
    np.testing.assert_array_equal(function(X, np.float32(5.0)), X * 5)
    assert function.recorded == 10


def test_the_program_that_was_used_longest_ago_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "kept_programs", 2)
    function = nnc.compile(lambda x: x + 1)
    for size in (1, 2, 1, 3, 1, 2):
        function(np.zeros(size))
    assert function.signatures == ("x=f64[1]", "x=f64[2]")


def test_static_arguments_must_be_hashed() -> None:
    with pytest.raises(UsageError, match="an argument of type set") as caught:
        nnc.compile(lambda x, names: x)(X, {"a"})  # a set
    assert caught.value.origin == line_of("a set")


def test_results_of_every_kind_come_back() -> None:
    constant = np.arange(3.0)

    @nnc.compile
    def function(x: Any) -> Any:
        y = x.sum()
        return {
            "input": x,
            "part": x[0],
            "twice": (y, y),
            "none": None,
            "text": "a",
            "array": constant,
            "shape": x.shape,
        }

    got = function(X)
    np.testing.assert_array_equal(got["input"], X)
    np.testing.assert_array_equal(got["part"], X[0])
    assert got["twice"][0].item() == got["twice"][1].item() == X.sum()
    assert (got["none"], got["text"], got["shape"]) == (None, "a", (2, 3))
    np.testing.assert_array_equal(got["array"], constant)
    assert nnc.compile(lambda x: 5)(X) == 5


def test_results_are_not_overwritten_by_the_next_call() -> None:
    double = nnc.compile(lambda x: x * 2)
    first = double(X)
    double(X + 1)
    np.testing.assert_array_equal(first, X * 2)


def test_arguments_that_nobody_reads_are_left_alone() -> None:
    assert nnc.compile(lambda x, y: x.sum() * 0 + 1)(X, X).item() == 1.0
    assert nnc.compile(lambda x, y: y.sum())(X, X).item() == X.sum()


def test_constants_are_brought_along() -> None:
    table, buffer = nnc.tensor([[1.0, 2.0, 3.0]]), np.ones(3, np.float32)
    function = nnc.compile(lambda x: (x * table + buffer) @ nnc.tensor(np.eye(3, dtype=np.float32)))
    np.testing.assert_allclose(function(X), X * table.numpy() + 1)
    buffer[:] = 9.0
    np.testing.assert_allclose(function(X), X * table.numpy() + 1)


# ---- composition


def test_gradients_compose_in_any_order() -> None:
    plain = nnc.grad(layer)(PARAMETERS, X)
    for function in (
        nnc.compile(nnc.grad(layer)),
        nnc.grad(nnc.compile(layer)),
        nnc.compile(nnc.grad(nnc.compile(layer))),
    ):
        got = function(PARAMETERS, X)
        for name in PARAMETERS:
            np.testing.assert_allclose(got[name], plain[name], rtol=1e-5, atol=1e-7)


def test_gradients_go_through_a_compiled_function_to_any_order() -> None:
    compiled = nnc.compile(lambda x: x * x * x)
    assert nnc.grad(nnc.grad(compiled))(2.0).item() == 12.0
    x = nnc.variable([1.0, 2.0])
    (slope,) = default_graph().backward([ops.exp(compiled(x[:1]) * 2.0)], [x])
    np.testing.assert_allclose(slope, [6 * np.exp(2.0), 0.0], rtol=1e-6)


def test_a_recorded_call_is_forgotten_with_its_variables() -> None:
    graph = default_graph()
    gc.collect()
    before = len(graph.record.execs), len(graph.record.tensors)
    compiled = nnc.compile(lambda x, y, z: (ops.exp(x[:, 1:]) * 2.0, (x * y).sum()))
    x = nnc.variable(X)
    y, total = compiled(x, np.float32(2.0), X)
    verify(graph.record)
    (slope,) = graph.backward([y, total], [x])
    expected = np.full((2, 3), 2.0)
    expected[:, 1:] += 2 * np.exp(X[:, 1:])
    np.testing.assert_allclose(slope, expected, rtol=1e-6)
    del x, y, total, slope
    assert (len(graph.record.execs), len(graph.record.tensors)) == before


def test_nothing_is_recorded_where_nobody_asked() -> None:
    compiled, x = nnc.compile(lambda x: x * x), nnc.variable(X)
    assert compiled(nnc.tensor(X)).key is None
    with nnc.no_grad():
        assert compiled(x).key is None
    assert compiled(x).key is not None


def test_a_training_step_is_one_program() -> None:
    optimizer = nnc.nn.Adam(0.01)

    @nnc.compile
    def step(parameters: Any, state: Any, x: Any) -> Any:
        loss, gradients = nnc.value_and_grad(layer)(parameters, x)
        return loss, *optimizer.update(parameters, gradients, state)

    parameters, state = PARAMETERS, optimizer.init(PARAMETERS)
    losses = []
    for _ in range(20):
        loss, parameters, state = step(parameters, state, X)
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    assert step.recorded == 1
    assert state["step"].item() == 20.0


# ---- memory


def test_memory_is_known_before_a_run() -> None:
    compiled = nnc.compile(layer)
    specs = {"w": nnc.spec((3, 2)), "b": nnc.spec((2,))}
    statement = compiled.memory(specs, nnc.spec((2, 3)))
    assert statement == compiled.memory(PARAMETERS, X)
    assert statement.lower_bound <= statement.arena
    # Arguments and results are the caller's: w, b, x and a scalar.
    assert statement.bound == 4 * (6 + 2 + 6 + 1)
    assert compiled.recorded == 1
    with pytest.raises(UsageError, match="specs are for memory"):
        compiled(specs, nnc.spec((2, 3)))


def test_memory_of_the_only_program_needs_no_arguments() -> None:
    compiled = nnc.compile(lambda x: x * 2)
    compiled(X)
    assert compiled.memory() == compiled.memory(X)
    compiled(X[0])
    with pytest.raises(UsageError, match="programs of 2 signatures"):
        compiled.memory()


def test_a_limit_on_memory_is_met_or_refused() -> None:
    def chain(x: Any, w: Any) -> Any:
        for _ in range(12):
            x = ops.tanh(x @ w)
        return x.sum()

    x, w = np.linspace(-1, 1, 128 * 16, dtype=np.float32).reshape(128, 16), np.eye(16, dtype=np.float32)
    free = nnc.compile(nnc.grad(chain))
    limit = free.memory(x, w).arena * 2 // 3
    limited = nnc.compile(nnc.grad(chain), memory_limit=limit)
    assert limited.memory(x, w).arena <= limit
    np.testing.assert_array_equal(limited(x, w), free(x, w))
    with pytest.raises(MemoryLimitError):
        nnc.compile(chain, memory_limit=100)(x, w)


# ---- errors


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda x: x if x.sum() > 0 else -x, r"truth: got the traced value bool\[\].*nnc\.cond"),
        (lambda x: [x for _ in range(x.sum())], "index: got the traced value"),
        (lambda x: x * float(x.sum()), "float: got"),
        (lambda x: x.item(), "item: got"),
        (lambda x: np.asarray(x), "numpy: got"),
        (lambda x: x[x > 0], "whose values only a run knows"),
    ],
)
def test_what_only_values_can_answer_is_said_with_the_line(function: Any, match: str) -> None:
    with pytest.raises(UsageError, match=match) as caught:
        nnc.compile(function)(X)
    assert caught.value.origin.startswith("test_compilation.py:")


def test_a_recorded_variable_must_be_an_argument() -> None:
    w = nnc.variable(X)
    for function in (lambda x: x * w, lambda x: w, lambda x: ops.add(w, x)):
        with pytest.raises(SymbolError, match="recorded variable f32.* that is no argument"):
            nnc.compile(function)(X)
    fixed = w.detach()
    np.testing.assert_array_equal(nnc.compile(lambda x: ops.multiply(fixed, x))(X), X * X)


def test_a_traced_value_that_escapes_is_refused() -> None:
    kept: list[Any] = []
    nnc.compile(lambda x: kept.extend([x, x * 3]) or x * 2)(X)
    with pytest.raises(SymbolError, match="traced by a call that is over") as caught:
        kept[0] + 1  # escaped
    assert caught.value.origin == line_of("escaped")
    # What no result needs is no longer in the graph.
    assert repr(kept[1]) == "TracedValue(f32[2, 3])"
    with pytest.raises(SymbolError, match="traced by a call that is over"):
        kept[1].T.sum()
    with pytest.raises(SymbolError, match="traced by a call that is over"):
        nnc.compile(lambda x: x + kept[0])(X)
    with pytest.raises(UsageError, match="elements only in a run"):
        nnc.compile(lambda x: x)(kept[0])


def test_an_error_while_recording_leaves_the_function_usable() -> None:
    def function(x: Any) -> Any:
        if x.ndim > 1:
            raise ValueError("flat ones only")
        return x * 2

    compiled = nnc.compile(function)
    with pytest.raises(ValueError, match="flat"):
        compiled(X)
    np.testing.assert_array_equal(compiled(X[0]), X[0] * 2)
    np.testing.assert_array_equal(nnc.tensor(X) * 2, X * 2)


def test_methods_are_refused() -> None:
    class Net:
        @nnc.compile
        def forward(self, x: Any) -> Any:
            return x

    with pytest.raises(UsageError, match="a method of Net") as caught:
        Net().forward(X)  # a method
    assert caught.value.origin == line_of("a method")
    assert Net.forward.recorded == 0


def test_arguments_in_any_memory_and_of_any_type() -> None:
    double = nnc.compile(lambda x: x + x)
    for array in (
        X.T,
        X[:, ::-1],
        X.astype(">f4"),
        np.zeros((0, 3), np.float32),
        np.float32(2.0),
        X.astype(np.float16),
    ):
        np.testing.assert_array_equal(double(array), np.asarray(array) * 2)
    np.testing.assert_array_equal(double(np.array([1 + 2j])), [2 + 4j])
    with pytest.raises(UsageError, match="clongdouble|complex256"):
        double(np.ones(2, np.clongdouble))
    with pytest.raises(UsageError, match="object"):
        double(np.array([None]))


def test_compiled_functions_are_shared_between_threads_and_not_copied() -> None:
    compiled = nnc.compile(layer)
    expected = [compiled(PARAMETERS, X * number).item() for number in range(4)]
    got: dict[int, list[float]] = {}

    def work(number: int) -> None:
        got[number] = [compiled(PARAMETERS, X * number).item() for _ in range(50)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {number: [expected[number]] * 50 for number in range(4)}


@nnc.compile
def doubled(x: Any) -> Any:
    return x * 2


def test_a_compiled_function_is_copied_and_pickled_like_a_function() -> None:
    assert copy.deepcopy(doubled) is pickle.loads(pickle.dumps(doubled)) is doubled
    other = pickle.loads(pickle.dumps(nnc.compile(ops.square, deterministic=True)))
    assert other.options.deterministic
    nameless = nnc.compile(functools.partial(lambda x, power: x**power, power=2))
    for one in (other, copy.deepcopy(other), copy.copy(nameless)):
        np.testing.assert_array_equal(one(X), X * X)
    for unnamed in (nnc.compile(lambda x: x), nameless):
        with pytest.raises(UsageError, match="lambda"):
            pickle.dumps(unnamed)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(ArgumentError, match="compile: got function=3; need something to call or None"):
        nnc.compile(3)  # type: ignore[call-overload]


def test_what_was_recorded_is_shown_by_signature() -> None:
    double = nnc.compile(lambda x, factor: x * factor)
    for arguments in ((X, 2.0), (X[0], 2.0), (nnc.tensor(X), np.float32(2.0)), (X, 2.0)):
        double(*arguments)
    assert set(double.signatures) == {"x=f32[2, 3], factor=2.0", "x=f32[3], factor=2.0", "x=f32[2, 3], factor=f32[]"}
    assert double.recorded == 3


# ---- one node of the record


def test_a_call_is_one_node_that_keeps_what_its_gradient_reads() -> None:
    compiled = nnc.compile(layer)
    weights = {name: nnc.variable(value) for name, value in PARAMETERS.items()}
    gc.collect()
    before = len(default_graph().record.execs)
    y = compiled(weights, nnc.tensor(X))
    assert len(default_graph().record.execs) == before + 1
    kept = sum(1 for spec, _, is_held, _ in default_graph().alive() if not is_held and spec.shape == (2, 2))
    assert kept
    slopes = default_graph().backward([y], list(weights.values()))
    want = nnc.grad(layer)(PARAMETERS, X)
    for slope, other in zip(slopes, want.values(), strict=True):
        np.testing.assert_allclose(slope, other, rtol=1e-5)
    del y
    assert len(default_graph().record.execs) == before


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_derivatives_go_through_a_node_to_any_order(order: int) -> None:
    function = lambda x: (ops.sin(x) * x**3).sum()  # noqa: E731  # a function of one line
    compiled: Any = nnc.compile(function)
    plain: Any = function
    for _ in range(order):
        plain, compiled = ((lambda f: lambda x: nnc.grad(f)(x).sum())(one) for one in (plain, compiled))
    point = np.linspace(0.5, 1.5, 3)
    np.testing.assert_allclose(compiled(point), plain(point), rtol=1e-9)


def test_loops_draws_and_whole_numbers_are_in_a_node_too() -> None:
    @nnc.compile
    def function(x: Any, n: Any) -> Any:
        noisy = nnc.dropout(x, 0.5)
        _, y = nnc.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2.0 + noisy), np.int64(0), x, at_most=4)
        return y, n + 1, noisy

    x = nnc.variable(X)
    y, n, noisy = function(x, np.int64(3))
    assert n.item() == 4
    np.testing.assert_allclose(y, 8 * X + 7 * noisy.numpy(), rtol=1e-5)
    (slope,) = default_graph().backward([y], [x])
    # The draws of the gradient are those of the value.
    np.testing.assert_allclose(slope, 8 + 7 * 2.0 * (noisy.numpy() != 0), rtol=1e-5)


def test_what_has_no_gradient_says_so_when_it_is_asked_for() -> None:
    @nnc.compile
    def endless(x: Any) -> Any:
        return nnc.while_loop(lambda y: y.sum() < 50, lambda y: y * 2, x)

    x = nnc.variable(X)
    y = endless(x).sum()
    with pytest.raises(UsageError, match="at_most"):
        default_graph().backward([y], [x])
