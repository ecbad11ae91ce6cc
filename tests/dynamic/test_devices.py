"""Eager values on devices: made there, moved, combined, differentiated, looked at, refused."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.simulated_device import SimulatedMachine, simulated

import nnc
from nnc.core.values.device import CPU, Device
from nnc.dynamic.execution import host_kernel
from nnc.errors import ArgumentError, DeviceError, IndexRangeError, NotFiniteError, OutOfMemoryError, UsageError

HERE, THERE = Device("cuda"), Device("cuda", 1)


@pytest.fixture
def machine() -> Iterator[SimulatedMachine]:
    with simulated(count=2) as made:
        yield made


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody was told yet what runs on the host."""
    monkeypatch.setattr(host_kernel, "_TOLD", set())


def test_devices_that_are_there(machine: SimulatedMachine) -> None:
    assert {CPU, HERE, THERE} <= set(nnc.devices())
    assert nnc.device("cuda:1") == THERE
    assert nnc.device(HERE) is HERE
    assert nnc.zeros(2).__array_namespace__().__array_namespace_info__().devices() == [*nnc.devices()]


def test_devices_that_are_not_there_are_named_beside_those_that_are(machine: SimulatedMachine) -> None:
    for ask in (
        lambda: nnc.device("cuda:7"),
        lambda: nnc.zeros(3).to("cuda:7"),
        lambda: nnc.zeros(3, device="cuda:7"),
        lambda: nnc.zeros(3).cuda(7),
    ):
        with pytest.raises(DeviceError, match=r"got cuda:7; need one of cpu:0 .*cuda:0 cuda:1"):
            ask()
    with pytest.raises(DeviceError, match="one of cpu cuda vulkan"):
        nnc.device("gpu")
    with pytest.raises(ArgumentError):
        nnc.device(1)  # type: ignore[arg-type]


def test_values_go_there_and_back(machine: SimulatedMachine) -> None:
    x = nnc.tensor([[1.0, 2.0], [3.0, 4.0]])
    there = x.to("cuda:1")
    assert there.device == THERE
    assert there.to(THERE).device == THERE
    assert x.to("cpu").device == CPU
    assert x.cuda().device == HERE
    assert x.cuda(1).device == x.cuda("cuda:1").device == THERE
    assert there.to("cuda", "f16").spec == nnc.spec((2, 2), "f16", device="cuda")
    assert there.to("f64").spec == nnc.spec((2, 2), "f64", device="cuda:1")
    assert there.to(device="cpu", dtype="i32").spec == nnc.spec((2, 2), "i32")
    assert x.to(there).device == THERE
    assert there.to_device("cpu").device == CPU
    assert there.to_device(THERE).device == THERE
    np.testing.assert_array_equal(there.T[1:].cpu().numpy(), [[2, 4]])
    for wrong in (3, None):
        with pytest.raises(UsageError):
            x.to_device(wrong)


@pytest.mark.parametrize(
    "make",
    [
        lambda device: nnc.tensor([1.0], device=device),
        lambda device: nnc.variable([1.0], device=device),
        lambda device: nnc.array([1.0], device=device),
        lambda device: nnc.array(nnc.tensor([1.0]), device=device),
        lambda device: nnc.asarray([1, 2], device=device),
        lambda device: nnc.as_tensor(np.ones(2), device=device),
        lambda device: nnc.zeros(2, 3, device=device),
        lambda device: nnc.ones((2, 3), device=device),
        lambda device: nnc.empty(4, device=device),
        lambda device: nnc.full((2,), 7.0, device=device),
        lambda device: nnc.arange(3, device=device),
        lambda device: nnc.linspace(0, 1, 3, device=device),
        lambda device: nnc.eye(3, device=device),
        lambda device: nnc.array_api.ones(3, device=device),
        lambda device: nnc.array_api.asarray([1.0], device=device),
        lambda device: nnc.array_api.zeros_like(nnc.tensor([1.0]), device=device),
        lambda device: nnc.array_api.fft.fftfreq(4, device=device),
    ],
)
def test_arrays_are_made_where_that_is_said(machine: SimulatedMachine, make: Any) -> None:
    plain = make(None)
    assert plain.device == CPU
    for device in (THERE, "cuda:1"):
        made = make(nnc.device(device))
        assert made.device == THERE
        np.testing.assert_array_equal(made.cpu().numpy(), plain.numpy())
    with nnc.device("cuda:1"), nnc.device("cuda"):
        assert make("cpu").device == CPU


