"""Models, files and functions in one arena: one storage, one limit, one statement, the results of each alone."""

from __future__ import annotations

import copy
import gc
import pickle
import threading

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.dynamic.transforms.compilation import CompiledFunction
from nnc.errors import ArgumentError, MemoryLimitError, UsageError
from nnc.symbolic.compiler import Arena

X = np.linspace(-1.0, 1.0, 4 * 64, dtype=np.float32).reshape(4, 64)


def network(width: int) -> nn.Sequential:
    return nn.Sequential([nn.Dense(width), nn.ReLU(), nn.Dense(width), nn.ReLU(), nn.Dense(3)])


def model(width: int, arena: Arena | None = None) -> nn.Model:
    return nn.Model(network(width), (64,), optimizer=nn.SGD(0.1), loss=nn.SoftmaxCrossEntropy(), arena=arena)


def function(arena: Arena | None = None) -> CompiledFunction[..., nnc.Variable]:
    return nnc.compile(lambda x: nnc.tanh(nnc.exp(x) @ x.T).sum(), arena=arena)


def test_members_have_one_storage_of_the_largest_need_and_the_results_of_each_alone() -> None:
    shared = nnc.arena()
    small, large, call = model(32, shared), model(256, shared), function(shared)
    wants = [model(32).predict(X), model(256).predict(X), np.asarray(function()(X))]
    for _ in range(2):
        for got, want in zip((small.predict(X), large.predict(X), np.asarray(call(X))), wants, strict=True):
            np.testing.assert_array_equal(got, want)
    memory = shared.memory()
    assert len(memory.members) == 3
    assert memory.arena == shared.nbytes == shared.taken == max(member.arena for member in memory.members)
    assert memory.arena == large.memory(4, "predict").step.arena < memory.apart
    assert [member.name for member in memory.members].count("Sequential") == 2


def test_training_in_turns_gives_the_same_bits() -> None:
    shared = nnc.arena()
    labels = np.int32([0, 1, 2, 0])
    members, alone = [model(32, shared), model(256, shared)], [model(32), model(256)]
    for _ in range(3):
        for one, other in zip(members, alone, strict=True):
            assert one.train_on_batch(X, labels) == other.train_on_batch(X, labels)
    for one, other in zip(members, alone, strict=True):
        for path, tensor in one.tensors().items():
            np.testing.assert_array_equal(tensor.numpy(), other.tensors()[path].numpy())


