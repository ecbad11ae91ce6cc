"""Copies and pickles: right and independent, or one typed error."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnc import nn, ops
from nnc.concrete import ConcreteGraph, Tape
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.running.stream import Signal, Stream
from nnc.core.values.dtype import BF16, DTYPES, F32, DType, dtype_of
from nnc.core.values.spec import TensorSpec, spec
from nnc.core.values.storage import Storage
from nnc.core.values.tensor import Tensor
from nnc.dynamic import DynamicGraph
from nnc.dynamic.graph import default_graph
from nnc.errors import RegistryError, SymbolError, UsageError
from nnc.graph import NoAttributes, Op, Registry
from nnc.nn.data import Batches, DataSet
from nnc.symbolic import SymbolicGraph, compile


def pickled(value: Any) -> Any:  # pickle gives back what it is given
    return pickle.loads(pickle.dumps(value))


COPIES = pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickled])
Take = Callable[[Any], Any]


def model() -> nn.Model:
    layer = nn.Sequential(nn.Dense(5), nn.ReLU(), nn.Dense(2))
    return nn.Model(layer, (4,), loss=nn.MeanSquaredError(), backend="reference", seed=3)


X = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(3, 4)
Y = np.linspace(0.0, 1.0, 6, dtype=np.float32).reshape(3, 2)


# ---- values


@COPIES
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_element_type_is_one_object(take: Take, dtype: DType) -> None:
    assert take(dtype) is dtype
    assert take(spec([2], dtype)).dtype is dtype


def test_a_spec_with_an_equal_element_type_has_the_one_object() -> None:
    twin = DType("f32", 4, "float", np.dtype(np.float32))
    assert twin == F32
    assert TensorSpec((2,), twin).dtype is F32
    assert dtype_of(twin) is F32


@COPIES
def test_copied_specs_fit_originals(take: Take) -> None:
    graph = SymbolicGraph()
    x = graph.input(spec([4, 3]), "x")
    y = ops.relu(x[1:3]) @ graph.input(take(spec([3, 2])), "w")
    assert y.spec == spec([2, 2])


@COPIES
def test_a_tensor_is_copied_by_value(take: Take) -> None:
    whole = Tensor.from_numpy(np.arange(12, dtype=np.float32).reshape(3, 4))
    for tensor in (whole, whole.view(spec([3, 2]), 1, (4, 1))):
        other = take(tensor)
        assert other.spec == tensor.spec
        assert other.numpy().tolist() == tensor.numpy().tolist()
        assert other.is_contiguous
        assert other.storage.nbytes == tensor.spec.nbytes
        assert other.address == other.storage.bytes.ctypes.data
        assert not np.shares_memory(other.numpy(), tensor.numpy())


@COPIES
@pytest.mark.parametrize("shape", [(), (0, 3), (2,)])
def test_tensors_of_any_type_and_size_are_copied(take: Take, shape: tuple[int, ...]) -> None:
    for dtype in DTYPES:
        tensor = Tensor.zeros(TensorSpec(shape, dtype))
        tensor.storage.bytes[:] = 1
        other = take(tensor)
        assert (other.spec, other.numpy().tobytes()) == (tensor.spec, tensor.numpy().tobytes())


@COPIES
def test_storage_is_copied_by_value_and_may_be_written(take: Take) -> None:
    content = np.arange(100, dtype=np.uint8)
    content.flags.writeable = False
    storage = Storage(content, "numpy")
    other = take(storage)
    assert bytes(other.bytes) == bytes(content)
    assert other.address == other.bytes.ctypes.data != storage.address
    assert not other.read_only


@COPIES
def test_commands_and_operators_stay_equal(take: Take) -> None:
    graph = SymbolicGraph()
    y = ops.softmax(graph.input(spec([2, 3])))
    command = next(record.command for _, record in y.graph.execs.items())
    assert take(command) == command
    assert take(command).op is command.op
    assert DISPATCHER.claim(take(command), (spec([2, 3]),), (spec([2, 3]),), "reference")


def test_operators_of_a_registry_whose_name_is_taken_are_not_pickled() -> None:
    first = Registry("twice")
    op = Op("a", NoAttributes, ("x",), registry=first)
    assert pickled(op) is op
    second = Registry("twice")
    assert copy.deepcopy(op) is op
    with pytest.raises(RegistryError, match="later registry"):
        pickle.dumps(op)
    assert pickled(second) is second


# ---- graphs and plans


@COPIES
def test_a_symbolic_graph_is_copied_with_its_symbols(take: Take) -> None:
    graph = SymbolicGraph("net")
    x = graph.input(spec([2, 3]), "x")
    w = graph.input(name="w")
    y = ops.relu(x) @ w
    copied, (one, weight, result) = take((graph, (x, w, y))) if take is not copy.copy else (graph, (x, w, y))
    copied.specify(weight, spec([3, 4]))
    values = {one: np.ones((2, 3)), weight: np.ones((3, 4))}
    (got,) = compile(copied, [result])(values, result)
    assert got.tolist() == np.full((2, 4), 3.0).tolist()
    if copied is not graph:
        assert len(graph.execs) == len(copied.execs)
        assert "auto" in str(w.graph.tensors[w.key].spec)


def test_a_shallow_copy_of_a_graph_is_a_graph_of_its_own() -> None:
    graph = SymbolicGraph("net")
    ops.relu(graph.input(spec([2, 3]), "x"))
    other = copy.copy(graph)
    other.input(spec([1]), "more")
    assert len(other.tensors) == len(graph.tensors) + 1


@COPIES
def test_plans_and_statements_are_values(take: Take) -> None:
    graph = SymbolicGraph("net")
    compiled = compile(graph, [ops.relu(graph.input(spec([2, 3]), "x")) * 2])
    for value in (*compiled.plan(), compiled.memory()):
        assert take(value) == value


UNCOPIED: dict[str, Callable[[], object]] = {
    "a compiled graph": lambda: compile(graph := SymbolicGraph(), [ops.relu(graph.input(spec([2])))]),
    "a concrete graph": ConcreteGraph,
    "a tape": Tape,
    "a stream": Stream,
    "a signal": Signal,
    "a dynamic graph": DynamicGraph,
    "a model's step": lambda: model().prediction_step(2),
    "a kernel": lambda: DISPATCHER.backend("llvm").kernel(
        next(record.command for _, record in ops.relu(SymbolicGraph().input(spec([2]))).graph.execs.items()),
        (spec([2]),),
        (spec([2]),),
    ),
}


@COPIES
@pytest.mark.parametrize("kind", UNCOPIED)
def test_what_is_bound_to_the_process_says_what_to_do(take: Take, kind: str) -> None:
    value = UNCOPIED[kind]()
    if kind == "a model's step" and take is copy.copy:
        value = value.compiled  # type: ignore[attr-defined]  # a step
    with pytest.raises(UsageError, match="bound to this process; need values. Fix: "):
        take(value)


# ---- variables


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy])
def test_a_copied_leaf_is_a_leaf_with_memory_of_its_own(take: Take) -> None:
    graph = DynamicGraph()
    w, c = graph.variable([1.0, 2.0]), graph.constant([3.0, 4.0])
    other, constant = take(w), take(c)
    w.tensor.copy_from(0.0)
    c.tensor.copy_from(0.0)
    (gradient,) = graph.backward([ops.reduce_sum(other * constant)], [other])
    assert gradient.numpy().tolist() == [3.0, 4.0]
    assert other.numpy().tolist() == [1.0, 2.0]
    with pytest.raises(SymbolError, match=r"computed.*detach"):
        take(other * 2)
    with pytest.raises(SymbolError, match="computed"):
        take(other[:1])
    assert take(graph.detach(other * 2)).numpy().tolist() == [2.0, 4.0]


def test_a_variable_is_pickled_as_a_leaf_of_the_default_graph() -> None:
    other = pickle.loads(pickle.dumps(DynamicGraph().variable([1.0])))
    assert other.graph is default_graph()
    assert default_graph().is_leaf(other)
    with pytest.raises(SymbolError, match="a copy would lose its gradient"):
        pickle.dumps(other * 2)


# ---- models and data


@COPIES
@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_a_copied_model_has_weights_of_its_own(take: Take, backend: str) -> None:
    original = model()
    original.backend = backend
    original.train_on_batch(X, Y)
    before = original.predict(X)
    other = take(original)
    assert other.predict(X).tobytes() == before.tobytes()
    losses = [other.train_on_batch(X, Y)[0] for _ in range(3)]
    assert original.predict(X).tobytes() == before.tobytes()
    assert [original.train_on_batch(X, Y)[0] for _ in range(3)] == losses
    last = original.predict(X)
    del original
    assert other.predict(X).tobytes() == last.tobytes()


@COPIES
def test_a_model_that_was_never_used_is_copied(take: Take) -> None:
    assert take(model()).predict(X).tobytes() == model().predict(X).tobytes()


def test_models_that_share_have_one_set_of_weights() -> None:
    one = model()
    two = one.share()
    one.train_on_batch(X, Y)
    assert two.predict(X).tobytes() == one.predict(X).tobytes()
    two.train_on_batch(X, Y)
    assert two.predict(X).tobytes() == one.predict(X).tobytes()
    assert (one.updates, two.updates) == (1, 1)
    assert one.states.keys() == two.states.keys()
    assert all(one.states[name].address != two.states[name].address for name in one.states)


@COPIES
def test_batches_go_on_where_they_were(take: Take) -> None:
    data = DataSet("five", np.arange(5, dtype=np.float32)[:, None], np.arange(5, dtype=np.int32), tuple("abcde"))
    batches = Batches(data, 2, seed=1)
    next(iter(batches))
    other = take(batches)
    assert [batch.labels.tolist() for batch in other] == [batch.labels.tolist() for batch in batches]
    assert take(data).labels.tolist() == [0, 1, 2, 3, 4]


@COPIES
def test_layers_losses_and_optimizers_are_values(take: Take) -> None:
    for value in (nn.Adam(nn.Cosine(0.1, 10)), nn.SoftmaxCrossEntropy(), nn.Dense(3), BF16):
        assert take(value) == value
    layer = take(nn.Sequential(first=nn.Dense(3), last=nn.Dense(2)))
    assert [row.name for row in nn.Model(layer, (4,)).summary()] == ["first", "last"]
