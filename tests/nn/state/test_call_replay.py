"""Eager calls of layers that are replayed: what they give, and when they go the long way again."""

import copy
import pickle
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

import nnc
from nnc import nn, optim
from nnc.dynamic.graph import default_graph
from nnc.dynamic.variable import Variable
from nnc.errors import NotFiniteError, UsageError

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Residual(nn.Dense(5)), nn.Linear(5, 2, bias=False))


def warm(net: nn.Layer, *inputs: Variable) -> None:
    """Until a call is replayed, where it is."""
    for _ in range(3):
        net(*inputs)


def is_replayed(net: nn.Layer) -> bool:
    return any(net.own.replays.values())


def long_way(net: nn.Layer, *inputs: Variable) -> Variable:
    """The same call as the code of the layers makes it."""
    net.own.replays.clear()
    made: Variable = net(*inputs)
    return made


def test_values_lines_and_gradients_are_those_of_the_long_way() -> None:
    net, x = network(), nnc.variable(X)
    warm(net, x)
    assert is_replayed(net)

    def lines() -> list[tuple[str, str]]:
        return [(exec.command.op.name, exec.origin) for _, exec in default_graph().record.execs.items()]

    gradients, texts, values = [], [], []
    for call in (net, lambda x: long_way(net, x)):
        net.zero_grad()
        x.grad = None
        y = call(x)
        texts.append(lines())
        values.append(y.numpy().copy())
        (y * y).sum().backward()
        gradients.append([p.grad.numpy().copy() for p in (x, *net.parameters())])
        del y
    assert texts[0] == texts[1]
    np.testing.assert_array_equal(*values)
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_array_equal(one, other)


def test_updates_reach_the_next_call() -> None:
    net, x = network(), nnc.tensor(X)
    warm(net, x)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        before = net(x)
        (before * before).mean().backward()
        optimizer.step()
        after = net(x)
        assert is_replayed(net)
        assert not np.array_equal(before.numpy(), after.numpy())
        np.testing.assert_array_equal(after.numpy(), long_way(net, x).numpy())
        warm(net, x)


def assign_weight(net: nn.Sequential) -> None:
    net[0].weight = nn.Parameter(np.ones((5, 4), np.float32))


def set_requires_grad(net: nn.Sequential) -> None:
    net[0].weight.requires_grad = False


