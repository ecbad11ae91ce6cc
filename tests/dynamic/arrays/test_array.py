"""Variables behave as arrays do: whatever stands on either side, a result is recorded, or an error names the line."""

from __future__ import annotations

import gc
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import nn, ops
from nnc.core.values.dtype import BOOL, F32, F64, I16, I64
from nnc.core.values.tensor import Tensor
from nnc.dynamic import DynamicGraph, Variable
from nnc.errors import AttributeValueError, DTypeError, IndexRangeError, ShapeError, UsageError

A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
B = np.array([[0.5, 2.0, -1.0], [3.0, 1.5, 2.0]])
ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.fixture
def graph() -> DynamicGraph:
    return DynamicGraph(backend="reference")


def line_of(text: str) -> str:
    lines = Path(__file__).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return f"{Path(__file__).name}:{number}"


def slope(graph: DynamicGraph, y: Variable, x: Variable) -> np.ndarray:
    return np.asarray(graph.backward([y], [x])[0])


# ---- operators with whatever on either side


@pytest.mark.parametrize("rule", ARITHMETIC + COMPARISONS)
@pytest.mark.parametrize("other", [B, B[0], np.float64(2.0), 2.0, 3], ids=["array", "row", "scalar", "float", "int"])
@pytest.mark.parametrize("swapped", [False, True])
def test_operators_are_numpys_with_variables_on_either_side(
    graph: DynamicGraph, rule: Callable[[Any, Any], Any], other: Any, swapped: bool
) -> None:
    x = graph.variable(A)
    got = rule(other, x) if swapped else rule(x, other)
    assert isinstance(got, Variable)
    assert got.key is not None
    np.testing.assert_allclose(got.numpy(), rule(other, A) if swapped else rule(A, other), rtol=1e-12)


def test_an_array_on_the_left_keeps_the_gradient(graph: DynamicGraph) -> None:
    x = graph.variable(A)
    np.testing.assert_array_equal(slope(graph, B * x, x), B)
    np.testing.assert_array_equal(slope(graph, B - x, x), -np.ones_like(A))
    np.testing.assert_array_equal(slope(graph, B.T @ x, x), np.broadcast_to(B.sum(1)[:, None], A.shape))


def test_numpys_functions_are_recorded(graph: DynamicGraph) -> None:
    x = graph.variable(A)
    np.testing.assert_allclose(slope(graph, np.sin(x), x), np.cos(A))
    np.testing.assert_allclose(slope(graph, np.maximum(B, x), x), (A > B) + 0.5 * (A == B))
    np.testing.assert_allclose(slope(graph, np.maximum(x, 2.5), x), (A > 2.5) * 1.0)
    np.testing.assert_allclose(slope(graph, np.sum(np.exp(x), axis=0), x), np.exp(A))
    np.testing.assert_allclose(slope(graph, np.mean(x, axis=(0, 1)), x), np.full_like(A, 1 / 6))
    np.testing.assert_allclose(slope(graph, np.concatenate([B, x], axis=1), x), np.ones_like(A))
    np.testing.assert_allclose(slope(graph, np.stack([x, B], axis=-1)[..., 0], x), np.ones_like(A))
    np.testing.assert_allclose(slope(graph, np.where(A > 2, x, 0.0), x), (A > 2) * 1.0)
    np.testing.assert_allclose(slope(graph, np.clip(x, 2.5, 4.5), x), ((A > 2.5) & (A < 4.5)) * 1.0)
    np.testing.assert_allclose(slope(graph, np.transpose(x) @ B, x), np.broadcast_to(B.sum(1)[:, None], A.shape))
    np.testing.assert_allclose(np.einsum("ij,ij->i", x, B).numpy(), (A * B).sum(1))
    assert np.allclose(x, A)
    assert np.shape(x) == (2, 3)


def test_what_numpy_would_do_in_silence_is_an_error(graph: DynamicGraph) -> None:
    x, buffer = graph.variable(A), A.copy()
    with pytest.raises(UsageError, match=r"np\.cbrt: got a variable") as caught:
        np.cbrt(x)  # unknown ufunc
    assert caught.value.origin == line_of("unknown ufunc")
    with pytest.raises(UsageError, match=r"np\.add: got \.reduce of a variable"):
        np.add.reduce(x)
    with pytest.raises(UsageError, match="got out= of a variable"):
        buffer += x
    with pytest.raises(UsageError, match=r"np\.linalg\.norm|np\.norm"):
        np.linalg.norm(x)
    with pytest.raises(UsageError, match=r"np\.sum"):
        np.sum(x, dtype=np.float32)
    with pytest.raises(TypeError):
        x + "text"  # type: ignore[operator]
    with pytest.raises(TypeError):
        operator.add(x, [1.0, 2.0, 3.0])
    assert (x == None) is False  # noqa: E711  # that is what is asked
    assert (x != "text") is True


