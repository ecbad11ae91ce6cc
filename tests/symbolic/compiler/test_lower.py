from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnc import ops
from nnc.core.running.stream import Stream
from nnc.core.values.command import Command
from nnc.core.values.dtype import I32
from nnc.core.values.spec import Shape, TensorSpec, spec
from nnc.core.values.storage import Storage
from nnc.core.values.tensor import Tensor
from nnc.errors import BackendError, DTypeError, LayoutError, NncError, ShapeError, SymbolError
from nnc.ops.elementwise.pointwise import exp
from nnc.ops.movement.copy import contiguous
from nnc.ops.optimizer.optimizer import SGD, SGDAttrs
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import NoAttrs
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, minimize
from nnc.symbolic import compile as compile_graph

COPIED = Command(contiguous, NoAttrs())


def compile_reference(graph: SymbolicGraph, outputs: list[Symbol], **options: object) -> Compiled:
    return compile_graph(graph, outputs, backend="reference", **options)  # type: ignore[arg-type]  # options by name


def address(compiled: Compiled, symbol: Symbol) -> int:
    return compiled.tensor(symbol).address


def line_of(text: str) -> str:
    lines = Path(__file__).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return f"{Path(__file__).name}:{number}"


@pytest.fixture
def graph() -> SymbolicGraph:
    return SymbolicGraph("g")


# ---- memory identity: cases 1, 2, 6, 8 and 11 of the reference


def test_a_product_takes_the_memory_of_its_operand(graph: SymbolicGraph) -> None:
    a, b = graph.input(spec((1,))), graph.input(spec((1,)))
    c = a * b
    compiled = compile_reference(graph, [c])
    assert compiled({a: [1.2], b: [2.3]}, c)[0] == pytest.approx(2.76)
    assert address(compiled, a) == address(compiled, c)
    assert address(compiled, b) != address(compiled, c)
    assert compiled.memory().arena == 128


def test_softmax_takes_the_memory_of_the_convolution_and_unused_symbols_have_none(graph: SymbolicGraph) -> None:
    a, w, bias = graph.input(spec((1, 5, 5, 2))), graph.input(spec((3, 3, 2, 4))), graph.input(spec((4,)))
    unused = [graph.input(spec((7,))), ops.exp(a)]
    b = ops.convolution(a, w, bias, window=ops.window_of(3, padding=1))
    m = ops.softmax(b)
    compiled = compile_reference(graph, [m])
    assert address(compiled, a) != address(compiled, b) == address(compiled, m)
    for symbol in unused:
        with pytest.raises(SymbolError, match="the wanted outputs need"):
            compiled.tensor(symbol)
    assert len(compiled.planned.order) == 2


def test_only_what_is_not_bound_is_in_the_arena(graph: SymbolicGraph) -> None:
    a, b, d = graph.input(spec((1, 2))), graph.input(spec((2, 1))), graph.input(spec((1, 1)))
    c = ops.gemm(a, b)
    e = ops.gemm(c, d)
    result = Tensor.zeros(spec((1, 1)))
    inputs = {a: Tensor.from_numpy(np.float32([[11003, 0]])), d: Tensor.from_numpy(np.float32([[-0.5]]))}
    compiled = compile_reference(graph, [e], given=inputs, bind={e: result})
    assert compiled.memory().arena == 128
    assert compiled.memory().bound == 8 + 4 + 4
    compiled.write(b, [[0.12], [1.1]])
    compiled.run()
    assert result.numpy().item() == pytest.approx(-(11003 * 0.12) * 0.5)
    assert compiled.tensor(e) is result


def test_aliases_of_a_bound_tensor_read_its_memory(graph: SymbolicGraph) -> None:
    a = graph.input(spec((2,)))
    b = a[0] + a[1]
    c = b * a
    compiled = compile_reference(graph, [c], given={a: None})
    bound = Tensor.from_numpy(np.float32([1.1, 0.4]))
    np.testing.assert_allclose(compiled.rebind({a: bound})({}, c)[0], [1.65, 0.6], rtol=1e-6)


