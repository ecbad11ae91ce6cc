"""What we write as ONNX is a model that ONNX's checker takes, and that gives the same when it is read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import onnx
from nnc import nn, ops
from nnc.core.values.command import Command
from nnc.core.values.dtype import BOOL, I64, DType, dtype_of
from nnc.core.values.spec import TensorSpec, spec
from nnc.errors import BackendError, UsageError
from nnc.nn.layers.layer import Input, Layer
from nnc.nn.zoo import network
from nnc.nn.zoo.diffusion import DiffusionUNet
from nnc.nn.zoo.language import BERT, GPT, EncoderDecoder, LLaMA, gru_language_model
from nnc.nn.zoo.mobile import SqueezeExcitation
from nnc.nn.zoo.segmentation import unet
from nnc.nn.zoo.shufflenet import ChannelShuffle, HalfKept
from nnc.nn.zoo.vision_transformer import ViT
from nnc.onnx import EXPORTS, ExportedGraph, OnnxModel, load, save
from nnc.ops import OPERATORS
from nnc.ops.rules import example_of
from nnc.symbolic import Symbol, SymbolicGraph, compile

Array = NDArray[Any]
# Their rows are tested with the networks that use them: their examples read results that ONNX does not give.
IN_NETWORKS = {"attention", "lstm", "gru"}


def elements(spec: TensorSpec, seed: int) -> Array:
    random = np.random.default_rng(seed)
    if spec.dtype is BOOL:
        return random.random(spec.shape) < 0.5
    if not spec.dtype.is_float:
        return random.integers(0, 4, spec.shape).astype(spec.dtype.numpy)
    return random.uniform(0.2, 1.8, spec.shape).astype(spec.dtype.numpy)


def again(source: ExportedGraph, path: Path, feeds: dict[str, Array]) -> dict[str, Any]:
    save(source, path)
    onnx.checker.check_model(str(path), full_check=True)
    return load(path, backend="reference").run(feeds)


@pytest.mark.parametrize("name", sorted(set(EXPORTS) - IN_NETWORKS))
def test_each_row_means_its_operator(name: str, tmp_path: Path) -> None:
    op = next(one for one in OPERATORS if one.name == name)
    example = example_of(op)
    graph = SymbolicGraph("one")
    given = [None if spec is None else graph.input(spec, f"x{place}") for place, spec in enumerate(example.inputs)]
    results = graph.apply(Command(op, example.attrs), given)
    inputs = {one.name: one for one in given if one is not None}
    feeds = {label: elements(one.spec, seed) for seed, (label, one) in enumerate(inputs.items())}
    outputs = {f"y{place}": one for place, one in enumerate(results) if place < 1 or name in ("top_k", "sort")}
    values = {symbol: feeds[label] for label, symbol in inputs.items()}
    expected = compile(graph, tuple(results), backend="reference")(values, *outputs.values())
    found = again(ExportedGraph(graph, inputs, outputs, {}), tmp_path / "one.onnx", feeds)
    for want, label in zip(expected, outputs, strict=True):
        np.testing.assert_allclose(found[label], want, rtol=1e-5, atol=1e-6, err_msg=label)


def graph_of(x: Array, make: Any) -> ExportedGraph:
    graph = SymbolicGraph("views")
    symbol = graph.input(TensorSpec(x.shape), "x")
    return ExportedGraph(graph, {"x": symbol}, {"y": make(symbol)}, {})


VIEWS: dict[str, Any] = {
    "a slice": lambda x: x[:, 1:3] * 1.0,
    "a slice with a step": lambda x: x[:, :, 1:8:3] * 1.0,
    "a slice of a reshape": lambda x: ops.reshape(x, (4, 12, 2))[:, 3:7, 1:] * 1.0,
    "a reshape of a slice": lambda x: ops.reshape(x[1:3], (2, 24)) * 1.0,
    "a part of an axis that was split": lambda x: ops.slice_axis(ops.reshape(x, (4, 3, 2, 4)), 2, 1, 2) * 1.0,
    "no elements of a part": lambda x: ops.concatenate([x[:, :0, 2:] + 1.0, x[:, :, 2:]], 1),
    "one element": lambda x: x[2, 1, 5] * 1.0,
    "a view as the result": lambda x: ops.reshape(x, (12, 8)),
    "the input as the result": lambda x: x,
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_read_as_they_lie(name: str, tmp_path: Path) -> None:
    x = np.arange(96, dtype=np.float32).reshape(4, 3, 8)
    source = graph_of(x, VIEWS[name])
    result = source.outputs["y"]
    (expected,) = compile(source.graph, (result,), backend="reference")({source.inputs["x"]: x}, result)
    np.testing.assert_array_equal(again(source, tmp_path / "view.onnx", {"x": x})["y"], expected)


VOLUMES = nn.Sequential(
    nn.Convolution3D(3, (3, 1, 2), (1, 2, 1), groups=1),
    nn.MaxPool3D(2, ceil=True),
    nn.ConvolutionTranspose3D(2, 3, 2, 1, 1),
    nn.AveragePool3D((1, 2, 2)),
)


def networks() -> dict[str, tuple[Layer, Any, DType]]:
    """What the networks of the zoo are made of, in small; `benchmarks/onnx_round_trip.py` compares them as they are."""
    f32, i32 = nn.Model(nn.Dense(1), (1,)).dtype, network("lstm").input_dtype
    weighed = SqueezeExcitation(4, nn.ReLU(), nn.Sigmoid())
    return {
        "volumes": (VOLUMES, (4, 5, 6, 2), f32),
        "convolutions": (network("digits").layer, (8, 8, 1), f32),
        "residual": (network("resnet20").layer, (8, 8, 3), f32),
        "transformer": (GPT(61, 8, 16, 2, 2), (8,), i32),
        "rotary transformer": (LLaMA(61, 16, 1, 4, 2, 24, window=3), (8,), i32),
        "vision transformer": (ViT(7, 8, 16, 1, 2), (16, 16, 3), f32),
        "gated recurrence": (gru_language_model(61, 6, 2), (7,), i32),
        "diffusion": (DiffusionUNet(8, (1, 2), 1, 4, 4), (Input((8, 8, 3)), Input((1,))), f32),
        "segmentation": (unet(2, 4, 2), (8, 8, 3), f32),
        "shuffled and weighed channels": (nn.Sequential(ChannelShuffle(2), HalfKept(weighed)), (6, 6, 8), f32),
        "encoder": (BERT(61, 8, 16, 1, 2), (8,), i32),
        "encoder and decoder": (EncoderDecoder(61, 16, 1, 2), (Input((8,), i32), Input((6,), i32)), i32),
        "recurrence": (nn.Sequential(nn.Embedding(61, 8), nn.LSTM(6), nn.Dense(5)), (7,), i32),
    }


def cells(kind: str, reverse: bool) -> Any:
    """The last states of a recurrence over x[steps, batch, inputs], whose weights are parts of x."""

    def make(x: Symbol) -> Symbol:
        gates = {"lstm": 4, "gru": 3, "rnn": 1}[kind]
        flat = ops.reshape(x, (-1,))
        w, u = (ops.reshape(flat[a : a + 2 * n * gates], (n, 2 * gates)) for a, n in ((0, 8), (8, 2)))
        bias = flat[: 2 * gates]
        state_bias = bias if kind == "gru" else None
        weights = ops.RecurrentWeights(w, u, bias, state_bias)
        results = getattr(ops, kind)(x, weights, reverse=reverse)
        return ops.concatenate([ops.reshape(one, (-1,)) for one in results], 0)

    return make


def attended(rows: int, mask: str, causal: bool) -> Any:
    """Four heads of queries over two of keys and values, with a mask of some kind."""

    def make(x: Symbol) -> Symbol:
        q = ops.reshape(x, (2, 12, 4, 1))[:, :rows] * 3.0
        k = ops.reshape(x, (2, 12, 4, 1))[:, 2:7, 1:3]
        added = ops.reshape(x, (-1,))[: rows * 5] * 2.0
        if mask == "none":
            chosen = None
        else:
            chosen = ops.reshape(added, (rows, 5))
            chosen = chosen > 60.0 if mask == "bool" else chosen
        return ops.scaled_dot_product_attention(q, k, k + 1.0, mask=chosen, causal=causal)

    return make


COMPOSED: dict[str, Any] = {
    **{f"{kind}{' backward' * back}": cells(kind, back) for kind in ("lstm", "gru", "rnn") for back in (False, True)},
    "attention of groups": attended(4, "none", False),
    "causal attention whose first rows see nothing": attended(8, "none", True),
    "attention with added numbers": attended(4, "float", False),
    "attention with a mask that hides whole rows": attended(4, "bool", False),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_what_is_composed_means_the_same(name: str, tmp_path: Path) -> None:
    x = np.arange(96, dtype=np.float32).reshape(4, 3, 8) / (96 if name.startswith(("lstm", "gru", "rnn")) else 1)
    source = graph_of(x, COMPOSED[name])
    result = source.outputs["y"]
    (expected,) = compile(source.graph, (result,), backend="reference")({source.inputs["x"]: x}, result)
    np.testing.assert_allclose(again(source, tmp_path / "y.onnx", {"x": x})["y"], expected, rtol=1e-5, atol=1e-6)


def inputs_of(found: OnnxModel, batch: int) -> dict[str, NDArray[Any]]:
    return {
        name: elements(TensorSpec(one.shape, dtype_of(one.dtype)), batch)
        for name, one in found.placeholders(batch=batch).items()
    }


def predicted(model: nn.Model, feeds: dict[str, NDArray[Any]]) -> NDArray[Any]:
    values = tuple(feeds.values())
    return np.asarray(model.predict(values if len(values) > 1 else values[0]))


@pytest.mark.parametrize("name", networks())
def test_a_model_comes_back_with_an_open_batch(name: str, tmp_path: Path) -> None:
    layer, shape, dtype = networks()[name]
    model = nn.Model(layer, shape, input_dtype=dtype, backend="reference")
    path = tmp_path / "model.onnx"
    save(model, path)
    onnx.checker.check_model(str(path), full_check=True)
    found = load(path, backend="reference")
    for batch in (1, 3):
        feeds = inputs_of(found, batch)
        np.testing.assert_allclose(found.run(feeds)["y"], predicted(model, feeds), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", networks())
def test_onnxruntime_gives_the_same(name: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    layer, shape, dtype = networks()[name]
    model = nn.Model(layer, shape, input_dtype=dtype, backend="reference")
    save(model, tmp_path / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), options, providers=["CPUExecutionProvider"])
    feeds = inputs_of(load(tmp_path / "model.onnx"), 3)
    np.testing.assert_allclose(session.run(None, feeds)[0], predicted(model, feeds), rtol=1e-4, atol=1e-5)


def small() -> nn.Model:
    return nn.Model(nn.Sequential(nn.Dense(5), nn.ReLU(), nn.Dense(2)), (3,), backend="reference")


def test_names_are_those_of_the_model(tmp_path: Path) -> None:
    model = small()
    save(model, tmp_path / "model.onnx")
    message = onnx.load(str(tmp_path / "model.onnx"))
    assert {one.name for one in message.graph.initializer} == set(model.tensors())
    assert [node.name for node in message.graph.node] == ["0.gemm", "1.relu", "2.gemm"]
    assert message.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_tensors_beside_the_file_are_named_after_their_content(tmp_path: Path) -> None:
    path, model = tmp_path / "model.onnx", small()
    save(model, path, external=True)
    (first,) = tmp_path.glob("model.*.data")
    x = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(load(path).run({"x": x})["y"], model.predict(x), rtol=1e-5)
    model.train_on_batch(x, np.zeros(2, np.int64))
    save(model, path, external=True)
    (second,) = tmp_path.glob("model.*.data")
    assert first.name != second.name
    np.testing.assert_allclose(load(path).run({"x": x})["y"], model.predict(x), rtol=1e-5)


def test_a_read_model_is_written_as_it_was(tmp_path: Path) -> None:
    save(small(), tmp_path / "model.onnx", external=True)
    read: OnnxModel = load(tmp_path / "model.onnx")
    save(read, tmp_path / "again.onnx")
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(load(tmp_path / "again.onnx").run({"x": x})["y"], read.run({"x": x})["y"])


def test_everything_without_a_form_is_listed_and_the_old_file_stays(tmp_path: Path) -> None:
    def make(x: Symbol) -> Symbol:
        seed = x.graph.input(spec((), I64), "seed", fill=0)
        return ops.dropout(x, seed, rate=0.5) + ops.cast(ops.histogram(x, (0.0, 1.0))[:1], x.spec.dtype)

    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")
    with pytest.raises(BackendError, match=r"dropout.*histogram"):
        save(graph_of(np.ones((2, 3), np.float32), make), path)
    assert path.read_bytes() == b"old"


def test_a_graph_that_reads_what_nobody_gives_is_refused(tmp_path: Path) -> None:
    graph = SymbolicGraph("open")
    x, other = graph.input(TensorSpec((2,)), "x"), graph.input(TensorSpec((2,)), "other")
    with pytest.raises(UsageError, match="other"):
        save(ExportedGraph(graph, {"x": x}, {"y": x + other}, {}), tmp_path / "model.onnx")
