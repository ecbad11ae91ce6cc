"""Tapes: memory for each iteration, numbers for each node, loops and branches that run backwards."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.concrete.eager import PRODUCT, affine, graph, number, room, rooms, tensor

from nnc.concrete import (
    Carry,
    ConcreteGraph,
    CountBelow,
    Phi,
    Recalled,
    Tape,
    TapeAccess,
    Taped,
    TapedChoice,
)
from nnc.concrete.body import ExecKey
from nnc.concrete.counter import Counter
from nnc.core.values.tensor import Tensor
from nnc.errors import UsageError


def nested_counters() -> tuple[Counter, Counter]:
    """A loop within a loop."""
    outer, inner = Counter("outer"), Counter("inner")
    outer.parent, inner.parent = Counter("root"), outer
    outer.is_loop = inner.is_loop = True
    return outer, inner


def test_each_pair_of_counts_has_memory_of_its_own() -> None:
    outer, inner = nested_counters()
    tape, taped = Tape(), Taped(room(1))
    access = TapeAccess(tape)
    places = [(i, j) for i in range(2) for j in range(3)]
    for i, j in places:
        outer.move(i)
        inner.move(j)
        access.write(taped, inner.index()).copy_from([10.0 * i + j])
    assert tape.nbytes == 6 * 4
    for i, j in places:
        outer.move(i)
        inner.move(j)
        assert number(access.read(taped, inner.index())) == 10.0 * i + j
    assert number(access.read(taped, (0,))) == 2.0
    assert number(access.read(taped, ())) == 12.0
    assert access.read(taped, (5, 5)) is taped.inner


def test_memory_is_used_again_by_the_next_run() -> None:
    tape, taped = Tape(), Taped(room(1))
    first = TapeAccess(tape).write(taped, (0,))
    assert TapeAccess(tape).write(taped, (0,)) is first
    tape.clear()
    assert tape.nbytes == 0
    assert TapeAccess(tape).write(taped, (0,)) is not first


def test_what_an_outer_iteration_wrote_is_seen_within() -> None:
    tape, taped = Tape(), Taped(room(1))
    written = TapeAccess(tape).write(taped, (3,))
    assert TapeAccess(tape).read(taped, (3, 5)) is written
    assert TapeAccess(tape).read(taped, (4, 5)) is taped.inner


def test_without_a_tape_a_taped_place_is_its_own_memory() -> None:
    memory = room(1)
    taped = Taped(memory)
    assert TapeAccess().write(taped, (1,)) is memory
    assert TapeAccess().read(taped, (1,)) is memory
    with pytest.raises(UsageError, match="without a tape"):
        TapeAccess().read(Recalled(taped), (1,))


def test_recalled_is_what_was_read() -> None:
    tape, carry = Tape(), Carry(room(1))
    taped = Taped(carry)
    seen = []
    for count in range(3):
        seen.append(TapeAccess(tape).read(taped, (count,)))
        carry.touch(room(1))
    assert all(TapeAccess(tape).read(Recalled(taped), (count,)) is seen[count] for count in range(3))
    assert TapeAccess(tape).read(Recalled(Taped(carry)), ()) is carry.current


def test_numbers_of_nested_nodes() -> None:
    outer, inner = nested_counters()
    tape = Tape()
    for i in range(2):
        outer.move(i)
        tape.set_number((outer, 7), outer.index(), 100 + i)
        for j in range(3):
            inner.move(j)
            tape.set_number((inner, 7), inner.index(), 10 * i + j)
    assert [tape.number((outer, 7), (i,)) for i in range(2)] == [100, 101]
    assert [tape.number((inner, 7), (i, j)) for i in range(2) for j in range(3)] == [0, 1, 2, 10, 11, 12]
    with pytest.raises(UsageError, match="nothing about node %7"):
        tape.number((inner, 7), (9, 9))


def test_a_loop_runs_backwards_as_often_as_forwards() -> None:
    """y = x · 1.11⁵, so dy/dx = 1.11⁵, whatever the count was."""
    x, factor, one = tensor([1.0]), tensor([1.11]), tensor([1.0])
    forward, body = graph(), graph()
    carried, y = Carry(x), body.multiview(rooms(2, 1))
    body.add(PRODUCT, [carried, factor], [y])
    body.carry_over(y, carried)
    limit = [5]
    loop = forward.while_loop(body, lambda count: int(count.numpy()) < limit[0], inputs=[body.count])
    backward, mirror = graph(), graph()
    gradient_in, gradient_out = Carry(one), mirror.multiview(rooms(2, 1))
    mirror.add(PRODUCT, [gradient_in, factor], [gradient_out])
    mirror.carry_over(gradient_out, gradient_in)
    back = backward.while_loop(mirror, forward=forward.node(loop))
    result = room(1)
    backward.add(affine(1.0), [gradient_out], [result], after=[back])
    tape = Tape()
    for count in (5, 3, 6):
        limit[0] = count
        forward.run(tape=tape)
        backward.run(tape=tape)
        assert number(result) == pytest.approx(1.11**count, rel=1e-6)


def squares(limit: int) -> tuple[ConcreteGraph, Tensor, Taped, Taped, ExecKey]:
    """x ← x², with what each iteration read and wrote on the tape; the test is at the end of the body."""
    x = room(1)
    root, body = graph(), graph()
    carried = Carry(x)
    source, target = Taped(carried), Taped(room(1))
    work = body.add(PRODUCT, [source, source], [target])
    body.carry_over(target, carried)
    loop = root.while_loop(body, CountBelow(limit), breakpoints=[work])
    return root, x, source, target, loop


def test_values_of_all_iterations_are_recalled() -> None:
    """y = x^(2^n): each backward step multiplies by twice what that iteration had read."""
    forward, x, source, target, loop = squares(2)
    last = room(1)
    forward.add(affine(1.0), [target], [last], after=[loop])
    backward, mirror = graph(), graph()
    seed, product = tensor([1.0]), room(1)
    gradient, scaled = Carry(seed), mirror.multiview(rooms(2, 1))
    first = mirror.add_noop()
    second = mirror.add(PRODUCT, [gradient, Recalled(source)], [product], after=[first])
    mirror.add(affine(2.0), [product], [scaled], after=[second])
    mirror.carry_over(scaled, gradient)
    mirror.set_while(None, breakpoints=[first])
    back = backward.while_loop(mirror, forward=forward.node(loop))
    result = room(1)
    backward.add(affine(1.0), [scaled], [result], after=[back])
    tape = Tape()
    for value in (1.1, 0.9, 1.3):
        x.copy_from([value])
        forward.run(tape=tape)
        backward.run(tape=tape)
        assert number(last) == pytest.approx(value**8, rel=1e-5)
        assert number(result) == pytest.approx(8 * value**7, rel=1e-5)


def test_the_count_goes_down_in_a_backward_loop() -> None:
    forward, x, _, _, loop = squares(3)
    x.copy_from([1.0])
    backward, mirror = graph(), graph()
    seen: list[tuple[str, int]] = []

    def note(name: str) -> Callable[[Tensor], int]:
        def look(count: Tensor) -> int:
            seen.append((name, int(count.numpy())))
            return -1

        return look

    upto = mirror.add_noop()
    for name, after in (("before", ()), ("rest", (upto,))):
        look = mirror.case_of(note(name), inputs=[mirror.count], after=after)
        if not after:
            mirror.connect(look, upto)
    mirror.set_while(None, breakpoints=[upto])
    backward.while_loop(mirror, forward=forward.node(loop))
    tape = Tape()
    forward.run(tape=tape)
    backward.run(tape=tape)
    assert seen == [("rest", 3), *((name, count) for count in (2, 1, 0) for name in ("before", "rest"))]


def test_a_branch_is_recalled() -> None:
    """f(x) = 0 | x | 0.5 x + 0.5 | 1.5 by pieces, so f' = 0 | 1 | 0.5 | 0, again and again on one tape."""
    x, output, one = room(1), room(1), tensor([1.0])
    forward, backward = graph(), graph()
    y, dy = Phi(x, output), room(1)

    def piece(tensor: Tensor) -> int:
        value = number(tensor)
        return 0 if value < 0 else -1 if value < 1 else 1 if value < 2 else 2

    key = forward.case_of(piece, inputs=[x], outputs=[y])
    dx = Phi(one, dy)
    back = backward.case_of(TapedChoice(forward.node(key)), outputs=[dx])
    rows = ((affine(0.0), affine(0.0)), (affine(0.5, 0.5), affine(0.5)), (affine(0.0, 1.5), affine(0.0)))
    for index, (forwards, slope) in enumerate(rows):
        there, here = graph(), graph()
        there.add(forwards, [x], [output])
        here.add(slope, [one], [dy])
        forward.set_case(key, index, there)
        backward.set_case(back, index, here)
    result = room(1)
    backward.add(affine(1.0), [dx], [result], after=[back])
    tape = Tape()
    for _ in range(2):
        for value, expected in ((-1.0, 0.0), (0.76, 1.0), (1.226, 0.5), (2.1, 0.0)):
            x.copy_from([value])
            forward.run(tape=tape)
            backward.run(tape=tape)
            assert number(result) == expected


