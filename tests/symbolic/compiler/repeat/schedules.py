"""Programs of numbers for tests of schedules, and the least work that any schedule of one needs below a peak."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nnc.symbolic.compiler.repeat.schedule import NEVER, Program, Root


def program(reads: Sequence[tuple[Root, ...]], nbytes: Sequence[int], work: Sequence[int] = ()) -> Program:
    """Step i reads these roots and makes root i + 1; root 0 is there from the start, the last one lives to the end."""
    count = len(reads)
    return Program(
        reads=reads,
        again=reads,
        writes=[(step + 1,) for step in range(count)],
        pairs=[()] * count,
        scratch=[0] * count,
        work=work or [1] * count,
        repeatable=[True] * count,
        before=[[root - 1 for root in read if root] for read in reads],
        nbytes=nbytes,
        maker=[NEVER, *range(count)],
        lasting=[False] * count + [True],
        overwritten={},
    )


def simple() -> Program:
    """a = f(x); b = g(a); c = h(b); d = k(c, a)."""
    return program([(0,), (1,), (2,), (3, 1)], [0, 8, 4, 2, 1], [10, 1, 1, 1])


def chain_reads(length: int) -> list[tuple[Root, ...]]:
    """x → a₁ → … → aₙ → loss, then gradients gₙ … g₁ that read the values backwards.

    Roots: 0 is x, 1 … n the values, n + 1 the loss, and then the gradients.
    """
    forward = [(step,) for step in range(length + 1)]
    return [*forward, *((2 * length + 1 - step, step) for step in range(length + 1, 2 * length + 1))]


def chain(length: int) -> Program:
    """A chain in which every value takes one byte and every step one operation."""
    reads = chain_reads(length)
    return program(reads, [1] * (len(reads) + 1))


def random_chain(seed: int, length: int = 4) -> Program:
    """A chain of values of different sizes, and of steps of different work."""
    generator = random.Random(seed)
    reads = chain_reads(length)
    return program(reads, _numbers(generator, len(reads) + 1), _numbers(generator, len(reads)))


def random_program(seed: int, count: int = 8) -> Program:
    """Steps that read the value before, and often some of the earlier ones."""
    generator = random.Random(seed)
    reads = []
    for step in range(count):
        back = generator.sample(range(step + 1), min(generator.choice((0, 0, 1, 2)), step + 1))
        mirror = [max(count - step, 1)] if step > count // 2 else []
        reads.append(tuple(dict.fromkeys((step, *mirror, *back))))
    return program(reads, _numbers(generator, count + 1), _numbers(generator, count))


def _numbers(generator: random.Random, count: int) -> list[int]:
    return [generator.randint(1, 8) for _ in range(count)]


# ---- exact


@dataclass(frozen=True, order=True, slots=True)
class _State:
    """How many steps have run, which values are there, and which of these stay until their last reader has run."""

    done: int
    alive: tuple[Root, ...]
    stay: tuple[Root, ...] = ()


def least_work(program: Program, peak: int) -> int | None:
    """The least work of repeats in any schedule up to a peak, by search over all states; None where there is none."""
    begin = _State(0, tuple(root for root, maker in enumerate(program.maker) if maker == NEVER))
    waiting, best = [(0, begin)], {begin: 0}
    while waiting:
        work, state = heapq.heappop(waiting)
        if state.done == len(program.reads):
            return work
        if work > best[state]:
            continue
        for cost, after in (*_runs(program, state, peak), *_losses(program, state)):
            if work + cost < best.get(after, work + cost + 1):
                best[after] = work + cost
                heapq.heappush(waiting, (work + cost, after))
    return None


def _runs(program: Program, state: _State, peak: int) -> Iterator[tuple[int, _State]]:
    """The next step, or one that has run before."""
    alive = set(state.alive)
    for step in range(state.done + 1):
        again = step < state.done
        read, written = program.again[step] if again else program.reads[step], program.writes[step]
        if not alive.issuperset(read) or (again and alive.issuperset(written)):
            continue
        there = alive.union(written)
        if sum(program.nbytes[root] for root in there) + program.scratch[step] <= peak:
            yield program.work[step] if again else 0, _State(state.done + (not again), tuple(sorted(there)))


def _losses(program: Program, state: _State) -> Iterator[tuple[int, _State]]:
    """Letting go of a value; of one that nothing makes only when no step of the order reads it any more."""
    later = {root for read in program.reads[state.done :] for root in read}
    for root in state.alive:
        if not program.lasting[root] and (program.maker[root] != NEVER or root not in later):
            yield 0, _State(state.done, tuple(one for one in state.alive if one != root))


def peaks(program: Program) -> range:
    """From what the largest step needs to what the order needs when nothing runs again."""
    both = zip(program.reads, program.writes, strict=True)
    least = max(sum(program.nbytes[root] for root in {*read, *written}) for read, written in both)
    last = {root: step for step, read in enumerate(program.reads) for root in read}
    alive = most = 0
    for step, written in enumerate(program.writes):
        alive += sum(program.nbytes[root] for root in written)
        most = max(most, alive + program.nbytes[0])
        alive -= sum(program.nbytes[root] for root in program.reads[step] if last[root] == step and root)
    return range(least, most + 1)
