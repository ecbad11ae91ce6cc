"""What the proposal of a typed operator graph asks of the symbolic graph: M16, M18, M20, M21 and M23, row by row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.conformance.case import Case
from tests.conformance.cases import CASES
from tests.fuzz.graphs import checks
from tests.ops.test_gradients import CHOOSING_INPUTS, differentiable
from tests.symbolic.evaluation import Array, random_arrays, values_of
from tests.symbolic.interpreter import interpret
from tests.symbolic.programs import random_program

from nnc import ops
from nnc.core.values.command import Command
from nnc.core.values.dtype import F64
from nnc.core.values.spec import spec
from nnc.dynamic import DynamicGraph, Variable
from nnc.graph import Op
from nnc.ops.elementwise.complex_numbers import complex_of, conjugate, imaginary, magnitude
from nnc.ops.elementwise.pointwise import real, sqrt, square
from nnc.ops.movement.broadcast import REDUCE_SUM
from nnc.ops.movement.copy import stop_gradient
from nnc.ops.operators import OPERATORS
from nnc.ops.products.fourier import FFT
from nnc.ops.reduction.reduction import REDUCE_NORM
from nnc.ops.rules import GRADIENT, Applied, NotDifferentiable, differentiate
from nnc.symbolic import Symbol, SymbolicGraph, TensorKey, backward, compile, faults, prune, verify
from nnc.symbolic.compiler.order.choose import choose_order
from nnc.symbolic.compiler.order.uses import peak_bytes, uses_of
from nnc.symbolic.compiler.place.liveness import find_live_ranges, fold_inplace
from nnc.symbolic.compiler.place.memory import BlockSpan, lay_out
from nnc.symbolic.gradient import relevant
from nnc.symbolic.passes import Pass, simplify
from nnc.symbolic.passes.fusion import FUSION
from nnc.symbolic.rewrite import Match, Replacement, Rule, producer, rewrite

Expression = Callable[..., Symbol]
# `Any`: variables in, a variable out; symbols in, a symbol out.
Recipe = Callable[..., Any]


def names_of(graph: SymbolicGraph) -> list[str]:
    """The operators of a graph, in order."""
    return [graph.execs[key].command.op.name for key in graph.execs.toposort()]


# ---- M16: fusion is a rewriting that users may add to

BIASED: dict[str, tuple[Expression, tuple[tuple[int, ...], ...], list[str]]] = {
    "gemm": (
        lambda x, w, b: ops.relu(ops.gemm(x, w) + b),
        ((5, 4), (4, 3), (3,)),
        ["gemm", "relu"],
    ),
    "convolution": (
        lambda x, w, b: ops.relu(ops.convolution(x, w, window=ops.window_of(3, padding="same")) + b),
        ((2, 5, 6, 3), (3, 3, 3, 4), (4,)),
        ["convolution", "relu"],
    ),
}


@pytest.mark.parametrize("name", BIASED)
def test_m16_a_bias_is_fused_into_the_product(name: str) -> None:
    function, shapes, expected = BIASED[name]
    graph = SymbolicGraph()
    inputs = [graph.input(spec(shape, "f64")) for shape in shapes]
    y = function(*inputs)
    values = dict(zip(inputs, random_arrays(shapes, low=-1.0), strict=True))
    before = values_of(graph, [y], values)
    assert rewrite(graph, FUSION, [y]) == {"bias": 1}
    prune(graph, [y])
    assert names_of(graph) == expected
    assert faults(graph) == ()
    np.testing.assert_allclose(values_of(graph, [y], values)[0], before[0], rtol=1e-12)


def norm_of_squares(match: Match) -> Replacement | None:
    """√(sum x²) over some axes is the norm over them: three execs of a user's own liking as one."""
    total = match.producer(0, REDUCE_SUM)
    squares = None if total is None else producer(match.graph, total.inputs[0], square)
    if total is None or squares is None or squares.inputs[0] is None:
        return None
    return match.graph.apply(Command(REDUCE_NORM, total.command.attrs), [match.graph.symbol(squares.inputs[0])])


