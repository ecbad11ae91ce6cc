"""Starting values under PyTorch's names, and what stands between gradients and updates."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.errors import ArgumentError, ShapeError

BOUNDS: dict[str, tuple[Callable[[nnc.Variable], nnc.Variable], float]] = {
    "xavier uniform": (nn.init.xavier_uniform_, math.sqrt(6 / 150) / math.sqrt(3)),
    "xavier normal": (nn.init.xavier_normal_, math.sqrt(2 / 150)),
    "kaiming uniform": (lambda w: nn.init.kaiming_uniform_(w, a=math.sqrt(5)), 1 / math.sqrt(3 * 50)),
    "kaiming normal": (lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu"), math.sqrt(2 / 50)),
    "fan out": (lambda w: nn.init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"), math.sqrt(2 / 100)),
    "uniform": (lambda w: nn.init.uniform_(w, -1.0, 1.0), 1 / math.sqrt(3)),
    "truncated": (lambda w: nn.init.trunc_normal_(w, std=0.02), 0.02),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_deviations_are_those_of_the_formulas(name: str) -> None:
    nnc.seed(0)
    fill, deviation = BOUNDS[name]
    weight = nn.Linear(50, 100).weight
    assert fill(weight) is weight
    assert np.std(weight.numpy()) == pytest.approx(deviation, rel=0.05)
    # A parameter of the user's own lies [out, in], as PyTorch's do.
    own = nn.Parameter(np.empty((100, 50), np.float32))
    assert np.std(fill(own).numpy()) == pytest.approx(deviation, rel=0.05)


def test_values_of_layers_are_renewed() -> None:
    layer = nn.Linear(4, 4)
    nn.init.eye_(layer.weight)
    nn.init.constant_(layer.bias, 2.0)
    np.testing.assert_array_equal(layer(np.ones((1, 4), np.float32)).numpy(), np.full((1, 4), 3.0))
    nn.init.orthogonal_(layer.weight, gain=2.0)
    np.testing.assert_allclose((layer.weight @ layer.weight.T).numpy(), 4 * np.eye(4), atol=1e-5)
    nn.init.zeros_(layer.bias)
    assert not layer.bias.numpy().any()
    assert nn.init.ones_(layer.bias).numpy().all()
    assert layer.weight.requires_grad
    with pytest.raises(ShapeError, match="two axes"):
        nn.init.xavier_uniform_(layer.bias)
    with pytest.raises(ArgumentError, match="a < b"):
        nn.init.trunc_normal_(layer.bias, a=1.0, b=0.0)


def test_gradients_are_clipped_by_norm_and_by_value() -> None:
    layer = nn.Linear(3, 2)
    (layer(np.ones((4, 3), np.float32)) * 10).sum().backward()
    gradients = [parameter.grad.numpy() for parameter in layer.parameters() if parameter.grad is not None]
    norm = nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
    assert norm.item() == pytest.approx(math.sqrt(sum((gradient**2).sum() for gradient in gradients)))
    clipped = nn.utils.get_total_norm([parameter.grad for parameter in layer.parameters()])
    assert clipped.item() == pytest.approx(1.0, rel=1e-5)
    nn.utils.clip_grad_value_(layer.parameters(), 0.01)
    assert max(np.abs(parameter.grad.numpy()).max() for parameter in layer.parameters()) == np.float32(0.01)
    assert nn.utils.clip_grad_norm_(layer.parameters(), 1.0, norm_type=math.inf).item() == np.float32(0.01)
    assert nn.utils.clip_grad_norm_([], 1.0).item() == 0.0
    with pytest.raises(ArgumentError, match="need a Variable"):
        nn.utils.clip_grad_norm_([1.0], 1.0)  # type: ignore[list-item]


def test_a_compiled_step_clips_too() -> None:
    layer = nn.Linear(3, 2)
    optimizer = nn.optim.SGD(layer.parameters(), lr=1.0)

    @nnc.compile
    def step(x: nnc.Variable) -> nnc.Variable:
        optimizer.zero_grad()
        (layer(x) * 10).sum().backward()
        norm = nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        optimizer.step()
        return norm

    before = nn.utils.parameters_to_vector(layer.parameters()).numpy()
    assert step(nnc.ones((4, 3))).item() > 1.0
    moved = nn.utils.parameters_to_vector(layer.parameters()).numpy() - before
    assert np.linalg.norm(moved) == pytest.approx(1.0, rel=1e-4)
    nn.utils.vector_to_parameters(nnc.tensor(before), layer.parameters())
    np.testing.assert_array_equal(nn.utils.parameters_to_vector(layer.parameters()).numpy(), before)
    with pytest.raises(ShapeError, match="need 8 elements"):
        nn.utils.vector_to_parameters(nnc.ones(3), layer.parameters())
