from __future__ import annotations

import gc
import math
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nnc import ops
from nnc.core.settings import SETTINGS
from nnc.core.values.command import Command
from nnc.core.values.dtype import F32, F64, I32
from nnc.core.values.tensor import Tensor
from nnc.dynamic import DynamicGraph, Variable
from nnc.dynamic import graph as graph_module
from nnc.errors import NotDifferentiableError, ShapeError, SymbolError
from nnc.ops.optimizer.optimizer import ADAM, SGD, AdamAttrs, SGDAttrs
from nnc.symbolic import verify


def line_of(text: str) -> str:
    lines = Path(__file__).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return f"{Path(__file__).name}:{number}"


@pytest.fixture(scope="module", autouse=True)
def _earlier_objects() -> None:
    """The collections below look at what these tests make alone: at all that earlier ones left each takes 80 ms."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def graph() -> Iterator[DynamicGraph]:
    """A graph whose record is whole after each test, and empty once no variable is left."""
    made = DynamicGraph(backend="reference")
    yield made
    # What the collector finds only now would leave the record while it is walked.
    gc.collect()
    verify(made.record)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many backward execs each gradient program that is made has."""
    made: list[int] = []
    original = graph_module.gradient_program

    def counted(*arguments: object) -> object:
        program = original(*arguments)  # type: ignore[arg-type]  # passed on as they come
        made.append(len(program.execs))
        return program

    monkeypatch.setattr(graph_module, "gradient_program", counted)
    return made


def scalar(graph: DynamicGraph, value: float) -> Variable:
    return graph.variable(np.float64(value))


def counts(graph: DynamicGraph) -> tuple[int, int]:
    """(execs, tensors) of the record."""
    return len(graph.record.execs), len(graph.record.tensors)


def assert_forgotten(graph: DynamicGraph) -> None:
    assert counts(graph) == (0, 0)
    assert graph.record._writers == graph.record._readers == {}
    assert not graph._held
    assert not graph._record._made


# ---- values and gradients


def test_commands_run_at_once(graph: DynamicGraph) -> None:
    x = graph.variable([1.0, 2.0, 3.0], "f32")
    y = (x * 2.0 + 1.0) / x
    np.testing.assert_allclose(y.numpy(), [3, 2.5, 7 / 3], rtol=1e-6)
    assert np.asarray(y).dtype == np.float32
    assert repr(y).startswith("Variable(f32[3], recorded)\n[3. ")
    assert (y[0].item(), y[-1:].shape) == (3.0, (1,))
    assert repr(graph.constant([1.0], "f32")).startswith("Variable(f32[1], constant)")


def test_gradients_by_leaves_and_intermediates(graph: DynamicGraph) -> None:
    """Case 39: f = x ln x + 1.2 x."""
    x = scalar(graph, 19.0)
    y = ops.log(x)
    z = x * y
    f = z + 1.2 * x
    by_x, by_y, by_z = graph.backward([f], [x, y, z])
    assert by_x.item() == pytest.approx(math.log(19) + 1 + 1.2)
    assert by_y.item() == pytest.approx(19.0)
    assert by_z.item() == pytest.approx(1.0)


def test_gradients_add_up(graph: DynamicGraph) -> None:
    total = graph.constant(np.float64(0.0))
    for value in (19.0, 10.0):
        x = scalar(graph, value)
        (slope,) = graph.backward([x * ops.log(x) + 1.2 * x], [x])
        total = total + graph.detach(slope)
    assert total.item() == pytest.approx(math.log(19) + math.log(10) + 2 * 2.2)
    del x, slope, total
    assert_forgotten(graph)


def test_a_gradient_of_several_outputs_is_of_their_sum(graph: DynamicGraph) -> None:
    x = graph.variable(np.arange(3.0))
    y, z = ops.exp(x), x * x
    (slope,) = graph.backward([y, z], [x])
    np.testing.assert_allclose(slope.numpy(), np.exp(np.arange(3.0)) + 2 * np.arange(3.0))
    (itself,) = graph.backward([x], [x])
    np.testing.assert_array_equal(itself.numpy(), np.ones(3))


def test_what_does_not_matter_has_zeros(graph: DynamicGraph) -> None:
    x, other = graph.variable(np.ones((2, 3))), graph.variable(np.ones((4,)))
    _, zero = graph.backward([ops.exp(x)], [x, other])
    np.testing.assert_array_equal(zero.numpy(), np.zeros(4))


