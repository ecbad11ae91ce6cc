"""nnc train cartpole: balance a pole on a cart (Barto et al. 1983) by proximal policy optimization (Schulman 2017).

x'' = p - m l θ'' cos θ / M,  θ'' = (g sin θ - p cos θ) / (l (4/3 - m cos² θ / M)),  p = (F + m l θ'² sin θ) / M
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.cli.recipe import Arguments, Blueprint, Facts, Ink, Measure, Questions, Recipe, TrainingTask
from nnc.cli.terminal import Json
from nnc.errors import DataError
from nnc.nn import Dense, Evaluation, Model, PointwiseLoss, Sequential, Tanh
from nnc.nn.data import Batch, BatchState
from nnc.nn.data.batches import epoch_order
from nnc.nn.layers.layer import T
from nnc.ops import (
    add,
    affine,
    clamp,
    exp,
    log_softmax,
    minimum,
    multiply,
    reduce_sum,
    reshape,
    slice_axis,
    square,
    subtract,
)

# The system: force, gravity, masses of cart and pole, half the pole's length, seconds of a step.
FORCE, GRAVITY, CART, POLE, HALF, SECONDS = 10.0, 9.8, 1.0, 0.1, 0.5, 0.02
FARTHEST, STEEPEST, LONGEST = 2.4, np.deg2rad(12), 500
# An epoch: this many carts at once, this many steps of each, learned from this many times.
CARTS, STEPS, PASSES = 8, 256, 4
DISCOUNT, DECAY, CLIP, ENTROPY = 0.99, 0.95, 0.2, 0.01
# What the network gives for a state is worth so many steps: near 1, as its weights are when it begins.
WORTH = 100.0
TESTS = 20

Array = NDArray[np.float64]


class CartPole:
    """`count` carts: states[count, (x, x', θ, θ')], pushed left (0) or right (1)."""

    def __init__(self, count: int, random: np.random.Generator) -> None:
        self.random = random
        self.states = self._fresh(count)
        self.ages = np.zeros(count, np.int64)

    def _fresh(self, count: int) -> Array:
        return self.random.uniform(-0.05, 0.05, (count, 4))

    def step(self, actions: NDArray[np.integer]) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Array]:
        """One step: which carts fell, which have stood long enough, and the states before those begin anew."""
        x, speed, angle, turn = self.states.T
        mass, sine, cosine = CART + POLE, np.sin(angle), np.cos(angle)
        push = (np.where(actions == 1, FORCE, -FORCE) + POLE * HALF * turn**2 * sine) / mass
        bend = (GRAVITY * sine - cosine * push) / (HALF * (4 / 3 - POLE * cosine**2 / mass))
        pull = push - POLE * HALF * bend * cosine / mass
        after = np.stack(
            [x + SECONDS * speed, speed + SECONDS * pull, angle + SECONDS * turn, turn + SECONDS * bend], 1
        )
        self.ages += 1
        fell = (np.abs(after[:, 0]) > FARTHEST) | (np.abs(after[:, 2]) > STEEPEST)
        stood = ~fell & (self.ages >= LONGEST)
        self.states = np.where((fell | stood)[:, None], self._fresh(len(after)), after)
        self.ages[fell | stood] = 0
        return fell, stood, after


@dataclass(frozen=True, slots=True)
class PolicyLoss(PointwiseLoss):
    """-min(r A, clip(r, 1 ± 0.2) A) + (v - R)² / 2 - 0.01 H, r = π(a) / π_old(a).

    Outputs are two logits and the value v, targets one-hot a[2], the advantage A, the return R and ln π_old(a).
    """

    def target_shape(self, output: tuple[int, ...]) -> tuple[int, ...]:
        """Five numbers for each step."""
        return (*output[:-1], 5)

    def each(self, output: T, target: T) -> T:
        """The loss of each step."""
        logs = log_softmax(slice_axis(output, 1, 0, 2))
        value, advantage, returned, old = (
            reshape(slice_axis(source, 1, place, place + 1), source.shape[:1])
            for source, place in ((output, 2), (target, 2), (target, 3), (target, 4))
        )
        ratio = exp(subtract(reduce_sum(multiply(logs, slice_axis(target, 1, 0, 2)), (1,)), old))
        gain = minimum(multiply(ratio, advantage), multiply(clamp(ratio, 1 - CLIP, 1 + CLIP), advantage))
        entropy = affine(reduce_sum(multiply(exp(logs), logs), (1,)), ENTROPY)
        return add(subtract(entropy, gain), affine(square(subtract(value, returned)), 0.5))


class Rollouts:
    """What the model itself lives through, as batches: each epoch is played by the model that begins it.

    So an epoch can be taken up at its beginning only: `TrainingTask.whole_epochs`.
    """

    size = 1

    def __init__(self, model: Model, batch_size: int, seed: int) -> None:
        self.model, self.batch_size = model, batch_size
        self._state = BatchState(seed)
        self._played: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
        self._order = np.empty(0, np.int64)

    def __len__(self) -> int:
        return -(-CARTS * STEPS * PASSES // self.batch_size)

    def state(self) -> BatchState:
        """Seed, epoch, and batches done in it."""
        return self._state

    def restore(self, state: BatchState) -> None:
        """Go on at the beginning of an epoch."""
        if state.position:
            raise DataError("cartpole", got=str(state), need="the beginning of an epoch")
        self._state, self._played = state, None

    def next_batch(self) -> Batch:
        """A part of what was played."""
        if self._played is None:
            self._play()
        assert self._played is not None
        start = self._state.position * self.batch_size
        rows = self._order[start : start + self.batch_size] % (CARTS * STEPS)
        inputs, targets = self._played
        return Batch(inputs[rows], targets[rows], len(rows))

    def advance(self) -> None:
        """Go on to the batch behind it."""
        state = self._state
        if state.position + 1 < len(self):
            self._state = BatchState(state.seed, state.epoch, state.position + 1)
        else:
            self._state, self._played = BatchState(state.seed, state.epoch + 1), None

    def close(self) -> None:
        """Nothing works ahead here."""

    def _play(self) -> None:
        keyed = np.random.SeedSequence(self._state.seed, spawn_key=(self._state.epoch, 1))
        self._played = played(self.model, np.random.Generator(np.random.PCG64(keyed)))
        self._order = epoch_order(self._state.seed, self._state.epoch, CARTS * STEPS * PASSES)


def played(model: Model, random: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """States and targets of an epoch, with advantages by generalized estimation (Schulman 2016)."""
    carts = CartPole(CARTS, random)
    states, chosen = np.empty((STEPS, CARTS, 4)), np.empty((STEPS, CARTS), np.int64)
    values, logs, changes = (np.zeros((STEPS + 1, CARTS)) for _ in range(3))
    kept = np.ones((STEPS, CARTS))
    for step in range(STEPS):
        states[step] = carts.states
        chances, values[step] = judged(model, carts.states)
        chosen[step] = random.random(CARTS) < np.exp(chances[:, 1])
        logs[step] = np.take_along_axis(chances, chosen[step][:, None], 1)[:, 0]
        fell, stood, after = carts.step(chosen[step])
        ended = fell | stood
        kept[step] = ~ended
        # Who has stood long enough would have stood on: what comes behind is estimated, and not nothing.
        changes[step] = 1.0 + DISCOUNT * np.where(stood, judged(model, after)[1] if stood.any() else 0.0, 0.0)
    values[STEPS] = judged(model, carts.states)[1]
    advantages = np.zeros((STEPS + 1, CARTS))
    for step in reversed(range(STEPS)):
        change = changes[step] + DISCOUNT * kept[step] * values[step + 1] - values[step]
        advantages[step] = change + DISCOUNT * DECAY * kept[step] * advantages[step + 1]
    gains = advantages[:STEPS]
    even = (gains - gains.mean()) / (gains.std() + 1e-8)
    targets = np.stack([chosen == 0, chosen == 1, even, (gains + values[:STEPS]) / WORTH, logs[:STEPS]], 2)
    return states.reshape(-1, 4).astype(np.float32), targets.reshape(-1, 5).astype(np.float32)


def judged(model: Model, states: Array) -> tuple[Array, Array]:
    """ln π[n, 2] and what each state is worth, in steps that are discounted."""
    outputs = model.predict(states.astype(np.float32)).astype(np.float64)
    logits = outputs[:, :2] - outputs[:, :2].max(1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(1, keepdims=True)), outputs[:, 2] * WORTH


def lasted(model: Model, seeds: Sequence[int]) -> list[int]:
    """The steps that the better action keeps each pole up, from where each seed begins, 500 at most."""
    starts = [CartPole(1, np.random.default_rng(seed)).states for seed in seeds]
    carts = CartPole(len(seeds), np.random.default_rng(0))
    carts.states = np.concatenate(starts)
    steps = np.full(len(seeds), LONGEST)
    for step in range(1, LONGEST + 1):
        fell, _, _ = carts.step(judged(model, carts.states)[0].argmax(1))
        steps[fell & (steps == LONGEST)] = step
    return steps.tolist()


@dataclass(frozen=True, slots=True)
class EpisodeAnswer:
    """How long the pole stood."""

    index: int
    steps: int

    def facts(self) -> dict[str, Json]:
        """The entry of --json."""
        return {"index": self.index, "steps": self.steps}

    def lines(self, ink: Ink) -> list[str]:
        """`episode 3: 500 of 500 steps ██████`"""
        return [
            f"episode {self.index}: {self.steps} of {LONGEST} steps {ink.bar * (self.steps * 24 // LONGEST)}".rstrip()
        ]


def task(arguments: Arguments) -> TrainingTask:
    """Played by the model itself."""

    def evaluate(model: Model, batch_size: int | None) -> Evaluation:
        return Evaluation(float("nan"), float(np.mean(lasted(model, range(TESTS)))), TESTS)

    measure = Measure("steps", f"{{:.1f}} of {LONGEST}")
    return TrainingTask({}, CARTS * STEPS * PASSES, Rollouts, evaluate, measure, whole_epochs=True)


def network(facts: Facts) -> Blueprint:
    """Two logits and a value, of two hidden layers."""
    layer = Sequential(hidden1=Dense(64), tanh1=Tanh(), hidden2=Dense(64), tanh2=Tanh(), answer=Dense(3))
    return Blueprint(layer, (4,), PolicyLoss())


def answers(model: Model, facts: Facts, questions: Questions) -> Sequence[EpisodeAnswer]:
    """Episodes by their numbers, the first three unless told."""
    indices = questions.indices or tuple(range(3))
    return [EpisodeAnswer(index, steps) for index, steps in zip(indices, lasted(model, indices), strict=True)]


CARTPOLE = Recipe(
    "a pole that is kept up on a cart, by proximal policy optimization",
    task,
    network,
    answers,
    epochs=40,
    batch_size=256,
    rate=1e-3,
    last_rate=1e-5,
    falling=40,
    decay=0.0,
    clip_norm=0.5,
    asked="indices",
)
