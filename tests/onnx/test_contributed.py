"""Operators of com.microsoft beside onnxruntime, whose they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.onnx.models import node

import onnx
from nnc.errors import BackendError
from nnc.onnx import load
from onnx import helper

Arrays = list[NDArray[Any] | None]
DOMAIN = "com.microsoft"
RANDOM = np.random.default_rng(0)


def real(*shape: int) -> NDArray[np.float32]:
    return RANDOM.standard_normal(shape).astype(np.float32)


def whole(kind: type[np.generic], *shape: int) -> NDArray[Any]:
    limits = np.iinfo(kind)  # type: ignore[type-var]
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(kind)


def seven(*shape: int) -> NDArray[np.int8]:
    """Weights of 7 bits: onnxruntime adds two products of u8 and i8 in 16 bits where the processor has no VNNI.

    Sums of wider ones stop there at 32,767 and -32,768; 2 * 255 * 64 is less.
    """
    return RANDOM.integers(-64, 64, shape).astype(np.int8)


def by(scale: float, zero: int | None = None, kind: type[np.generic] = np.uint8) -> Arrays:
    """A scale and a zero point."""
    return [np.array(scale, np.float32), None if zero is None else np.array(zero, kind)]


def made(
    operator: str, given: Arrays, results: str = "y0", fixed: int = 99, domain: str = DOMAIN, **more: Any
) -> onnx.ModelProto:
    """A model of one node whose operands from `fixed` on are initializers."""
    named = [(f"x{place}", one) for place, one in enumerate(given)]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(one.dtype), one.shape)
        for place, (name, one) in enumerate(named)
        if one is not None and place < fixed
    ]
    weights = [onnx.numpy_helper.from_array(np.asarray(one), name) for name, one in named[fixed:] if one is not None]
    names = " ".join("-" if one is None else name for name, one in named)
    ends = [helper.make_empty_tensor_value_info(name) for name in results.split() if name != "-"]
    graph = helper.make_graph([node(operator, names, results, domain=domain, **more)], "g", inputs, ends, weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


A, B = whole(np.uint8, 3, 40), whole(np.uint8, 3, 40)
IMAGE, SIGNED = whole(np.uint8, 2, 6, 7, 7), whole(np.int8, 2, 6, 5)
FIRST, SECOND = by(0.02, 120), by(0.03, 100)
STATES, SKIP = real(2, 5, 24), real(2, 5, 24)
NORM = [real(24), real(24)]
QKV = [real(24, 72) * 0.3, real(72)]
BYTES = [whole(np.uint8, 4, 20), seven(20, 6)]
FEW = whole(np.uint8, 6, 3, 8)
# Scales that f16 holds, and such that it holds their products with zeros too.
HALVES = np.abs(real(12)).astype(np.float16).astype(np.float32)
ROUND = (2.0 ** -RANDOM.integers(1, 5, 12)).astype(np.float32)

# Operator, operands, attributes; of results of bytes one step may be between ours and theirs, which multiply by scales
# that they put together first.
QUANTIZED: dict[str, tuple[str, Arrays, dict[str, Any]]] = {
    "QLinearAdd": ("QLinearAdd", [A, *FIRST, B, *SECOND, *by(0.0413, 110)], {}),
    "QLinearAdd of one row": ("QLinearAdd", [A, *FIRST, B[:1], *SECOND, *by(0.0413, 110)], {}),
    "QLinearMul": ("QLinearMul", [A, *FIRST, B, *SECOND, *by(0.05, 90)], {}),
    "QLinearMul of i8": (
        "QLinearMul", [SIGNED, *by(0.02, 3, np.int8), SIGNED[:1], *by(0.03, -9, np.int8), *by(0.05, 0, np.int8)], {}
    ),
    "QLinearSigmoid": ("QLinearSigmoid", [A, *FIRST, *by(1 / 256, 0)], {}),
    "QLinearLeakyRelu": ("QLinearLeakyRelu", [A, *FIRST, *by(0.03, 30)], {"alpha": 0.1}),
    "QLinearLeakyRelu without zeros": ("QLinearLeakyRelu", [A, *by(0.02), *by(0.03)], {}),
    "QLinearSoftmax": ("QLinearSoftmax", [A, *FIRST, *by(1 / 256, 0)], {"axis": -1, "opset": 13}),
    "QLinearSoftmax over the first axis": ("QLinearSoftmax", [A, *FIRST, *by(1 / 256, 0)], {"axis": 0, "opset": 13}),
    "QLinearSoftmax of old": ("QLinearSoftmax", [IMAGE, *FIRST, *by(1 / 256, 0)], {"axis": 2, "opset": 11}),
    "QLinearGlobalAveragePool": ("QLinearGlobalAveragePool", [IMAGE, *FIRST, *by(0.005, 128)], {}),
    "QLinearGlobalAveragePool of the last axis": (
        "QLinearGlobalAveragePool", [IMAGE, *FIRST, *by(0.005, 128)], {"channels_last": 1}
    ),
    "QLinearAveragePool": (
        "QLinearAveragePool", [IMAGE, *FIRST, *by(0.02, 128)], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    ),
    "QLinearConcat": ("QLinearConcat", [*by(0.03, 110), A, *FIRST, B, *SECOND], {"axis": 1}),
    "QLinearWhere": ("QLinearWhere", [A > 90, A, *FIRST, B, *SECOND, *by(0.04, 100)], {}),
    "QGemm": ("QGemm", [BYTES[0], *FIRST, BYTES[1], *by(0.01, 0, np.int8), whole(np.int16, 6).astype(np.int32),
                        *by(1.5, 128)], {}),
    "QGemm transposed, of floats": ("QGemm", [BYTES[0], *FIRST, BYTES[1].T.copy(), *by(0.01, 0, np.int8)],
                                    {"transB": 1, "alpha": 0.5}),
}  # fmt: skip
PLAIN: dict[str, tuple[str, Arrays, dict[str, Any]]] = {
    "MatMulIntegerToFloat": ("MatMulIntegerToFloat", [*BYTES, *by(0.02)[:1], *by(0.01)[:1]], {}),
    "MatMulIntegerToFloat with all": (
        "MatMulIntegerToFloat",
        [*BYTES, np.array(0.02, np.float32), np.abs(real(6)), np.array(99, np.uint8), whole(np.int8, 6), real(6)], {},
    ),
    "DynamicQuantizeMatMul": ("DynamicQuantizeMatMul", [real(4, 20), BYTES[1], np.array(0.01, np.float32)], {}),
    "DynamicQuantizeMatMul with all": (
        "DynamicQuantizeMatMul", [real(4, 20), BYTES[1], np.abs(real(6)), np.zeros(6, np.int8), real(6)], {}
    ),
    "Gelu": ("Gelu", [real(3, 40)], {}),
    "BiasGelu": ("BiasGelu", [real(3, 40), real(40)], {}),
    "FastGelu": ("FastGelu", [real(3, 40)], {}),
    "FastGelu with a bias": ("FastGelu", [real(3, 40), real(40)], {}),
    "QuickGelu": ("QuickGelu", [real(3, 40)], {"alpha": 1.5}),
    "FusedMatMul": ("FusedMatMul", [real(2, 5, 4), real(2, 6, 5)], {"transA": 1, "transB": 1, "alpha": 0.25}),
    "FusedMatMul of outer axes": ("FusedMatMul", [real(4, 2, 5), real(2, 5, 6)], {"transBatchA": 1}),
    "FusedMatMul of more outer axes": (
        "FusedMatMul", [real(4, 2, 3, 5), real(6, 2, 3, 5)], {"transBatchA": 1, "transBatchB": 1, "transB": 1}
    ),
    "FusedGemm": ("FusedGemm", [real(3, 4), real(4, 5), real(5)], {"activation": "LeakyRelu", "activation_alpha": 0.1}),
    "FusedConv": ("FusedConv", [real(1, 3, 7, 7), real(4, 3, 3, 3), real(4)], {"activation": "Relu", "pads": [1] * 4}),
    "FusedConv with a sum": (
        "FusedConv", [real(1, 3, 7, 7), real(4, 3, 3, 3), None, real(1, 4, 5, 5)], {"activation": "Relu"}
    ),
    "FusedConv clipped": (
        "FusedConv", [real(1, 3, 7, 7), real(4, 3, 3, 3), real(4)],
        {"activation": "Clip", "activation_params": [-0.5, 0.5]},
    ),
    "SkipLayerNormalization": ("SkipLayerNormalization", [STATES, SKIP, *NORM], {"epsilon": 1e-5}),
    "SkipLayerNormalization with a bias": (
        "SkipLayerNormalization", [STATES, SKIP, *NORM, real(24)], {"results": "y0 - - y3"}
    ),
    "SkipSimplifiedLayerNormalization": (
        "SkipSimplifiedLayerNormalization", [STATES, SKIP, NORM[0], real(24)], {"results": "y0 - - y3"}
    ),
    "SimplifiedLayerNormalization": ("SimplifiedLayerNormalization", [STATES, NORM[0]], {"domain": ""}),
    "EmbedLayerNormalization": (
        "EmbedLayerNormalization",
        [RANDOM.integers(0, 9, (2, 5)).astype(np.int32), RANDOM.integers(0, 2, (2, 5)).astype(np.int32),
         real(9, 24), real(8, 24), real(2, 24), *NORM, np.array([[1] * 5, [1, 1, 1, 0, 0]], np.int32)],
        {"results": "y0 y1"},
    ),
    "EmbedLayerNormalization of words": (
        "EmbedLayerNormalization",
        [RANDOM.integers(0, 9, (2, 5)).astype(np.int32), None, real(9, 24), real(8, 24), None, *NORM],
        {"results": "y0 y1"},
    ),
    "Attention": ("Attention", [STATES, *QKV], {"num_heads": 3}),
    "Attention of the past alone": ("Attention", [STATES, *QKV], {"num_heads": 3, "unidirectional": 1, "scale": 0.2}),
    "Attention with lengths": ("Attention", [STATES, *QKV, np.array([5, 3], np.int32)], {"num_heads": 3}),
    "Attention with ends and starts": (
        "Attention", [STATES, *QKV, np.array([5, 4, 0, 1], np.int32)], {"num_heads": 3}
    ),
    "Attention with a mask of places": (
        "Attention", [STATES, *QKV, np.array([[1] * 5, [1, 1, 0, 1, 0]], np.int32)], {"num_heads": 3}
    ),
    "Attention with a mask of pairs": (
        "Attention", [STATES, *QKV, np.tril(np.ones((2, 5, 5), np.int32))], {"num_heads": 3}
    ),
    "Attention behind others": (
        "Attention", [STATES, *QKV, None, real(2, 2, 3, 4, 8)],
        {"num_heads": 3, "results": "y0 y1", "unidirectional": 1},
    ),
    "Attention with a bias of scores": ("Attention", [STATES, *QKV, None, None, real(1, 3, 5, 5)], {"num_heads": 3}),
    "MultiHeadAttention": ("MultiHeadAttention", [STATES, real(2, 7, 24), real(2, 7, 24)], {"num_heads": 3}),
    "MultiHeadAttention with a bias": (
        "MultiHeadAttention", [STATES, SKIP, STATES, real(72), np.array([[1] * 5, [1, 1, 0, 1, 0]], np.int32)],
        {"num_heads": 3},
    ),
    "MultiHeadAttention of heads": (
        "MultiHeadAttention", [STATES, real(2, 3, 7, 8), real(2, 3, 7, 8)], {"num_heads": 3}
    ),
    "MultiHeadAttention behind others": (
        "MultiHeadAttention",
        [STATES, SKIP, STATES, None, None, None, real(2, 3, 4, 8), real(2, 3, 4, 8)],
        {"num_heads": 3, "results": "y0 y1 y2"},
    ),
    "MatMulNBits": (
        "MatMulNBits", [real(3, 45), FEW, np.abs(real(18))],
        {"K": 45, "N": 6, "bits": 4, "block_size": 16, "fixed": 1},
    ),
    "MatMulNBits kept in blocks": (
        "MatMulNBits", [real(3, 64), whole(np.uint8, 6, 2, 16), HALVES],
        {"K": 64, "N": 6, "bits": 4, "block_size": 32, "fixed": 1},
    ),
    "MatMulNBits kept in blocks of 64 with a bias": (
        "MatMulNBits", [real(2, 9, 128), whole(np.uint8, 6, 2, 32), HALVES, None, None, real(6)],
        {"K": 128, "N": 6, "bits": 4, "block_size": 64, "fixed": 1},
    ),
    "MatMulNBits kept in blocks with zeros": (
        "MatMulNBits", [real(3, 64), whole(np.uint8, 6, 2, 16), ROUND, whole(np.uint8, 6)],
        {"K": 64, "N": 6, "bits": 4, "block_size": 32, "fixed": 1},
    ),
    "MatMulNBits kept in blocks of 8 bits": (
        "MatMulNBits", [real(3, 64), whole(np.uint8, 6, 2, 32), HALVES],
        {"K": 64, "N": 6, "bits": 8, "block_size": 32, "fixed": 1},
    ),
    "MatMulNBits with zeros": (
        "MatMulNBits", [real(3, 45), FEW, np.abs(real(18)), whole(np.uint8, 12)],
        {"K": 45, "N": 6, "bits": 4, "block_size": 16, "fixed": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["", "reference"])
@pytest.mark.parametrize("name", [*QUANTIZED, *PLAIN])
def test_a_row_gives_what_onnxruntime_gives(name: str, backend: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    operator, given, attributes = {**QUANTIZED, **PLAIN}[name]
    model = made(operator, given, **attributes)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {one.name: given[int(one.name[1:])] for one in model.graph.input}
    wanted = session.run(None, feeds)
    found = list(load(model, backend=backend).run(feeds).values())
    for want, one in zip(wanted, found, strict=True):
        if want is None or want.size == 0:
            continue
        assert np.asarray(one).dtype == want.dtype
        if want.dtype.itemsize == 1:
            assert np.abs(one.astype(int) - want.astype(int)).max() <= 1
            assert np.mean(one != want) < 0.05
        else:
            np.testing.assert_allclose(one, want, rtol=2e-4, atol=2e-5)


def test_heads_may_be_packed_which_onnxruntime_serves_on_other_devices() -> None:
    q, k, v = (real(2, 5, 3, 8) for _ in range(3))
    flat = [one.reshape(2, 5, 24) for one in (q, k, v)]
    packed: list[Arrays] = [flat, [np.stack([q, k, v], 3)], [flat[0], np.stack([k, v], 3)]]
    found = []
    for given in packed:
        feeds = {f"x{place}": one for place, one in enumerate(given)}
        found.append(load(made("MultiHeadAttention", given, num_heads=3)).run(feeds)["y0"])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("operator", "given", "attributes"),
    [
        ("Attention", [STATES, *QKV], {"num_heads": 3, "do_rotary": 1}),
        ("FusedConv", [real(1, 3, 7, 7), real(4, 3, 3, 3)], {"activation": "Mish"}),
        ("MatMulNBits", [real(3, 45), FEW, real(18)], {"K": 45, "N": 6, "bits": 3, "block_size": 16}),
        ("SkipLayerNormalization", [STATES, SKIP, *NORM], {"results": "y0 y1"}),
    ],
)
def test_what_is_not_served_is_refused_by_name(operator: str, given: Arrays, attributes: dict[str, Any]) -> None:
    model = made(operator, given, **attributes)
    feeds = {one.name: given[int(one.name[1:])] for one in model.graph.input}
    with pytest.raises(BackendError, match=operator):
        load(model).run(feeds)


def test_no_examples_have_results_of_no_examples() -> None:
    for operator, given, attributes in (
        ("Attention", [STATES[:0], *QKV], {"num_heads": 3}),
        ("SkipLayerNormalization", [STATES[:0], SKIP[:0], *NORM], {}),
        ("QLinearAdd", [A[:0], *FIRST, B[:0], *SECOND, *by(0.0413, 110)], {}),
    ):
        model = made(operator, given, **attributes)
        feeds = {one.name: given[int(one.name[1:])] for one in model.graph.input}
        assert np.asarray(load(model).run(feeds)["y0"]).size == 0


@pytest.mark.parametrize("name", [*(name for name in PLAIN if name.startswith("MatMulNBits"))])
def test_weights_of_few_bits_stay_in_blocks_where_these_say_the_same(name: str) -> None:
    operator, given, attributes = PLAIN[name]
    graph, *_ = load(made(operator, given, **attributes), backend="reference").graph()
    operators = {graph.execs[key].command.op.name for key in graph.execs.toposort()}
    assert ("block_product" in operators) is ("kept in blocks" in name)