def test_nobody_flows_to_constants(graph: DynamicGraph) -> None:
    x, factor = graph.variable(np.ones(3)), graph.constant(np.full(3, 2.0))
    y = ops.exp(x * factor)
    (slope,) = graph.backward([y], [x])
    np.testing.assert_allclose(slope.numpy(), 2 * np.exp(2 * np.ones(3)))
    with pytest.raises(SymbolError, match="an input f64\\[3\\] that is not recorded"):
        graph.backward([y], [factor])
    with pytest.raises(SymbolError, match="an output"):
        graph.backward([factor * factor], [x])


def test_nothing_is_recorded_under_no_grad(graph: DynamicGraph) -> None:
    x = graph.variable(np.ones(3))
    before = counts(graph)
    with graph.no_grad():
        with graph.no_grad():
            y = ops.exp(x)
        z = ops.exp(y)
        leaf = graph.variable(np.ones(3))
        assert counts(graph) == before
    assert y.key is z.key is leaf.key is None
    assert ops.exp(x).key is not None
    with pytest.raises(SymbolError, match="outside no_grad"):
        graph.backward([z], [x])


def test_a_failure_under_no_grad_ends_it(graph: DynamicGraph) -> None:
    with pytest.raises(ShapeError), graph.no_grad():
        ops.add(graph.constant(np.ones(3)), graph.constant(np.ones(4)))
    assert graph.recording


def test_detach_cuts_the_way(graph: DynamicGraph) -> None:
    x = scalar(graph, 3.0)
    y = x * graph.detach(x * x)
    (slope,) = graph.backward([y], [x])
    assert slope.item() == 9.0
    shared = graph.detach(x)
    assert shared.tensor is x.tensor


# ---- orders


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_derivatives_of_any_order(graph: DynamicGraph, order: int) -> None:
    x = scalar(graph, 0.7)
    y = ops.sin(x * 2.0) * ops.exp(x)
    for _ in range(order):
        (y,) = graph.backward([y], [x], create_graph=True)
    expected = ((1 + 2j) ** order * np.exp((1 + 2j) * 0.7)).imag
    assert y.item() == pytest.approx(expected)
    del x, y
    assert_forgotten(graph)


def test_a_hessian_vector_product(graph: DynamicGraph) -> None:
    generator = np.random.default_rng(3)
    matrix = generator.standard_normal((4, 4))
    x, v = graph.variable(generator.standard_normal((4, 1))), graph.constant(generator.standard_normal((4, 1)))
    f = ops.reduce_sum(ops.tanh(graph.constant(matrix) @ x))
    (slope,) = graph.backward([f], [x], create_graph=True)
    (product,) = graph.backward([ops.reduce_sum(slope * v)], [x])
    t = np.tanh(matrix @ x.numpy())
    hessian = matrix.T @ np.diag((-2 * t * (1 - t**2)).ravel()) @ matrix
    np.testing.assert_allclose(product.numpy(), hessian @ v.numpy())


def test_a_gradient_without_create_graph_is_a_leaf(graph: DynamicGraph) -> None:
    x = scalar(graph, 3.0)
    (slope,) = graph.backward([x * x], [x])
    y = slope * slope
    by_x, by_slope = graph.backward([y], [x, slope])
    assert (by_x.item(), by_slope.item()) == (0.0, 12.0)


def test_a_gradient_penalty_mixes_values_and_recorded_gradients(graph: DynamicGraph) -> None:
    x, w = scalar(graph, 2.0), scalar(graph, 3.0)
    y = w * x * x
    (slope,) = graph.backward([y], [x], create_graph=True)
    penalty = y + slope * slope
    by_w, by_x = graph.backward([penalty], [w, x])
    # penalty = w x² + (2 w x)²
    assert by_w.item() == pytest.approx(4 + 8 * 3 * 4)
    assert by_x.item() == pytest.approx(2 * 3 * 2 + 8 * 9 * 2)


