"""The work that is interrupted, by phase: what is done, and what the same objects must give afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from tests.concrete.eager import ADDITION, MATRIX_PRODUCT, PRODUCT, noise, room

from nnc import nn, ops
from nnc.backends.llvm.run.engine import engine, made
from nnc.concrete import ConcreteGraph, TuneCache, TuneOptions
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.running.stream import Signal, Stream
from nnc.core.settings import SETTINGS
from nnc.core.values.command import Command
from nnc.dynamic import DynamicGraph, Variable
from nnc.nn.data import Batches, DataSet
from nnc.ops.optimizer.optimizer import SGD, SGDAttrs

Answer = dict[str, bytes]
EXAMPLES, SIZE, EPOCHS = 10, 4, 2


@dataclass(frozen=True, slots=True)
class Case:
    """`work` is interrupted; `answer` then goes on with the same objects, to what they give when nothing happened."""

    work: Callable[[], object]
    answer: Callable[[], Answer]


Phase = Callable[[Random, Path], Case]


def _model(random: Random, backend: str) -> nn.Model:
    layer = nn.Sequential(hidden=nn.Dense(random.randint(3, 40)), act=nn.ReLU(), classes=nn.Dense(2))
    return nn.Model(layer, (3,), optimizer=nn.Adam(nn.Cosine(0.05, 30)), backend=backend)


def _backend(random: Random) -> str:
    return random.choice(("llvm", "llvm", "reference"))


def _batches() -> Batches:
    inputs = np.random.default_rng(0).standard_normal((EXAMPLES, 3)).astype(np.float32)
    return Batches(DataSet("some", inputs, (inputs[:, 0] > 0).astype(np.int32), ("a", "b")), SIZE, seed=2)


def _state(model: nn.Model) -> Answer:
    found = {name: tensor.numpy().tobytes() for name, tensor in {**model.tensors(), **model.states}.items()}
    return found | {"updates": str(model.updates).encode()}


def _trained(model: nn.Model, batches: Batches) -> Answer:
    model.fit(batches, epochs=EPOCHS - batches.state().epoch)
    return _state(model) | {"batches": str(batches.state()).encode()}


def forget_native_code() -> None:
    """As if nothing had been compiled in this process."""
    engine().pool.close()
    engine.cache_clear()
    made.cache_clear()
    DISPATCHER._claims.clear()


def compiling(random: Random, folder: Path) -> Case:
    """A step from its layers to its plan."""
    model, batches = _model(random, _backend(random)), _batches()
    return Case(lambda: model.training_step(SIZE), lambda: _trained(model, batches))


def first_run(random: Random, folder: Path) -> Case:
    """A planned step until it has run: its kernels are made, linked and called."""
    forget_native_code()
    model, (batch, *_) = _model(random, "llvm"), list(_batches())
    step = model.prediction_step(SIZE)
    model.training_step(SIZE)

    def work() -> None:
        step.run(batch.inputs)

    def answer() -> Answer:
        return {"output": step.run(batch.inputs)[0].tobytes()} | _trained(model, _batches())

    return Case(work, answer)


def workers(random: Random, folder: Path) -> Case:
    """A product that wants several workers, where none has been started."""
    SETTINGS.threads = random.randint(2, 4)
    x, y, z = noise(1, 256, 256), noise(2, 256, 256), room(256, 256)
    graph = ConcreteGraph(backend="llvm")
    graph.add(MATRIX_PRODUCT, [x, y, None], [z])
    graph.run()
    engine().pool.close()

    def answer() -> Answer:
        z.numpy()[...] = np.nan
        graph.run()
        return {"z": z.numpy().tobytes()}

    return Case(graph.run, answer)


def tuning(random: Random, folder: Path) -> Case:
    """Measuring the claims of a graph, and keeping them."""
    size = random.randint(2, 24)
    x, y, z, total = noise(1, size, size), noise(2, size, size), room(size, size), room(size, size)
    graph = ConcreteGraph(backend="llvm")
    product = graph.add(MATRIX_PRODUCT, [x, y, None], [z])
    graph.add(ADDITION, [z, x], [total], after=[product])
    cache = TuneCache(folder)
    options = TuneOptions(rounds=1, clock=map(float, range(1_000_000)).__next__, cache=cache)

    def answer() -> Answer:
        graph.autotune(options)
        total.numpy()[...] = np.nan
        graph.run()
        again = TuneCache(folder)
        again.get("")
        # Whichever claim is fastest, these are small integers' sums: exact in any order.
        return {"total": np.round(total.numpy(), 4).tobytes(), "kept": b"yes" if again._entries else b"no"}

    return Case(lambda: graph.autotune(options), answer)


def eager(random: Random, folder: Path) -> Case:
    """A loop of training on variables: commands, gradients, updates, and variables that go."""
    graph = DynamicGraph(backend=_backend(random))
    units = random.randint(2, 9)
    x, target = np.full((4, 3), 0.5, np.float32), np.zeros((4, units), np.float32)
    first = np.linspace(-1.0, 1.0, 3 * units, dtype=np.float32).reshape(3, units)

    def train() -> Answer:
        weight: Variable = graph.variable(first)
        states: list[tuple[Variable, ...]] = [(graph.constant(np.zeros_like(first)),)]
        for _ in range(2):
            error = ops.relu(ops.gemm(graph.constant(x), weight)) - graph.constant(target)
            loss = ops.reduce_mean(error * error)
            gradients = graph.backward([loss], [weight])
            (weight,), states = graph.apply_gradients(
                Command(SGD, SGDAttrs(momentum=0.9)), [weight], gradients, states, [0.1]
            )
        return {"weight": weight.numpy().tobytes()}

    return Case(train, train)


def saving(random: Random, folder: Path) -> Case:
    """A checkpoint over an older one, of which two are kept."""
    model, batches = _model(random, "reference"), _batches()
    path = folder / "model.safetensors"
    model.fit(batches, epochs=1)
    nn.save_checkpoint(path, model, nn.position_of(model, batches))
    older = _state(model)
    model.fit(batches, epochs=2)
    newer = _state(model)
    descriptors = len(os.listdir("/proc/self/fd"))

    def work() -> None:
        nn.save_checkpoint(path, model, nn.position_of(model, batches))

    def answer() -> Answer:
        twin = replace_model(model)
        nn.load_checkpoint(path, twin)
        assert _state(twin) in (older, newer)
        work()
        nn.load_checkpoint(path, twin)
        assert _state(twin) == newer
        assert os.listdir(folder) == [path.name]
        assert len(os.listdir("/proc/self/fd")) == descriptors
        assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()
        return {"file": path.read_bytes()}

    return Case(work, answer)


def replace_model(model: nn.Model) -> nn.Model:
    """Another model of the same layers."""
    return nn.Model(model.layer, model.input_shape, optimizer=model.optimizer, backend=model.backend)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def fitting(random: Random, folder: Path) -> Case:
    """Training, which must end in the bits of one that nobody interrupted."""
    model, batches = _model(random, _backend(random)), _batches()
    for size in (SIZE, EXAMPLES % SIZE):
        model.training_step(size)
    return Case(lambda: model.fit(batches, epochs=EPOCHS), lambda: _trained(model, batches))


def accumulating(random: Random, folder: Path) -> Case:
    """Windows of several batches: statistics, draws and the loss's scale go back with the position, or forward."""
    layer = nn.Sequential(nn.Dense(random.randint(3, 20)), nn.BatchNorm(), nn.Dropout(0.2), nn.Dense(2))
    options = {"loss_scale": nn.LossScale(interval=3)} if random.random() < 0.5 else {}
    model = nn.Model(layer, (3,), optimizer=nn.Adam(0.05), backend=_backend(random), **options)
    batches, window = _batches(), random.choice((2, 3))

    def work() -> None:
        model.fit(batches, epochs=EPOCHS - batches.state().epoch, accumulate=window)

    def answer() -> Answer:
        work()
        passes = {"draws": str(model.draws).encode(), "scaling": str(model.scaling).encode()}
        return _state(model) | passes | {"batches": str(batches.state()).encode()}

    return Case(work, answer)


