"""Updates that break off: nothing has changed, or the model says that it may be half renewed and goes no further."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnc import nn
from nnc.core.values.dtype import I64
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import IndexRangeError, InterruptedUpdateError
from nnc.graph import Registry
from nnc.nn.data import Batches, Examples
from nnc.nn.layers.layer import Layer, Scope
from nnc.ops.composed.custom import custom_operator
from nnc.ops.operand import T, apply
from nnc.ops.rules import NoAttrs
from nnc.symbolic import SymbolicGraph, compile

X = np.linspace(-1.0, 1.0, 32, dtype=np.float32).reshape(8, 4)
Y = np.linspace(0.0, 1.0, 16, dtype=np.float32).reshape(8, 2)
BACKENDS = ["llvm", "reference"]


class Calling(Layer):
    """y = x, with a call on the way there and one on the way of the gradient back."""

    def __init__(self) -> None:
        self.forward: Callable[[], object] = lambda: None
        self.backward: Callable[[], object] = lambda: None
        registry = Registry("interruption")

        def there(attrs: NoAttrs, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            outputs[0][...] = inputs[0]
            self.forward()

        def back(attrs: NoAttrs, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            outputs[0][...] = inputs[0]
            self.backward()

        way_back = custom_operator("back", infer=lambda attrs, specs: specs, kernel=back, registry=registry)
        self.op = custom_operator(
            "there",
            infer=lambda attrs, specs: specs,
            kernel=there,
            gradient=lambda applied, gradients: (apply(way_back, NoAttrs(), gradients[0]),),
            registry=registry,
        )

    def __repr__(self) -> str:
        return "Calling()"

    def build(self, scope: Scope, x: T) -> T:
        return apply(self.op, NoAttrs(), x)


def model(backend: str, **options: Any) -> tuple[nn.Model, Calling]:
    calling = Calling()
    layer = nn.Sequential(nn.Dense(16), nn.Tanh(), calling, nn.Dense(2))
    return nn.Model(layer, (4,), loss=nn.MeanSquaredError(), seed=3, backend=backend, **options), calling


def bits(net: nn.Model) -> bytes:
    return b"".join(one.numpy().tobytes() for one in (*net.tensors().values(), *net.states.values()))


def fail() -> None:
    raise OSError("no answer")


def press() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("way", [fail, press])
def test_an_error_before_the_first_tensor_is_written_changes_nothing(backend: str, way: Callable[[], object]) -> None:
    (net, calling), (other, _) = model(backend), model(backend)
    net.train_on_batch(X, Y)
    before, calling.forward = bits(net), way
    with pytest.raises((OSError, KeyboardInterrupt)):
        net.train_on_batch(X, Y)
    assert (bits(net), net.updates) == (before, 1)
    calling.forward = lambda: None
    for one in (net, other, other):
        one.train_on_batch(X, Y)
    assert bits(net) == bits(other)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("way", [fail, press])
def test_a_model_that_an_update_left_half_renewed_says_so(
    backend: str, way: Callable[[], object], tmp_path: Path
) -> None:
    net, calling = model(backend)
    net.train_on_batch(X, Y)
    saved, position = tmp_path / "whole", nn.position_of(net, Batches(Examples("all", X, Y), 8))
    nn.save_checkpoint(saved, net, position)
    before, state, calling.backward = bits(net), net.state_dict(), way
    with pytest.raises((OSError, KeyboardInterrupt)):
        net.train_on_batch(X, Y)
    assert bits(net) != before
    assert net.updates == 1
    for use in (
        lambda: net.train_on_batch(X, Y),
        lambda: net.predict(X),
        lambda: net.evaluate(X, Y),
        lambda: net.freeze(8),
        lambda: net.share().predict(X),
        net.state_dict,
        lambda: copy.deepcopy(net),
        lambda: pickle.dumps(net),
        lambda: nn.save_checkpoint(tmp_path / "half", net, position),
    ):
        with pytest.raises(InterruptedUpdateError, match=r"update 2 may have left half renewed.*Fix: load") as caught:
            use()
        assert caught.value.step == 2
    calling.backward = lambda: None
    net.load_state_dict(state)
    assert net.predict(X).shape == (8, 2)
    calling.backward = way
    with pytest.raises((OSError, KeyboardInterrupt)):
        net.train_on_batch(X, Y)
    calling.backward = lambda: None
    nn.load_checkpoint(saved, net)
    assert bits(net) == before
    net.train_on_batch(X, Y)
    other, _ = model(backend)
    for _ in range(2):
        other.train_on_batch(X, Y)
    assert bits(net) == bits(other)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_that_were_half_added_are_not_applied(backend: str) -> None:
    net, calling = model(backend)
    net.backward(X, Y)
    calling.backward = fail
    with pytest.raises(OSError, match="no answer"):
        net.backward(X, Y)
    calling.backward = lambda: None
    with pytest.raises(InterruptedUpdateError):
        net.apply_gradients()


def test_a_model_that_shares_the_tensors_may_predict_in_the_middle_of_an_update() -> None:
    net, calling = model("llvm")
    other, seen = net.share(), []
    calling.backward = lambda: seen.append(other.predict(X).shape)
    net.train_on_batch(X, Y)
    assert seen == [(8, 2)]


def test_what_there_is_can_be_gone_on_with() -> None:
    net, calling = model("llvm")
    calling.backward = fail
    with pytest.raises(OSError, match="no answer"):
        net.train_on_batch(X, Y)
    calling.backward = lambda: None
    net.accept_interrupted_update()
    net.train_on_batch(X, Y)
    assert net.updates == 1


def test_an_error_of_a_callback_behind_the_update_leaves_a_whole_one() -> None:
    net, _ = model("llvm")
    with pytest.raises(OSError, match="no answer"):
        net.train_on_batch(X, Y, done=fail)
    assert net.updates == 1
    assert net.predict(X).shape == (8, 2)
    with pytest.raises(KeyboardInterrupt):
        net.train_on_batch(X, Y, done=press)
    with pytest.raises(InterruptedUpdateError):
        net.predict(X)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_index_outside_its_axis_changes_nothing(backend: str) -> None:
    layer = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Dense(2))
    net = nn.Model(layer, (2,), loss=nn.MeanSquaredError(), input_dtype=I64, backend=backend)
    before = bits(net)
    with pytest.raises(IndexRangeError):
        net.train_on_batch(np.array([[1, 7]]), np.zeros((1, 2)))
    assert bits(net) == before
    net.train_on_batch(np.array([[1, 4]]), np.zeros((1, 2)))
    assert bits(net) != before


def test_a_run_of_native_commands_alone_is_not_cut() -> None:
    graph = SymbolicGraph()
    w, x = graph.input(spec([4]), "w"), graph.input(spec([4]), "x")
    compiled = compile(graph, [], given={w: Tensor.zeros(w.spec)}, carry={w + x: w}, backend="llvm")
    compiled.write(x, [1.0] * 4)
    assert not compiled.begun
    compiled.run()
    assert compiled.begun
    assert len(compiled.allocate().body.execs) == 1


# ---- windows of accumulation


def windowed(**options: Any) -> tuple[nn.Model, Calling]:
    """A model whose passes change all that passes can: running statistics, the count of draws, the loss's scale."""
    calling = Calling()
    layer = nn.Sequential(nn.Dense(8), nn.BatchNorm(), nn.Dropout(0.25), calling, nn.Dense(2))
    scale = nn.LossScale(interval=3)
    return nn.Model(layer, (4,), loss=nn.MeanSquaredError(), seed=3, loss_scale=scale, **options), calling