def test_m16_a_fusion_of_this_file() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((4, 3), "f64"))
    y = ops.exp(ops.sqrt(ops.reduce_sum(ops.square(x), 1)))
    values = {x: random_arrays([(4, 3)], low=-1.0)[0]}
    before = values_of(graph, [y], values)
    assert rewrite(graph, [Rule("norm of squares", sqrt, norm_of_squares)], [y]) == {"norm of squares": 1}
    prune(graph, [y])
    assert names_of(graph) == ["reduce_norm", "exp"]
    assert faults(graph) == ()
    np.testing.assert_allclose(values_of(graph, [y], values)[0], before[0], rtol=1e-12)


# ---- M18: gradients of gradients of gradients, for every operator that has one

STEP = 1e-5
# Elements of a row: enough that nothing is trivially constant, few enough for graphs of three orders.
ENOUGH = 8


# What stops gradients has another one than its differences, on purpose.
# Complex operators are looked at between real numbers, below.
OTHERS = (stop_gradient, real, FFT, complex_of, conjugate, imaginary, magnitude)
DIFFERENTIABLE = [op for op in OPERATORS if not isinstance(GRADIENT[op], NotDifferentiable) and op not in OTHERS]


def third_order_row(op: Op[Any]) -> Case:
    """The smallest smooth row of an operator that is large enough, or else its largest."""
    rows = [case for case in CASES if case.op is op and differentiable(case) and 0 not in sizes(case)]
    rows.sort(key=lambda case: sum(sizes(case)))
    assert rows, f"no smooth row of {op.name} in the conformance table"
    return next((case for case in rows if sum(sizes(case)) >= ENOUGH), rows[-1])


def sizes(case: Case) -> list[int]:
    return [math.prod(argument.shape) for argument in case.arguments if argument is not None]


def weighted(graph: SymbolicGraph, symbols: Sequence[Symbol], values: dict[Symbol, Array]) -> Symbol:
    """Σ weight · symbol over all elements, with fixed weights that are put into `values`."""
    generator = np.random.default_rng(len(values))
    terms = []
    for symbol in symbols:
        weight = graph.input(symbol.spec, "weight")
        values[weight] = generator.standard_normal(symbol.shape)
        terms.append(ops.reduce_sum(symbol * weight))
    return ops.sum_of(*terms)


@pytest.mark.turns(4)
@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_m18_the_third_order_is_that_of_differences_of_the_second(op: Op[Any]) -> None:
    case = third_order_row(op)
    graph = SymbolicGraph()
    inputs = [None if one is None else graph.input(one) for one in case.specs(F64)]
    values = {
        x: array for x, array in zip(inputs, case.arrays(F64), strict=True) if x is not None and array is not None
    }
    chosen = CHOOSING_INPUTS.get(case.op, ())
    free = [x for index, x in enumerate(inputs) if x is not None and x.spec.dtype is F64 and index not in chosen]
    results = [y for y in graph.apply(Command(case.op, case.attrs), inputs) if y.spec.dtype.is_float]
    check_the_third_order(graph, free, results, values)


def test_m18_the_third_order_between_real_numbers_through_complex_ones() -> None:
    graph = SymbolicGraph()
    x, y = graph.input(spec((2, 3), F64), "x"), graph.input(spec((2, 3), F64), "y")
    z = ops.fft(ops.complex_of(x, y), axis=-1)
    turned = ops.ifft(z * ops.conjugate(ops.fft(z, axis=0)), axis=-1)
    values = {one: np.random.default_rng(index).standard_normal(one.shape) for index, one in enumerate((x, y))}
    check_the_third_order(graph, [x, y], [ops.magnitude(z), ops.real(turned), ops.imaginary(turned)], values)


def check_the_third_order(
    graph: SymbolicGraph, free: Sequence[Symbol], results: Sequence[Symbol], values: dict[Symbol, Array]
) -> None:
    # The sine makes all derivatives of linear operators differ from 0.
    scalar = weighted(graph, [ops.sin(y) for y in results], values)
    for _ in range(2):
        scalar = weighted(graph, backward(graph, [scalar], free), values)
    third = backward(graph, [scalar], free)
    verify(graph)
    direction = {x: np.random.default_rng(index).standard_normal(x.shape) for index, x in enumerate(free)}

    def at(step: float) -> list[Array]:
        point = {x: array + step * direction[x] if x in direction else array for x, array in values.items()}
        return interpret(graph, [scalar, *third], point)

    upper, lower, (_, *slopes) = at(STEP)[0], at(-STEP)[0], at(0.0)
    got = sum(float((slope * direction[x]).sum()) for x, slope in zip(free, slopes, strict=True))
    scale = sum(float(np.abs(slope * direction[x]).sum()) for x, slope in zip(free, slopes, strict=True))
    assert abs(got - float(upper - lower) / (2 * STEP)) <= 1e-6 * max(1.0, abs(float(upper)), scale)