CHANGES: dict[str, Callable[[nn.Sequential], object]] = {
    "a weight": assign_weight,
    "eval": lambda net: net.eval(),
    "freeze": lambda net: net.freeze(),
    "freeze one": lambda net: net[0].freeze(),
    "no gradient of one": set_requires_grad,
    "a hook": lambda net: net[1].register_forward_hook(lambda layer, x, y: y * 2),
    "a hook before": lambda net: net.register_forward_pre_hook(lambda layer, inputs: inputs[0] + 1),
    "other parts": lambda net: setattr(net, "parts", net.parts[:2]),
    "other values": lambda net: net.load_state_dict({name: value + 1 for name, value in net.state_dict().items()}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_is_seen(change: str) -> None:
    net, x = network(), nnc.variable(X)
    warm(net, x)
    twin = copy.deepcopy(net)
    for each in (net, twin):
        CHANGES[change](each)
    for _ in range(3):
        y, other = net(x), long_way(twin, x)
        assert y.shape == other.shape
        np.testing.assert_array_equal(y.numpy(), other.numpy())
        for each, result in ((net, y), (twin, other)):
            each.zero_grad()
            (result * result).sum().backward()
        slopes = [[p.grad is None for p in each.parameters()] for each in (net, twin)]
        assert slopes[0] == slopes[1]


def test_a_hook_that_is_gone_lets_calls_be_replayed() -> None:
    net, x = network(), nnc.tensor(X)
    handle = net.register_forward_hook(lambda layer, x, y: y * 2)
    warm(net, x)
    assert not is_replayed(net)
    doubled = net(x).numpy().copy()
    handle.remove()
    warm(net, x)
    assert is_replayed(net)
    np.testing.assert_array_equal(2 * net(x).numpy(), doubled)


def test_without_recording_nothing_is_recorded() -> None:
    net, x = network(), nnc.variable(X)
    warm(net, x)
    with nnc.no_grad():
        y = net(x)
    assert not y.requires_grad
    assert net(x).requires_grad
    np.testing.assert_array_equal(y.numpy(), net(x).numpy())


def test_other_sizes_and_types_have_calls_of_their_own() -> None:
    net = nn.Sequential(nn.Dense(3), nn.ReLU())
    for rows in (1, 2, 5, 2, 1, 5, 1, 2, 5):
        x = nnc.tensor(np.ones((rows, 4), np.float32))
        np.testing.assert_array_equal(net(x).numpy(), long_way(copy.deepcopy(net), x).numpy())
    with pytest.raises(UsageError, match="Dense") as error:
        net(nnc.tensor(np.ones((2, 9), np.float32)))
    assert "weight" in str(error.value)


def test_kept_calls_are_bounded() -> None:
    net = nn.Sequential(nn.Dense(1))
    for rows in range(1, 200):
        net(nnc.tensor(np.ones((rows, 1), np.float32)))
    assert len(net.own.replays) <= 64


def test_commands_that_wait_and_results_that_are_kept() -> None:
    net, x = network(), nnc.tensor(X)
    warm(net, x)
    expected = net(x).numpy()
    with nnc.lazy() as report:
        y = net(x)
    assert report.commands == 5
    np.testing.assert_array_equal(y.numpy(), expected)
    with nnc.memoized() as cache:
        first, second = net(x), net(x)
    assert cache.hits
    np.testing.assert_array_equal(first.numpy(), second.numpy())


def test_whoever_looks_at_commands_sees_each() -> None:
    net, x = network(), nnc.tensor(X)
    warm(net, x)
    with nnc.debug():
        net(x)
    bad = X.copy()
    bad[0, 0] = np.nan
    with pytest.raises(NotFiniteError, match="gemm"), nnc.debug():
        net(nnc.tensor(bad))


class Net(nn.Module):
    """A network of the user's: its code runs at each call, its layers are replayed."""

    def __init__(self) -> None:
        self.hidden, self.out = nn.Linear(4, 8), nn.Linear(8, 2)
        self.calls = 0

    def forward(self, x: nnc.Array) -> nnc.Array:
        self.calls += 1
        return self.out(nnc.tanh(self.hidden(x)))


def test_code_of_the_user_runs_each_time() -> None:
    net, x = Net(), nnc.variable(X)
    warm(net, x)
    assert net.calls == 3
    assert not is_replayed(net)
    assert is_replayed(net.hidden)
    assert is_replayed(net.out)
    whole = nn.Sequential(net, nn.ReLU())
    warm(whole, x)
    assert net.calls == 6
    assert not is_replayed(whole)


def test_a_layer_below_a_frozen_one_is_frozen() -> None:
    net, x = Net(), nnc.variable(X)
    warm(net, x)
    net.freeze()
    net(x).sum().backward()
    assert net.hidden.weight.grad is None
    net.unfreeze()
    net(x).sum().backward()
    assert net.hidden.weight.grad is not None


class Louder(nn.Dense):
    """A layer of the user's on one of ours."""

    def build(self, scope: nn.Scope, x: nnc.Array) -> nnc.Array:
        CALLS.append(1)
        return super().build(scope, x)


CALLS: list[int] = []


def test_subclasses_are_the_users() -> None:
    net, x = nn.Sequential(Louder(3)), nnc.tensor(X)
    CALLS.clear()
    warm(net, x)
    net(x)
    assert len(CALLS) == 4


IMAGES = np.random.default_rng(0).random((2, 6, 6, 4), np.float32)
LAYERS: dict[str, tuple[Callable[[], nn.Layer], np.ndarray]] = {
    "layer norm": (nn.LayerNorm, X),
    "layer norm alone": (lambda: nn.LayerNorm(affine=False), X),
    "root mean square": (nn.RMSNorm, X),
    "instances": (nn.InstanceNorm, IMAGES),
    "convolution": (lambda: nn.Convolution(3, 3), IMAGES),
    "largest": (nn.MaxPool, IMAGES),
    "mean": (nn.AveragePool, IMAGES),
    "mean of all": (nn.GlobalAveragePool, IMAGES),
    "embedding": (lambda: nn.Embedding(5, 3), np.array([[0, 4], [2, 2]])),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_that_replay_do_the_same(name: str) -> None:
    make, data = LAYERS[name]
    layer, x = make(), nnc.tensor(data)
    if data.dtype == np.float32:
        x.requires_grad_()
    warm(layer, x)
    assert is_replayed(layer)
    results = []
    for call in (layer, lambda x: long_way(layer, x)):
        layer.zero_grad()
        x.grad = None
        y = call(x)
        (y * y).sum().backward()
        slopes = [each.grad.numpy().copy() for each in (x, *layer.parameters()) if each.grad is not None]
        results.append([y.numpy().copy(), *slopes])
    assert len(results[0]) == len(results[1]) > 1
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_layers_that_draw_or_renew_go_the_long_way() -> None:
    for layer in (nn.Dropout(0.5), nn.BatchNorm()):
        net, x = nn.Sequential(nn.Dense(3), layer), nnc.tensor(X)
        warm(net, x)
        assert not is_replayed(net)


def test_copies_and_files_have_no_calls_of_others() -> None:
    net, x = network(), nnc.tensor(X)
    warm(net, x)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert not other.own.replays
        warm(other, x)
        np.testing.assert_array_equal(other(x).numpy(), net(x).numpy())
        other[0].weight = nn.Parameter(np.zeros((5, 4), np.float32))
        assert not np.array_equal(other(x).numpy(), net(x).numpy())


def test_compiled_and_differentiated_calls_are_as_before() -> None:
    net, x = network(), nnc.variable(X)
    warm(net, x)
    np.testing.assert_allclose(nnc.compile(net)(x).numpy(), net(x).numpy(), rtol=1e-6)
    slope = nnc.grad(lambda x: net(x).sum())(x)
    net.own.replays.clear()
    np.testing.assert_array_equal(slope.numpy(), nnc.grad(lambda x: net(x).sum())(x).numpy())
    curvature = nnc.grad(lambda x: nnc.grad(lambda x: net(x).sum())(x).sum())(x)
    assert curvature.shape == x.shape


def test_views_and_shared_memory() -> None:
    net = network()
    whole = nnc.tensor(np.arange(48, dtype=np.float32).reshape(12, 4))
    for start in (0, 3, 6, 9):
        part = whole[start : start + 3]
        np.testing.assert_array_equal(net(part).numpy(), net(nnc.tensor(part.numpy().copy())).numpy())
    transposed = nnc.tensor(np.arange(12, dtype=np.float32).reshape(4, 3)).T
    np.testing.assert_array_equal(net(transposed).numpy(), long_way(net, transposed).numpy())


def test_many_threads_call_one_network() -> None:
    net, x = network(), nnc.tensor(X)
    warm(net, x)
    expected, wrong = net(x).numpy().copy(), []

    def work() -> None:
        for _ in range(200):
            with nnc.no_grad():
                if not np.array_equal(net(x).numpy(), expected):
                    wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_call_takes_few_python_calls() -> None:
    net, x = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)), nnc.tensor(X)
    warm(net, x)
    passed: list[str] = []
    # What the pool looks through depends on what other tests have given back.
    counted = ("call", False)
    sys.setprofile(
        lambda frame, event, argument: (
            passed.append(event) if (event, frame.f_code.co_filename.endswith("pool.py")) == counted else None
        )
    )
    try:
        net(x)
    finally:
        sys.setprofile(None)
    # 83 where this was written, 485 by the code of the layers.
    assert len(passed) < 100