def test_a_dense_net_writes_beside_what_it_reads(graph: SymbolicGraph) -> None:
    x = graph.input(spec((1, 4), "f64"), "x")
    weights = [graph.input(spec((size, 1), "f64")) for size in (1, 2, 3)]
    biases = [graph.input(spec((1,), "f64")) for _ in range(3)]
    gemm = Command(GEMM, GemmAttrs())
    for size, weight, bias in zip((1, 2, 3), weights, biases, strict=True):
        graph.apply(gemm, [x[:, 0:size], weight, bias], [x[:, size : size + 1]])
    compiled = compile_reference(graph, [x])
    values = dict(zip(weights, ([[0.234]], [[0.374], [0.886]], [[0.484], [0.912], [0.235]]), strict=True))
    values |= dict(zip(biases, ([0.1], [0.2], [0.3]), strict=True))
    got = compiled({x: [[0.472, 0, 0, 0]], **values}, x)[0][0]
    one = 0.472 * 0.234 + 0.1
    two = 0.472 * 0.374 + one * 0.886 + 0.2
    three = 0.472 * 0.484 + one * 0.912 + two * 0.235 + 0.3
    np.testing.assert_allclose(got, [0.472, one, two, three])


# ---- in place, and not


def test_a_chain_lives_in_one_block(graph: SymbolicGraph) -> None:
    x = graph.input(spec((100,)))
    chain = [x]
    for _ in range(5):
        chain.append(ops.tanh(chain[-1]))
    compiled = compile_reference(graph, chain[-1:])
    assert len({address(compiled, symbol) for symbol in chain}) == 1
    assert compiled.memory().arena == 448


def test_not_in_place_when_the_input_is_read_later(graph: SymbolicGraph) -> None:
    x = graph.input(spec((16,)))
    y = ops.exp(x)
    z = ops.multiply(ops.sin(y), x)
    compiled = compile_reference(graph, [z])
    assert address(compiled, x) != address(compiled, y)


def test_not_in_place_when_the_input_is_wanted(graph: SymbolicGraph) -> None:
    x = graph.input(spec((16,)))
    y = ops.exp(x)
    z = ops.sin(y)
    compiled = compile_reference(graph, [z, y])
    assert address(compiled, x) == address(compiled, y) != address(compiled, z)


def test_not_in_place_over_given_memory(graph: SymbolicGraph) -> None:
    x = graph.input(spec((16,)))
    y = ops.exp(x)
    given = Tensor.from_numpy(np.ones(16, np.float32))
    compiled = compile_reference(graph, [y], given={x: given})
    compiled.run()
    assert address(compiled, x) != address(compiled, y)
    np.testing.assert_array_equal(given.numpy(), np.ones(16))


def test_not_in_place_over_a_part_or_a_larger_shape(graph: SymbolicGraph) -> None:
    x, row = graph.input(spec((4, 4))), graph.input(spec((4,)))
    part = ops.exp(x[1:3])
    grown = ops.add(row, part)
    compiled = compile_reference(graph, [grown])
    assert address(compiled, part) == address(compiled, grown)
    assert len({address(compiled, symbol) for symbol in (x, row, grown)}) == 3


def test_not_in_place_when_a_part_of_the_input_is_read_beside_it(graph: SymbolicGraph) -> None:
    x = graph.input(spec((4, 4)))
    y = ops.exp(x)
    z = ops.add(y, y[0])
    compiled = compile_reference(graph, [z])
    assert address(compiled, y) != address(compiled, z)


def test_in_place_when_both_operands_are_the_same(graph: SymbolicGraph) -> None:
    x = graph.input(spec((4,)))
    y = ops.multiply(x, x)
    compiled = compile_reference(graph, [y])
    assert address(compiled, x) == address(compiled, y)


def test_in_place_over_the_second_operand(graph: SymbolicGraph) -> None:
    x, row = graph.input(spec((4,))), graph.input(spec((3, 4)))
    y = ops.subtract(x, row)
    compiled = compile_reference(graph, [y])
    assert address(compiled, row) == address(compiled, y)
    np.testing.assert_array_equal(compiled({x: np.ones(4), row: np.full((3, 4), 3)}, y)[0], np.full((3, 4), -2))


def test_not_in_place_when_the_element_type_changes(graph: SymbolicGraph) -> None:
    x = graph.input(spec((4,)))
    y = ops.cast(x, I32)
    compiled = compile_reference(graph, [y])
    assert address(compiled, x) != address(compiled, y)