def streaming(random: Random, folder: Path) -> Case:
    """A graph on several streams, and tasks on a stream of one's own."""
    backend = _backend(random)
    x, graph = noise(1, 8, 8), ConcreteGraph(backend=backend)
    ends = [room(8, 8) for _ in range(4)]
    keys = [graph.add(random.choice((ADDITION, PRODUCT)), [x, x], [end]) for end in ends]
    total = room(8, 8)
    graph.add(ADDITION, [ends[0], ends[3]], [total], after=keys)
    schedule = graph.schedule(streams=3)
    done: list[int] = []
    streams = [Stream("first"), Stream("second")]

    def work() -> None:
        graph.run(schedule=schedule)
        graph.run(streams[0], schedule=schedule)
        streams[0].submit(lambda: done.append(1))
        streams[1].wait(streams[0].emit(Signal("turn")))
        streams[1].submit(lambda: done.append(2))
        for stream in streams:
            stream.drain()
        streams[0].close()

    def answer() -> Answer:
        for stream in streams:
            stream.drain()
        done.clear()
        total.numpy()[...] = np.nan
        work()
        return {"total": total.numpy().tobytes(), "done": bytes(done)}

    return Case(work, answer)


PHASES: Mapping[str, Phase] = {
    "compile": compiling,
    "first run": first_run,
    "workers": workers,
    "autotune": tuning,
    "eager": eager,
    "saving": saving,
    "fit": fitting,
    "accumulate": accumulating,
    "streams": streaming,
}