def test_a_device_is_a_context_of_its_thread(machine: SimulatedMachine) -> None:
    seen: list[Device] = []
    with nnc.device("cuda:1"):
        with nnc.device("cpu"):
            assert nnc.zeros(2).device == CPU
        assert nnc.zeros(2).device == THERE
        assert nnc.normal((3,)).device == nnc.uniform((3,)).device == nnc.random.rand(3).device == THERE
        other = threading.Thread(target=lambda: seen.append(nnc.zeros(2).device))
        other.start()
        other.join()
        with pytest.raises(ZeroDivisionError), nnc.device("cuda"):
            _ = 1 / 0
        assert nnc.zeros(2).device == THERE
    assert seen == [CPU]
    assert nnc.zeros(2).device == CPU


def test_arrays_beside_a_value_go_to_it(machine: SimulatedMachine) -> None:
    x = nnc.tensor([1.0, 2.0], device="cuda")
    for y in (x + 1, 2 * x, x * np.float32([3, 4]), np.float32([3, 4]) * x, x > 1, -x, x @ np.ones((2, 2), "f4")):
        assert y.device == HERE
    np.testing.assert_array_equal(x[np.array([1, 0])].cpu().numpy(), [2, 1])
    np.testing.assert_array_equal(x.at[0].set(5.0).cpu().numpy(), [5, 2])


def test_two_devices_do_not_meet(machine: SimulatedMachine) -> None:
    x, y = nnc.tensor([1.0], device="cuda"), nnc.tensor([1.0])
    with pytest.raises(DeviceError, match=r"add: .*cuda:0.*cpu:0.*Fix: x.to\('cuda:0'\) or x.to\('cpu:0'\) \(test_dev"):
        x + y
    assert (x.cpu() + y).item() == 2


def test_looking_at_values(machine: SimulatedMachine) -> None:
    x = nnc.tensor([2.5], device="cuda")
    assert (float(x), int(x), bool(x), x.item(), x.tolist(), f"{x:.1f}") == (2.5, 2, True, 2.5, [2.5], "2.5")
    assert repr(x) == "Variable(f32[1]@cuda:0, constant)\n[2.5]"
    for read in (x.numpy, lambda: np.asarray(x), lambda: np.array(x)):
        with pytest.raises(DeviceError, match=r"numpy: got f32\[1\]@cuda:0; need elements of the host"):
            read()


def test_copies_and_pickles_stay_on_the_device(machine: SimulatedMachine) -> None:
    for x in (nnc.tensor([1.0, 2.0], device="cuda:1"), nnc.variable([1.0, 2.0], device="cuda:1")):
        for twin in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone(), x.detach()):
            assert twin.device == THERE
            assert twin.tolist() == [1, 2]
        assert pickle.loads(pickle.dumps(x)).requires_grad is x.requires_grad


def test_unpickling_is_not_moved_by_a_context(machine: SimulatedMachine) -> None:
    content = pickle.dumps(nnc.tensor([1.0]))
    with nnc.device("cuda"):
        assert pickle.loads(content).device == CPU


def test_gradients_stay_on_the_device(machine: SimulatedMachine) -> None:
    w = nnc.variable([[1.0, 2.0], [3.0, 4.0]], device="cuda:1")
    x = nnc.tensor([[1.0, -1.0]], device="cuda:1")
    nnc.tanh(x @ w).sum().backward()
    assert w.grad is not None
    assert w.grad.device == THERE
    host = nnc.variable([[1.0, 2.0], [3.0, 4.0]])
    nnc.tanh(x.cpu() @ host).sum().backward()
    np.testing.assert_allclose(w.grad.cpu().numpy(), host.grad.numpy(), rtol=1e-6)
    second = nnc.grad(lambda v: nnc.grad(lambda u: (u * u * u).sum())(v).sum())(w)
    np.testing.assert_allclose(second.cpu().numpy(), 6 * host.numpy(), rtol=1e-6)