@pytest.mark.usefixtures("debug")
def test_two_outputs_never_take_over_one_input(graph: SymbolicGraph) -> None:
    """The new weights are wanted by nobody: their memory must still not be that of the new momentum."""
    x, w, m, rate = (
        graph.input(spec(shape), name) for shape, name in (((4,), "x"), ((4,), "w"), ((4,), "m"), ((), "r"))
    )
    g = ops.exp(x)
    weights, momentum = graph.apply(Command(SGD, SGDAttrs(0.5)), [g, w, m, rate])
    tensors = {w: Tensor.zeros(w.spec), m: Tensor.from_numpy(np.ones(4, np.float32)), rate: Tensor.zeros(rate.spec)}
    compiled = compile_reference(graph, [momentum], given=tensors)
    assert address(compiled, weights) != address(compiled, momentum)
    np.testing.assert_array_equal(compiled({x: np.zeros(4)}, momentum)[0], np.full(4, 1.5))


# ---- inputs and outputs


def test_inputs_in_the_arena_are_overwritten_and_written_anew(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)))
    y = ops.exp(x)
    compiled = compile_reference(graph, [y])
    for start in (0.0, 1.0):
        np.testing.assert_allclose(compiled({x: [start] * 3}, y)[0], np.exp([start] * 3), rtol=1e-6)
    np.testing.assert_allclose(compiled.tensor(x).numpy(), np.exp([1.0] * 3), rtol=1e-6)
    with pytest.raises(SymbolError, match=r"no value for .*every input that outputs need written before each run"):
        compiled.run()


@pytest.mark.usefixtures("debug")
def test_freed_memory_is_not_a_number_in_debug_mode(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)))
    y = ops.reduce_sum(ops.exp(x))
    compiled = compile_reference(graph, [y])
    assert np.isnan(compiled.tensor(x).numpy()).all()
    compiled.write(x, [1, 2, 3])
    compiled.run()
    assert np.isnan(compiled.tensor(x).numpy()).all()
    assert np.isfinite(compiled.tensor(y).numpy()).all()


def test_outputs_are_kept_to_the_end_of_the_run(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)))
    early = ops.exp(x)
    late = early
    for _ in range(4):
        late = ops.sin(late)
    first, second, untouched = compile_reference(graph, [early, late, x])({x: [0.1, 0.2, 0.3]}, early, late, x)
    np.testing.assert_allclose(first, np.exp([0.1, 0.2, 0.3]), rtol=1e-6)
    np.testing.assert_allclose(untouched, [0.1, 0.2, 0.3], rtol=1e-6)
    assert (second < first).all()


def test_an_input_may_be_an_output_and_an_output_an_alias(graph: SymbolicGraph) -> None:
    x, alone = graph.input(spec((4, 2))), graph.input(spec((2,)))
    y = ops.exp(x)[1:3]
    got = compile_reference(graph, [alone, y, alone])({alone: [1, 2], x: np.zeros((4, 2))}, alone, y)
    np.testing.assert_array_equal(got[0], [1, 2])
    np.testing.assert_array_equal(got[1], np.ones((2, 2)))


def test_asking_for_what_a_run_does_not_keep_is_refused(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)))
    y = ops.exp(x)
    z = ops.sin(y)
    compiled = compile_reference(graph, [z])
    with pytest.raises(SymbolError, match="list it in outputs"):
        compiled({x: [1, 2, 3]}, y)


def test_writing_checks_shapes_types_and_graphs(graph: SymbolicGraph) -> None:
    x, labels = graph.input(spec((3,)), "x"), graph.input(spec((3,), I32), "labels")
    y = ops.exp(x) * ops.cast(labels, x.spec.dtype)
    compiled = compile_reference(graph, [y])
    with pytest.raises(ShapeError, match=r"x from shape \[2\]; need f32\[3\]"):
        compiled.write(x, [1, 2])
    with pytest.raises(DTypeError):
        compiled.write(labels, [0.5, 1.5, 2.5])
    with pytest.raises(SymbolError, match="of another graph"):
        compiled.write(SymbolicGraph().input(spec((3,))), [1, 2, 3])


def test_empty_tensors_run(graph: SymbolicGraph) -> None:
    x = graph.input(spec((0, 3)))
    y = ops.reduce_sum(ops.exp(x))
    compiled = compile_reference(graph, [y])
    assert compiled({x: np.zeros((0, 3))}, y)[0] == 0.0