def test_branches_within_a_backward_loop_are_recalled_by_iteration() -> None:
    """Doubling in even iterations and adding one in odd ones: only the former change the gradient."""
    x, one = tensor([1.0]), tensor([1.0])
    forward, body = graph(), graph()
    carried, spare = Carry(x), body.multiview(rooms(2, 1))
    y = Phi(carried, spare)
    case = body.case_of(lambda count: int(count.numpy()) % 2, inputs=[body.count], outputs=[y])
    backward, mirror = graph(), graph()
    gradient, other = Carry(one), mirror.multiview(rooms(2, 1))
    dy = Phi(gradient, other)
    back = mirror.case_of(TapedChoice(body.node(case)), outputs=[dy])
    for index, (value, slope) in enumerate(((affine(2.0), affine(2.0)), (affine(1.0, 1.0), affine(1.0)))):
        there, here = graph(), graph()
        there.add(value, [carried], [spare])
        here.add(slope, [gradient], [other])
        body.set_case(case, index, there)
        mirror.set_case(back, index, here)
    body.carry_over(y, carried)
    mirror.carry_over(dy, gradient)
    loop = forward.while_loop(body, CountBelow(5))
    backward.while_loop(mirror, forward=forward.node(loop))
    tape = Tape()
    forward.run(tape=tape)
    backward.run(tape=tape)
    assert carried.current is not None
    assert gradient.current is not None
    assert (number(carried.current), number(gradient.current)) == (((1 * 2 + 1) * 2 + 1) * 2.0, 8.0)
    assert [tape.number(body.node(case), (count,)) for count in range(5)] == [0, 1, 0, 1, 0]


