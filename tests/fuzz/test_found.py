"""What random calls have found: each of these raised one of Python's own errors, or did not come back."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nnc
from nnc import array_api as xp
from nnc import nn, ops, planning, symbolic
from nnc.arguments import checked
from nnc.concrete import NonZero, Selector, TuneCache, checked_tuning, multiview_synchronize
from nnc.concrete.multiview import Carry, Taped
from nnc.core.precautions.replacement import older, write_atomically
from nnc.core.running.stream import Stream
from nnc.core.values.command import Command
from nnc.core.values.dlpack import capsule_of, number_of
from nnc.core.values.dtype import I32
from nnc.core.values.exchange import map_file
from nnc.core.values.serialize import load_tensors, save_tensors
from nnc.core.values.spec import Layout, TensorSpec, spec
from nnc.core.values.storage import Storage, allocate_on
from nnc.core.values.tensor import Tensor
from nnc.dynamic import DynamicGraph
from nnc.errors import DTypeError, NncError
from nnc.graph import Graph, UndirectedGraph
from nnc.graph.codec import encode_call
from nnc.graph.serialize import load_document, save_document
from nnc.nn.layers import initializers
from nnc.nn.layers.layer import Scope
from nnc.nn.zoo import GPT
from nnc.onnx import OnnxLayer
from nnc.ops.indexing.detection import HISTOGRAM, HistogramAttrs
from nnc.ops.movement.generate import ARANGE, ArangeAttrs
from nnc.ops.optimizer.optimizer import SGDAttrs
from nnc.ops.rules import GRADIENT, NoAttrs
from nnc.planning.portfolio import beyond
from nnc.symbolic import SymbolicGraph
from nnc.symbolic.compiler.shared_arena import Arena
from nnc.symbolic.passes import prune, simplify
from nnc.symbolic.placement import is_on_host

GRAPH = SymbolicGraph()
X = GRAPH.input(spec((3, 4)), "x")
DYNAMIC = DynamicGraph(backend="reference")
V = DYNAMIC.variable(np.ones((3, 4), np.float32))
ADD = Command(ops.elementwise.pointwise.add, NoAttrs())
COMPILED = symbolic.compile(GRAPH, [X], backend="reference")
NODES: Graph[str, str, int] = Graph(int)
NODES.add_node("a")
VECTOR = xp.asarray([1.0, 2.0])
RANDOM = ops.random.random.NormalAttrs
FROZEN = nn.Model(GPT(11, 8, 8, 1, 2), (8,), input_dtype=I32, backend="reference").freeze_generation()
TENSOR = Tensor.zeros(spec((2, 3)))
CALLS: dict[str, Callable[[], object]] = {
    "a list inside a shape": lambda: V.reshape(-1, [1, 1]),
    "rows of different lengths": lambda: DYNAMIC.variable([[1.0], [2.0, 3.0]]),
    "a product with a number": lambda: X @ 2.0,
    "a sum that keeps a text": lambda: V.sum(keepdims="text"),
    "a view of a list": lambda: DYNAMIC.view([], spec((3,)), 0, (1,)),
    "a tensor of a number": lambda: Tensor.empty(3),
    "the level of no operator": lambda: GRADIENT.level("text"),
    "a view by a number": lambda: TENSOR.view(3, 5, (1,)),
    "a layout by its name": lambda: TensorSpec((3,), layout="NHWC"),
    "no operand": lambda: ops.transpose(True),
    "more decimals than a number has": lambda: V.round(1 << 62),
    "fewer decimals than a number has": lambda: V.round(-(1 << 31)),
    "blocks of an array": lambda: planning.Problem((planning.Block("a", 1, 0, 1),)).interfere(np.ones(2), 0),  # type: ignore[arg-type]
    "values that are a number": lambda: COMPILED.views_in_turn(2j, [X]),  # type: ignore[arg-type]
    "a number without a batch": lambda: nn.Flatten().build(Scope(lambda *_: None), DYNAMIC.constant(2.0)),  # type: ignore[arg-type]
    "what pickle keeps of a number": lambda: DYNAMIC.reduced(1.5),  # type: ignore[arg-type]
    "a list among axes": lambda: V.permute(0, []),
    "work on infinitely many parameters": lambda: symbolic.passes.bytes_beforehand(GRAPH, math.inf),  # type: ignore[arg-type]
    "a list of what is no operand": lambda: ops.concatenate(True, -1),
    "no layout": lambda: ops.convert_layout(X, object()),
    "no weights": lambda: ops.lstm(X, 1.5),
    "an axis that is a text": lambda: ops.argmax(X, "text"),
    "a window of a number": lambda: ops.Window((5,), 1.5, (-1, 1)),
    "bytes of a tuple": lambda: Storage.allocate(()),
    "a graph that is a text": lambda: simplify("text", [X]),
    "outputs that are a number": lambda: prune(GRAPH, 1.5),
    "a limit that is no number of bytes": lambda: symbolic.compile(GRAPH, [X + X], memory_limit="much"),
    "gradients of a number": lambda: symbolic.backward(GRAPH, 1.5, [X]),
    "a scope without a name": lambda: symbolic.scope(object()),
    "a branch by a number": lambda: symbolic.case_of(GRAPH, 1.0, [ops.sin], [X]),
    "a test of a number": lambda: NonZero(1.5),
    "a choice of nothing": lambda: Selector(None),
    "a carry of a tuple": lambda: Carry((), "x"),
    "what was taped of a number": lambda: Taped(3),
    "a folder that is a truth": lambda: TuneCache(True),
    "lives that are dicts": lambda: planning.Block("b", 1, {}, 4),
    "rows that are a text": lambda: planning.Interference("text"),
    "blocks that are a number": lambda: planning.Interference.of_lives(1.5),
    "a block by a list": lambda: planning.Problem(()).interfere([], 0),
    "a problem that is a tuple": lambda: planning.solve(()),
    "a solver that is a number": lambda: planning.solve(planning.Problem(()), solver=3),
    "faults of nothing": lambda: planning.faults((), planning.solve(planning.Problem(()))),
    "a file that is a number": lambda: load_tensors(3.5),
    "tensors that are a number": lambda: save_tensors("file", 1.5),
    "a file mapped by a tuple": lambda: map_file((), spec((3,))),
    "a checkpoint of a number": lambda: nn.read_position(1.5),
    "a block that is half a number": lambda: planning.Problem((planning.Block("a", 1, 0, 1),)).interfere(0.5, 0),
    "the identity of a scalar": lambda: ops.identity_like(SymbolicGraph().input(spec(()))),
    "a draw whose mean is a text": lambda: nnc.normal(mean="text"),
    "a draw up to a dict": lambda: nnc.uniform(high={}),
    "an array of a tensor and a number": lambda: nn.Model(nn.Dense(2), (3,)).predict([-1, Tensor.empty(spec((2,)))]),
    "values that are bytes": lambda: nn.Model(nn.Dense(2), (3,)).prediction_step(1).compiled.views(b"bytes", []),
    "nothing in two thousand million parts": lambda: ops.split(SymbolicGraph().input(spec((0,))), 1 << 31),
    "weights that are a truth": lambda: nn.Model(nn.Dense(2), (3,)).apply(V, True),
    "a layer applied to bytes": lambda: nn.Model(nn.Dense(2), (3,)).apply(b"bytes", {}),
    "roots of a number": lambda: GRAPH.roots(1.5),
    "a plan that is bytes": lambda: beyond(b"bytes", 1),
    "tuning by a text": lambda: checked_tuning("i32", None, False),
    "a data set by a number": lambda: nn.data.load(1.5),
    "a document that is a list": lambda: save_document("graph", 1, []),
    "the text of a number": lambda: symbolic.text.dump(1.5),
    "a loop of no values": lambda: nnc.while_loop(lambda: False, lambda: ()),
    "a scan by a truth": lambda: nnc.scan(True, V, V),
    "rows that are a number": lambda: nnc.scan(lambda carry, row: (carry, row), V, 1.5),
    "a step that gives no pair": lambda: nnc.scan(lambda carry, row: None, V, V),
    "a command that is a tuple": lambda: V.apply((), [1.5]),
    "operands that are a number": lambda: V.apply(ADD, 1.5),
    "a command that is a list": lambda: V.apply([], [V]),
    "inputs that are a truth": lambda: DYNAMIC.execute(ADD, True),
    "a document that is a truth": lambda: load_document(True, "graph", 1),
    "a document of half a version": lambda: save_document("graph", np.float32(1.0), {}),
    "the call of a number": lambda: encode_call(1.5, None),
    "metrics that are a number": lambda: nn.metrics.metrics_of(3),
    "a plan's pictures of a number": lambda: COMPILED.views(1.5, []),
    "as many files as a text says": lambda: write_atomically(Path("never"), [], keep="text"),
    "the older of bytes": lambda: older(b"bytes", 2),
    "a command that is a number": lambda: DYNAMIC.execute(1.5, [V]),
    "a seed below zero": lambda: Stream(seed=-5),
    "another seed below zero": lambda: Stream().set_seed(-2),
    "a page to a truth": lambda: COMPILED.html(True),
    "another program's tensors in a text": lambda: COMPILED.rebind("text"),
    "what is given as a number": lambda: GRAPH.needed_for([0], 1.5),
    "an example's function that is a number": lambda: nnc.vmap(3),
    "a rate that no float holds": lambda: nn.Adam(10**400),
    "a rate of five thousand digits": lambda: nn.SGD(10**5000),
    "a mean that no float holds": lambda: RANDOM(nnc.spec((3,)), mean=10**400),
    "products of vectors over two axes": lambda: xp.tensordot(VECTOR, VECTOR),
    "products over less than no axes": lambda: xp.tensordot(V, V, axes=-1),
    "indices of fewer axes": lambda: xp.take_along_axis(V, xp.asarray([0, 1])),
    "indices of other sizes": lambda: xp.take_along_axis(V, xp.asarray([[0], [1]])),
    "places that are a number": lambda: xp.take_along_axis(V, 3),
    "where a scalar is not zero": lambda: xp.nonzero(xp.asarray(1.0)),
    "fewer than no rows": lambda: xp.eye(-1),
    "repeats below zero": lambda: xp.repeat(V, -1),
    "tiles beyond all memory": lambda: xp.tile(V, (2**40,)),
    "zeros beyond all memory": lambda: xp.zeros((2**40, 2**10)),
    "numbers up to infinity": lambda: xp.arange(math.inf),
    "numbers without a step": lambda: xp.arange(np.float32(0.5), step=0.0),
    "a number beside narrower ones": lambda: xp.add(V, 10**400),
    "half a float beyond all numbers": lambda: xp.full((2,), 10**400, dtype=nnc.bf16),
    "a scale beyond its element type": lambda: nn.LossScale(np.float32(1.0), least=1e308),
    "infinity as an integer": lambda: xp.full((2,), math.inf, dtype=xp.int16),
    "frequencies of nothing": lambda: xp.fft.fftfreq(0),
    "transforms along no axes": lambda: xp.fft.rfftn(V, axes=()),
    "sizes for other axes": lambda: xp.fft.fftn(xp.asarray([1j]), s=(1, 1), axes=(0,)),
    "shifts without axes": lambda: xp.roll(V, (1, 2)),
    "a gradient of nothing": lambda: nnc.autograd.grad(None, ()),
    "places of a rule that are no places": lambda: nnc.custom_vjp(nnc.exp, 1.5),
    "numbers beyond memory": lambda: nnc.lax.iota("i64", 2**62),
    "a loop beyond memory": lambda: nnc.lax.fori_loop(-(10**30), 0, lambda i, x: x, 1.0),
    "a place of a number": lambda: nnc.tensor(1.0).select(1, 0),
    "a place of an axis that is not there": lambda: nnc.ones((2, 3)).select(2, 0),
    "a scan of one result": lambda: nnc.lax.scan(lambda carry, x: carry, 0.0, nnc.arange(3)),
    "rows of different lengths dropped": lambda: nnc.dropout([[1.0], [2.0, 3.0]], 0.5),
    "an array for one of some words": lambda: nn.KLDivLoss(np.ones(2)),
    "a norm by a word": lambda: nnc.ones(3).norm("mean"),
    "a multiview that is a truth": lambda: multiview_synchronize(True),
    "the values of a text": lambda: initializers.zeros(None, "text"),
    "draws into a text": lambda: initializers.he_uniform(np.random.default_rng(0), "text"),
    "draws from a text": lambda: initializers.orthogonal("text", np.ones((2, 2))),
    "draws into one axis": lambda: initializers.glorot_uniform(np.random.default_rng(0), np.ones(2)),
    "an orthogonal number": lambda: initializers.orthogonal(np.random.default_rng(0), np.ones(())),
    "a layer in a text": lambda: nn.Dense(2).build("text", V),
    "a layer on a text": lambda: nn.Dense(2).build(Scope(lambda row: V), "text"),
    "layers on a text": lambda: nn.ReLU().build_many(Scope(lambda row: V), "text"),
    "a model of a file that is a text": lambda: OnnxLayer("text"),
    "a frozen text": lambda: nn.FrozenGeneration("text", (), None, {}),
    "the step of a frozen text": lambda: FROZEN.generation_caches("text", 1),
    "pages of less than nothing": lambda: FROZEN.generation_caches(64, 8, -2),
    "more pages than rows have": lambda: FROZEN.generation_caches(3, 8, 2**64),
    "pages of more rows than there is memory": lambda: FROZEN.generation_caches(2**61, 8, 2**61),
    "a command's inputs in a text of no axes": lambda: ops.reduce_sum(X, np.array("text")),
    "items of no axes": lambda: nn.data.DataFrame.from_items(np.array("text")),
    "items of a number": lambda: nn.data.DataFrame.from_items(int),
    "a device that is an array": lambda: V.to_device(np.ones(2)),
    "a page beside a number": lambda: COMPILED.page("page", before=3),
    "what is read of a number": lambda: COMPILED.read(1.5, [X]),
    "memory whose label is bytes": lambda: Storage.allocate(8, b"bytes"),
    "memory whose label is an array": lambda: Tensor.zeros(spec((2, 3)), np.ones(2)),
    "a spec that is to fit a number": lambda: spec((3,)).fits(1.5),
    "a spec on an array": lambda: spec((3,)).on(np.ones(2)),
    "the tensors of a file that are a text": lambda: nn.files.files.Stored("10"),
    "the tensors of a file that are a number": lambda: nn.files.files.Stored(math.inf),
    "values that are an array of no axes": lambda: COMPILED.views_in_turn(np.array("text"), [X]),
    "whether a number is on the host": lambda: is_on_host(1.5),
    "the number of a device that is a number": lambda: number_of(1),
    "a capsule of a text": lambda: capsule_of("10", 5, (2,), None),
    "memory of no device": lambda: allocate_on(1.5, 8),
    "a key that is an array": lambda: GRAPH.root(np.ones(2)),
    "passes that are an array": lambda: simplify(GRAPH, [X], np.ones(2)),
    "passes that are numbers": lambda: simplify(GRAPH, [X], iter([1])),
    "operands that are an empty array": lambda: ops.concatenate(np.ones(0)),
    "operands that are a range": lambda: ops.stack(range(2)),
    "axes that are texts": lambda: V.sum({"a": None}),
    "axes that are floats": lambda: V.permute(np.ones(2)),
    "an offset that is a float": lambda: V.alias(spec((3,)), np.float32(1.0), (4,)),
    "a truth that is an array": lambda: nnc.load("file", mapped=np.ones(2)),
    "a condition of two values": lambda: nnc.cond(np.ones(2), lambda: 1, lambda: 2),
    "a layer that learns by an array": lambda: nn.Dense(2).requires_grad_(np.ones(2)),
    "the state of a layer, strict by an array": lambda: nn.Dense(2).load_state_dict({}, strict=np.ones(2)),
    "a learned array of an array": lambda: nnc.variable(1.0, requires_grad=np.ones(2)),
    "rows of a history that are an array": lambda: nn.History(np.ones(2)),
    "complex numbers up to here": lambda: nnc.arange(2j),
    "complex numbers of the standard up to here": lambda: xp.arange(0.5, 2j),
    "powers to a complex number": lambda: nnc.logspace(2j, 3),
    "a real array of a complex number": lambda: xp.full_like(VECTOR, 2j),
    "frequencies at a complex distance": lambda: xp.fft.rfftfreq(3, d=2j),
    "sizes of a transform that are bytes": lambda: xp.fft.irfftn(xp.asarray([[1j]]), s=b"by"),
    "repeats beyond 64 bits": lambda: xp.repeat(xp.zeros(3), xp.asarray([2**62, 2**62, 2**62])),
    "tiles that are bytes": lambda: xp.tile(VECTOR, b"bytes"),
    "rows of a triangle beyond all memory": lambda: nnc.tril_indices(2**40, m=0),
    "places of a shape beyond all memory": lambda: nnc.indices([2**40, 0]),
    "a rate between numbers of two widths": lambda: nn.find_rate(
        nn.Model(nn.Dense(2), (3,)), np.ones((2, 3)), low=1e308, high=np.float32(0.5)
    ),
    "a reduction that gives nothing": lambda: symbolic.minimize(
        GRAPH, Command(ops.optimizer.optimizer.SGD, SGDAttrs()), [X], [X], reduction=lambda gradients: []
    ),
    "a weight of a loss that no float holds": lambda: ops.binary_cross_entropy(V, V, positive_weight=10**400),
    "edges that fall, in two widths": lambda: V.apply(
        Command(HISTOGRAM, HistogramAttrs((1e300, np.float16(2.0)))), (V,)
    ),
    "an edge that no float holds": lambda: ops.histogram(V, (10**400,)),
    "a reduction that gives no gradients": lambda: symbolic.minimize(
        GRAPH, Command(ops.optimizer.optimizer.SGD, SGDAttrs()), [X], [X], reduction=lambda gradients: None
    ),
    "parts without gradients": lambda: symbolic.minimize(
        GRAPH, Command(ops.optimizer.optimizer.SGD, SGDAttrs()), [X], [X], changed=[]
    ),
    "an arena of so many names": lambda: repr(Arena({"host": "many"})),  # type: ignore[dict-item]
    "an arena within a text": lambda: repr(Arena(limit="many")),  # type: ignore[arg-type]
    "integers from the largest float on": lambda: X.apply(
        Command(ARANGE, ArangeAttrs(spec((5,), "i32"), np.float32(3e38), np.float32(3e38))), ()
    ),
    "a folder with a zero byte in its name": lambda: nn.data.ImageFolder("a\0b", (4, 4)),
    "weights of nodes that are nothing": lambda: NODES.longest_paths(lambda key: None),
    "labels that are nothing": lambda: NODES.to_dot(lambda node: None),
    "a file named by half a character": lambda: save_tensors("\ud800", {}),
    "a file with a zero byte in its name": lambda: planning.read_csv("a\0b"),
    "a document with a number for a name": lambda: save_document("graph", 1, {1: 2}),
    "a class of Python that is to be checked": lambda: checked(int),
    "a node by a strange integer": lambda: UndirectedGraph(int).remove_node(np.int64(2)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=[name.replace(" ", "-") for name in CALLS])
def test_a_wrong_argument_is_told_with_an_error_of_ours(call: Callable[[], object]) -> None:
    with pytest.raises(NncError):
        call()


def test_as_many_old_files_as_no_folder_holds_are_asked_for_and_it_returns(tmp_path: Path) -> None:
    for _ in range(3):
        save_tensors(tmp_path / "file", {"x": TENSOR}, keep=2**31)
    assert len(list(tmp_path.iterdir())) == 3


def test_layouts_are_told_apart_by_what_they_are() -> None:
    assert TensorSpec((3,), layout=Layout.NCHW).layout is Layout.NCHW


def test_narrow_floats_are_compared_with_the_ends_of_wide_integers() -> None:
    with pytest.raises(DTypeError, match="into i64"):
        Tensor.from_numpy(np.array([0.5], np.float16), "i64")


def test_no_positions_have_as_many_angles_as_anybody_asks_for() -> None:
    assert ops.rotary_angles(DYNAMIC.variable(np.zeros(0)), 2**40).shape == (0, 2**40)


def test_diagonals_beyond_the_corners_keep_all_or_nothing() -> None:
    for triangle, kept in ((ops.tril, 1.0), (ops.triu, 0.0)):
        np.testing.assert_array_equal(triangle(V, 10**400), np.full((3, 4), kept))
    assert xp.linalg.trace(V, offset=2**63) == 0.0


def test_more_differences_than_elements_are_none() -> None:
    assert xp.diff(VECTOR, n=10**40).shape == (0,)


def test_nodes_are_removed_by_the_integers_of_numpy() -> None:
    graph = UndirectedGraph[str, str, int](int)
    keys = [graph.add_node("a"), graph.add_node("b")]
    graph.remove_node(np.int64(keys[0]))
    assert [*graph.nodes()] == [keys[1]]
    assert V.sum(keepdims=np.True_).shape == (1, 1)


def test_numbers_beyond_a_narrow_type_are_infinite_beside_it() -> None:
    assert xp.add(V, 1e308).numpy().max() == math.inf
    assert xp.hypot(1e308, V).numpy().min() == math.inf


def test_an_axis_is_an_integer_of_numpy_too() -> None:
    one = np.int64(1)
    assert V.mean(one).shape == V.sum((one,)).shape == (3,)  # type: ignore[arg-type]
    assert V.transpose(one, np.int64(0)).shape == (4, 3)  # type: ignore[arg-type]
    assert V.expand_dims(one).shape == (3, 1, 4)  # type: ignore[arg-type]
    assert xp.cumulative_prod(VECTOR, axis=np.int64(0)).tolist() == [1.0, 2.0]  # type: ignore[arg-type]
    assert xp.tensordot(VECTOR, VECTOR, axes=one).item() == 5.0  # type: ignore[arg-type]


def test_the_version_of_a_document_is_an_integer_of_numpy_too() -> None:
    assert load_document(save_document("graph", np.int64(2), {}), "graph", 2) == {}  # type: ignore[arg-type]