def test_recorded_gradients_may_be_the_same_symbol_or_parts_of_one(graph: DynamicGraph) -> None:
    x, y = graph.variable(np.arange(6.0).reshape(2, 3)), graph.variable(np.ones((2, 3)))
    by_x, by_y = graph.backward([x + y], [x, y], create_graph=True)
    np.testing.assert_array_equal((by_x * by_y).numpy(), np.ones((2, 3)))
    joined = ops.concatenate([x, y], 1)
    left, right = graph.backward([joined * joined], [x, y], create_graph=True)
    np.testing.assert_array_equal(left.numpy(), 2 * x.numpy())
    (again,) = graph.backward([left * right], [y])
    np.testing.assert_array_equal(again.numpy(), 4 * x.numpy())
    del x, y, by_x, by_y, joined, left, right, again
    assert_forgotten(graph)


# ---- views


def test_views_share_memory_and_carry_gradients(graph: DynamicGraph) -> None:
    x = graph.variable(np.arange(12.0).reshape(3, 4))
    part = x[1:3, 1:3]
    assert np.shares_memory(part.numpy(), x.numpy())
    (slope,) = graph.backward([part * part], [x])
    expected = np.zeros((3, 4))
    expected[1:3, 1:3] = 2 * x.numpy()[1:3, 1:3]
    np.testing.assert_array_equal(slope.numpy(), expected)
    (by_part,) = graph.backward([x * x], [part])
    np.testing.assert_array_equal(by_part.numpy(), 2 * x.numpy()[1:3, 1:3])
    assert by_part.tensor.is_contiguous


def test_gradients_through_reshapes(graph: DynamicGraph) -> None:
    x = graph.variable(np.arange(6.0))
    y = ops.reduce_sum(ops.square(ops.reshape(x, (2, 3))))
    for create_graph in (False, True):
        (slope,) = graph.backward([y], [x], create_graph=create_graph)
        np.testing.assert_array_equal(slope.numpy(), 2 * np.arange(6.0))
    (second,) = graph.backward([slope * slope], [x])
    np.testing.assert_array_equal(second.numpy(), 8 * np.arange(6.0))


def test_a_view_outlives_its_root(graph: DynamicGraph) -> None:
    x = graph.variable(np.arange(4.0))
    y = ops.exp(x)[1:3]
    (slope,) = graph.backward([y * y], [x])
    np.testing.assert_allclose(slope.numpy(), [0, 2 * np.exp(2), 2 * np.exp(4), 0])
    del x, slope
    assert counts(graph)[0] == 1
    del y
    assert_forgotten(graph)


def test_a_leaf_over_strided_memory_is_laid_out_anew(graph: DynamicGraph) -> None:
    x = graph.variable(np.arange(6.0).reshape(2, 3).T)
    y = x[1] * x[0]
    (slope,) = graph.backward([y], [x])
    np.testing.assert_array_equal(slope.numpy(), [[1, 4], [0, 3], [0, 0]])


def test_constants_over_strided_memory_and_their_views(graph: DynamicGraph) -> None:
    c = graph.constant(np.arange(6.0).reshape(2, 3).T)
    x = graph.variable(np.ones(2))
    (slope,) = graph.backward([x * c[1]], [x])
    np.testing.assert_array_equal(slope.numpy(), [1, 4])
    w = graph.variable(np.ones((3, 2)))
    (slope,) = graph.backward([w * c], [w], create_graph=True)
    np.testing.assert_array_equal(slope.numpy(), c.numpy())
    np.testing.assert_array_equal(graph.detach(w)[1:3].numpy(), np.ones((2, 2)))


# ---- errors


def test_errors_name_the_line_of_the_user(graph: DynamicGraph) -> None:
    x = graph.variable(np.ones((2, 3)))
    with pytest.raises(ShapeError) as caught:
        x @ x  # bad product
    assert caught.value.origin == line_of("bad product")
    assert counts(graph) == (0, 1)


def test_variables_of_another_graph_are_refused(graph: DynamicGraph) -> None:
    other = DynamicGraph(backend="reference")
    mine, theirs = graph.variable(np.ones(3)), other.variable(np.full(3, 2.0))
    with pytest.raises(SymbolError, match="add: got a variable of another graph"):
        ops.add(mine, theirs)
    with pytest.raises(SymbolError, match="need a variable of this graph"):
        graph.backward([mine], [theirs])
    np.testing.assert_array_equal((mine + other.detach(theirs)).numpy(), np.full(3, 3.0))


def test_the_symbol_of_a_variable_of_another_graph_is_refused(graph: DynamicGraph) -> None:
    with pytest.raises(SymbolError, match="key_of: got .* of another graph"):
        graph.key_of(DynamicGraph().variable([1.0]))
    with pytest.raises(SymbolError, match="key_of: got a int"):
        graph.key_of(3)  # type: ignore[arg-type]  # what is tried