def test_comparison_is_by_element_and_hash_by_identity(graph: DynamicGraph) -> None:
    x, y = graph.variable(A), graph.variable(A)
    both = x == y
    assert both.dtype is BOOL
    assert both.numpy().all()
    assert {x: 1}[x] == 1
    assert y not in {x: 1}
    with pytest.raises(ShapeError, match="one element"):
        bool(both)
    assert bool(graph.constant(2.0) == 2)


def test_truth_values_combine(graph: DynamicGraph) -> None:
    x = graph.variable(A)
    inside = (x > 1.5) & ~(x > 4.5) | (A == 6)
    np.testing.assert_array_equal(inside.numpy(), (A > 1.5) & ~(A > 4.5) | (A == 6))
    np.testing.assert_array_equal((inside ^ True).numpy(), ~inside.numpy())
    with pytest.raises(DTypeError, match="logical_and: got f64"):
        x & inside
    with pytest.raises(DTypeError, match="logical_and: got f64"):
        x & x


def test_vectors_multiply_as_in_numpy(graph: DynamicGraph) -> None:
    x, v, w = graph.variable(A), graph.variable(A[0]), graph.variable(A[:, 0])
    np.testing.assert_allclose((x @ v).numpy(), A @ A[0])
    np.testing.assert_allclose((w @ x).numpy(), A[:, 0] @ A)
    np.testing.assert_allclose((v @ v).numpy(), A[0] @ A[0])
    np.testing.assert_allclose((w @ np.stack([A, B])).numpy(), A[:, 0] @ np.stack([A, B]))
    np.testing.assert_array_equal(slope(graph, v @ v, v), 2 * A[0])
    with pytest.raises(ShapeError, match=r"matmul.*use \*"):
        x @ 2.0
    with pytest.raises(ShapeError, match="matmul"):
        x @ graph.constant(1.0)


# ---- element types


def test_types_of_one_kind_meet_in_the_wider_one(graph: DynamicGraph) -> None:
    x = graph.variable(A, F32)
    assert (x + B).dtype is F64
    assert (x * 2).dtype is F32
    assert (np.float64(2.0) * x).dtype is F32
    np.testing.assert_array_equal(slope(graph, x * B, x), B.astype(np.float32))
    small, count = graph.constant(np.int8([1])), graph.constant(np.uint8([200]))
    assert (small + count).dtype is I16
    assert (small + np.int64([1])).dtype is I64
    assert (graph.constant([1.0], "f16") + graph.constant([1.0], "bf16")).dtype is F32
    with pytest.raises(DTypeError, match="one holds the other.*astype") as caught:
        small + graph.constant(np.uint64([1]))  # no common type
    assert caught.value.origin == line_of("no common type")


def test_types_of_two_kinds_meet_in_the_later_one(graph: DynamicGraph) -> None:
    x, count, truth = graph.variable(A, F32), graph.constant([1, 2, 3]), graph.constant([True, False, True])
    assert (x + count).dtype is (count * x).dtype is (truth * x).dtype is F32
    np.testing.assert_array_equal(slope(graph, x * count, x), np.tile([1.0, 2.0, 3.0], (2, 1)))
    assert (count + truth).dtype is (truth + 1).dtype is (count * 2).dtype is I64
    assert (count * 0.5).dtype is (truth + 0.5).dtype is (2.0**count).dtype is F32
    assert (count == 1.5).tolist() == [False, False, False]


