"""The text and Graphviz forms, graphs inside graphs included."""

from __future__ import annotations

from tests.concrete.eager import ADDITION, PRODUCT, affine, graph, room, tensor

from nnc.concrete import (
    Carry,
    ConcreteGraph,
    CountBelow,
    MultiviewKind,
    NonZero,
    Phi,
    Recalled,
    Reference,
    Selector,
    Taped,
    TapedChoice,
)
from nnc.concrete.text import describe
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor


def example() -> ConcreteGraph:
    """A product, a loop with a branch in its body, a sum."""
    x, y = tensor([1.0]), room(1)
    root, body, branch = graph(), graph(), graph()
    first = root.add(PRODUCT, [x, x], [y])
    start = body.add_noop()
    case = body.case_of(lambda: 0, outputs=[Phi(x, y)], offset=1, after=[start], name="piece\nwise")
    branch.add(affine(2.0), [x], [y])
    body.set_case(case, 1, branch)
    body.carry_over(y, Carry(x))
    loop = root.while_loop(body, CountBelow(5), breakpoints=[start], after=[first], name="five")
    root.add(ADDITION, [x, y], [y], after=[loop])
    return root


def test_graphs_inside_are_indented() -> None:
    assert str(example()).splitlines() == [
        "graph: 3 nodes, 2 edges",
        "%0 multiply on reference",
        "%1 while five <- %0 data",
        "    body, graph: 2 nodes, 1 edges, while count < 5 after %0, 1 carried",
        "    %0 noop",
        "    %1 case piece wise of <lambda>() +1 <- %0 data",
        "        case 1, graph: 1 nodes, 0 edges",
        "        %0 affine(scale=2.0) on reference",
        "%2 add on reference <- %1 data",
    ]


def test_details_name_the_tensors() -> None:
    root = example()
    text = root.to_text(details=True)
    assert "multiply on reference (f32[1]@0x" in text
    assert "-> (phi(f32[1]@0x" in text
    assert "@0x" not in root.to_text()


def test_every_place_can_be_described() -> None:
    a, b = tensor([1.0]), tensor([2.0])
    body = graph()
    at_a, at_b = (f"f32[1]@{one.address:#x}" for one in (a, b))
    assert describe(None) == "–"
    assert describe(body.multiview([a, b], MultiviewKind.K1N)) == f"K1N({at_a}, {at_b})"
    assert describe(Phi(a, b, b)) == f"phi({at_a} | {at_b} | {at_b})"
    assert describe(Recalled(Taped(Carry(a)))) == f"recalled(taped(carry({at_a})))"
    assert describe(Reference(spec([2]))) == "reference(f32[2])"


def test_tests_and_choices_are_named() -> None:
    root, body, mirror = graph(), graph(), graph()
    flag, choice = Tensor.zeros(spec([], "bool")), Tensor.zeros(spec([], "i64"))
    loop = root.while_loop(body, NonZero(flag))
    root.while_loop(mirror, forward=root.node(loop))
    root.case_of(Selector(choice))
    root.case_of(TapedChoice(root.node(loop)))
    other = graph()

    def go_on() -> bool:
        return False

    root.while_loop(other, go_on)
    assert str(root).splitlines() == [
        "graph: 5 nodes, 0 edges",
        "%0 while",
        "    body, graph: 0 nodes, 0 edges, while bool[] ≠ 0",
        "%1 while backward",
        "    body, graph: 0 nodes, 0 edges",
        "%2 case of i64[]",
        "%3 case of what %0 took",
        "%4 while",
        "    body, graph: 0 nodes, 0 edges, while go_on()",
    ]


def test_graphviz_has_a_cluster_for_each_graph_inside() -> None:
    lines = [line.strip() for line in example().to_dot().splitlines()]
    assert lines[:2] == ["digraph {", "compound=true;"]
    assert lines.count("}") == 3
    assert 'n0_0 [label="multiply on reference"];' in lines
    assert 'n0_0 -> n0_1 [label="data"];' in lines
    assert "subgraph cluster_1 {" in lines
    assert 'label="body, while count < 5 after %0, 1 carried";' in lines
    assert "n0_1 -> n1_0 [style=dashed, lhead=cluster_1];" in lines
    assert lines.index("subgraph cluster_1 {") < lines.index("subgraph cluster_2 {") < lines.index("}")


def test_an_empty_graph() -> None:
    assert str(graph()) == "graph: 0 nodes, 0 edges"
    assert graph().to_dot() == "digraph {\n  compound=true;\n}"


def test_a_hundred_levels() -> None:
    outermost = graph()
    around = outermost
    for _ in range(100):
        inside = graph()
        around.while_loop(inside, CountBelow(1))
        around = inside
    assert len(str(outermost).splitlines()) == 201
    assert outermost.to_dot().count("subgraph") == 100
    outermost.run()