def test_integers_have_no_gradient(graph: DynamicGraph) -> None:
    x = graph.variable(np.arange(3), I32)
    with pytest.raises(NotDifferentiableError, match="floating-point") as caught:
        graph.backward([x * x], [x])  # integer gradient
    assert caught.value.origin == line_of("integer gradient")


def test_an_operator_without_gradient_names_its_line_at_every_call(graph: DynamicGraph) -> None:
    w, g, m = (graph.variable(np.ones(3)) for _ in range(3))
    rate = graph.constant(np.float64(0.1))
    new = graph.execute(Command(SGD, SGDAttrs()), (g, w, m, rate))[0]  # eager update
    for _ in range(2):
        with pytest.raises(NotDifferentiableError) as caught:
            graph.backward([new], [w])
        assert caught.value.origin == line_of("eager update")
    assert not graph._programs


# ---- bookkeeping: cases 39–42


def test_the_record_is_empty_when_all_variables_are_gone(graph: DynamicGraph) -> None:
    x = graph.variable(np.ones((2, 3), np.float32))
    w = graph.variable(np.ones((3, 2), np.float32))
    loss = ops.reduce_mean(ops.softmax(ops.tanh(x @ w)[0:1]))
    gradients = graph.backward([loss], [w, x])
    assert counts(graph)[0] == 4
    del loss
    assert counts(graph) == (0, 4)
    del x, w, gradients
    assert_forgotten(graph)


def test_a_chain_keeps_what_its_end_depends_on(graph: DynamicGraph) -> None:
    x = scalar(graph, 1.0)
    chain = [x]
    for _ in range(10):
        chain.append(ops.sin(chain[-1]))
    end = chain[-1]
    del chain
    assert counts(graph) == (10, 11)
    (slope,) = graph.backward([end], [x])
    value, product = 1.0, 1.0
    for _ in range(10):
        product *= math.cos(value)
        value = math.sin(value)
    assert slope.item() == pytest.approx(product)
    del end
    assert counts(graph) == (0, 2)


def test_branches_that_lead_nowhere_go_at_once(graph: DynamicGraph) -> None:
    x = scalar(graph, 1.0)
    y = ops.exp(x)
    dead = ops.sin(ops.cos(y))
    assert counts(graph) == (3, 4)
    del dead
    assert counts(graph) == (1, 2)
    del y
    assert counts(graph) == (0, 1)


def test_a_value_used_by_two_dead_readers_goes_once(graph: DynamicGraph) -> None:
    x = scalar(graph, 1.0)
    y = x * 2.0
    z = y + ops.exp(y)
    del y
    assert counts(graph) == (3, 4)
    del z
    assert counts(graph) == (0, 1)


def test_constants_are_recorded_only_while_they_are_read(graph: DynamicGraph) -> None:
    x, c = scalar(graph, 1.0), graph.constant(np.float64(2.0))
    y = x * c + c
    assert counts(graph) == (2, 5)
    del y
    assert counts(graph) == (0, 1)


def test_an_output_beside_a_held_one_stays(graph: DynamicGraph) -> None:
    logits, labels = graph.variable(np.ones((2, 3), np.float32)), graph.constant(np.zeros(2), I32)
    loss, probability = ops.softmax_cross_entropy(logits, labels)
    del probability
    assert counts(graph) == (1, 4)
    (slope,) = graph.backward([loss], [logits])
    np.testing.assert_allclose(slope.numpy(), [[-2 / 3, 1 / 3, 1 / 3]] * 2, rtol=1e-6)
    del loss, slope
    assert counts(graph) == (0, 1)


def test_handles_of_aliases_may_go_before_use(graph: DynamicGraph) -> None:
    """Case 42: y is built of aliases 10 z and 2 z whose handles are gone when f = x · y is made."""
    z, x = graph.variable(np.arange(4.0)), graph.variable(np.ones(2))
    low, high = 10.0 * z[0:2], 2.0 * z[2:4]
    y = low + high
    del low, high
    f = x * y
    del y
    assert counts(graph)[0] == 4
    by_z, by_x = graph.backward([f], [z, x])
    np.testing.assert_array_equal(by_z.numpy(), [10, 10, 2, 2])
    np.testing.assert_array_equal(by_x.numpy(), [4, 16])
    del f
    assert counts(graph) == (0, 4)
    del z, x, by_z, by_x
    assert_forgotten(graph)