def test_nothing_to_do_takes_no_memory(graph: SymbolicGraph) -> None:
    compiled = compile_reference(graph, [])
    assert compiled.memory().arena == compiled.memory().lower_bound == 0
    assert compiled({}) == ()


def test_parts_that_come_from_outside_keep_their_place_until_read(graph: SymbolicGraph) -> None:
    """The other half of `whole` is written late; the first half was there before everything else."""
    x, whole = graph.input(spec((64,))), graph.input(spec((128,)))
    y = x
    for _ in range(3):
        y = ops.reshape(ops.reshape(ops.exp(y * 0.1), (8, 8)) @ ops.reshape(y, (8, 8)), (64,))
    graph.apply(COPIED, [y], [whole[64:128]])
    result = ops.affine(whole, 1.0)
    compiled = compile_reference(graph, [result])
    got = compiled({x: np.zeros(64), whole: np.arange(128)}, result)[0]
    np.testing.assert_array_equal(got[:64], np.arange(64))


# ---- bindings


def test_bindings_must_fit(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)), "x")
    y = ops.exp(x)
    for wrong in (Tensor.zeros(spec((4,))), Tensor.zeros(spec((3,), "f64"))):
        with pytest.raises(ShapeError, match=r"bind.* for %0 x: f32\[3\]"):
            compile_reference(graph, [y], given={x: wrong})
        with pytest.raises(ShapeError):
            compile_reference(graph, [y], given={x: None}).rebind({x: wrong})
    with pytest.raises(ShapeError, match="all of a root"):
        compile_reference(graph, [y], bind={y[0:2]: None})


def test_a_symbol_to_be_bound_later_has_to_be(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)), "x")
    y = ops.exp(x)
    compiled = compile_reference(graph, [y], given={x: None})
    with pytest.raises(SymbolError, match=r"%0 x: f32\[3\] without a tensor"):
        compiled.run()
    with pytest.raises(SymbolError, match="that compile\\(\\) was given"):
        compiled.rebind({y: Tensor.zeros(y.spec)})


def test_rebinding_shares_the_arena_and_leaves_the_first_binding_alone(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)))
    y = ops.sin(ops.exp(x))
    one, two = (Tensor.from_numpy(np.full(3, value, np.float32)) for value in (1.0, 2.0))
    first = compile_reference(graph, [y], given={x: one})
    second = first.rebind({x: two})
    assert address(first, y) == address(second, y)
    np.testing.assert_allclose(second({}, y)[0], np.sin(np.exp(np.full(3, 2.0))), rtol=1e-5)
    np.testing.assert_allclose(first({}, y)[0], np.sin(np.exp(np.full(3, 1.0))), rtol=1e-5)


def test_given_values_are_not_computed(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)))
    y = ops.exp(x)
    z = ops.sin(y)
    compiled = compile_reference(graph, [z], given={y: Tensor.from_numpy(np.float32([1, 2, 3]))})
    assert len(compiled.planned.order) == 1
    np.testing.assert_allclose(compiled({}, z)[0], np.sin([1, 2, 3]), rtol=1e-6)


def test_strided_memory_serves_a_symbol_without_aliases(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3, 2)), "x")
    strided = Tensor.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3).T)
    y = ops.affine(x, 2.0)
    np.testing.assert_array_equal(compile_reference(graph, [y], given={x: strided})({}, y)[0], strided.numpy() * 2)
    z = ops.exp(x[1])
    with pytest.raises(LayoutError, match="which has aliases"):
        compile_reference(graph, [z], given={x: strided}).run()


