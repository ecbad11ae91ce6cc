"""Programs whose values are computed again, against lives and bytes worked out by hand."""

from __future__ import annotations

from nnc.symbolic.compile.recompute import descend
from nnc.symbolic.compile.replay import NEVER, Choice, Program, replay


def chain(*, length: int = 4, overwritten: dict[int, tuple[int, ...]] | None = None) -> Program:
    """x → a₁ → … → aₙ → loss, then gradients gₙ … g₁ that read the values backwards: every step makes one root.

    Roots: 0 is x (there from the start), 1 … n the values, n + 1 the loss, and then the gradients.
    """
    forward = [((step,), step + 1) for step in range(length + 1)]
    backward = [((2 * length + 1 - step, step), step + 1) for step in range(length + 1, 2 * length + 1)]
    steps = [*forward, *backward]
    count = len(steps)
    return Program(
        reads=[reads for reads, _ in steps],
        again=[reads for reads, _ in steps],
        writes=[(write,) for _, write in steps],
        pairs=[()] * count,
        scratch=[0] * count,
        work=[1] * count,
        repeatable=[True] * count,
        nbytes=[1] * (count + 1),
        maker=[NEVER, *range(count)],
        lasting=[False] * count + [True],
        overwritten=overwritten or {},
    )


def simple(overwritten: dict[int, tuple[int, ...]] | None = None) -> Program:
    """a = f(x); b = g(a); c = h(b); d = k(c, a)."""
    return Program(
        reads=[(0,), (1,), (2,), (3, 1)],
        again=[(0,), (1,), (2,), (3, 1)],
        writes=[(1,), (2,), (3,), (4,)],
        pairs=[()] * 4,
        scratch=[0] * 4,
        work=[10, 1, 1, 1],
        repeatable=[True] * 4,
        nbytes=[0, 8, 4, 2, 1],
        maker=[NEVER, 0, 1, 2, 3],
        lasting=[False, False, False, False, True],
        overwritten=overwritten or {},
    )


def test_values_live_to_their_last_use() -> None:
    program = simple()
    found = replay(program, program.first_choice())
    assert found is not None
    assert found.steps == [0, 1, 2, 3]
    assert found.during == [8, 8 + 4, 8 + 4 + 2, 8 + 2 + 1]
    assert found.extra == 0


def test_a_value_let_go_of_is_made_again_before_its_next_use() -> None:
    program = simple()
    found = replay(program, Choice(program.first_choice().dropped | {(1, 1)}))
    assert found is not None
    assert found.steps == [0, 1, 2, 0, 3]
    assert found.repeats == [False, False, False, True, False]
    assert found.during == [8, 8 + 4, 4 + 2, 2 + 8, 2 + 8 + 1]
    assert found.extra == 10


def test_what_is_overwritten_cannot_be_read_again() -> None:
    program = simple({2: (0,)})
    assert replay(program, program.first_choice()) is not None
    assert replay(program, Choice(program.first_choice().dropped | {(1, 1)})) is None


def test_a_chain_is_made_again_once_and_stays_until_its_uses() -> None:
    """The gradients read a₄, a₃, a₂, a₁; without a₁ … a₃, all three are made again for the first who reads a₃."""
    program = chain()
    dropped = {(step, step) for step in (1, 2, 3)}
    found = replay(program, Choice(program.first_choice().dropped | dropped))
    assert found is not None
    repeated = [step for step, again in zip(found.steps, found.repeats, strict=True) if again]
    assert repeated == [0, 1, 2]


def test_a_transient_value_is_made_for_each_use() -> None:
    program = chain()
    dropped = frozenset({(step, step) for step in (1, 2, 3)})
    found = replay(program, Choice(program.first_choice().dropped | dropped, dropped))
    assert found is not None
    repeated = [step for step, again in zip(found.steps, found.repeats, strict=True) if again]
    assert repeated == [0, 1, 2, 0, 1, 0]


def test_outputs_that_take_over_memory_are_not_counted_twice() -> None:
    program = simple()
    sharing = Program(
        program.reads,
        program.again,
        program.writes,
        [(), (), ((2, 3),), ()],
        program.scratch,
        program.work,
        program.repeatable,
        [0, 8, 4, 4, 1],
        program.maker,
        program.lasting,
        {},
    )
    found = replay(sharing, sharing.first_choice())
    assert found is not None
    assert found.during == [8, 12, 12, 13]


def test_a_descent_reaches_the_root_of_a_long_chain() -> None:
    """A chain of n values can be run backwards in about 2 √n of them, by checkpoints √n apart (Chen et al. 2016)."""
    length = 64
    points = descend(chain(length=length))
    assert points[0].peak >= length
    assert points[0].extra == 0
    assert [point.peak for point in points] == sorted({point.peak for point in points}, reverse=True)
    once = min(point.peak for point in points if point.extra <= length)
    assert once <= 3 * int(length**0.5)