def test_threads_take_turns() -> None:
    shared = nnc.arena()
    members = [model(32, shared), model(256, shared)]
    wants = [member.predict(X) for member in members]
    wrong: list[int] = []

    def work(place: int) -> None:
        for _ in range(50):
            if not np.array_equal(members[place].predict(X), wants[place]):
                wrong.append(place)

    threads = [threading.Thread(target=work, args=(place,)) for place in (0, 1, 0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_joint_statement_is_known_before_anything_is_allocated_and_below_the_sum() -> None:
    shared = nnc.arena(limit="1MB")
    first, second = model(32, shared), model(256, shared)
    apart = [member.memory(8, "predict").process for member in (first, second)]
    memory = shared.memory()
    assert shared.taken == 0
    assert memory.arena == second.memory(8, "predict").step.arena
    assert memory.bound == sum(member.memory(8, "predict").weights for member in (first, second))
    assert memory.process < sum(apart)
    assert f"arena {memory.arena} B of at most 1000000 B for 2 members" in str(memory)
    assert f"about {memory.process} B" in str(memory)


def test_all_members_are_fitted_to_the_limit() -> None:
    deep = nn.Sequential([nn.Dense(64, activation="tanh") for _ in range(12)] + [nn.Dense(3)])
    limit = nn.Model(deep, (64,), loss=nn.SoftmaxCrossEntropy()).memory(512).step.arena * 8 // 10
    within = nn.Model(deep, (64,), loss=nn.SoftmaxCrossEntropy(), arena=nnc.arena(limit=limit))
    assert within.memory(512).step.arena <= limit
    assert within.memory(512).budget is not None
    assert within.memory_limit == limit
    shared = nnc.arena(limit=limit)
    assert model(8, nnc.arena(limit=10**9)).memory_limit == 10**9
    tight = nn.Model(network(8), (64,), memory_limit=1000, arena=shared)
    assert tight.memory_limit == 1000
    tiny = nnc.arena(limit=64)
    with pytest.raises(MemoryLimitError, match="64"):
        model(256, tiny).predict(X)
    with pytest.raises(MemoryLimitError):
        function(tiny)(X)


def test_a_limit_that_is_lifted_by_hand_still_holds_for_the_arena() -> None:
    shared = nnc.arena(limit=64)
    freed = model(256, shared)
    freed.memory_limit = None
    with pytest.raises(MemoryLimitError, match=r"arena: got an arena of \d+ bytes; need at most 64"):
        freed.predict(X)
    assert shared.nbytes == 0


def test_wrong_arguments_are_told() -> None:
    with pytest.raises(UsageError, match="memory_limit"):
        nnc.arena(limit="much")
    with pytest.raises(UsageError, match="by device"):
        nn.Model(network(8), (64,), memory_limit={"cpu": 1000}, arena=nnc.arena(limit=1000))
    with pytest.raises(ArgumentError, match="arena"):
        nn.Model(network(8), (64,), arena="shared")  # type: ignore[arg-type]


def test_copies_share_the_arena_and_what_is_unpickled_has_another_of_the_same_limit() -> None:
    shared = nnc.arena(limit="1MB")
    first = model(32, shared)
    want = first.predict(X)
    for again in (copy.copy(first), copy.deepcopy(first), first.share()):
        assert again.arena is shared
        np.testing.assert_array_equal(again.predict(X), want)
    one, two = pickle.loads(pickle.dumps((first, model(8, shared))))
    assert one.arena is two.arena is not shared
    assert one.arena.limit == 10**6
    np.testing.assert_array_equal(one.predict(X), want)


def test_what_a_member_needed_goes_with_it() -> None:
    shared = nnc.arena()
    small, large = model(32, shared), model(256, shared)
    large.predict(X)
    most = shared.nbytes
    del large
    gc.collect()
    small.predict(X)
    assert shared.nbytes == shared.memory().arena < most
    assert len(shared.memory().members) == 1


def test_a_frozen_step_is_a_member_of_its_own() -> None:
    shared = nnc.arena()
    first = model(32, shared)
    step = first.freeze(4)
    np.testing.assert_allclose(step.run(X)[0], first.predict(X), rtol=1e-6)
    assert sorted(member.name for member in shared.memory().members) == ["Sequential", "frozen step"]
    assert shared.memory().bound == 2 * first.memory(4, "predict").weights


def test_an_onnx_file_and_a_model_in_one_arena(tmp_path: object) -> None:
    pytest.importorskip("onnx")
    nnc.onnx.save(model(256), f"{tmp_path}/net.onnx")
    shared = nnc.arena(limit="1MB")
    file, other = nnc.onnx.load(f"{tmp_path}/net.onnx", arena=shared), model(32, shared)
    want, kept = nnc.onnx.load(f"{tmp_path}/net.onnx").run({"x": X}), other.predict(X)
    for again in (file, copy.copy(file)):
        for name, array in again.run({"x": X}).items():
            np.testing.assert_array_equal(array, want[name])
    np.testing.assert_array_equal(other.predict(X), kept)
    assert len(shared.memory().members) >= 2
    with pytest.raises(MemoryLimitError):
        nnc.onnx.load(f"{tmp_path}/net.onnx", arena=nnc.arena(limit=64)).run({"x": X})


def test_memory_for_a_program_has_its_size_whatever_others_fit_meanwhile() -> None:
    shared, owner = nnc.arena(), model(32)
    shared.reserve({"cpu": 4096})
    # As a thread does that plans a program between the reservation and the layout of another one.
    shared.fit(owner, ())
    storages = shared.allocate({"cpu": 4096})
    assert storages["cpu"].nbytes == shared.nbytes == 4096
    assert shared.allocate({"cpu": 64}) is storages