# ---- M20: eager work and symbolic work are one graph

RECIPES: dict[str, tuple[Recipe, tuple[tuple[int, ...], ...]]] = {
    "dense": (lambda x, w, b: ops.tanh(ops.gemm(x, w, b)), ((3, 4), (4, 2), (2,))),
    "fan out": (lambda x, y: ops.exp(x) * y + ops.sin(x) / y, ((2, 3), (3,))),
    "slices": (lambda x: ops.concatenate([x[1:3], ops.exp(x[0:2])], 0) * x, ((4, 2),)),
    "windows": (
        lambda x, w: ops.average_pool(ops.convolution(x, w, window=ops.window_of(2)), (2, 2), ops.window_of(2)) * 2.0,
        ((1, 4, 4, 2), (2, 2, 2, 2)),
    ),
    "loss": (lambda x: ops.reduce_mean(ops.square(ops.log_softmax(x))), ((3, 5),)),
}


def canonical(graph: SymbolicGraph, outputs: Sequence[TensorKey]) -> list[object]:
    """The execs that outputs depend on, with tensors numbered by appearance; names, origins and keys do not matter."""
    numbers: dict[TensorKey, int] = {}

    def place(key: TensorKey | None) -> object:
        if key is None:
            return None
        root = graph.root(key)
        return numbers.setdefault(root, len(numbers)), graph.tensors[root].spec, graph.region(key)

    heads = [writer for key in outputs for writer in graph.writers(key)]
    records = [graph.execs[key] for key in graph.execs.postorder(heads)]
    rows: list[object] = [
        (record.command, [*map(place, record.inputs)], [*map(place, record.outputs)]) for record in records
    ]
    return [*rows, [*map(place, outputs)]]


def key_of(variable: Variable) -> TensorKey:
    """The symbol of a recorded variable."""
    assert variable.key is not None
    return variable.key


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", RECIPES)
def test_m20_the_gradient_of_a_trace_is_the_symbolic_one(name: str, order: int) -> None:
    recipe, shapes = RECIPES[name]
    eager, symbolic = DynamicGraph(backend="reference"), SymbolicGraph()
    variables = [eager.variable(array) for array in random_arrays(shapes)]
    symbols = [symbolic.input(spec(shape, "f64")) for shape in shapes]
    values, results = [recipe(*variables)], [recipe(*symbols)]
    for _ in range(order):
        values = list(eager.backward(values, variables, create_graph=True))
        results = list(backward(symbolic, results, symbols))
    assert canonical(eager.record, [key_of(value) for value in values]) == canonical(
        symbolic, [result.key for result in results]
    )
    arrays = {symbol: variable.numpy() for symbol, variable in zip(symbols, variables, strict=True)}
    for got, want in zip(values, values_of(symbolic, results, arrays), strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-15)


def test_m20_a_trace_is_taken_out_and_compiled() -> None:
    eager = DynamicGraph(backend="reference")
    x, w = (eager.variable(array) for array in random_arrays([(3, 4), (4, 2)]))
    y = ops.tanh(x @ w)
    slopes = eager.backward([y], [x, w], create_graph=True)
    wanted = [key_of(variable) for variable in (y, *slopes)]
    trace, mapped = eager.record.subgraph(eager.record.needed_for(wanted))
    verify(trace)
    outputs = [trace.symbol(mapped[key]) for key in wanted]
    simplify(trace, outputs)
    program = compile(trace, outputs, backend="reference")
    for seed in (0, 1):
        fresh = random_arrays([(3, 4), (4, 2)], seed)
        got = program(
            {trace.symbol(mapped[key_of(v)]): array for v, array in zip((x, w), fresh, strict=True)}, *outputs
        )
        product = np.tanh(fresh[0] @ fresh[1])
        slope = 1 - product**2
        for one, want in zip(got, (product, slope @ fresh[1].T, fresh[0].T @ slope), strict=True):
            np.testing.assert_allclose(one, want, rtol=1e-12)


