"""Where results lie, operands of several devices, and the operator that takes elements from one to another."""

from __future__ import annotations

import pytest
from tests.conformance.cases import CASES

import nnc
from nnc.core.values.device import CPU, Device
from nnc.core.values.spec import spec
from nnc.errors import DeviceError
from nnc.ops.movement.transfer import TO_DEVICE, TransferAttrs, to_device
from nnc.ops.operators import OPERATORS
from nnc.ops.rules import example_of, infer
from nnc.symbolic import SymbolicGraph
from nnc.symbolic.gradient import backward
from nnc.symbolic.text import dump, parse

CUDA = Device("cuda")


@pytest.mark.parametrize("op", [op for op in OPERATORS if op is not TO_DEVICE], ids=lambda op: op.name)
def test_results_lie_where_the_operands_lie(op: nnc.graph.Op) -> None:
    example = example_of(op)
    there = tuple(None if given is None else given.on(CUDA) for given in example.inputs)
    results = infer(op, example.attrs, there)
    assert [given.on(CPU) for given in results] == [*infer(op, example.attrs, example.inputs)]
    assert {given.device for given in results} == ({CUDA} if any(there) else {CPU})


def test_rules_do_not_compare_operands_with_specs_of_the_host() -> None:
    for case in (each for each in CASES if each.op is not TO_DEVICE):
        specs = case.specs(case.dtypes[0])
        there = infer(case.op, case.attrs, tuple(None if given is None else given.on(CUDA) for given in specs))
        assert [given.on(CPU) for given in there] == [*infer(case.op, case.attrs, specs)], str(case)


def test_operands_of_two_devices_are_refused() -> None:
    graph = SymbolicGraph()
    x, y = graph.input(spec([3])), graph.input(spec([3], device="cuda"))
    with pytest.raises(DeviceError) as caught:
        nnc.ops.add(x, y)
    message = str(caught.value)
    for part in ("add: got", "cpu:0", "cuda:0", "f32[3]@cuda:0", "need operands on one device", "x.to('cuda:0')"):
        assert part in message


def test_a_transfer_changes_the_device_alone() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec([2, 3], "f16", device="vulkan:1"))
    y = to_device(x, "cuda")
    assert y.spec == spec([2, 3], "f16", device="cuda")
    assert to_device(y, CUDA) is y
    with pytest.raises(DeviceError, match="one of cpu cuda vulkan"):
        to_device(x, "gpu")


def test_the_gradient_goes_the_way_back() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec([3]))
    (gradient,) = backward(graph, [nnc.ops.reduce_sum(to_device(nnc.ops.exp(x), "cuda"))], [x])
    assert gradient.spec == x.spec
    moves = [record.command.attrs for _, record in graph.execs.items() if record.command.op is TO_DEVICE]
    assert moves == [TransferAttrs(CUDA), TransferAttrs(CPU)]


def test_graphs_with_devices_are_written_and_read() -> None:
    graph = SymbolicGraph("mixed")
    x = graph.input(spec([3], device="cuda:1"), "x")
    nnc.ops.exp(to_device(nnc.ops.fill_like(x, 2.0) * x, "vulkan"))
    written = dump(graph)
    assert "f32[3]@cuda:1" in written
    assert "f32[3]@vulkan:0" in written
    assert dump(parse(written)) == written