def test_views_of_a_lasting_leaf_are_forgotten_with_their_use(graph: DynamicGraph) -> None:
    x = graph.variable(np.arange(4.0))
    for _ in range(3):
        y = ops.exp(x[0:2]) * x[2:4]
        graph.backward([y], [x], create_graph=True)
        held = x[1:2]
        del y, held
        assert counts(graph) == (0, 1)
    assert len(graph.alive()) == 1


def test_recorded_gradients_leave_nothing_behind(graph: DynamicGraph) -> None:
    """No exec of the backward pass that no gradient needs, and none of its aliases, stays in the record."""
    x = graph.variable(np.linspace(0.1, 1.0, 12).reshape(3, 4))
    y = ops.reduce_max(ops.softmax(ops.tanh(x[0:2])), 1) + ops.reduce_mean(ops.concatenate([x, x[:, 0:2]], 1))
    first = graph.backward([y], [x], create_graph=True)
    second = graph.backward(first, [x], create_graph=True)
    verify(graph.record)
    del first, y
    assert counts(graph)[0] > 0
    del second
    assert counts(graph) == (0, 1)


def test_variables_in_a_cycle_are_freed_by_the_collector(graph: DynamicGraph) -> None:
    holder: dict[str, object] = {"x": scalar(graph, 1.0)}
    holder["self"] = holder
    del holder
    gc.collect()
    assert_forgotten(graph)


def test_a_graph_dies_with_its_variables() -> None:
    graph = DynamicGraph(backend="reference")
    x = scalar(graph, 1.0)
    y = ops.exp(x)
    del graph
    assert y.item() == pytest.approx(math.e)
    del x, y


# ---- programs are made once


def test_a_gradient_program_is_used_again(graph: DynamicGraph, compilations: list[int]) -> None:
    w = graph.variable(np.ones((3, 2)))
    for value in range(5):
        y = ops.reduce_sum(ops.tanh(graph.constant(np.full((4, 3), float(value))) @ w))
        (slope,) = graph.backward([y], [w])
        expected = 4 * value * (1 - np.tanh(3.0 * value) ** 2)
        np.testing.assert_allclose(slope.numpy(), np.full((3, 2), expected), atol=1e-12)
    assert len(compilations) == 1


def test_recorded_gradients_use_programs_again_too(graph: DynamicGraph, compilations: list[int]) -> None:
    for value in (1.0, 2.0, 3.0):
        x = scalar(graph, value)
        (first,) = graph.backward([x * x * x], [x], create_graph=True)
        (second,) = graph.backward([first], [x], create_graph=True)
        assert (first.item(), second.item()) == (3 * value**2, 6 * value)
    assert len(compilations) == 2


def test_another_shape_constant_or_question_is_another_program(graph: DynamicGraph, compilations: list[int]) -> None:
    def ask(shape: tuple[int, ...], factor: float, which: int) -> None:
        x, y = graph.variable(np.ones(shape)), graph.variable(np.ones(shape))
        graph.backward([ops.exp(x * factor) * y], [(x, y)[which]])

    for question in (((2,), 1.0, 0), ((3,), 1.0, 0), ((2,), 2.0, 0), ((2,), 1.0, 1), ((2,), 1.0, 0)):
        ask(*question)
    assert len(compilations) == 4


@pytest.mark.parametrize("asked", [(2, 1), (1, 2)])
def test_what_is_known_is_part_of_the_question(
    graph: DynamicGraph, compilations: list[int], asked: tuple[int, int]
) -> None:
    """The gradient of the gradient by x: the same commands, once with the gradient by y at hand, once without."""
    for count in asked:
        x = scalar(graph, 0.5)
        y = ops.exp(x)
        slopes = graph.backward([ops.sin(y) * x], [x, y][:count], create_graph=True)
        (second,) = graph.backward(slopes[:1], [x])
        e = math.exp(0.5)
        assert second.item() == pytest.approx(2 * math.cos(e) * e + 0.5 * (math.cos(e) * e - math.sin(e) * e * e))
    assert len(compilations) == 4


