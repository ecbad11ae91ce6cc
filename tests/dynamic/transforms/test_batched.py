"""vmap: every operator against a loop over the examples, and in every order with derivatives and compiled functions."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.conformance.cases import CASES, Case

import nnc
from nnc import ops
from nnc.core.values.command import Command
from nnc.core.values.dtype import F32, F64, TOLERANCE, DType
from nnc.core.values.spec import Layout
from nnc.dynamic import DynamicGraph
from nnc.errors import AttributeValueError, ShapeError, SymbolError, UsageError
from nnc.graph import Op
from nnc.ops.batching import BATCHED
from nnc.ops.indexing.order import SEARCHSORTED
from nnc.ops.operators import OPERATORS
from nnc.ops.products.linear_algebra import CHOLESKY
from nnc.ops.sequence.cached_attention import CACHED_ATTENTION

EXAMPLES = 3
# A campaign tries all rows: NNC_EXAMPLES=1000 pytest tests/dynamic/transforms/test_batched.py
ROWS = int(os.environ.get("NNC_EXAMPLES", "3"))
WAYS = pytest.mark.parametrize("way", [lambda function: function, nnc.compile], ids=["eager", "compiled"])
Way = Callable[[Callable[..., Any]], Callable[..., Any]]
# What draws its own numbers, counts, or is made by passes: a batch of them is an error that names the operator.
WITHOUT_A_RULE = {
    "adafactor", "convert_layout", "fill", "arange", "causal_bias", "fused_output", "fused_pointwise",
    "fused_reduction", "histogram", "lamb", "muon", "non_maximum_suppression",
    "roi_align", "roi_align_gradient",
}  # fmt: skip

PAGED = ("k", "v", "k_scale", "v_scale")


def dtype_of(case: Case) -> DType:
    """Rules know nothing of element types: one is enough."""
    return F64 if F64 in case.dtypes else F32 if F32 in case.dtypes else case.dtypes[0]


def examples_of(case: Case, array: Any) -> Any:
    """The array, its elements in other places for each example; what stays positive, or in order, grows instead."""
    if case.op in (CHOLESKY, SEARCHSORTED):
        return np.stack([array * (1 + example) for example in range(EXAMPLES)])
    return np.stack([np.roll(array.reshape(-1), example).reshape(array.shape) for example in range(EXAMPLES)])


def is_paged(case: Case) -> bool:
    """What is kept lies in pages, each of which any examples may have: one pool for all."""
    return case.op is CACHED_ATTENTION and case.arguments[6] is not None


def patterns_of(case: Case) -> list[tuple[bool, ...]]:
    """Every input alone, and all of them; steering numbers, counters, importance and pages are the same for all."""
    names = case.op.inputs if isinstance(case.op.inputs, tuple) else ()
    free = [
        place
        for place, argument in enumerate(case.arguments)
        if argument is not None
        and not (names and names[place] in ("rate", "step", "counter", "importance"))
        and not (is_paged(case) and names[place] in PAGED)
    ]
    chosen = {(place,) for place in free} | ({tuple(free)} if free else set())
    return sorted(tuple(place in one for place in range(len(case.arguments))) for one in chosen)


def applied(case: Case) -> Callable[..., Any]:
    command = Command(case.op, case.attrs)
    return lambda *inputs: next(one for one in inputs if one is not None).apply(command, inputs)


def rows_of(op: Op[Any]) -> list[Case]:
    """Rows that differ in the ranks of their inputs and in attributes; a batch is one more axis than eight allow.

    Weights in blocks are inside of frozen steps alone: no variable has them.
    """
    fitting = [
        case
        for case in CASES
        if case.op is op and all(len(one.shape) < 8 and one.layout is Layout.NHWC for one in case.arguments if one)
    ]
    ranks = {tuple(one and len(one.shape) for one in case.arguments): case for case in fitting}
    attrs = {repr(case.attrs): case for case in fitting}
    return [*{id(case): case for case in (*ranks.values(), *[*attrs.values()][:ROWS], *fitting[:ROWS])}.values()]


@pytest.mark.turns(4)
@pytest.mark.parametrize("op", [op for op in OPERATORS if op in BATCHED], ids=lambda op: op.name)
def test_a_batch_of_an_operator_is_what_a_loop_over_the_examples_gives(op: Op[Any]) -> None:
    for case in rows_of(op):
        check_row(case)


def check_row(case: Case) -> None:
    graph, dtype = DynamicGraph("reference"), dtype_of(case)
    arrays = case.arrays(dtype)
    function = applied(case)
    with np.errstate(all="ignore"):
        for pattern in patterns_of(case):
            given = [
                None if one is None else graph.constant(examples_of(case, one) if batched else one)
                for one, batched in zip(arrays, pattern, strict=True)
            ]
            # Running statistics are written over.
            kept = [None if one is None else one.numpy().copy() for one in given]
            axes = tuple(0 if batched else None for batched in pattern)
            found = nnc.vmap(function, axes)(*given)
            for example in range(EXAMPLES):
                inputs = [
                    None if one is None else graph.constant(one[example] if batched else one)
                    for one, batched in zip(kept, pattern, strict=True)
                ]
                for one, want in zip(found, function(*inputs), strict=True):
                    assert one.spec.shape == (EXAMPLES, *want.shape)
                    assert one.dtype is want.dtype
                    check(one[example].numpy(), want.numpy(), want.dtype)


def test_pages_of_each_example_are_refused_by_name() -> None:
    case = next(case for case in rows_of(CACHED_ATTENTION) if is_paged(case))
    graph = DynamicGraph("reference")
    given = [None if one is None else graph.constant(one) for one in case.arrays(dtype_of(case))]
    given[1] = graph.constant(np.stack([given[1].numpy()] * EXAMPLES))  # type: ignore[union-attr]
    axes = tuple(0 if place == 1 else None for place in range(len(given)))
    with pytest.raises(UsageError, match="got k under vmap.*need one k for all examples"):
        nnc.vmap(applied(case), axes)(*given)


def check(got: Any, want: Any, dtype: DType) -> None:
    bound = TOLERANCE[dtype] if dtype.is_float else None
    if bound is None:
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(
            got.astype("f8"), want.astype("f8"), rtol=8 * bound.relative, atol=8 * bound.absolute
        )


def test_every_operator_has_a_batching_rule_or_says_that_it_has_none() -> None:
    assert {op.name for op in OPERATORS if op not in BATCHED} == WITHOUT_A_RULE
    assert {case.op.name for case in CASES} >= {op.name for op in OPERATORS if op in BATCHED}
    with pytest.raises(UsageError, match=r"histogram: .*batching rule of histogram.*test_batched\.py"):
        nnc.vmap(lambda x: ops.histogram(x, (0.5,)))(np.ones((2, 3)))
    with pytest.raises(UsageError, match=r"dropout: got counter under vmap"):
        nnc.vmap(lambda x, n: ops.dropout(x, n, 0.5))(np.ones((2, 3)), np.arange(2))


def network(weights: Any, x: Any) -> Any:
    hidden = ops.tanh(x @ weights["in"] + weights["bias"])
    return ((hidden @ weights["out"] - x.sum()) ** 2).mean()


def setting() -> tuple[Any, Any]:
    generator = np.random.default_rng(5)
    shapes = {"in": (3, 4), "bias": (4,), "out": (4, 2)}
    return {name: generator.normal(size=shape) for name, shape in shapes.items()}, generator.normal(size=(5, 3))


@WAYS
def test_gradients_of_each_example(way: Way) -> None:
    weights, x = setting()
    found = way(nnc.vmap(nnc.grad(network), in_axes=(None, 0)))(weights, x)
    value, whole = way(nnc.value_and_grad(lambda w, x: nnc.vmap(network, (None, 0))(w, x).sum()))(weights, x)
    np.testing.assert_allclose(value, sum(network(map_tensors(weights), nnc.tensor(row)).item() for row in x))
    for name in weights:
        rows = [nnc.grad(network)(weights, row)[name].numpy() for row in x]
        np.testing.assert_allclose(found[name], np.stack(rows), rtol=1e-9)
        np.testing.assert_allclose(whole[name], np.sum(rows, 0), rtol=1e-9)


def map_tensors(weights: Any) -> Any:
    return {name: nnc.tensor(one) for name, one in weights.items()}


@WAYS
def test_derivatives_of_each_example_in_every_order(way: Way) -> None:
    weights, x = setting()
    of_x = lambda x: network(map_tensors(weights), x)  # noqa: E731  # one of a row of functions
    hessians = way(nnc.vmap(nnc.hessian(of_x)))(x)
    np.testing.assert_allclose(hessians, np.stack([nnc.hessian(of_x)(row) for row in x]), rtol=1e-8)
    value, change = way(nnc.vmap(lambda x: nnc.jvp(of_x, (x,), (x,))))(x)
    slopes = nnc.vmap(nnc.grad(of_x))(x)
    np.testing.assert_allclose(change, (slopes * x).sum(1), rtol=1e-9)
    np.testing.assert_allclose(value, np.stack([of_x(nnc.tensor(row)) for row in x]), rtol=1e-9)
    pushed = way(lambda x: nnc.jvp(nnc.vmap(of_x), (x,), (x,)))(x)[1]
    np.testing.assert_allclose(pushed, change, rtol=1e-9)
    pulled = nnc.vmap(lambda x: nnc.vjp(of_x, x)[1](np.float64(2.0))[0])(x)
    np.testing.assert_allclose(pulled, 2 * slopes.numpy(), rtol=1e-9)
    inner = nnc.vmap(nnc.compile(nnc.grad(of_x)))(x)
    np.testing.assert_allclose(inner, slopes, rtol=1e-9)


@WAYS
def test_calls_nest_and_see_the_values_around_them(way: Way) -> None:
    x, y = np.arange(6.0).reshape(2, 3), np.arange(4.0)
    outer = nnc.vmap(lambda a: nnc.vmap(lambda b: a * b + (a * y[:3]).sum())(y))
    np.testing.assert_allclose(way(outer)(x), x[:, None] * y[:, None] + (x * y[:3]).sum(1)[:, None, None])
    mixed = way(nnc.vmap(nnc.vmap(nnc.grad(lambda a, b: (a * b * b).sum(), 1), (None, 0)), (0, None)))(
        x, np.ones((4, 3))
    )
    np.testing.assert_allclose(mixed, np.broadcast_to(2 * x[:, None], (2, 4, 3)))


def test_a_recorded_variable_inside_gets_its_gradient() -> None:
    w = nnc.variable([1.0, 2.0])
    loss = nnc.vmap(lambda x: (x * w).sum())(np.ones((3, 2), np.float32)).sum()
    (slope,) = w.graph.backward([loss], [w])
    np.testing.assert_array_equal(slope, [3.0, 3.0])


@pytest.mark.parametrize(("inner", "outer"), [*product((0, 1, -1), (0, 1, -1, None))])
def test_axes_of_arguments_and_results(inner: int, outer: int | None) -> None:
    x = np.arange(6.0).reshape(2, 3)
    if outer is None:
        with pytest.raises(AttributeValueError, match="out_axes"):
            nnc.vmap(lambda x: x + 1, inner, outer)(x)
        return
    want = np.moveaxis(np.moveaxis(x, inner, 0) + 1, 0, outer)
    np.testing.assert_array_equal(nnc.vmap(lambda x: x + 1, inner, outer)(x), want)


def test_axes_are_nested_as_the_values_are() -> None:
    def function(d: Any, n: int, *, z: Any) -> Any:
        return {"sum": d["a"] + d["b"] * n, "same": (d["b"], 1.0), "name": "f"}, z.shape

    given = {"a": np.arange(3.0), "b": np.float64(2.0)}
    mapped = nnc.vmap(function, ({"a": 0, "b": None}, None), ({"sum": 0, "same": (None, 0), "name": 0}, 0))
    found, shape = mapped(given, 2, z=np.zeros((3, 7)))
    np.testing.assert_array_equal(found["sum"], np.arange(3.0) + 4)
    assert (found["same"][0].item(), found["same"][1].shape, found["name"]) == (2.0, (3,), "f")
    np.testing.assert_array_equal(shape[0], [7, 7, 7])


@WAYS
def test_loops_and_branches_go_the_way_of_each_example(way: Way) -> None:
    x = np.array([1.0, -2.0, 30.0])
    absolute = nnc.vmap(lambda x: nnc.cond(x > 0, lambda x: x, lambda x: -x, x))
    np.testing.assert_array_equal(way(absolute)(x), np.abs(x))
    doubled = nnc.vmap(lambda x: nnc.while_loop(lambda x: x * x < 400.0, lambda x: 2 * x, x))
    np.testing.assert_array_equal(way(doubled)(x), [32.0, -32.0, 30.0])
    running = nnc.vmap(lambda rows: nnc.scan(lambda s, row: (s + row, s * row), np.float64(0.0), rows))
    last, given = way(running)(np.stack([x, 2 * x]))
    np.testing.assert_array_equal(last, [29.0, 58.0])
    np.testing.assert_array_equal(given, [[0.0, -2.0, -30.0], [0.0, -8.0, -120.0]])


def test_what_cannot_be_mapped_says_why() -> None:
    with pytest.raises(ShapeError, match="batches of \\[2, 3\\]"):
        nnc.vmap(lambda x, y: x)(np.ones(2), np.ones(3))
    with pytest.raises(ShapeError, match="nothing to map"):
        nnc.vmap(lambda x: x, None)(np.ones(2))
    with pytest.raises(AttributeValueError, match="a float to map"):
        nnc.vmap(lambda x, y: x)(np.ones(2), 1.0)
    with pytest.raises(AttributeValueError, match="in_axes of 1 arguments"):
        nnc.vmap(lambda x, y: x, (0,))(np.ones(2), np.ones(2))
    with pytest.raises(ShapeError, match="axis 1"):
        nnc.vmap(lambda x: x, 1)(np.ones(2))
    with pytest.raises(SymbolError, match="one truth value.*where"):
        nnc.vmap(lambda x: x if x > 0 else -x)(np.ones(2))
    with pytest.raises(SymbolError, match="one scalar.*nnc.grad"):
        nnc.vmap(lambda x: x.sum().backward())(np.ones((2, 2)))
    kept: list[Any] = []
    nnc.vmap(lambda x: kept.append(x) or x)(np.ones((2, 2)))
    with pytest.raises(SymbolError, match="over"):
        kept[0] + 1
    assert nnc.vmap(lambda x: x.sum())(np.ones((0, 3))).shape == (0,)


def test_what_one_example_refuses_is_refused_under_a_batch() -> None:
    x, y = np.ones(3), np.ones((3, 2))
    for a, b in ((x, x), (x, y)):
        with pytest.raises(ShapeError, match="mean_squared_error: .*need equal shapes"):
            nnc.vmap(ops.mean_squared_error)(nnc.tensor(a), nnc.tensor(b))


@pytest.mark.parametrize("shapes", [((4,), (2, 3)), ((2, 4), (2, 3)), ((4,), ())], ids=str)
def test_rows_of_each_example_are_searched(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    generator = np.random.default_rng(0)
    rows = np.sort(generator.integers(0, 9, (EXAMPLES, *shapes[0])), -1).astype(np.float32)
    values = generator.integers(0, 9, (EXAMPLES, *shapes[1])).astype(np.float32)
    for axes in ((0, 0), (None, 0), (0, None)):
        pairs = [(rows[0 if axes[0] is None else k], values[0 if axes[1] is None else k]) for k in range(EXAMPLES)]
        wanted = np.stack([nnc.ops.searchsorted(*map(nnc.tensor, pair)).numpy() for pair in pairs])
        given = [nnc.tensor(one if axis == 0 else one[0]) for one, axis in zip((rows, values), axes, strict=True)]
        np.testing.assert_array_equal(nnc.vmap(nnc.ops.searchsorted, in_axes=axes)(*given), wanted)
