"""Object code of many texts at once: in order, each once, ended by errors and interrupts."""

from __future__ import annotations

import signal
import threading

import pytest

from nnc.backends.llvm.run.host import host_target
from nnc.backends.llvm.run.object_code import Crew, compile_source
from nnc.codegen.ir.target import TargetDescription
from nnc.core.precautions.forking import FORK_GUARD
from nnc.core.running.llvm_library import llvm, undisturbed, unlocked

SOURCES = [f"define i64 @f{number}(i64 %x) {{\n %y = mul i64 %x, {number}\n ret i64 %y\n}}\n" for number in range(9)]


def named(text: str, target: TargetDescription) -> bytes:
    return text.encode()


@pytest.mark.parametrize("workers", [1, 3])
def test_codes_are_in_the_order_of_the_texts_and_the_same_for_any_number_of_workers(workers: int) -> None:
    target = host_target()
    crew = Crew(compile_source, SOURCES, target)
    crew.run(workers)
    with undisturbed():
        assert crew.codes == [compile_source(text, target) for text in SOURCES]


def test_threads_of_a_crew_work_at_once_and_end_with_it() -> None:
    # Passed by two at a time alone.
    barrier = threading.Barrier(2, timeout=20)

    def meet(text: str, target: TargetDescription) -> bytes:
        barrier.wait()
        return text.encode()

    before = threading.active_count()
    crew = Crew(meet, ["a", "bb", "ccc", "dddd"], host_target())
    crew.run(2)
    assert crew.codes == [b"a", b"bb", b"ccc", b"dddd"]
    assert threading.active_count() == before


def test_the_longest_text_comes_first() -> None:
    seen: list[str] = []
    Crew(lambda text, target: (seen.append(text), b"")[1], ["a", "ccc", "bb"], host_target()).run(1)
    assert seen == ["ccc", "bb", "a"]


def test_the_error_of_the_first_text_that_has_one_is_raised_and_later_ones_are_left() -> None:
    def fail(text: str, target: TargetDescription) -> bytes:
        if text.startswith("bad"):
            raise RuntimeError(text)
        return text.encode()

    for workers in (1, 3):
        crew = Crew(fail, ["good, and long", "bad, long", "bad", "good"], host_target())
        with pytest.raises(RuntimeError, match="bad, long"):
            crew.run(workers)
        assert crew.codes[0] == b"good, and long"


def test_an_interrupt_ends_a_crew_and_keeps_what_was_compiled() -> None:
    def press(text: str, target: TargetDescription) -> bytes:
        if text == "second" and threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGINT)
        return text.encode()

    before = threading.active_count()
    crew = Crew(press, ["the first", "second", "one"], host_target())
    with pytest.raises(KeyboardInterrupt):
        crew.run(1)
    assert crew.codes == [b"the first", b"second", None]
    assert threading.active_count() == before


def test_nobody_forks_while_a_crew_works() -> None:
    free: list[bool] = []

    def ask(text: str, target: TargetDescription) -> bytes:
        def take() -> None:
            free.append(FORK_GUARD.acquire(blocking=False))

        asking = threading.Thread(target=take)
        asking.start()
        asking.join()
        return b""

    Crew(ask, ["a", "b"], host_target()).run(1)
    assert free == [False, False]


def test_without_threads_the_calling_one_compiles_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    crew = Crew(named, ["a", "b"], host_target())
    crew.run(4)
    assert crew.codes == [b"a", b"b"]


def test_what_takes_long_is_called_without_the_lock_of_llvmlite() -> None:
    holding, done = threading.Event(), threading.Event()

    def hold() -> None:
        with llvm.ffi.lib._lock:
            holding.set()
            done.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    assert holding.wait(20)
    try:
        # Called with the lock it would wait for the holder for ever.
        assert unlocked("LLVMPY_GetVersionInfo")() == llvm.llvm_version_info[0] << 16 | (llvm.llvm_version_info[1] << 8)
    finally:
        done.set()
        holder.join()