def test_read_only_memory_is_not_written(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)))
    y = ops.exp(x)
    frozen = np.zeros(3, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(NncError, match="read-only"):
        compile_reference(graph, [y], bind={y: Tensor.from_numpy(frozen)})({x: [1, 2, 3]}, y)


# ---- carried values


def updated(graph: SymbolicGraph) -> tuple[Symbol, Symbol, Symbol]:
    w, x = graph.input(spec((3,)), "w"), graph.input(spec((3,)), "x")
    return w, x, ops.subtract(w, ops.affine(x, 0.5))


def test_a_new_value_takes_the_old_one_s_memory(graph: SymbolicGraph) -> None:
    w, x, new = updated(graph)
    weights = Tensor.from_numpy(np.float32([1, 2, 3]))
    compiled = compile_reference(graph, [], given={w: weights}, carry={new: w})
    assert compiled.tensor(new) is weights
    assert compiled.bindings.copies == ()
    for _ in range(2):
        compiled.write(x, [1, 1, 1])
        compiled.run()
    np.testing.assert_array_equal(weights.numpy(), [0, 1, 2])


def test_other_readers_of_the_old_value_come_first(graph: SymbolicGraph) -> None:
    w, x, new = updated(graph)
    late = ops.exp(w)
    weights = Tensor.from_numpy(np.zeros(3, np.float32))
    compiled = compile_reference(graph, [late], given={w: weights}, carry={new: w})
    np.testing.assert_array_equal(compiled({x: [2, 2, 2]}, late)[0], np.ones(3))
    np.testing.assert_array_equal(weights.numpy(), [-1, -1, -1])


def test_a_writer_that_may_not_work_in_place_copies_at_the_end(graph: SymbolicGraph) -> None:
    w, x = graph.input(spec((2, 2)), "w"), graph.input(spec((2, 2)), "x")
    new = w @ x
    weights = Tensor.from_numpy(np.float32([[1, 2], [3, 4]]))
    compiled = compile_reference(graph, [], given={w: weights}, carry={new: w})
    assert compiled.bindings.copies == ((new.key, w.key),)
    compiled.write(x, [[0, 1], [1, 0]])
    compiled.run()
    np.testing.assert_array_equal(weights.numpy(), [[2, 1], [4, 3]])


def test_a_writer_that_reads_the_old_value_by_parts_copies(graph: SymbolicGraph) -> None:
    w = graph.input(spec((2, 3)), "w")
    new = ops.add(w, w[1])
    weights = Tensor.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    compiled = compile_reference(graph, [], given={w: weights}, carry={new: w})
    assert len(compiled.bindings.copies) == 1
    compiled.run()
    np.testing.assert_array_equal(weights.numpy(), [[3, 5, 7], [6, 8, 10]])


def test_two_values_swap_places(graph: SymbolicGraph) -> None:
    a, b = graph.input(spec((2,)), "a"), graph.input(spec((2,)), "b")
    new_a, new_b = ops.affine(b, 1.0, 1.0), ops.affine(a, 1.0, -1.0)
    one, two = Tensor.from_numpy(np.float32([1, 2])), Tensor.from_numpy(np.float32([10, 20]))
    compiled = compile_reference(graph, [], given={a: one, b: two}, carry={new_a: a, new_b: b})
    compiled.run()
    np.testing.assert_array_equal(one.numpy(), [11, 21])
    np.testing.assert_array_equal(two.numpy(), [0, 1])
    compiled.run()
    np.testing.assert_array_equal(one.numpy(), [1, 2])


def test_a_value_that_needs_both_old_and_new_forces_a_copy(graph: SymbolicGraph) -> None:
    w, x, new = updated(graph)
    both = ops.multiply(w, new)
    weights = Tensor.from_numpy(np.float32([1, 2, 3]))
    compiled = compile_reference(graph, [both], given={w: weights}, carry={new: w})
    np.testing.assert_array_equal(compiled({x: [2, 2, 2]}, both)[0], [0, 2, 6])
    np.testing.assert_array_equal(weights.numpy(), [0, 1, 2])


def test_a_carried_value_may_be_bound_elsewhere_too(graph: SymbolicGraph) -> None:
    w, x, new = updated(graph)
    weights, seen = Tensor.from_numpy(np.float32([1, 2, 3])), Tensor.zeros(new.spec)
    compiled = compile_reference(graph, [new], given={w: weights}, bind={new: seen}, carry={new: w})
    compiled.write(x, [2, 2, 2])
    compiled.run()
    np.testing.assert_array_equal(weights.numpy(), [0, 1, 2])
    np.testing.assert_array_equal(seen.numpy(), [0, 1, 2])


def test_an_input_may_be_carried(graph: SymbolicGraph) -> None:
    w, x = graph.input(spec((2,)), "w"), graph.input(spec((2,)), "x")
    y = ops.multiply(w, x)
    memory = Tensor.zeros(w.spec)
    compiled = compile_reference(graph, [y], given={w: memory}, carry={x: w})
    np.testing.assert_array_equal(compiled({x: [1, 2]}, y)[0], [0, 0])
    np.testing.assert_array_equal(compiled({x: [3, 4]}, y)[0], [3, 8])


def test_carries_must_fit(graph: SymbolicGraph) -> None:
    w, x, new = updated(graph)
    weights, other = Tensor.zeros(w.spec), Tensor.zeros(x.spec)
    for carry, given in (
        ({new: w}, {}),
        ({x: w}, {w: weights, x: other}),
        ({new: w, x: w}, {w: weights}),
        ({new[0:2]: w}, {w: weights}),
        ({ops.reduce_sum(new): w}, {w: weights}),
        ({ops.cast(new, I32): w}, {w: weights}),
    ):
        with pytest.raises(SymbolError, match="carry"):
            compile_reference(graph, [], given=given, carry=carry)


def test_rebinding_moves_carried_memory_along(graph: SymbolicGraph) -> None:
    w, x, new = updated(graph)
    compiled = compile_reference(graph, [], given={w: None}, carry={new: w})
    weights = Tensor.from_numpy(np.float32([1, 2, 3]))
    second = compiled.rebind({w: weights})
    second.write(x, [2, 2, 2])
    second.run()
    np.testing.assert_array_equal(weights.numpy(), [0, 1, 2])


def test_a_training_step_updates_parameters_and_states_in_place(graph: SymbolicGraph) -> None:
    x, w = graph.input(spec((8, 4)), "x"), graph.input(spec((4, 2)), "w")
    loss = ops.reduce_mean(ops.square(x @ w))
    done = minimize(graph, Command(SGD, SGDAttrs(0.9)), [loss], [w])
    given = {w: Tensor.from_numpy(np.ones((4, 2), np.float32)), done.updates[0].states[0]: Tensor.zeros(w.spec)}
    given[done.scalars["rate"]] = Tensor.from_numpy(np.float32(0.1))
    compiled = compile_reference(graph, [loss], given=given, carry=done.carries())
    assert compiled.bindings.copies == ()
    losses = [float(compiled({x: np.ones((8, 4))}, loss)[0]) for _ in range(30)]
    assert losses[0] == 16.0
    assert losses[-1] < 0.5 * losses[0]


# ---- running


def test_a_stream_runs_it_and_fires_the_signal(graph: SymbolicGraph) -> None:
    x = graph.input(spec((3,)))
    y = ops.exp(x)
    compiled = compile_reference(graph, [y])
    compiled.write(x, [0, 0, 0])
    with Stream() as stream:
        signal = compiled.run(stream)
        assert signal is not None
        signal.wait()
        np.testing.assert_array_equal(compiled.tensor(y).numpy(), np.ones(3))


def test_no_memory_is_allocated_before_the_first_run(graph: SymbolicGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    x = graph.input(TensorSpec((1 << 20, 1 << 20)))
    y = ops.reduce_sum(ops.exp(x))

    def refuse(nbytes: int, label: str = "") -> Storage:
        raise AssertionError(nbytes)

    monkeypatch.setattr(Storage, "allocate", refuse)
    compiled = compile_reference(graph, [y])
    assert compiled.memory().arena == (4 << 40) + 64
    with pytest.raises(AssertionError):
        compiled.allocate()


@pytest.mark.parametrize("backend", ["nobody", "REFERENCE"])
def test_an_unknown_backend_is_refused_with_the_line_of_the_exec(graph: SymbolicGraph, backend: str) -> None:
    y = ops.exp(graph.input(spec((3,))))  # claimed by nobody
    with pytest.raises(BackendError, match="one of") as caught:
        compile_graph(graph, [y], backend=backend)
    assert caught.value.origin == line_of("claimed by nobody")


def test_a_symbol_of_another_graph_is_refused(graph: SymbolicGraph) -> None:
    other = SymbolicGraph().input(spec((3,)))
    with pytest.raises(SymbolError):
        compile_reference(graph, [other])
    with pytest.raises(SymbolError):
        compile_reference(graph, [], given={other: None})


@pytest.mark.parametrize("shape", [(), (1,), (3, 1, 2)])
def test_in_place_keeps_shapes_of_any_rank(graph: SymbolicGraph, shape: Shape) -> None:
    x = graph.input(spec(shape, "f64"))
    y = graph.apply(Command(exp, NoAttrs()), [x])[0]
    compiled = compile_reference(graph, [y])
    assert address(compiled, x) == address(compiled, y)
    np.testing.assert_array_equal(compiled({x: np.zeros(shape)}, y)[0], np.ones(shape))