def test_a_backward_run_needs_the_tape_of_a_forward_run() -> None:
    forward, body, backward, mirror = graph(), graph(), graph(), graph()
    loop = forward.while_loop(body, CountBelow(1))
    backward.while_loop(mirror, forward=forward.node(loop))
    with pytest.raises(UsageError, match="without a tape"):
        backward.run()
    with pytest.raises(UsageError, match="a forward run along the same tape first"):
        backward.run(tape=Tape())
    choosing = graph()
    choosing.case_of(TapedChoice(forward.node(loop)))
    with pytest.raises(UsageError, match="without a tape"):
        choosing.run()


def test_a_tape_changes_no_result() -> None:
    values = []
    for tape in (None, Tape()):
        forward, x, _, target, loop = squares(2)
        x.copy_from([1.1])
        last = room(1)
        forward.add(affine(1.0), [target], [last], after=[loop])
        forward.run(tape=tape)
        values.append(number(last))
    assert values[0] == pytest.approx(1.1**8, rel=1e-6)
    assert np.float32(values[0]) == np.float32(values[1])


def test_a_loop_of_no_iterations_leaves_nothing_of_the_run_before() -> None:
    x, limit = tensor([3.0]), [2]
    root, body = graph(), graph()
    carried = Carry(x)
    unwritten = tensor([-1.0])
    target = Taped(unwritten)
    body.add(PRODUCT, [carried, carried], [target])
    body.carry_over(target, carried)
    loop = root.while_loop(body, lambda count: int(count.numpy()) < limit[0], inputs=[body.count])
    last = room(1)
    root.add(affine(1.0), [target], [last], after=[loop])
    tape, found = Tape(), []
    for count in (2, 0, 1, 0, 3):
        limit[0] = count
        root.run(tape=tape)
        found.append(number(last))
    assert found == [81.0, -1.0, 9.0, -1.0, 6561.0]
    assert tape.nbytes == 3 * 4


def test_a_branch_that_is_not_taken_leaves_nothing_of_the_run_before() -> None:
    x, chosen = tensor([3.0]), [0]
    root, branch = graph(), graph()
    target = Taped(tensor([-1.0]))
    branch.add(affine(2.0), [x], [target])
    node = root.case_of(lambda: chosen[0])
    root.set_case(node, 0, branch)
    last = room(1)
    root.add(affine(1.0), [target], [last], after=[node])
    tape, found = Tape(), []
    for index in (0, 1, 0):
        chosen[0] = index
        root.run(tape=tape)
        found.append(number(last))
    assert found == [6.0, -1.0, 6.0]


def test_loops_within_a_loop_find_what_this_run_wrote() -> None:
    """The inner loop runs as often as the outer count, minus one run's limit: what earlier runs wrote is not found."""
    outer_limit = [3]
    root, outer, inner = graph(), graph(), graph()
    target, last = Taped(tensor([-1.0])), Taped(room(1))
    inner.add(affine(2.0), [tensor([5.0])], [target])
    loop = outer.while_loop(
        inner,
        lambda count, around: int(count.numpy()) < int(around.numpy()) - outer_limit[0],
        inputs=[inner.count, outer.count],
    )
    outer.add(affine(1.0), [target], [last], after=[loop])
    root.while_loop(outer, CountBelow(3))
    tape = Tape()
    seen = []
    for limit in (0, 2, 1):
        outer_limit[0] = limit
        root.run(tape=tape)
        seen.append([number(TapeAccess(tape).read(last, (index,))) for index in range(3)])
    assert seen == [[-1.0, 10.0, 10.0], [-1.0, -1.0, -1.0], [-1.0, -1.0, 10.0]]
