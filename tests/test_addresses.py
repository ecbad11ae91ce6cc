"""A limit on addresses ends in an error of nnc that names the step and the limit, and the process goes on."""

from __future__ import annotations

import errno
import threading
from typing import NoReturn

import pytest
from tests.forks import LIBRARIES, forking

from nnc import addresses
from nnc.addresses import check_addresses, start, within_addresses
from nnc.errors import OutOfMemoryError

resource = pytest.importorskip("resource")

PROGRAM = """
import resource
import numpy as np
import numpy.random
import nnc
from pathlib import Path
from nnc import nn
from nnc.errors import OutOfMemoryError

x = np.ones((32, 8), np.float32)

def eager():
    value = nnc.array(x)
    return (nnc.exp(value) @ value.T).sum().numpy()

def training():
    model = nn.Model(nn.Sequential(nn.Dense(16), nn.ReLU(), nn.Dense(3)), (8,))
    model.fit(x, np.zeros(32, np.int32), epochs=1)

def loaded():
    import nnc.backends.llvm.run.engine
    from nnc.core.running.llvm_library import llvm
    llvm.llvm_version_info

def file():
    import onnx
    from nnc.onnx import load
    from onnx import helper
    ends = [helper.make_tensor_value_info(name, 1, [3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10).SerializeToString()
    return lambda: load(content).run({"x": np.ones(3, np.float32)})

BEFORE
work = WORK
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (MEGABYTES << 20), resource.RLIM_INFINITY))
try:
    work()
except OutOfMemoryError as error:
    print("told:", error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
work()
print("went on")
"""


@pytest.mark.parametrize(
    ("work", "before", "megabytes", "step"),
    [
        ("eager", "", 2, "importing nnc.numerics"),
        ("eager", "", 40, "loading LLVM"),
        ("training", "", 4, "importing nnc."),
        ("training", "loaded()", 32, "compiling kernels"),
        ("file()", "", 1, "reading an ONNX model"),
    ],
)
def test_few_addresses_are_told_of_and_more_are_used(
    work: str, before: str, megabytes: int, step: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside errors of Python's, LLVM and ONNX's library ended the process."""
    # An empty folder of kernels: a process that finds them loads no LLVM.
    monkeypatch.setenv("NNC_CACHE_DIR", str(tmp_path))
    program = PROGRAM.replace("BEFORE", before).replace("WORK", work).replace("MEGABYTES", str(megabytes))
    code, out, complaint = forking(LIBRARIES).run(program)
    assert code == 0, complaint
    told, *rest = out.splitlines()
    assert told.startswith(f"told: {step}")
    assert "(RLIMIT_AS)" in told
    assert rest == ["went on"]


def test_addresses_are_held_before_any_limit_is_met() -> None:
    """With 2 MB left none could be had any more, and the error that says so was a MemoryError itself, once."""
    assert forking(LIBRARIES).run("import nnc.addresses as held; print(len(held._RESERVE))")[1] == "1\n"


FULL = """
import resource
from pathlib import Path
from nnc.addresses import within_addresses
from nnc.errors import OutOfMemoryError

with within_addresses("a step that has what it needs"):
    pass
held, count = [None] * 200_000, 0

def fill():
    global count
    for size in (100_000, 5_000, 480, 400, 320, 256, 224, 192, 160, 128, 96, 64, 48, 40):
        try:
            while True:
                held[count] = bytes(size)
                count += 1
        except MemoryError:
            pass

pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 20), resource.RLIM_INFINITY))
fill()
fill()
told = ""
try:
    with within_addresses("the step"):
        raise MemoryError
except OutOfMemoryError as error:
    told = error
held.clear()
print(told)
"""


def test_the_error_is_made_where_nothing_is_left() -> None:
    code, out, complaint = forking(LIBRARIES).run(FULL)
    assert code == 0, complaint
    assert out.startswith("the step: got a limit of")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("x.so: failed to map segment from shared object"),
    ],
)
def test_an_error_that_says_so_names_the_step(error: Exception) -> None:
    with pytest.raises(OutOfMemoryError, match="the step"), within_addresses("the step"):
        raise error


def test_an_error_in_c_counts_under_a_limit_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemError), within_addresses("the step"):
        raise SystemError
    monkeypatch.setattr(addresses, "address_limit", lambda: 1 << 30)
    with pytest.raises(OutOfMemoryError, match="the step: got a limit of 1074 MB"), within_addresses("the step"):
        raise SystemError


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOENT, "no file"), ImportError("no module"), OutOfMemoryError("inner")]
)
def test_other_errors_stay_what_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, within_addresses("the step"):
        raise error
    assert caught.value is error


def test_a_thread_that_the_system_does_not_start_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(OutOfMemoryError, match="a worker: got no more memory of the system; need a thread"):
        start(threading.Thread(), "a worker")


def test_without_a_limit_nothing_is_asked() -> None:
    check_addresses("the step", 1 << 62)


def test_a_parser_that_gets_no_memory_is_told_as_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a module without bytecode Python said `SyntaxError: expected ':'` with 4 MB left."""
    with pytest.raises(SyntaxError), within_addresses("importing nnc"):
        raise SyntaxError("expected ':'")
    monkeypatch.setattr(addresses, "address_limit", lambda: 1 << 30)
    with pytest.raises(OutOfMemoryError, match="importing nnc: got a limit of"), within_addresses("importing nnc"):
        raise SyntaxError("expected ':'")
