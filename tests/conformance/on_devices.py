"""The conformance table on a device that is there: rows that it claims, against the reference on the host.

agreed, refused, failed = check_row(case, Device("cuda"))
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.cases import Case
from tests.conformance.runs import REFERENCE, arrangements, check_agreement, on_device, run

from nnc.core.running.dispatch import DISPATCHER, Backend
from nnc.core.values.command import Command
from nnc.core.values.device import Device
from nnc.core.values.dtype import DType
from nnc.errors import DeviceError
from nnc.ops.movement.transfer import TO_DEVICE
from nnc.ops.rules import infer


def refusal(backend: Backend, case: Case, dtype: DType, device: Device) -> str:
    """Why the device's backend does not claim the row; a transfer is no row of one device."""
    specs = on_device(case.specs(dtype), device)
    results = tuple(spec.on(device) for spec in infer(case.op, case.attrs, specs))
    return "a transfer" if case.op is TO_DEVICE else backend.refusal(Command(case.op, case.attrs), specs, results)


def claimed(backend: Backend, case: Case, device: Device) -> Iterator[tuple[int, DType]]:
    """The element types that are claimed, with their places."""
    types = [dtype for dtype in case.dtypes if not refusal(backend, case, dtype, device)]
    yield from enumerate(types)


def check_type(backend: Backend, case: Case, dtype: DType, place: int, device: Device) -> int:
    """AssertionError where a run does not agree with the reference; how many did."""
    results = infer(case.op, case.attrs, case.specs(dtype))
    wanted = run(REFERENCE, case, dtype, "contiguous", ())
    chosen = list(arrangements(case, dtype, place))
    for layout, pairs in chosen:
        got = run(backend, case, dtype, layout, pairs, device=device)
        for index, (mine, other) in enumerate(zip(got, wanted, strict=True)):
            where = f"output {index}, {dtype}, {layout}, in place {pairs}"
            check_agreement(mine, other, results[index].dtype, where)
    return len(chosen)


def check_case(backend: Backend, case: Case, device: Device) -> int:
    """The same of all element types that are claimed."""
    return sum(check_type(backend, case, dtype, place, device) for place, dtype in claimed(backend, case, device))


def check_row(case: Case, device: Device) -> tuple[int, list[str], list[str]]:
    """How many runs of a row agreed, why element types were refused, and what failed.

    A device that is lost to the process ends it: nothing that follows would say anything.
    """
    backend, agreed, failed = DISPATCHER.backend(device.kind), 0, list[str]()
    refused = sorted({refusal(backend, case, dtype, device) for dtype in case.dtypes} - {""})
    for place, dtype in claimed(backend, case, device):
        try:
            agreed += check_type(backend, case, dtype, place, device)
        except DeviceError as error:
            if "lost" in error.fix:
                raise
            failed.append(f"{dtype}: DeviceError: {error}")
        except Exception as error:
            failed.append(f"{dtype}: {type(error).__name__}: {' '.join(str(error).split())}")
    return agreed, refused, failed
