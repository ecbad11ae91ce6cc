from __future__ import annotations

import numpy as np
import pytest

from nnc.core.values.dtype import BOOL, F32
from nnc.errors import ArityError, AttributeValueError, ShapeError
from nnc.nn import (
    CrossAttention,
    FeedForward,
    Functional,
    Input,
    Model,
    MultiHeadAttention,
    MultiLayer,
    Sequential,
    SiLU,
    TransformerBlock,
)
from nnc.nn.layers import GELUTanh


def attention(x: np.ndarray, state: dict[str, np.ndarray], heads: int, causal: bool) -> np.ndarray:
    """Multi-head attention in NumPy, in double precision."""
    batch, steps, features = x.shape

    def split(name: str) -> np.ndarray:
        y = x @ state[f"{name}.weight"] + state[f"{name}.bias"]
        return y.reshape(batch, steps, heads, -1).transpose(0, 2, 1, 3)

    q, k, v = (split(name) for name in ("query", "key", "value"))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(features // heads)
    if causal:
        scores = np.where(np.tril(np.ones((steps, steps), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y = weights / weights.sum(-1, keepdims=True) @ v
    return y.transpose(0, 2, 1, 3).reshape(x.shape) @ state["output.weight"] + state["output.bias"]


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_that_of_numpy(causal: bool) -> None:
    model = Model(MultiHeadAttention(3, causal), (5, 12), backend="reference")
    state = {path: np.random.default_rng(1).standard_normal(value.shape) for path, value in model.state_dict().items()}
    model.load_state_dict({path: value.astype(np.float32) for path, value in state.items()})
    x = np.random.default_rng(2).standard_normal((2, 5, 12)).astype(np.float32)
    np.testing.assert_allclose(model.predict(x), attention(x, state, 3, causal), rtol=1e-3, atol=1e-3)


def test_heads_share_the_features_evenly() -> None:
    with pytest.raises(ShapeError, match="a multiple of 5 heads"):
        Model(MultiHeadAttention(5), (4, 12))
    with pytest.raises(AttributeValueError, match="heads=0"):
        MultiHeadAttention(0)


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_block_has_its_parameters_once(norm_first: bool) -> None:
    model = Model(TransformerBlock(2, hidden=10, norm_first=norm_first, activation=GELUTanh()), (3, 8))
    attention_size, feed_forward, norms = 4 * (8 * 8 + 8), 2 * 8 * 10 + 10 + 8, 2 * 2 * 8
    assert model.parameter_count() == attention_size + feed_forward + norms
    assert model.output_shape == (3, 8)


def test_norm_last_ends_in_unit_variance() -> None:
    model = Model(Sequential(TransformerBlock(2, norm_first=False)), (3, 8), backend="reference")
    y = model.predict(np.random.default_rng(0).standard_normal((2, 3, 8)).astype(np.float32))
    np.testing.assert_allclose(y.mean(-1), 0.0, atol=1e-5)
    np.testing.assert_allclose(y.var(-1), 1.0, rtol=1e-3)


# ---- masks, heads that are shared, positions

X = np.random.default_rng(2).standard_normal((2, 5, 12)).astype(np.float32)
CAUSAL = np.tril(np.ones((5, 5), bool))


def whole(x: np.ndarray, state: dict[str, np.ndarray], heads: int, mask: np.ndarray, memory: np.ndarray) -> np.ndarray:
    """Attention of x to a memory, with a mask of floats [batch, heads, rows, columns] or what broadcasts to it."""
    width = x.shape[2] // heads

    def split(name: str, source: np.ndarray) -> np.ndarray:
        y = source @ state[f"{name}.weight"] + state[f"{name}.bias"]
        y = y.reshape(*source.shape[:2], -1, width).transpose(0, 2, 1, 3)
        return y.repeat(heads // y.shape[1], 1)

    q, k, v = split("query", x), split("key", memory), split("value", memory)
    scores = q @ k.swapaxes(2, 3) / np.sqrt(width) + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y = (weights / weights.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
    return y @ state["output.weight"] + state["output.bias"]


def masked_model(layer: MultiLayer, *others: Input) -> tuple[Model, dict[str, np.ndarray]]:
    inputs = [Input((5, 12)), *others]
    model = Model(Functional(inputs, [layer(*inputs)]), backend="reference")
    generator = np.random.default_rng(1)
    state = {path: generator.standard_normal(value.shape) for path, value in model.state_dict().items()}
    model.load_state_dict({path: value.astype(np.float32) for path, value in state.items()})
    return model, {path.partition(".")[2]: value for path, value in state.items()}


def added(seen: np.ndarray) -> np.ndarray:
    return np.where(seen, 0.0, -1e30)


MASKS: dict[str, tuple[np.ndarray, np.ndarray]] = {
    "padding": (seen := np.arange(5) < np.array([[3], [5]]), added(seen[:, None, None])),
    "rows": (rows := np.stack([CAUSAL, CAUSAL.T]), added(rows[:, None])),
    "scores": (scores := np.random.default_rng(3).standard_normal((2, 5, 5)).astype(np.float32), scores[:, None]),
    "heads": (own := np.random.default_rng(4).standard_normal((2, 4, 5, 5)).astype(np.float32), own),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("window", [0, 3])
def test_masks_of_each_kind_are_those_of_numpy(name: str, window: int) -> None:
    mask, addend = MASKS[name]
    layer = MultiHeadAttention(4, causal=window > 0, key_value_heads=2, window=window)
    model, state = masked_model(layer, Input(mask.shape[1:], BOOL if mask.dtype == bool else F32))
    if window:
        addend = addend + added(CAUSAL & ~np.tril(np.ones((5, 5), bool), -window))
        if name == "rows":
            addend[1] = np.where(np.eye(5, dtype=bool), addend[1], -1e30)
    np.testing.assert_allclose(model.predict((X, mask)), whole(X, state, 4, addend, X), rtol=1e-3, atol=1e-3)


def test_attention_to_a_memory_is_that_of_numpy() -> None:
    memory = np.random.default_rng(5).standard_normal((2, 3, 7)).astype(np.float32)
    seen = np.array([[True, False, True], [True, True, False]])
    model, state = masked_model(CrossAttention(3), Input((3, 7)), Input((3,), BOOL))
    wanted = whole(X, state, 3, added(seen[:, None, None]), memory)
    np.testing.assert_allclose(model.predict((X, memory, seen)), wanted, rtol=1e-3, atol=1e-3)


def test_rotary_scores_depend_on_distances_alone() -> None:
    layer = MultiHeadAttention(2, causal=True, bias=False, rotary_base=100.0, window=3)
    model = Model(layer, (9, 12), backend="reference")
    x = np.random.default_rng(0).standard_normal((1, 12, 12)).astype(np.float32)
    # A window of 3 behind the second step: what all see there begins one step later.
    np.testing.assert_allclose(model.predict(x[:, :9])[:, 3:], model.predict(x[:, 1:10])[:, 2:8], rtol=1e-4, atol=1e-4)
    plain = Model(MultiHeadAttention(2, causal=True, bias=False, window=3), (9, 12), backend="reference")
    plain.load_state_dict(model.state_dict())
    assert not np.allclose(plain.predict(x[:, :9]), model.predict(x[:, :9]), atol=1e-2)


def test_a_gated_feed_forward_is_that_of_numpy() -> None:
    model = Model(FeedForward(7, SiLU(), bias=False, gated=True), (12,), backend="reference")
    state = model.state_dict()
    gate, wide = X[:, 0] @ state["gate.weight"], X[:, 0] @ state["widen.weight"]
    wanted = gate / (1 + np.exp(-gate)) * wide @ state["narrow.weight"]
    np.testing.assert_allclose(model.predict(X[:, 0]), wanted, rtol=1e-4, atol=1e-5)


def test_a_decoder_block_reads_its_memory_through_the_mask() -> None:
    inputs = [Input((4, 8)), Input((3, 8)), Input((3,), BOOL)]
    model = Model(Functional(inputs, [TransformerBlock(2, causal=True, memory=True, rms=True)(*inputs)]))
    x, memory = (np.random.default_rng(0).standard_normal((1, steps, 8)).astype(np.float32) for steps in (4, 3))
    seen = np.array([[True, True, False]])
    other = memory.copy()
    other[:, 2] += 1.0
    np.testing.assert_array_equal(model.predict((x, memory, seen)), model.predict((x, other, seen)))
    assert not np.allclose(model.predict((x, memory, ~seen)), model.predict((x, other, ~seen)))


def test_wrong_heads_and_masks_are_told() -> None:
    with pytest.raises(ShapeError, match="4 key and value heads"):
        Model(MultiHeadAttention(6, key_value_heads=4), (5, 12))
    with pytest.raises(ShapeError, match=r"mask=f32.*truth values \[batch, columns\]"):
        masked_model(MultiHeadAttention(2), Input((5,)))
    with pytest.raises(ArityError, match="3 inputs"):
        masked_model(MultiHeadAttention(2), Input((5,), BOOL), Input((5,), BOOL))
