"""PyTorch's methods against our forms of them: eager, compiled, mapped and differentiated; and their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc
from nnc.core.values.dtype import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8
from nnc.dynamic.arrays.element_type_methods import ElementTypeMethods
from nnc.dynamic.arrays.pytorch_methods import PyTorchMethods
from nnc.errors import ArgumentError, AttributeValueError, DTypeError, ShapeError

RANDOM = np.random.default_rng(38)
CUBE = RANDOM.standard_normal((2, 3, 4)).astype(np.float32)
PLACES = np.array([[[2, 0, 1, 1]], [[0, 0, 2, 1]]])
Pair = tuple[Callable[[Any], Any], Callable[[Any], Any]]
# Name: the call, and the same on NumPy's array.
CALLS: dict[str, Pair] = {
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda x: np.expand_dims(x, 1)),
    "unsqueeze of the end": (lambda x: x.unsqueeze(dim=-1), lambda x: x[..., None]),
    "expand": (lambda x: x.unsqueeze(0).expand(5, -1, 3, 4), lambda x: np.broadcast_to(x, (5, 2, 3, 4))),
    "expand by a tuple": (lambda x: x.expand((5, 2, 3, 4)), lambda x: np.broadcast_to(x, (5, 2, 3, 4))),
    "expand_as": (lambda x: x[:, :1].expand_as(x), lambda x: np.broadcast_to(x[:, :1], x.shape)),
    "view_as": (lambda x: x.view_as(x.transpose(0, 2)), lambda x: x.reshape(4, 3, 2)),
    "reshape_as": (lambda x: x.reshape_as(x.view(6, 4)), lambda x: x.reshape(6, 4)),
    "t": (lambda x: x[0].t(), lambda x: x[0].T),
    "contiguous": (lambda x: x.permute(2, 0, 1).contiguous(), lambda x: x.transpose(2, 0, 1)),
    "chunk": (lambda x: x.chunk(2, dim=1)[0], lambda x: x[:, :2]),
    "chunk, the rest": (lambda x: x.chunk(2, -2)[1], lambda x: x[:, 2:]),
    "unbind": (lambda x: x.unbind(-1)[3], lambda x: x[..., 3]),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, dim=1), lambda x: x.repeat(2, 1)),
    "repeat_interleave of all": (lambda x: x.repeat_interleave(3), lambda x: x.repeat(3)),
    "gather": (lambda x: x.gather(1, PLACES), lambda x: np.take_along_axis(x, PLACES, 1)),
    "gather, shorter": (
        lambda x: x.gather(-2, PLACES[:1, :, :3]),
        lambda x: np.take_along_axis(x[:1, :, :3], PLACES[:1, :, :3], 1),
    ),
    "masked_fill": (lambda x: x.masked_fill(x > 0, -1.0), lambda x: np.where(x > 0, -1, x)),
    "masked_fill, spread": (
        lambda x: x.masked_fill(np.array([True, False, False, True]), 0.0),
        lambda x: np.where([True, False, False, True], 0, x),
    ),
    "clamp": (lambda x: x.clamp(min=-0.5), lambda x: x.clip(-0.5)),
    "clamp of both": (lambda x: x.clamp(-0.5, 0.5), lambda x: x.clip(-0.5, 0.5)),
    "softmax": (lambda x: x.softmax(dim=1), lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    "softmax along our word": (lambda x: x.softmax(axis=-1), lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "log_softmax": (lambda x: x.log_softmax(0), lambda x: x - np.log(np.exp(x).sum(0))),
    "type_as": (lambda x: x.type_as(x), lambda x: x),
    "topk": (lambda x: x.topk(2)[0], lambda x: np.sort(x)[..., :1:-1]),
    "topk of the least": (lambda x: x.topk(1, dim=1, largest=False)[0], lambda x: x.min(1, keepdims=True)),
    "topk, places": (lambda x: x.gather(0, x.topk(1, 0)[1]), lambda x: x.max(0, keepdims=True)),
    "type": (lambda x: x.type(nnc.double).type("f32"), lambda x: x),
    "double": (lambda x: x.double().float(), lambda x: x),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_values_are_those_of_our_form(name: str) -> None:
    ours, theirs = CALLS[name]
    expected = theirs(CUBE)
    for run in (ours, nnc.compile(ours)):
        result = run(nnc.tensor(CUBE))
        assert result.shape == expected.shape
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CALLS)
def test_gradients_flow(name: str) -> None:
    ours, _ = CALLS[name]
    weight = RANDOM.standard_normal(ours(nnc.tensor(CUBE)).shape)

    def loss(x: nnc.Array) -> nnc.Array:
        return (ours(x) * weight).sum()

    x, direction = CUBE.astype(np.float64), RANDOM.standard_normal(CUBE.shape)
    slope = (nnc.grad(loss)(nnc.tensor(x)).numpy() * direction).sum()
    # The casts of two rows, which are linear otherwise, cut the differences at f32.
    step, tolerance = (1e-2, 1e-3) if name in ("double", "type") else (1e-6, 1e-5)
    ahead, behind = (loss(nnc.tensor(x + sign * step * direction)).item() for sign in (1, -1))
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.unsqueeze(0),
        lambda x: x.unsqueeze(0).expand(5, -1, -1),
        lambda x: x.softmax(-1),
        lambda x: x.masked_fill(x > 0, 0.0),
        lambda x: x.chunk(2)[0],
        lambda x: x.half().float(),
        lambda x: x.gather(1, PLACES[0].repeat(3, 0)),
        lambda x: x.new_ones(2) + x.new_zeros((2,)),
    ],
    ids=range(8),
)
def test_mapped_values_are_those_of_each_row(call: Callable[[Any], Any]) -> None:
    rows = [call(nnc.tensor(part)).numpy() for part in CUBE]
    np.testing.assert_allclose(nnc.vmap(call)(nnc.tensor(CUBE)).numpy(), np.stack(rows), rtol=1e-6)


CASTS = {
    "double": F64, "float": F32, "half": F16, "bfloat16": BF16, "long": I64, "int": I32, "short": I16, "char": I8,
    "byte": U8, "bool": BOOL,
}  # fmt: skip


@pytest.mark.parametrize("name", CASTS)
def test_each_cast_names_an_element_type(name: str) -> None:
    for run in (lambda x: getattr(x, name)(), nnc.compile(lambda x: getattr(x, name)())):
        result = run(nnc.tensor([0.0, 1.75, 3.0]))
        assert result.dtype is CASTS[name]
        assert result.float().tolist() == {"int": [0, 1, 3], "uint": [0, 1, 3], "bool": [0, 1, 1]}.get(
            CASTS[name].kind, [0, 1.75, 3]
        )


def test_every_cast_of_pytorch_is_there() -> None:
    assert {name for name in vars(ElementTypeMethods) if not name.startswith("_")} == CASTS.keys() | {"type"}
    kept = CASTS.keys() - {"bfloat16", "char", "byte", "bool"}
    assert {name: getattr(nnc, name) for name in kept} == {name: CASTS[name] for name in kept}


def test_no_name_means_another_thing_to_numpy() -> None:
    names = {name for kind in (PyTorchMethods, ElementTypeMethods) for name in vars(kind) if not name.startswith("_")}
    assert not {name for name in names if hasattr(np.ndarray, name)}


def test_comparisons() -> None:
    x, y = nnc.tensor([1.0, 2.0, 3.0]), nnc.tensor([2, 2, 2])
    results = {name: getattr(x, name)(y).tolist() for name in ("eq", "ne", "lt", "le", "gt", "ge")}
    assert results == {
        "eq": [False, True, False], "ne": [True, False, True], "lt": [True, False, False],
        "le": [True, True, False], "gt": [False, False, True], "ge": [False, True, True],
    }  # fmt: skip
    assert x.eq(2.0).sum().item() == 1
    with pytest.raises(ArgumentError, match=r"eq: got other=a dict; need an array"):
        x.eq({})


def test_new_values_are_of_the_same_type_and_device() -> None:
    x = nnc.tensor([1.0], "f64")
    assert x.new_zeros(2, 3).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert x.new_ones((2,), dtype="i32").dtype is I32
    seven = x.new_full((2,), 7)
    assert (seven.tolist(), seven.dtype, seven.device) == ([7, 7], F64, x.device)
    assert x.new_zeros(0, 3).shape == (0, 3)
    assert x.new_ones(()).shape == x.new_ones().shape == ()


def test_sizes_of_none() -> None:
    empty = nnc.zeros((0, 3))
    assert empty.unsqueeze(-1).shape == (0, 3, 1)
    assert [part.shape for part in empty.chunk(4)] == [(0, 3)]
    assert empty.unbind(0) == ()
    assert empty.softmax(1).shape == (0, 3)
    assert nnc.tensor(2.0).t().item() == 2.0
    assert nnc.tensor(2.0).dim() == 0
    assert nnc.tensor(2.0).expand(3).tolist() == [2, 2, 2]


def test_what_lies_in_order_is_not_copied() -> None:
    x = nnc.tensor(CUBE)
    assert x.contiguous().numpy().ctypes.data == x.numpy().ctypes.data
    assert x.transpose(0, 1).contiguous().numpy().flags["C_CONTIGUOUS"]


@pytest.mark.parametrize(
    ("refused", "error", "text"),
    [
        (lambda x: x.unsqueeze(5), AttributeValueError, "expand_dims: "),
        (lambda x: x.expand(3, 4), ShapeError, r"expand: got f32\[2, 3, 4\] to \[3, 4\]; need 3 sizes or more"),
        (lambda x: x.expand(-1, 2, 3, 4), ShapeError, "-1 only for axes of x"),
        (lambda x: x.expand(2, 7, 4), ShapeError, "broadcast"),
        (lambda x: x.t(), ShapeError, r"t: got f32\[2, 3, 4\]; need at most two axes. Fix: x.T"),
        (lambda x: x.chunk(0), AttributeValueError, "chunk: got 0 parts; need at least one"),
        (lambda x: x.unbind(3), AttributeValueError, "unbind: "),
        (lambda x: x.gather(1, np.array([0])), ShapeError, "need an index with the axes of x"),
        (lambda x: x.gather(1, PLACES.astype(np.float32)), DTypeError, "gather: "),
        (lambda x: x.masked_fill(np.ones((5, 1, 1, 1), bool), 0.0), ShapeError, "broadcast"),
        (lambda x: x.masked_fill("mask", 0.0), ArgumentError, "masked_fill: got mask=str; need an array of truth"),
        (lambda x: x.softmax(), TypeError, "dim"),
        (lambda x: x.softmax(dim=3), AttributeValueError, "swapaxes: "),
        (lambda x: x.type_as("f16"), ArgumentError, "type_as"),
        (lambda x: x.type(), TypeError, "dtype"),
        (lambda x: x.type("f31"), DTypeError, "need one of"),
        (lambda x: x.topk(9), AttributeValueError, "top_k"),
        (lambda x: x.new_full(3, 1.0), ArgumentError, "size=3"),
        (lambda x: x.repeat_interleave(np.array([1, 2])), ArgumentError, "repeats"),
    ],
    ids=range(19),
)  # fmt: skip
def test_errors(refused: Callable[[Any], Any], error: type[Exception], text: str) -> None:
    for run in (refused, nnc.compile(refused)):
        with pytest.raises(error, match=text):
            run(nnc.tensor(CUBE))
