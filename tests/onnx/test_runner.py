"""Models of files: run, planned, trained, and refused with a reason."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from tests.onnx.models import model, node

import onnx
from nnc import nn, ops
from nnc.errors import ArgumentError, BackendError, FormatError, ShapeError, UsageError
from nnc.nn.data import load as load_data
from nnc.nn.layers.layer import Layer, Scope, T
from nnc.onnx import OnnxLayer, load, read, save
from onnx import helper

W = np.arange(12, dtype=np.float32).reshape(4, 3) / 10
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
DENSE = model([node("MatMul", "x w", "p"), node("Relu", "p", "y")], {"x": ["n", 4]}, ["y"], {"w": W})


def test_a_model_gives_its_outputs_by_name() -> None:
    results = load(DENSE).run({"x": X})
    np.testing.assert_allclose(results["y"], np.maximum(X @ W, 0), rtol=1e-6)


def test_results_are_the_callers_own() -> None:
    loaded = load(DENSE)
    first = np.array(loaded.run({"x": X})["y"])
    kept = loaded.run({"x": X})["y"]
    loaded.run({"x": X * 2})
    np.testing.assert_array_equal(kept, first)


def test_open_dimensions_are_bound_by_what_is_given() -> None:
    loaded = load(DENSE)
    for count in (1, 5, 0, 5):
        x = np.ones((count, 4), np.float32)
        np.testing.assert_allclose(loaded.run({"x": x})["y"], x @ W, rtol=1e-6)


def test_memory_is_known_for_sizes_before_a_run() -> None:
    loaded = load(DENSE)
    statement = loaded.memory(n=1000)
    assert statement.arena == statement.lower_bound == statement.inputs + 32 + statement.outputs
    with pytest.raises(UsageError, match="open dimension n of x"):
        loaded.memory()


def test_the_statement_counts_the_file_and_the_weights_that_are_folded(tmp_path: Path) -> None:
    weight = np.ones((512, 1024), np.float32)
    nodes = [node("Mul", "w two", "v"), node("MatMul", "x v", "y")]
    onnx.save(model(nodes, {"x": ["n", 512]}, ["y"], {"w": weight, "two": np.float32(2)}), tmp_path / "m.onnx")
    stated, alone = load(tmp_path / "m.onnx").memory(n=1), load(tmp_path / "m.onnx").compiled(n=1).memory()
    assert stated.beside >= 2 * weight.nbytes  # as they lie in the file, and as they were before they were folded
    assert stated.process == alone.process + stated.beside


def test_an_input_that_a_branch_asks_for_is_given_by_name_to_a_plan() -> None:
    branches = {
        name: helper.make_graph([node(op, "x", "z")], name, [], [helper.make_empty_tensor_value_info("z")])
        for name, op in (("then_branch", "Relu"), ("else_branch", "Shape"))
    }
    made = model([node("If", "c", "y", **branches)], {"x": [8], "c": []}, ["y"])
    made.graph.input[1].type.tensor_type.elem_type = onnx.TensorProto.BOOL
    loaded = load(made)
    with pytest.raises(UsageError, match="give them"):
        loaded.memory()
    assert loaded.memory(c=1).arena == 64
    assert len(loaded.run({"x": np.ones(8, np.float32), "c": np.array(True)})["y"]) == 8


def test_what_acts_as_a_shape_is_bound_by_value() -> None:
    graph = helper.make_graph(
        [node("Reshape", "x shape", "y")],
        "test",
        [
            helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 4]),
            helper.make_tensor_value_info("shape", onnx.TensorProto.INT64, [2]),
        ],
        [helper.make_empty_tensor_value_info("y")],
    )
    loaded = load(helper.make_model(graph))
    assert loaded.run({"x": X, "shape": np.array([4, 2])})["y"].shape == (4, 2)  # type: ignore[union-attr]
    assert loaded.run({"x": X, "shape": np.array([8, 1])})["y"].shape == (8, 1)  # type: ignore[union-attr]
    assert loaded.by_value == {"shape"}


def test_a_branch_is_chosen_by_each_run() -> None:
    branches = {
        name: helper.make_graph(
            [node(op, "x", f"{name}_y")], name, [], [helper.make_empty_tensor_value_info(f"{name}_y")]
        )
        for name, op in (("then_branch", "Neg"), ("else_branch", "Exp"))
    }
    nodes = [
        node("ReduceMax", "x", "top", keepdims=0),
        node("Greater", "top zero", "c"),
        node("If", "c", "y", **branches),
    ]
    loaded = load(model(nodes, {"x": [2, 4]}, ["y"], {"zero": np.float32(0)}))
    np.testing.assert_allclose(loaded.run({"x": X})["y"], -X)
    np.testing.assert_allclose(loaded.run({"x": X - 5})["y"], np.exp(X - 5), rtol=1e-6)
    assert loaded.by_value == set()


def test_wrong_inputs_are_named() -> None:
    loaded = load(DENSE)
    with pytest.raises(UsageError, match="unknown: z; missing: x"):
        loaded.run({"z": X})
    with pytest.raises(ShapeError, match="input x"):
        loaded.run({"x": X[:, :3]})
    with pytest.raises(UsageError, match="float64; need float32"):
        loaded.run({"x": X.astype(np.float64)})
    with pytest.raises(ArgumentError, match="got feeds=a ndarray; need a mapping"):
        loaded.run(X)  # type: ignore[arg-type]  # callers without a type checker


def test_wrong_inputs_are_named_behind_runs_on_right_ones_too() -> None:
    loaded = load(DENSE)
    right = loaded.run({"x": X})["y"]
    for error, match, feeds in (
        (ShapeError, r"got \[4, 2\]", {"x": X.T}),
        (UsageError, "got float64", {"x": X.astype(np.float64)}),
        (UsageError, "got >f4", {"x": X.astype(">f4")}),
        (UsageError, "unknown: z", {"x": X, "z": X}),
        (UsageError, "missing: x", {}),
    ):
        with pytest.raises(error, match=match):
            loaded.run(feeds)
    np.testing.assert_array_equal(loaded.run({"x": X})["y"], right)


def test_channels_are_moved_where_data_come_in_and_where_they_leave() -> None:
    w = {
        name: np.random.default_rng(0).normal(size=(6, c, 1, 1)).astype(np.float32) for name, c in (("v", 3), ("w", 6))
    }
    nodes = [
        node("Conv", "x v", "a"),
        node("Relu", "a", "b"),
        node("Conv", "b w", "c"),
        node("Relu", "c", "d"),
        node("Concat", "b d", "e", axis=1),
        node("GlobalAveragePool", "e", "y"),
    ]
    images = np.random.default_rng(1).normal(size=(2, 3, 4, 5)).astype(np.float32)
    loaded = load(model(nodes, {"x": list(images.shape)}, ["y"], w))
    (y,) = loaded.run({"x": images}).values()
    b = np.maximum(np.einsum("nchw,dc->ndhw", images, w["v"][:, :, 0, 0]), 0)
    d = np.maximum(np.einsum("nchw,dc->ndhw", b, w["w"][:, :, 0, 0]), 0)
    np.testing.assert_allclose(y, np.concatenate([b, d], 1).mean((2, 3), keepdims=True), rtol=1e-5)
    served = [one.command.op.name for one in loaded.compiled().report()]
    assert (served.count("transpose"), served.count("fused_output"), served.count("relu")) == (2, 2, 0)


def test_all_operators_without_a_row_are_listed_with_their_nodes() -> None:
    nodes = [node("Frobnicate", "x", "a", domain="own"), node("ImageDecoder", "a", "y")]
    with pytest.raises(BackendError, match=r"own\.Frobnicate \(a\); ai\.onnx\.ImageDecoder \(y\)"):
        load(model(nodes, {"x": [2]}, ["y"]))


def test_threads_share_a_model() -> None:
    loaded = load(DENSE)
    wrong: list[int] = []

    def predict(number: int) -> None:
        x = np.full((1 + number % 2, 4), number, np.float32)
        for _ in range(50):
            if not np.allclose(loaded.run({"x": x})["y"], x @ W):
                wrong.append(number)

    threads = [threading.Thread(target=predict, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def features(path: Path) -> Path:
    """A small network of convolutions in a file, with a head of three classes."""
    random = np.random.default_rng(0)
    nodes = [
        node("Conv", "x w0 b0", "c0", pads=[1, 1, 1, 1]),
        node("Relu", "c0", "r0"),
        node("GlobalAveragePool", "r0", "g"),
        node("Flatten", "g", "features"),
        node("Gemm", "features head bias", "y"),
    ]
    weights = {
        "w0": random.normal(0, 0.3, (16, 1, 3, 3)).astype(np.float32),
        "b0": np.zeros(16, np.float32),
        "head": np.zeros((16, 3), np.float32),
        "bias": np.zeros(3, np.float32),
    }
    onnx.save(model(nodes, {"x": ["n", 1, 8, 8]}, ["y"], weights), path)
    return path


class Image(Layer):
    """[n, 3, 8, 8] of [n, 192]"""

    def build(self, scope: Scope[T], x: T) -> T:
        return ops.reshape(x, (x.shape[0], 3, 8, 8))


def test_a_part_of_a_file_has_its_channels_last_in_training_and_behind_other_layers(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    nodes = [
        node("Conv", "x v", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("Conv", "r w", "d"),
        node("GlobalAveragePool", "d", "g"),
    ]
    sizes = {"v": (16, 3, 3, 3), "w": (8, 16, 3, 3)}
    weights = {name: random.normal(0, 0.3, size).astype(np.float32) for name, size in sizes.items()}
    onnx.save(model(nodes, {"x": ["n", 3, 8, 8]}, ["g"], weights), tmp_path / "model.onnx")
    body, tail = OnnxLayer(read(tmp_path / "model.onnx")), (nn.Flatten(), nn.Dense(4))
    first = nn.Model(nn.Sequential(body, *tail), (3, 8, 8), seed=0)
    second = nn.Model(nn.Sequential(Image(), body, *tail), (192,), seed=0)
    x, labels = random.normal(size=(2, 3, 8, 8)).astype(np.float32), np.array([1, 3])
    graph = first.freeze(2).compiled.planned.graph
    assert sum(record.command.op.name == "transpose" for _, record in graph.execs.items()) == 1
    second.load_state_dict({f"{int(name[0]) + 1}{name[1:]}": one for name, one in first.state_dict().items()})
    losses = [first.train_on_batch(x, labels)[0], second.train_on_batch(x.reshape(2, 192), labels)[0]]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    for name, one in first.state_dict().items():
        np.testing.assert_allclose(one, second.state_dict()[f"{int(name[0]) + 1}{name[1:]}"], rtol=1e-5, atol=1e-6)


def test_a_file_with_another_head_is_trained_within_a_limit(tmp_path: Path) -> None:
    body = OnnxLayer(read(features(tmp_path / "model.onnx")), "features")
    digits = load_data("digits")
    x = np.ascontiguousarray(np.moveaxis(digits.train.inputs, -1, 1))
    trained = nn.Model(nn.Sequential(body, nn.Dense(10)), (1, 8, 8), memory_limit=1_200_000, optimizer=nn.Adam(0.01))
    assert trained.memory(64).step.arena <= 1_200_000
    before = trained.state_dict()["0.w0"]
    first, _ = trained.train_on_batch(x[:64], digits.train.labels[:64])
    for start in range(0, 1280, 64):
        last, _ = trained.train_on_batch(x[start : start + 64], digits.train.labels[start : start + 64])
    assert last < first
    assert not np.array_equal(trained.state_dict()["0.w0"], before)
    assert set(trained.parameters) == {"0.w0", "0.b0", "1.weight", "1.bias"}


def test_low_rank_products_are_trained_beside_weights_that_stay(tmp_path: Path) -> None:
    body = OnnxLayer(read(features(tmp_path / "model.onnx")), "features", rank=2)
    adapted = nn.Model(nn.Sequential(body, nn.Dense(10)), (1, 8, 8), optimizer=nn.Adam(0.01))
    assert set(adapted.parameters) == {"0.w0_lora_a", "0.w0_lora_b", "1.weight", "1.bias"}
    x, before = np.ones((4, 1, 8, 8), np.float32), adapted.state_dict()["0.w0"]
    plain = load(tmp_path / "model.onnx").run({"x": x})
    first, _ = adapted.train_on_batch(x, np.zeros(4, np.int64))
    last, _ = adapted.train_on_batch(x, np.zeros(4, np.int64))
    assert last < first
    assert plain["y"].shape == (4, 3)  # type: ignore[union-attr]
    np.testing.assert_array_equal(adapted.state_dict()["0.w0"], before)
    assert np.asarray(adapted.state_dict()["0.w0_lora_b"]).any()
    save(adapted, tmp_path / "adapted.onnx")
    written = load(tmp_path / "adapted.onnx").run({"x": x})["y"]
    np.testing.assert_allclose(written, adapted.predict(x), rtol=1e-4, atol=1e-5)


def test_weights_that_no_pattern_names_keep_their_values(tmp_path: Path) -> None:
    body = OnnxLayer(read(features(tmp_path / "model.onnx")), "features", trainable=("b*",))
    frozen = nn.Model(nn.Sequential(body, nn.Dense(10)), (1, 8, 8))
    assert set(frozen.parameters) == {"0.b0", "1.weight", "1.bias"}


def test_a_layer_names_an_output_that_is_not_there(tmp_path: Path) -> None:
    body = OnnxLayer(read(features(tmp_path / "model.onnx")), "nowhere")
    with pytest.raises(UsageError, match="'nowhere'"):
        nn.Model(body, (1, 8, 8))


def test_constants_that_grow_are_no_work_of_the_plan_but_of_a_run_that_says_so() -> None:
    """1 KB of nodes that double 512 MB took 46 s and 13 GB to plan."""
    doubled = [node("Add", f"c{place} c{place}", f"c{place + 1}") for place in range(40)]
    nodes = [node("ConstantOfShape", "n", "c0"), *doubled, node("ReduceSum", "c40", "s"), node("Add", "x s", "y")]
    statement = load(model(nodes, {"x": [2]}, ["y"], {"n": np.array([1 << 27])})).memory()
    assert statement.arena >= 4 << 27
    small = load(model(nodes, {"x": [2]}, ["y"], {"n": np.array([1 << 4])}))
    assert small.memory().arena < 1 << 10
    np.testing.assert_array_equal(small.run({"x": np.ones(2, np.float32)})["y"], [1, 1])


def test_a_loop_over_constants_runs_when_the_model_does() -> None:
    kinds = onnx.TensorProto
    body = helper.make_graph(
        [node("Identity", "go", "again"), node("Add", "v v", "w")],
        "body",
        [helper.make_tensor_value_info(*one) for one in (("i", kinds.INT64, []), ("go", kinds.BOOL, []))]
        + [helper.make_tensor_value_info("v", kinds.FLOAT, [2])],
        [helper.make_empty_tensor_value_info(name) for name in ("again", "w")],
    )
    nodes = [node("Loop", "count - k", "last", body=body), node("Add", "x last", "y")]
    weights = {"count": np.int64(1 << 24), "k": np.zeros(2, np.float32)}
    loaded = load(model(nodes, {"x": [2]}, ["y"], weights))
    assert loaded.memory().arena
    np.testing.assert_array_equal(loaded.run({"x": np.ones(2, np.float32)})["y"], [1, 1])


def test_a_node_of_very_many_operands_is_refused() -> None:
    loaded = load(model([node("Concat", " ".join(["x"] * 10_001), "y", axis=0)], {"x": [2]}, ["y"]))
    with pytest.raises(FormatError, match=r"10,001 inputs and 1 outputs; need at most 10,000 of both"):
        loaded.memory()


def test_a_size_of_no_dimension_is_refused_with_those_there_are() -> None:
    described = model([node("Add", "x x", "y")], {"x": ("batch", "length")}, ["y"])
    with pytest.raises(UsageError, match="a size of lenght; need one of batch, length. Fix: length="):
        load(described, {"lenght": 3})
    loaded = load(described, {"batch": 2})
    for ask in (loaded.memory, loaded.compiled, loaded.graph):
        with pytest.raises(UsageError, match="a size of other"):
            ask(length=3, other=3)
    assert loaded.memory(length=3).arena > 0
    assert repr(loaded) == "OnnxModel(x: float[batch, length]; y)"