# ---- M21: optimization keeps graphs valid and values as they are

# For all passes twice over, and of each pass by itself a third of them.
GRAPHS = 9


@pytest.mark.turns(4)
@pytest.mark.parametrize(
    "passes", [[one] for one in Pass] + [list(Pass) * 2], ids=lambda passes: passes[0].name.lower() + str(len(passes))
)
def test_m21_passes_keep_random_graphs_valid_and_their_values(passes: list[Pass]) -> None:
    for seed in range(GRAPHS if len(passes) > 1 else GRAPHS // 3):
        checks.check_passes(checks.Case(random_program(seed * len(Pass) + len(passes)), 1), passes)


# ---- M23: backward is stages, each of which can be called alone


def by_hand() -> tuple[SymbolicGraph, Symbol, Symbol, Symbol]:
    """y = sin(x · w), with an exec beside the way; (graph, x, w, y)."""
    graph = SymbolicGraph()
    x, w = graph.input(spec((2, 3), "f64"), "x"), graph.input(spec((3, 2), "f64"), "w")
    y = ops.sin(ops.gemm(x, w))
    ops.exp(x)
    return graph, x, w, y


def test_m23_relevance_finds_what_lies_between() -> None:
    graph, x, w, y = by_hand()
    found = relevant(graph, [y], [w])
    assert [graph.execs[key].command.op.name for key in sorted(found.execs)] == ["gemm", "sin"]
    assert w.key in found.roots
    assert x.key not in found.roots


def test_m23_a_rule_alone_appends_the_gradient_of_one_exec() -> None:
    graph, *_, y = by_hand()
    record = graph.execs[graph.writers(y.key)[0]]
    inputs = tuple(graph.symbol(key) for key in record.inputs if key is not None)
    seed = graph.input(y.spec, "seed")
    before = len(graph.execs)
    (slope,) = differentiate(record.command.op, Applied(record.command.attrs, inputs, (y,), (True,)), (seed,))
    assert isinstance(slope, Symbol)
    assert len(graph.execs) > before
    assert faults(graph) == ()


def test_m23_pruning_takes_out_what_the_gradient_does_not_need() -> None:
    graph, _, w, y = by_hand()
    (slope,) = backward(graph, [y], [w])
    assert prune(graph, [slope]) == 2
    assert names_of(graph) == ["gemm", "fill", "cos", "multiply", "gemm"]


def test_m23_order_lives_and_plan_need_no_backend() -> None:
    graph, x, w, y = by_hand()
    (slope,) = backward(graph, [y], [w])
    execs = graph.needed_for([slope.key])
    uses = uses_of(graph, execs, (x.key, w.key), (slope.key,))
    order = choose_order(graph, execs, uses, {})
    assert sorted(order) == sorted(execs)
    assert peak_bytes(order, uses) <= peak_bytes(execs, uses)
    lives = find_live_ranges(graph, order, uses, frozenset((x.key, w.key)))
    apart = len(lives.blocks())
    assert fold_inplace(graph, order, lives) == apart - len(lives.blocks()) > 0
    plan = lay_out([BlockSpan(life, life.lower, life.upper, "", graph) for life in lives.blocks()]).plan
    assert plan.lower_bound <= plan.arena_bytes < sum(graph.tensors[root].spec.nbytes for root in lives.of) + 64 * apart


def test_m23_lowering_is_the_last_stage() -> None:
    graph, x, w, y = by_hand()
    (slope,) = backward(graph, [y], [w])
    program = compile(graph, [slope], backend="reference")
    assert program.memory().arena >= program.memory().lower_bound
    left, right = random_arrays([(2, 3), (3, 2)])
    (got,) = program({x: left, w: right}, slope)
    np.testing.assert_allclose(got, left.T @ np.cos(left @ right), rtol=1e-12)


def test_the_exec_of_a_gradient_is_the_writer_of_its_symbol() -> None:
    graph, x, w, y = by_hand()
    gradients = backward(graph, [y], [x, w])
    writers = [graph.writers(gradient.key) for gradient in gradients]
    assert [graph.execs[key].command.op.name for (key,) in writers] == ["gemm", "gemm"]
