"""What optax has: transformations with their state outside, and schedules by its names."""

from __future__ import annotations

import numpy as np
import pytest

import nnc
import nnc.optim as optax
from nnc import nn
from nnc.errors import ArityError
from nnc.nn.optimization.optimizer_base import Optimizer
from nnc.nn.optimization.transformations import Transformation

RNG = np.random.default_rng(4)
PARAMETERS = {"layer": {"w": RNG.standard_normal((3, 2)).astype(np.float32)}, "b": np.float32([0.5, -0.5])}
X = RNG.standard_normal((8, 3)).astype(np.float32)


def loss_of(parameters: dict, x: np.ndarray) -> nnc.Variable:
    return ((x @ parameters["layer"]["w"] + parameters["b"]) ** 2).mean()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (optax.sgd(0.1, momentum=0.9), nn.SGD(0.1)),
        (optax.adam(0.1), nn.Adam(0.1)),
        (optax.adamw(0.1, weight_decay=0.1), nn.AdamW(0.1, decay=0.1)),
        (optax.lion(0.1), nn.Lion(0.1, beta1=0.9, beta2=0.99, decay=1e-3)),
        (optax.rmsprop(0.1), nn.RMSProp(0.1, alpha=0.9)),
        (optax.chain(optax.scale_by_adam(), optax.scale(-0.1)), nn.Adam(0.1)),
        (optax.chain(optax.clip_by_global_norm(0.1), optax.adam(0.1)), nn.chain(nn.ClipNorm(0.1), nn.Adam(0.1))),
        (optax.chain(optax.add_decayed_weights(0.1), optax.sgd(0.1)), nn.SGD(0.1, 0.0, 0.1)),
    ],
)
def test_updates_lead_where_the_optimizer_does_eagerly_and_compiled(theirs: Transformation, ours: Optimizer) -> None:
    grad = nnc.value_and_grad(loss_of)

    def step(parameters: dict, state: dict, x: np.ndarray) -> tuple[dict, dict, nnc.Variable]:
        loss, gradients = grad(parameters, x)
        updates, state = theirs.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    eager, compiled, wanted = PARAMETERS, PARAMETERS, PARAMETERS
    states = [theirs.init(PARAMETERS), theirs.init(PARAMETERS), ours.init(PARAMETERS)]
    run = nnc.compile(step)
    for _ in range(4):
        eager, states[0], _ = step(eager, states[0], X)
        compiled, states[1], _ = run(compiled, states[1], X)
        wanted, states[2] = ours.update(wanted, grad(wanted, X)[1], states[2])
    assert run.recorded == 1
    for made in (eager, compiled):
        np.testing.assert_allclose(made["layer"]["w"].numpy(), wanted["layer"]["w"].numpy(), rtol=1e-5, atol=1e-6)


def test_parameters_are_needed_where_they_are_read() -> None:
    gradients = nnc.grad(loss_of)(PARAMETERS, X)
    updates, _ = optax.adam(0.1).update(gradients, optax.adam(0.1).init(PARAMETERS))
    np.testing.assert_allclose(np.abs(updates["b"].numpy()), 0.1, rtol=1e-5)
    decayed = optax.adamw(0.1)
    with pytest.raises(ArityError, match=r"tx\.update\(grads, state, params\)"):
        decayed.update(gradients, decayed.init(PARAMETERS))
    with pytest.raises(ArityError, match=r"tx\.init\(params\)"):
        decayed.update(gradients)


def test_a_module_gets_new_values() -> None:
    net = nn.Dense(2)
    net(X)
    before = net.state_dict()["weight"]
    _, gradients = nnc.value_and_grad(net, lambda: (net(X) ** 2).mean())()
    assert optax.adam(0.1).update(net, gradients) is None
    np.testing.assert_allclose(np.abs(net.state_dict()["weight"] - before), 0.1, rtol=1e-4)


def test_norms_of_trees() -> None:
    tree = {"a": np.float32([3.0]), "b": [np.float32([[4.0]])]}
    assert float(optax.global_norm(tree)) == 5.0
    clipped, norm = optax.clip_grad_norm(tree, max_norm=1.0)
    assert float(norm) == 5.0
    np.testing.assert_allclose([clipped["a"].item(), clipped["b"][0].item()], [0.6, 0.8], rtol=1e-6)


def test_schedules_are_functions_of_the_count() -> None:
    # optax 0.2: the values of its functions of these arguments.
    warm = optax.warmup_cosine_decay_schedule(0.0, 1.0, 2, 6)
    np.testing.assert_allclose([warm(count) for count in (0, 1, 2, 4, 6)], [0.0, 0.5, 1.0, 0.5, 0.0], atol=1e-12)
    np.testing.assert_allclose(optax.exponential_decay(1.0, 10, 0.5)(20), 0.25)
    np.testing.assert_allclose(optax.exponential_decay(1.0, 10, 0.5, staircase=True)(19), 0.5)
    np.testing.assert_allclose(optax.exponential_decay(1.0, 0.9)(2), 0.81)
    np.testing.assert_allclose(optax.linear_schedule(1.0, 0.0, 4)(1), 0.75)
    np.testing.assert_allclose(optax.cosine_decay_schedule(1.0, 10, alpha=0.1)(10), 0.1)
    np.testing.assert_allclose(optax.polynomial_schedule(1.0, 0.0, 2.0, 4)(2), 0.25)
    np.testing.assert_allclose(optax.step_decay(1.0, 0.5, 3)(7), 0.25)
    joined = optax.join_schedules([optax.constant_schedule(1.0), optax.constant_schedule(0.1)], [3])
    assert [joined(2), joined(3)] == [1.0, 0.1]
    pieces = optax.piecewise_constant_schedule(1.0, {2: 0.5, 4: 0.1})
    np.testing.assert_allclose([pieces(count) for count in (1, 2, 4)], [1.0, 0.5, 0.05])
    assert optax.piecewise_constant_schedule(1.0, {2: 0.5, 4: 0.5})(4) == 0.25
    with pytest.raises(ArityError, match="one boundary less"):
        optax.join_schedules([optax.constant_schedule(1.0)], [3])
