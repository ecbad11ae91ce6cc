"""Symbol composition over a registry of its own: rows S1–S13 of NNVM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Thread

import pytest

from nnc.errors import ArityError, AttributeValueError, FormatError
from nnc.graph import VARIADIC, NoAttributes, Op, Registry
from nnc.graph.composition import (
    HIDDEN_OUTPUTS,
    MUTATES,
    OPTIONAL_INPUTS,
    Expression,
    Names,
    compose,
    group,
    labelled,
    load,
    naming,
    variable,
)

REGISTRY = Registry("composition")


@dataclass(frozen=True, slots=True)
class FilterAttributes:
    """Attributes of the test's convolution."""

    size: int = 3
    groups: int = 1


ADD = Op("add", attributes=NoAttributes, inputs=("a", "b"), registry=REGISTRY)
CONV = Op("conv", attributes=FilterAttributes, inputs=("x", "w", "bias"), registry=REGISTRY)
NORM = Op("norm", attributes=NoAttributes, inputs=("x", "mean"), outputs=("y", "saved"), registry=REGISTRY)
SUM = Op("sum", attributes=NoAttributes, inputs=VARIADIC, registry=REGISTRY)
OPTIONAL_INPUTS.set(CONV, (2,))
MUTATES.set(NORM, (1,))
HIDDEN_OUTPUTS.set(NORM, (1,))


@pytest.fixture(autouse=True)
def fresh_names() -> Iterator[None]:
    with naming(Names()):
        yield


def test_s1_s3_missing_inputs_become_variables_and_optional_ones_stay_absent() -> None:
    y = compose(CONV, variable("x"), name="conv1", groups=2)
    assert y.variable_names() == ("x", "conv1_w")
    assert y.output_names() == ("conv1_y",)
    assert y.outputs[0].node.attributes == FilterAttributes(groups=2)


def test_s3_positional_or_by_name_never_both() -> None:
    x, w = variable("x"), variable("w")
    assert str(compose(CONV, x, w, name="c")) == str(compose(CONV, w=w, x=x, name="c"))
    with pytest.raises(ArityError, match="one of the two"):
        compose(CONV, x, w=w)
    with pytest.raises(ArityError, match="got 3 inputs"):
        compose(ADD, x, x, x)
    with pytest.raises(AttributeValueError, match="FilterAttributes"):
        compose(CONV, x, w, colour=1)


def test_s2_s5_groups_indices_and_names() -> None:
    pair = group([compose(ADD, variable("a"), variable("b"), name="left"), variable("c")])
    assert pair.output_names() == ("left_y", "c")
    assert pair["c"].output_names() == pair[1].output_names() == ("c",)
    assert [part.output_names() for part in pair] == [("left_y",), ("c",)]
    with pytest.raises(AttributeValueError, match="0 outputs"):
        pair["d"]
    with pytest.raises(ArityError, match="2 outputs"):
        compose(ADD, pair, pair)


def test_s4_variables_are_replaced_in_a_copy() -> None:
    inner = compose(ADD, variable("p"), variable("q"), name="inner")
    outer = compose(ADD, variable("x"), variable("y"), name="outer")
    joined = outer(x=inner)
    assert joined.variable_names() == ("p", "q", "y")
    assert outer.variable_names() == ("x", "y")
    with pytest.raises(AttributeValueError, match="0 variables"):
        outer(z=inner)


def test_s6_auxiliary_variables_are_those_an_operator_mutates() -> None:
    y = compose(NORM, variable("x"), name="n")
    assert y.variable_names("mutated") == ("n_mean",)
    assert y.variable_names("read") == ("x",)
    with pytest.raises(AttributeValueError, match='"all"'):
        y.variable_names("other")


def test_s8_internals_and_children() -> None:
    y = compose(ADD, compose(NORM, variable("x"), name="n")[0], variable("z"), name="out")
    assert y.internals().output_names() == ("x", "n_mean", "n_y", "z", "out_y")
    assert y.children().output_names() == ("n_y", "z")


def test_s9_s10_labels_and_names_by_scope() -> None:
    with labelled(device="0"), naming(Names("net_")):
        with labelled(stage="a"):
            y = compose(ADD, variable("a", device="1"), variable("b"))
        z = compose(ADD, y, y)
    assert y.label("name") == "net_add0"
    assert z.label("name") == "net_add1"
    assert (y.label("device"), y.label("stage"), z.label("stage"), y.label("op")) == ("0", "a", None, "add")
    assert y.labels()["a$device"] == "1"


def test_s10_scopes_of_threads_are_their_own() -> None:
    seen: list[str | None] = []

    def work() -> None:
        with naming(Names("thread_")):
            seen.append(compose(ADD, variable("a"), variable("b")).label("name"))

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert seen == ["thread_add0"]
    assert compose(ADD, variable("a"), variable("b")).label("name") == "add0"


def test_s12_control_dependencies_and_text() -> None:
    first = compose(ADD, variable("a"), variable("b"), name="first")
    second = compose(SUM, variable("c"), name="second").following(first)
    assert [node.name for node in second.nodes()] == ["c", "a", "b", "first", "second"]
    assert str(second).splitlines()[-2:] == ["second = sum(c)", "-> second_y"]


def test_s13_json_round_trip_is_canonical() -> None:
    with labelled(device="0"):
        y = compose(CONV, compose(NORM, variable("x"), name="n")[0], name="c", size=5).following(variable("z"))
    text = y.save()
    again = load(text, REGISTRY)
    assert again.save() == text
    assert str(again) == str(y)
    assert again.labels() == y.labels()


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"format":"nnc-composition","version":9,"nodes":[],"outputs":[]}',
        '{"format":"nnc-composition","version":1,"nodes":[],"outputs":[[0,0]]}',
        '{"format":"nnc-composition","version":1,"nodes":[{}],"outputs":[]}',
        '{"format":"nnc-composition","version":1,"nodes":[{"after":[],"call":{"attributes":{},"op":"nope"},'
        '"inputs":[],"labels":{},"name":"n"}],"outputs":[]}',
    ],
)
def test_s13_malformed_json_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        load(text, REGISTRY)


def test_a_long_chain_needs_no_recursion() -> None:
    y: Expression = variable("x")
    for _ in range(50_000):
        y = compose(ADD, y, y, name="n")
    assert len(y.nodes()) == 50_001
    assert len(y(x=variable("other")).nodes()) == 50_001
