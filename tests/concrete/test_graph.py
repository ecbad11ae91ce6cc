from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnc.concrete import ConcreteGraph
from nnc.core.running.stream import Stream
from nnc.core.values.command import Command
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import ArityError, BackendError, CycleError, ShapeError, UnknownKeyError, UsageError
from nnc.ops.elementwise.pointwise import exp, multiply
from nnc.ops.movement.copy import contiguous
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import NoAttrs

COPIED, EXPONENTIAL, PRODUCT = (Command(op, NoAttrs()) for op in (contiguous, exp, multiply))


def line_of(text: str) -> str:
    lines = Path(__file__).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return f"{Path(__file__).name}:{number}"


def tensors(*values: float, size: int = 3) -> list[Tensor]:
    return [Tensor.from_numpy(np.full(size, value, np.float32)) for value in values]


@pytest.fixture
def graph() -> ConcreteGraph:
    return ConcreteGraph(backend="reference")


def test_nodes_run_in_the_order_of_their_edges(graph: ConcreteGraph) -> None:
    x, y, z = tensors(0, 7, 7)
    late = graph.add(COPIED, [y], [z])
    early = graph.add(EXPONENTIAL, [x], [y])
    graph.connect(early, late)
    assert graph.run() is None
    np.testing.assert_array_equal(z.numpy(), np.ones(3))
    x.copy_from(np.ones(3))
    graph.run()
    np.testing.assert_allclose(z.numpy(), np.full(3, np.e), rtol=1e-6)


def test_nodes_are_appended_behind_others(graph: ConcreteGraph) -> None:
    x, y, z = tensors(2, 0, 0)
    first = graph.add(PRODUCT, [x, x], [y], name="square")
    graph.add(PRODUCT, [y, y], [z], after=[first])
    graph.run()
    np.testing.assert_array_equal(z.numpy(), np.full(3, 16))
    assert graph.execs[first].name == "square"


def test_a_graph_that_has_grown_runs_whole(graph: ConcreteGraph) -> None:
    x, y, z = tensors(1, 0, 0)
    first = graph.add(COPIED, [x], [y])
    graph.run()
    graph.add(COPIED, [y], [z], after=[first])
    graph.run()
    np.testing.assert_array_equal(z.numpy(), np.ones(3))


def test_an_empty_graph_runs(graph: ConcreteGraph) -> None:
    assert graph.run() is None


def test_wrong_outputs_are_refused_with_the_line_of_the_user(graph: ConcreteGraph) -> None:
    x, y = tensors(1, 2)
    for wrong in ([Tensor.zeros(spec((4,)))], [Tensor.zeros(spec((3,), "f64"))], [], [y, y]):
        with pytest.raises(ShapeError, match="copy: got outputs") as caught:
            graph.add(COPIED, [x], wrong)  # wrong outputs
        assert caught.value.origin == line_of("wrong outputs")
    assert len(graph.execs) == 0


def test_wrong_inputs_are_refused(graph: ConcreteGraph) -> None:
    x, y = tensors(1, 2)
    with pytest.raises(ArityError):
        graph.add(PRODUCT, [x], [y])
    with pytest.raises(ShapeError, match="gemm"):
        graph.add(Command(GEMM, GemmAttrs()), [x, x, None], [y])
    assert len(graph.execs) == 0


def test_read_only_memory_is_not_written(graph: ConcreteGraph) -> None:
    frozen = np.zeros(3, np.float32)
    frozen.flags.writeable = False
    target = Tensor.from_numpy(frozen)
    with pytest.raises(UsageError, match="read-only memory"):
        graph.add(COPIED, tensors(1), [target])
    graph.add(COPIED, [target], tensors(1))


def test_an_unknown_node_is_refused_and_nothing_is_added(graph: ConcreteGraph) -> None:
    x, y = tensors(1, 2)
    key = graph.add(COPIED, [x], [y])
    with pytest.raises(UnknownKeyError):
        graph.add(COPIED, [x], [y], after=[key, type(key)(99)])
    with pytest.raises(UnknownKeyError):
        graph.connect(key, type(key)(99))
    assert len(graph.execs) == 1


def test_a_cycle_is_refused(graph: ConcreteGraph) -> None:
    x, y = tensors(1, 2)
    one, two = graph.add(COPIED, [x], [y]), graph.add(COPIED, [y], [x])
    graph.connect(one, two)
    graph.connect(two, one)
    with pytest.raises(CycleError):
        graph.run()


def test_a_stream_runs_it_and_fires_the_signal(graph: ConcreteGraph) -> None:
    x, y = tensors(0, 7)
    graph.add(EXPONENTIAL, [x], [y])
    with Stream() as stream:
        signal = graph.run(stream)
        assert signal is not None
        signal.wait()
        assert signal.emitted
        np.testing.assert_array_equal(y.numpy(), np.ones(3))


def test_an_unknown_backend_is_refused() -> None:
    x, y = tensors(0, 7)
    with pytest.raises(BackendError, match="nobody"):
        ConcreteGraph(backend="nobody").add(COPIED, [x], [y])