def test_integers_divide_to_floats(graph: DynamicGraph) -> None:
    count, small = graph.constant([1, 2, 3]), graph.constant(np.uint8([51, 102]))
    for quotient, want in ((count / 2, [0.5, 1.0, 1.5]), (6 / count, [6, 3, 2]), (count / count, [1, 1, 1])):
        assert (quotient.dtype, quotient.tolist()) == (F32, want)
    np.testing.assert_allclose((small / 255).numpy(), [0.2, 0.4], rtol=1e-6)
    assert (count / graph.constant(np.ones(3))).dtype is F64
    assert (count // 2).dtype is (count % 2).dtype is I64


def test_pythons_numbers_become_f32_and_arrays_keep_their_type(graph: DynamicGraph) -> None:
    assert graph.variable(2.0).dtype is graph.variable([[1.0, 2], [3, 4]]).dtype is F32
    assert graph.constant([1, 2]).dtype is I64
    assert graph.constant(True).dtype is BOOL
    assert graph.variable(A).dtype is graph.variable(np.float64(2.0)).dtype is F64
    assert graph.variable([np.float64(1.0)]).dtype is F64
    assert graph.variable(A, "f32").dtype is graph.variable(Tensor.from_numpy(A), F32).dtype is F32


# ---- an array's own words


def test_the_words_of_arrays(graph: DynamicGraph) -> None:
    x = graph.variable(A)
    assert (len(x), x.ndim, x.size, x.shape, x.dtype) == (2, 2, 6, (2, 3), F64)
    assert [row.tolist() for row in x] == A.tolist()
    np.testing.assert_array_equal(x.T.numpy(), A.T)
    np.testing.assert_array_equal(x.sum(0).numpy(), A.sum(0))
    np.testing.assert_array_equal(x.mean(-1, keepdims=True).numpy(), A.mean(-1, keepdims=True))
    assert (x.max().item(), x.min((0, 1)).item(), float(x[0, 1]), int(x[1, 0])) == (6.0, 1.0, 2.0, 4)
    assert x.reshape(3, 2).shape == x.reshape((3, -1)).shape == (3, 2)
    assert x.astype("f32").dtype is x.astype(np.float32).dtype is F32
    assert x.detach().key is None
    assert (+x).tolist() == A.tolist()
    assert [10, 20, 30][graph.constant(np.int64(1))] == 20
    total = sum(row.sum() for row in x)
    assert isinstance(total, Variable)
    np.testing.assert_array_equal(slope(graph, total, x), np.ones_like(A))


def test_what_a_number_cannot_do_is_said(graph: DynamicGraph) -> None:
    number = graph.constant(2.5)
    for ask in (len, list):
        with pytest.raises(ShapeError, match="at least one axis") as caught:
            ask(number)  # of a number
        assert caught.value.origin == line_of("of a number")
    with pytest.raises(DTypeError, match="need an integer"):
        [1, 2, 3][number]  # type: ignore[call-overload]
    with pytest.raises(ShapeError, match="reshape") as caught:
        number.reshape(2)  # bad reshape
    assert caught.value.origin == line_of("bad reshape")


def test_memory_goes_to_others_by_dlpack(graph: DynamicGraph) -> None:
    assert np.from_dlpack(graph.constant(A)).sum() == 21


# ---- memory


def test_a_buffer_that_is_filled_again_does_not_change_a_gradient(graph: DynamicGraph) -> None:
    buffer = np.array([1.0])
    x, scale = graph.variable(buffer), graph.constant(buffer)
    y = x * x * scale + buffer * x
    buffer[:] = 5.0
    assert slope(graph, y, x).item() == 3.0


def test_memory_is_shared_where_that_is_asked_for(graph: DynamicGraph) -> None:
    buffer = A.copy()
    shared = graph.variable(buffer, share=True)
    assert np.shares_memory(shared.numpy(), buffer)
    tensor = Tensor.from_numpy(buffer)
    assert graph.constant(tensor, share=True).tensor is tensor
    for value, dtype in ((buffer, F32), (buffer.T, None), ([1.0], None)):
        with pytest.raises(UsageError, match="cannot be shared") as caught:
            graph.variable(value, dtype, share=True)  # cannot share
        assert caught.value.origin == line_of("cannot share")
    assert graph.variable(buffer[:0], share=True).shape == (0, 3)


def test_values_are_read_only_outside(graph: DynamicGraph) -> None:
    x = graph.variable(A)
    for array in (x.numpy(), np.asarray(x)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0
    np.array(x)[0] = 0.0


# ---- assignment


def test_a_name_stands_for_a_new_value_and_what_was_computed_keeps_its_own(graph: DynamicGraph) -> None:
    w = graph.variable(A)
    x = w * 1.0
    row, twice, twin = x[0], x * 2, +x
    x[0] = 7.0
    x[1, 1:] = w[0, :2] * 3
    assert x.tolist() == [[7, 7, 7], [4, 3, 6]]
    assert (row.tolist(), twice.tolist(), twin.tolist()) == (A[0].tolist(), (2 * A).tolist(), A.tolist())
    assert slope(graph, x.sum() + twice.sum(), w).tolist() == [[5, 5, 2], [3, 2, 2]]


def test_constants_take_values_that_gradients_flow_through(graph: DynamicGraph) -> None:
    w, buffer = graph.variable(A), graph.constant(np.zeros((3, 2)))
    for column in range(3):
        buffer[column] = w[:, column] ** 2
    assert buffer.tolist() == (A.T**2).tolist()
    assert slope(graph, buffer, w).tolist() == (2 * A).tolist()
    del buffer
    gc.collect()
    assert graph.backward([w * 1.0], [w])[0].tolist() == np.ones_like(A).tolist()


def test_what_nobody_holds_is_not_assigned_to() -> None:
    x, rows, named = nnc.zeros((2, 3)), [nnc.zeros((3,))], {"a": nnc.zeros((3,))}
    with pytest.raises(UsageError, match=r"a value that nobody holds, such as x\[0\] in x\[0\]\[1\]"):
        x[0][1] = 7.0
    x[0, 1] = 7.0
    rows[0][1] = named["a"][1] = 7.0
    assert x[0].tolist() == rows[0].tolist() == named["a"].tolist() == [0.0, 7.0, 0.0]
    x.__setitem__((0, 1), 8.0)
    operator.setitem(x, (1, 0), 9.0)
    assert x.tolist() == [[0.0, 8.0, 0.0], [9.0, 0.0, 0.0]]


def test_a_buffer_of_a_module_is_not_assigned_to_by_elements() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", nnc.zeros((2,)))

        def forward(self, x: Any) -> Any:
            self.seen[0] = 1.0
            return x

    with pytest.raises(UsageError, match=r"self\.x = self\.x\.at\[index\]\.set\(value\)"):
        Counting()(nnc.ones((2,)))


def test_a_variable_that_gradients_are_asked_for_is_not_assigned_to(graph: DynamicGraph) -> None:
    w = graph.variable(A)
    for handle in (w, w[0]):
        with pytest.raises(UsageError, match=r"x\[index\] = value: got a variable.*at\[index\]") as caught:
            handle[0] = 1.0  # assigned
        assert caught.value.origin == line_of("assigned")


def test_twins_of_variables_and_arguments_of_derivatives_are_assigned_to(graph: DynamicGraph) -> None:
    w = graph.variable(A)
    y = +w
    y[0] = w[1] * 2
    assert slope(graph, y, w).tolist() == [[0, 0, 0], [3, 3, 3]]
    assert w.tolist() == A.tolist()

    def cut(x: Any) -> Any:
        x[:1] = 0.0
        return (x * x).sum()

    for point in (A[0], nnc.tensor(A[0]), nnc.variable(A[0]), nnc.variable(A[0]) * 1.0):
        for way in (nnc.grad(cut), lambda x: nnc.vjp(cut, x)[1](np.float64(1.0))[0]):
            assert way(point).tolist() == [0, 4, 6]
        assert np.asarray(point).tolist() == A[0].tolist()
    assert nnc.jvp(cut, (A[0],), (np.ones(3),))[1].item() == 10.0
    assert nnc.compile(nnc.grad(cut))(A[0]).tolist() == [0, 4, 6]


def test_functions_assign_to_arguments_under_derivatives_batches_and_compiled() -> None:
    def function(x: Any) -> Any:
        y = x * 1.0
        y[0] = y[1] * y[2]
        x = x + 0
        x[2] = 0.0
        return (y * x).sum()

    point = np.array([2.0, 3.0, 5.0])
    want = [15.0, 6.0 + 2 * 5.0, 2 * 3.0]
    for way in (nnc.grad(function), nnc.compile(nnc.grad(function)), nnc.grad(nnc.compile(function))):
        assert way(point).tolist() == want
    assert nnc.vmap(nnc.grad(function))(np.stack([point, point])).tolist() == [want, want]
    constant = nnc.tensor(point)
    assert nnc.vmap(lambda one: constant.at[0].set(one))(point[:2]).tolist() == [[2, 3, 5], [3, 3, 5]]
    with pytest.raises(UsageError, match="only under vmap"):
        nnc.vmap(lambda one: constant.__setitem__(0, one))(point)


# ---- indexing


INDICES: list[Any] = [
    np.s_[[1, 0, 1]],
    np.s_[np.array([[0, 1], [1, 1]])],
    np.s_[:, [2, 0]],
    np.s_[..., [2, -1]],
    np.s_[[0, 1], [2, -1]],
    np.s_[np.array([[0], [1]]), np.array([0, 2])],
    np.s_[None, :, [0]],
    np.s_[1, [0, 2]],
    np.s_[A > 2],
    np.s_[np.array([True, False])],
    np.s_[:, np.array([True, False, True])],
    np.s_[[]],
    np.s_[np.zeros((2, 3), bool)],
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_by_arrays_is_numpys_and_has_a_gradient(graph: DynamicGraph, index: Any) -> None:
    x = graph.variable(A)
    got = x[index]
    np.testing.assert_array_equal(got.numpy(), A[index])
    expected = np.zeros_like(A)
    np.add.at(expected, index, 1.0)
    np.testing.assert_array_equal(slope(graph, got, x), expected)


def test_variables_choose_too(graph: DynamicGraph) -> None:
    x, rows = graph.variable(A), graph.constant([1, -1, 0])
    np.testing.assert_array_equal(x[rows].numpy(), A[[1, -1, 0]])
    np.testing.assert_array_equal(x[rows[0]].numpy(), A[1])
    np.testing.assert_array_equal(x[x > 2.5].numpy(), A[A > 2.5])
    np.testing.assert_array_equal(x[rows, [0, 1, 2]].numpy(), A[[1, -1, 0], [0, 1, 2]])
    cube = graph.variable(np.arange(24.0).reshape(2, 3, 4))
    np.testing.assert_array_equal(cube[1][:, [0, 2]].numpy(), cube.numpy()[1][:, [0, 2]])
    np.testing.assert_array_equal(cube[:, [0, 2], [1, 3]].numpy(), cube.numpy()[:, [0, 2], [1, 3]])


@pytest.mark.parametrize(
    ("index", "error", "match"),
    [
        (np.s_[[2]], IndexRangeError, "outside axis 0"),
        (np.s_[:, [0, -4]], IndexRangeError, "outside axis 1"),
        (np.s_[[0.5]], AttributeValueError, "integers or truth values"),
        (np.s_[[0], :, [1]], IndexRangeError, "at most 2"),
        (np.s_[[0, 1], [0, 1, 2]], ShapeError, "shapes that broadcast"),
        (np.s_[np.ones((3, 3), bool)], IndexRangeError, "a mask of shape"),
        (np.s_["name"], AttributeValueError, "integers, slices"),
    ],
    ids=str,
)
def test_a_wrong_index_names_the_line(graph: DynamicGraph, index: Any, error: type[UsageError], match: str) -> None:
    x = graph.variable(A)
    with pytest.raises(error, match=match) as caught:
        x[index]  # wrong index
    assert caught.value.origin == line_of("wrong index")


def test_arrays_apart_are_refused(graph: DynamicGraph) -> None:
    cube = graph.variable(np.zeros((2, 3, 4)))
    with pytest.raises(AttributeValueError, match="side by side"):
        cube[[0], :, [1]]


def test_a_mask_of_another_size_is_refused(graph: DynamicGraph) -> None:
    x = graph.variable(A)
    with pytest.raises(IndexRangeError, match="mask"):
        x[np.array([True, False, False])]


def test_operators_of_one_type_still_ask_for_it(graph: DynamicGraph) -> None:
    with pytest.raises(DTypeError, match="cast"):
        ops.add(graph.variable(A), graph.variable(A, F32))


def test_numbers_stand_beside_operands_in_where_maximum_and_minimum(graph: DynamicGraph) -> None:
    x = graph.variable(A, F32)
    y = ops.where(x > 2, x, 0.0) + ops.where(x > 4, -1, x) + ops.maximum(x, 2) + ops.minimum(3.5, x)
    assert y.dtype is F32
    expected = np.where(A > 2, A, 0) + np.where(A > 4, -1, A) + np.maximum(A, 2) + np.minimum(A, 3.5)
    np.testing.assert_allclose(y, expected)
    with pytest.raises(UsageError, match="where: got a float") as caught:
        ops.where(x > 2, 1.0, 2.0)  # two numbers
    assert caught.value.origin == line_of("two numbers")


# Index, and whether it names a place twice.
ASSIGNED: tuple[tuple[Any, bool], ...] = (
    ((0, 1), False),
    (slice(None, None, -2), False),
    ((Ellipsis, 1), False),
    ((slice(None), [2, 0]), False),
    (([0, 2, 0], [1, 1, 1]), True),
    (np.arange(12).reshape(3, 4) % 5 == 0, False),
    (slice(3, 3), False),
    ((None, 1), False),
)


@pytest.mark.parametrize(("index", "twice"), ASSIGNED, ids=range(len(ASSIGNED)))
def test_places_are_assigned_as_numpy_assigns_them(index: Any, twice: bool) -> None:
    x = np.linspace(-1, 2, 12).reshape(3, 4)
    value = 0.25 + np.arange(x[index].size).reshape(x[index].shape)
    for given in (value, 0.25):
        written, added = x.copy(), x.copy()
        written[index] = given
        np.add.at(added, index, given)
        for way in (lambda function: function, nnc.compile):
            assign = way(lambda x, given: (x.at[index].set(given), x.at[index].add(given)))
            np.testing.assert_allclose(assign(nnc.tensor(x), given), (written, added))
        if twice:
            with pytest.raises(AttributeValueError, match="named twice"):
                nnc.tensor(x).at[index].multiply(2.0)
            continue
        for name, function in (("multiply", np.multiply), ("min", np.minimum), ("max", np.maximum)):
            want = x.copy()
            want[index] = function(want[index], given)
            np.testing.assert_array_equal(getattr(nnc.tensor(x).at[index], name)(given), want)


def test_gradients_flow_through_assigned_places() -> None:
    x, v = np.arange(6.0).reshape(2, 3), np.array([10.0, 20.0])
    weights = np.arange(1.0, 7.0).reshape(2, 3)
    by_x, by_v = nnc.grad(lambda x, v: (x.at[:, 1].set(v) * weights).sum(), argnums=(0, 1))(x, v)
    np.testing.assert_array_equal(by_x, weights * [1, 0, 1])
    np.testing.assert_array_equal(by_v, weights[:, 1])
    by_x, by_v = nnc.grad(lambda x, v: (x.at[[1, 1], 0].add(v) * weights).sum(), argnums=(0, 1))(x, v)
    np.testing.assert_array_equal(by_x, weights)
    np.testing.assert_array_equal(by_v, [4.0, 4.0])


def test_places_that_only_a_run_knows_are_assigned() -> None:
    x, i = np.arange(6.0).reshape(2, 3), np.array([2, -3])
    want = x.copy()
    want[[0, 1], i] = 9.0
    np.testing.assert_array_equal(nnc.compile(lambda x, i: x.at[[0, 1], i].set(9.0))(x, i), want)
    np.testing.assert_array_equal(nnc.vmap(lambda row, i: row.at[i].set(9.0))(x, i), want)
    table = nnc.tensor(x)
    np.testing.assert_array_equal(nnc.vmap(lambda i: table[:, i])(i), x[:, [2, 0]].T)
    with pytest.raises(DTypeError, match="array of f64"):
        table.at[0].set(np.array([1, 2, 3]))
    with pytest.raises(DTypeError, match="a str"):
        table.at[0].set("9")


PAIRS = {
    "add": (lambda a, b: a + b, ops.add),
    "subtract": (lambda a, b: a - b, ops.subtract),
    "multiply": (lambda a, b: a * b, ops.multiply),
    "divide": (lambda a, b: a / b, ops.divide),
    "less": (lambda a, b: a < b, ops.less),
    "greater_equal": (lambda a, b: a >= b, ops.greater_equal),
}


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i32"])
@pytest.mark.parametrize("name", PAIRS)
def test_operators_are_their_functions(name: str, dtype: str) -> None:
    written, function = PAIRS[name]
    a, b = nnc.tensor(np.array([[1, 0, 3]]), dtype), nnc.tensor(np.array([[1], [2]]), dtype)
    for first, second in ((a, b), (b, a)):
        result = written(first, second)
        want = function(
            *(each.astype(F32) if name == "divide" and dtype == "i32" else each for each in (first, second))
        )
        assert result.spec == want.spec
        np.testing.assert_array_equal(result.numpy(), want.numpy())


def test_operators_of_two_values_record_and_say_their_line() -> None:
    a, b = nnc.variable([1.0, 2.0]), nnc.variable([3.0, 5.0])
    ((a - b) * (b / a)).sum().backward()
    np.testing.assert_allclose(a.grad, -b.numpy() / a.numpy() ** 2 * (a.numpy() - b.numpy()) + b.numpy() / a.numpy())
    with pytest.raises(ShapeError, match=r"add: .*\(test_.*\.py:\d+\)"):
        a + nnc.tensor([1.0, 2.0, 3.0])