def test_gradients_go_back_over_transfers(machine: SimulatedMachine) -> None:
    w = nnc.variable([1.0, 2.0])
    ((w.to("cuda") * 3).to("cuda:1") * 2).cpu().sum().backward()
    assert w.grad is not None
    assert w.grad.device == CPU
    assert w.grad.tolist() == [6, 6]


def test_work_on_a_device_does_not_pass_the_host(machine: SimulatedMachine) -> None:
    x = nnc.tensor(np.ones((4, 4), np.float32), device="cuda")
    machine.driver.counts.clear()
    for _ in range(3):
        x = nnc.relu(x @ x) * 0.1
    assert not {"upload", "download"} & machine.driver.counts.keys()


@pytest.mark.usefixtures("told")
def test_what_a_device_has_no_kernel_for_runs_on_the_host(machine: SimulatedMachine) -> None:
    machine.refused = {nnc.ops.exp}
    x = nnc.variable([0.0, 1.0], device="cuda")
    with pytest.warns(RuntimeWarning, match="exp has no kernel on cuda") as caught:
        y = nnc.exp(x) + nnc.exp(x * 2)
    assert len(caught) == 1
    assert y.device == HERE
    np.testing.assert_allclose(y.tolist(), np.exp([0, 1]) + np.exp([0, 2]), rtol=1e-6)


def test_memory_of_values_that_are_gone_is_used_again(machine: SimulatedMachine) -> None:
    x = nnc.tensor(np.ones(1000, np.float32), device="cuda")
    for _ in range(50):
        x = x * 1.5 - 0.5
    assert machine.driver.used(HERE) <= 6 * 4096
    assert x.tolist()[0] == 1


def test_lazy_and_memoized_values(machine: SimulatedMachine) -> None:
    x = nnc.tensor([1.0, 2.0], device="cuda")
    for _ in range(3):
        with nnc.lazy() as report:
            y = nnc.tanh(x * 2 + 1).sum()
            assert y.device == HERE
            value = y.item()
    assert report.programs == 1
    with nnc.lazy() as report:
        nnc.eval({"x": x * 3})
        assert report.runs == 1
    assert value == pytest.approx(np.tanh([3.0, 5.0]).sum())
    with nnc.memoized() as cache:
        first, again = (x * 2).tolist(), (x * 2).tolist()
    assert (first, cache.hits) == (again, 1)


def test_compiled_functions_of_values_on_a_device(machine: SimulatedMachine) -> None:
    step = nnc.compile(lambda x, w: nnc.tanh(x @ w + np.float32([1, 2])).sum(axis=0))
    x, w = nnc.tensor([[1.0, 2.0]], device="cuda"), nnc.variable(np.eye(2, dtype=np.float32), device="cuda")
    y = step(x, w)
    assert y.device == HERE
    np.testing.assert_allclose(y.tolist(), np.tanh([2.0, 4.0]), rtol=1e-6)
    y.sum().backward()
    assert w.grad is not None
    assert w.grad.device == HERE
    assert step.memory(x, w).arenas.keys() == {"cuda:0"}
    on_host = step(x.cpu(), w.cpu())
    assert on_host.device == CPU
    assert step.recorded == 2
    np.testing.assert_allclose(on_host.tolist(), y.tolist(), rtol=1e-6)


def test_loops_and_branches_on_a_device(machine: SimulatedMachine) -> None:
    @nnc.compile
    def power(x: Any, count: Any) -> Any:
        return nnc.while_loop(lambda k, y: k < count, lambda k, y: (k + 1, nnc.tanh(y * 2)), count * 0, x)[1]

    x, count = nnc.tensor([0.1, 0.2], device="cuda"), nnc.tensor(3, device="cuda")
    expected = np.float32([0.1, 0.2])
    for _ in range(3):
        expected = np.tanh(expected * 2)
    for _ in range(2):
        result = power(x, count)
        assert result.device == HERE
        np.testing.assert_allclose(result.tolist(), expected, rtol=1e-5)
    chosen = nnc.compile(lambda x: nnc.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, x))
    assert chosen(x).tolist() == pytest.approx([0.2, 0.4])
    assert chosen(-x).tolist() == pytest.approx([-1.1, -1.2])


