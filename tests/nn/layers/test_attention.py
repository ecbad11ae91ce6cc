from __future__ import annotations

import numpy as np
import pytest

from nnc.errors import AttributeValueError, ShapeError
from nnc.nn import Model, MultiHeadAttention, Sequential, TransformerBlock
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