def counted(way: Callable[[], object], when: int) -> Callable[[], None]:
    """Nothing, but at the call `when` of all."""
    calls = iter(range(1, 1_000))

    def call() -> None:
        if next(calls) == when:
            way()

    return call


def everything(net: nn.Model) -> tuple[object, ...]:
    return bits(net), net.updates, net.draws, net.scaling


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("side", ["forward", "backward"])
@pytest.mark.parametrize("when", [1, 2, 4, 6, 8])
def test_a_window_that_breaks_off_has_not_begun(backend: str, side: str, when: int) -> None:
    """Two windows of four batches an epoch: whichever pass breaks, going on gives the bits of nothing having broken."""
    (net, calling), (other, _) = windowed(backend=backend), windowed(backend=backend)
    data, same = (Batches(Examples("all", X, Y), 1, seed=5) for _ in range(2))
    setattr(calling, side, counted(press, when))
    with pytest.raises(KeyboardInterrupt):
        net.fit(data, epochs=1, accumulate=4)
    begun = data.state().position // 4
    assert net.updates == begun
    fresh, _ = windowed(backend=backend)
    if begun:
        fresh.fit(Batches(Examples("all", X, Y), 1, seed=5), epochs=1, accumulate=4, stop=lambda: True)
    assert everything(net) == everything(fresh)
    setattr(calling, side, lambda: None)
    net.fit(data, epochs=1, accumulate=4)
    other.fit(same, epochs=1, accumulate=4)
    assert everything(net) == everything(other)


def test_a_window_goes_back_to_the_gradients_that_waited() -> None:
    net, calling = windowed()
    net.backward(X, Y)
    waiting = {path: one.numpy().copy() for path, one in net.gradients.items()}
    calling.forward = counted(fail, 2)
    with pytest.raises(OSError, match="no answer"):
        net.fit(X, Y, batch_size=2, accumulate=2)
    for path, one in net.gradients.items():
        np.testing.assert_array_equal(one.numpy(), waiting[path])
    assert any(values.any() for values in waiting.values())