def test_debugging_looks_at_values_of_devices(machine: SimulatedMachine) -> None:
    x = nnc.tensor([1.0, -1.0], device="cuda:1")
    text = io.StringIO()
    with nnc.debug(shapes=True, file=text), pytest.raises(NotFiniteError) as caught:
        nnc.log(x + 0.0)
    assert (
        "nan in 1 of 2 elements of f32[2]@cuda:1, first at [1]; input 0: f32[2]@cuda:1 from -1 to 1" in caught.value.got
    )
    assert "f32[2]@cuda:1 → f32[2]@cuda:1  from -1 to 1" in text.getvalue().splitlines()[0]


def test_elements_are_chosen_by_values_of_a_device(machine: SimulatedMachine) -> None:
    host = np.arange(12, dtype=np.float32).reshape(4, 3)
    x, places, mask = nnc.tensor(host).to(HERE), np.array([2, -1, 0]), host > 4.0
    there, chosen = nnc.tensor(places).to(HERE), nnc.tensor(mask).to(HERE)
    before = machine.driver.counts["download"]
    rows, one, changed = x[there], x[there, 1], x.at[chosen].set(0.0)
    assert machine.driver.counts["download"] == before
    np.testing.assert_array_equal(rows.cpu().numpy(), host[places])
    np.testing.assert_array_equal(one.cpu().numpy(), host[places, 1])
    np.testing.assert_array_equal(changed.cpu().numpy(), np.where(mask, 0.0, host))
    np.testing.assert_array_equal(nnc.take(x, there, axis=0).cpu().numpy(), host[places])
    # How many a mask chooses the host has to know.
    np.testing.assert_array_equal(x[chosen].cpu().numpy(), host[mask])
    with pytest.raises(IndexRangeError):
        x[nnc.tensor([0, 4]).to(HERE)].tolist()


def test_zeros_that_a_device_has_no_memory_for_are_refused_before_the_host_makes_them() -> None:
    with simulated(memory_bytes=1 << 20), pytest.raises(OutOfMemoryError, match="bytes that cuda:0 has"):
        nnc.zeros((1 << 38,), device=HERE)


def test_copies_of_a_value_stay_with_it(machine: SimulatedMachine) -> None:
    x = nnc.tensor([1.0, 2.0]).to(HERE)
    for copied in (nnc.tensor(x), nnc.variable(x), nnc.tensor(x, dtype=nnc.f64)):
        assert copied.device == HERE
        assert copied.tensor.storage is not x.tensor.storage
        assert copied.tolist() == [1.0, 2.0]


def test_functions_that_look_at_values_take_those_of_a_device(machine: SimulatedMachine) -> None:
    host = np.array([3, 1, 3, 0], np.int64)
    x = nnc.tensor(host).to(HERE)
    for ours, theirs in (
        (nnc.unique(x), np.unique(host)),
        (nnc.nonzero(x)[0], np.nonzero(host)[0]),
        (nnc.argwhere(x), np.argwhere(host)),
        (nnc.bincount(x), np.bincount(host)),
        (nnc.mode(x)[0], np.int64(3)),
        (nnc.unique_consecutive(x), host),
        (nnc.repeat(x, x), np.repeat(host, host)),
        (nnc.gcd(x, 6), np.gcd(host, 6)),
        (nnc.delete(x, x), np.delete(host, host)),
    ):
        assert ours.device == HERE
        np.testing.assert_array_equal(ours.cpu().numpy(), theirs)


def test_draws_are_where_what_they_follow_is(machine: SimulatedMachine) -> None:
    x = nnc.tensor([[0.2, 0.3, 0.5]]).to(HERE)
    for drawn in (
        nnc.rand_like(x),
        nnc.randn_like(x),
        nnc.multinomial(x, 2),
        nnc.multinomial(x, 2, replacement=True),
        nnc.random.categorical(x),
        nnc.random.bernoulli(x),
        nnc.random.permutation(x),
        nnc.random.choice(x, (2,)),
        nnc.random.choice(3, (2,), p=x[0], replace=False),
        nnc.random.multivariate_normal(x[0], nnc.eye(3, device=HERE)),
        nnc.bernoulli(x),
        x.clone().uniform_(),
        x.clone().normal_(),
        x.clone().bernoulli_(),
        x.clone().exponential_(),
        nnc.normal((2,), device=HERE),
        nnc.uniform((2,), device=HERE),
    ):
        assert drawn.device == HERE