def test_the_oldest_program_makes_room(
    graph: DynamicGraph, compilations: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SETTINGS, "kept_programs", 2)

    def ask(size: int) -> None:
        x = graph.variable(np.ones(size))
        graph.backward([x * x], [x])

    for size in (1, 2, 1, 3, 1, 2):
        ask(size)
    assert len(compilations) == 4
    assert len(graph._programs) == 2


# ---- training


@pytest.mark.parametrize("command", [Command(SGD, SGDAttrs(0.9)), Command(ADAM, AdamAttrs())], ids=["sgd", "adam"])
def test_a_training_loop_does_not_grow_the_record(
    graph: DynamicGraph, compilations: list[int], command: Command[object]
) -> None:
    generator = np.random.default_rng(1)
    data = generator.standard_normal((16, 3)).astype(np.float32)
    target = (data @ np.float32([[1.0], [-2.0], [0.5]])).astype(np.float32)
    parameters = [graph.variable(np.zeros((3, 1), np.float32)), graph.variable(np.zeros(1, np.float32))]
    states = [
        tuple(graph.constant(np.zeros(one.shape, np.float32)) for _ in range(len(command.op.outputs) - 1))
        for one in parameters
    ]
    losses, sizes = [], []
    for step in range(200):
        error = ops.gemm(graph.constant(data), *parameters) - graph.constant(target)
        loss = ops.reduce_mean(error * error)
        gradients = graph.backward([loss], parameters)
        scalars = [0.05] if command.op is SGD else [0.05, step + 1.0]
        parameters, states = graph.apply_gradients(command, parameters, gradients, states, scalars)
        losses.append(loss.item())
        sizes.append((*counts(graph), len(graph._held), len(graph._record._made), len(graph.record._writers)))
    assert len(set(sizes[1:])) == 1
    assert losses[-1] < 1e-2 * losses[0]
    assert len(compilations) == 1
    del error, loss, gradients, parameters, states
    assert_forgotten(graph)


def test_scalars_of_updates_are_wide_enough() -> None:
    graph = DynamicGraph(backend="reference")
    w = graph.variable(np.ones(2), "bf16")
    state = (graph.constant(np.zeros(2), "bf16"), graph.constant(np.zeros(2), "bf16"))
    new, _ = graph.apply_gradients(Command(ADAM, AdamAttrs()), [w], [w], [state], [0.5, 257.0])
    assert new[0].spec.dtype.name == "bf16"
    assert new[0].key is not None


def test_variables_take_tensors_and_types(graph: DynamicGraph) -> None:
    tensor = Tensor.from_numpy(np.ones(3, np.float32))
    assert graph.variable(tensor, share=True).tensor is tensor
    assert not np.shares_memory(graph.variable(tensor).numpy(), tensor.numpy())
    assert graph.variable([1, 2], F64).spec.dtype is F64
    assert graph.constant(1, F32).spec.dtype is F32


def test_what_one_thread_does_not_record_another_one_does() -> None:
    graph = DynamicGraph(backend="reference")
    recorded: list[bool] = []

    def work() -> None:
        x = graph.variable(np.ones(3, np.float32))
        recorded.append(x.key is not None and graph.recording)

    with graph.no_grad():
        assert not graph.recording
        assert DynamicGraph().recording
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert recorded == [True]
    assert graph.recording


def test_a_long_chain_is_recorded_and_forgotten(graph: DynamicGraph) -> None:
    x = scalar(graph, 1.0)
    y = x
    for _ in range(20_000):
        y = y * 1.0
    assert counts(graph) == (20_000, 20_001)
    del y
    assert counts(graph) == (0, 1)


def test_a_variable_that_is_assigned_to_is_in_the_record_once(graph: DynamicGraph) -> None:
    """A constant gets a place, loses it and gets one again; what depended on the first goes."""
    x, y = graph.variable(np.ones(2)), graph.constant(np.zeros(2))
    for _ in range(2):
        y[:] = ops.exp(x)
        assert y.key is not None
        assert counts(graph)[0] > 0
        y._assign(graph.constant(np.zeros(2)))
        assert counts(graph) == (0, 1)
    assert len(graph._held) == 2


def test_older_history_is_given_and_not_walked(graph: DynamicGraph, compilations: list[int]) -> None:
    w = scalar(graph, 0.5)
    for length in (1, 3):
        state = w
        for _ in range(length):
            state = ops.sin(state)
        x = scalar(graph, 2.0)
        (slope,) = graph.backward([x * state], [x])
        assert slope.item() == state.item()
    assert len(compilations) == 1
