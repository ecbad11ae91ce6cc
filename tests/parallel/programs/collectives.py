"""Run by several ranks: every operation against what NumPy makes of all inputs."""

import numpy as np

import nnc
from nnc import parallel
from nnc.errors import DisagreementError

ranks = parallel.world()
rank, size = ranks.rank, ranks.size


def inputs(shape, seed=0):
    """What each rank gives, known to all."""
    return [np.random.default_rng((seed, each)).standard_normal(shape).astype(np.float32) for each in range(size)]


def in_order(arrays):
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    return total


for shape in ((), (3,), (size, 7), (50_001,)):
    given = inputs(shape)
    own = given[rank]
    assert np.array_equal(ranks.allreduce(own), in_order(given)), shape
    assert np.array_equal(ranks.allreduce(own, "max"), np.max(given, axis=0))
    assert np.array_equal(ranks.broadcast(own, size - 1), given[-1])
    assert np.array_equal(ranks.shift(own), given[rank - 1])
    assert np.array_equal(ranks.send(own, 0, size - 1), given[0] if rank == size - 1 else np.zeros(shape))
    assert np.array_equal(ranks.send(own, 1, 1), own if rank == 1 else np.zeros(shape))
    assert np.array_equal(ranks.reduce(own, 1), in_order(given) if rank == 1 else np.zeros(shape))
rows = inputs((size * 4, 5), seed=1)
mine = slice(4 * rank, 4 * rank + 4)
assert np.array_equal(ranks.reduce_scatter(rows[rank]), in_order(rows)[mine])
assert np.array_equal(ranks.all_gather(rows[rank]), np.concatenate(rows))
assert np.array_equal(ranks.all_to_all(rows[rank]), np.concatenate([each[mine] for each in rows]))
transposed = np.asfortranarray(rows[rank])
assert np.array_equal(ranks.allreduce(transposed), in_order(rows))
assert ranks.any(asked=rank == 1)
assert not ranks.any(asked=False)

# As operators: eager, compiled, and gradients of the sum of all ranks' losses.
x = nnc.variable(np.full(4, rank + 1.0, np.float32))
total = size * (size + 1) / 2
slope = nnc.grad(lambda x: (parallel.allreduce(x) ** 2.0).sum())(x)
assert np.allclose(slope.numpy(), 2 * size * total)
assert np.allclose(nnc.compile(lambda x: parallel.allreduce(x, "mean"))(x).numpy(), total / size)
gathered = nnc.grad(lambda x: (parallel.all_gather(x) * (rank + 1.0)).sum())(x)
assert np.allclose(gathered.numpy(), total)
back = nnc.grad(lambda x: (parallel.shift(x) * (rank + 1.0)).sum())(x)
assert np.allclose(back.numpy(), (rank + 1) % size + 1)
sent = nnc.compile(nnc.grad(lambda x, factor: (parallel.send(x, 0, 1) * factor).sum()))
assert np.allclose(sent(x, nnc.variable(np.float32(rank + 1))).numpy(), 2.0 if rank == 0 else 0.0)

# Halves of one function, each on its rank, alone and compiled; other ranks do something else.
like, weight = nnc.variable(np.zeros(4, np.float32)), nnc.variable(np.float32(3.0))
if rank == 0:
    first = nnc.grad(lambda x: parallel.send(nnc.sin(x), 0, 1, 7).sum())
    for half in (first, nnc.compile(first)):
        assert np.allclose(half(x).numpy(), 18.0 * np.sin(1.0) * np.cos(1.0))
    ranks.send_to(np.arange(6).reshape(2, 3), 1, 0)
elif rank == 1:
    second = nnc.grad(lambda w, like: ((parallel.receive(like, 0, 7) * w) ** 2.0).sum(), (0, 1))
    for half in (second, nnc.compile(second)):
        own, none = half(weight, like)
        assert np.allclose(own.numpy(), 24.0 * np.sin(1.0) ** 2)
        assert not none.numpy().any()
    assert ranks.receive(0).tolist() == [[0, 1, 2], [3, 4, 5]]
rooted = nnc.grad(lambda x: (parallel.broadcast(x, 1) * (rank + 1.0)).sum())(x)
assert np.allclose(rooted.numpy(), total if rank == 1 else 0.0)
assert nnc.grad(lambda x: (parallel.reduce(x, 1) ** 2.0).sum())(x).shape == (4,)

assert parallel.joined(parallel.Mesh(data=size).group("data")).size == size
assert parallel.joined(parallel.Mesh(data=size).group("pipe")).size == 1
# Ranks that import pytest take a third of a second longer, each.
told = ""
try:
    ranks.agree("seed", str(rank))
except DisagreementError as error:
    told = str(error)
assert "'0' on rank 0, '1' on rank" in told
ranks.barrier()
# One rank alone: mpiexec may put the lines of several into each other.
if rank == 0:
    print(f"{size} ranks are done")
