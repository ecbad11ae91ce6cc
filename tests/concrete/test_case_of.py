"""Branches on real tensors: which one runs, what passes through, loops around them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.concrete.eager import (
    ADDITION,
    EXPONENTIAL,
    INVERSE,
    LOGARITHM,
    MATRIX_PRODUCT,
    PRODUCT,
    affine,
    elements,
    graph,
    noise,
    number,
    room,
    rooms,
    run,
    tensor,
)

from nnc.concrete import Carry, ConcreteGraph, CountBelow, Phi, Place, Selector
from nnc.concrete.body import ExecKey
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import ArityError, GraphError, ShapeError, UsageError


def piece(x: Tensor) -> int:
    """0 below 0, nothing below 1, 1 below 2, 2 above."""
    value = number(x)
    return 0 if value < 0 else -1 if value < 1 else 1 if value < 2 else 2


def expected_piece(value: float) -> float:
    return 0.0 if value < 0 else value if value < 1 else 0.5 * value + 0.5 if value < 2 else 1.5


def branch(command: AnyCommand, source: Place, target: Place) -> ConcreteGraph:
    """A graph of one command."""
    made = graph()
    made.add(command, [source], [target])
    return made


def add_piecewise(parent: ConcreteGraph, x: Place, output: Place) -> tuple[Phi, ExecKey]:
    """The piecewise linear function as a node of `parent`: its result and its node."""
    y = Phi(x, output)
    key = parent.case_of(piece, inputs=[x], outputs=[y])
    for index, command in enumerate((affine(0.0), affine(0.5, 0.5), affine(0.0, 1.5))):
        parent.set_case(key, index, branch(command, x, output))
    return y, key


@pytest.mark.parametrize("runs", [1, 3])
def test_a_piecewise_function_again_and_again(runs: int) -> None:
    root = graph()
    x, result = room(1), room(1)
    y, key = add_piecewise(root, x, room(1))
    root.add(affine(1.0), [y], [result], after=[key])
    for _ in range(runs):
        for value, expected in ((-1.0, 0.0), (0.76, 0.76), (1.226, 1.113), (2.1, 1.5)):
            x.copy_from([value])
            root.run()
            assert number(result) == pytest.approx(expected)


def test_pass_through_selects_the_input_itself() -> None:
    root = graph()
    x, output = tensor([0.5]), room(1)
    y, _ = add_piecewise(root, x, output)
    root.run()
    assert y.current is x
    x.copy_from([3.0])
    root.run()
    assert y.current is output


def test_four_branches_and_a_bypass() -> None:
    """exp, log, 1 ÷ x, 1.1 x and, for what no branch is, x itself."""
    x, output, choice = room(1), room(1), Tensor.zeros(spec([], "i64"))
    root = graph()
    y = Phi(x, output)
    key = root.case_of(Selector(choice), outputs=[y])
    commands = (EXPONENTIAL, LOGARITHM, INVERSE, affine(1.1))
    for index, command in enumerate(commands):
        root.set_case(key, index, branch(command, x, output))
    result = room(1)
    root.add(affine(1.0), [y], [result], after=[key])
    for index, value in ((0, -2.2), (1, 1.1), (2, 0.9), (3, 2.2), (4, 1001.0), (-1, 1001.0), (-7, 3.0)):
        choice.copy_from(index)
        x.copy_from([value])
        root.run()
        expected = run(commands[index], x) if 0 <= index < 4 else x
        assert elements(result) == elements(expected)


def test_the_offset_is_added_to_the_choice() -> None:
    x, output = tensor([1.0]), room(1)
    root = graph()
    y = Phi(x, output)
    key = root.case_of(lambda: 10, outputs=[y], offset=-9)
    root.set_case(key, 0, branch(affine(2.0), x, output))
    root.set_case(key, 1, branch(affine(3.0), x, output))
    root.run()
    assert number(output) == 3.0
    assert "-9" in str(root)


@pytest.mark.parametrize(("value", "expected"), [(1.226, (1 + 0.226 * 0.5**4) * 0.3), (0.8, 0.24)])
def test_a_branch_within_a_loop(value: float, expected: float) -> None:
    x, result = tensor([value]), room(1)
    root, body = graph(), graph()
    carried = Carry(x)
    y, _ = add_piecewise(body, carried, body.multiview(rooms(2, 1)))
    body.carry_over(y, carried)
    loop = root.while_loop(body, CountBelow(4))
    root.add(affine(0.3), [y], [result], after=[loop])
    root.run()
    assert number(result) == pytest.approx(expected, rel=1e-6)
    assert number(x) == pytest.approx(value)


def test_a_product_before_the_branch_within_a_loop() -> None:
    """x = b · 0.8 is computed anew in each iteration: with b = 2.5 it is 2, so 1.5, then 1.2, 1.1 …"""
    b, factor = tensor([2.5]), tensor([0.8])
    root, body = graph(), graph()
    carried = Carry(b)
    x = room(1)
    product = body.add(PRODUCT, [carried, factor], [x])
    y, key = add_piecewise(body, x, body.multiview(rooms(2, 1)))
    body.connect(product, key)
    result, scaled = body.multiview(rooms(2, 1)), room(1)
    body.add(affine(1.0), [y], [result], after=[key])
    body.carry_over(result, carried)
    loop = root.while_loop(body, CountBelow(4))
    root.add(affine(0.3), [result], [scaled], after=[loop])
    root.run()
    expected = 2.5
    for _ in range(4):
        expected = expected_piece(expected * 0.8)
    assert number(scaled) == pytest.approx(expected * 0.3, rel=1e-5)


@pytest.mark.parametrize(("outer", "inner"), [(0, 0), (0, 1), (1, 0), (-1, 0), (0, -1)])
def test_branches_within_branches(outer: int, inner: int) -> None:
    """Products of matrices through temporaries of different sizes; both levels may be skipped."""
    x, wide, tall, square = noise(1, 3, 3), noise(2, 3, 8), noise(3, 8, 3), noise(4, 3, 3)
    choices = [Tensor.zeros(spec([], "i64")) for _ in range(2)]
    for choice, value in zip(choices, (outer, inner), strict=True):
        choice.copy_from(value)
    middle, output, result = room(3, 8), room(3, 3), room(3, 3)
    through, once, first = graph(), graph(), graph()
    expand = through.add(MATRIX_PRODUCT, [x, wide, None], [middle])
    through.add(MATRIX_PRODUCT, [middle, tall, None], [output], after=[expand])
    once.add(MATRIX_PRODUCT, [x, square, None], [output])
    inside = Phi(x, output)
    nested = first.case_of(Selector(choices[1]), outputs=[inside])
    first.set_case(nested, 0, through)
    first.set_case(nested, 1, once)
    root = graph()
    y = Phi(x, inside, output)
    key = root.case_of(Selector(choices[0]), outputs=[y])
    root.set_case(key, 0, first)
    root.set_case(key, 1, branch(affine(2.0), x, output))
    root.add(affine(1.0), [y], [result], after=[key])
    root.run()
    expected = {
        (0, 0): run(MATRIX_PRODUCT, run(MATRIX_PRODUCT, x, wide, None), tall, None),
        (0, 1): run(MATRIX_PRODUCT, x, square, None),
        (1, 0): run(affine(2.0), x),
    }.get((outer, inner), x)
    np.testing.assert_array_equal(elements(result), elements(expected))
    assert len(root.subgraphs(key)) == 2


def test_a_branch_may_write_what_is_no_phi() -> None:
    x, total = tensor([2.0]), tensor([1.0])
    root, added = graph(), graph()
    added.add(ADDITION, [total, x], [total])
    key = root.case_of(lambda: 0, outputs=[total])
    root.set_case(key, 0, added)
    root.run()
    root.run()
    assert number(total) == 5.0


def test_a_phi_of_several_branches_has_a_place_for_each() -> None:
    x = tensor([2.0])
    places = rooms(2, 1)
    root = graph()
    choice = [1]
    y = Phi(x, *places)
    key = root.case_of(lambda: choice[0], outputs=[y])
    for index in range(3):
        root.set_case(key, index, branch(affine(float(index + 2)), x, places[min(index, 1)]))
    root.run()
    assert y.current is places[1]
    choice[0] = 2
    with pytest.raises(UsageError, match="places for 2 branches"):
        root.run()
    with pytest.raises(ArityError):
        Phi(x)


def test_what_a_case_needs() -> None:
    root = graph()
    key = root.case_of(lambda: "none")
    with pytest.raises(UsageError, match="a choice of type str; need an integer"):
        root.run()
    with pytest.raises(GraphError, match="branch -1"):
        root.set_case(key, -1, graph())
    root.set_case(key, 0, graph())
    with pytest.raises(GraphError, match="no branch yet"):
        root.set_case(key, 0, graph())
    with pytest.raises(GraphError, match="around this one"):
        root.set_case(key, 1, root)
    with pytest.raises(GraphError, match="need a node of kind CaseOfExec"):
        root.set_case(root.add_noop(), 0, graph())
    with pytest.raises(ShapeError, match="one element"):
        Selector(room(2))
