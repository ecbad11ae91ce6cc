"""IR text → object code, of many texts on all cores at once.

    code = compile_source(text, target)              one text
    crew = Crew(compile_source, texts, target)       texts in any number
    crew.run(workers); crew.codes                    in the order of the texts

A module has a context of its own and a thread has its own tools, so LLVM works on several at once. llvmlite takes one
lock for every call of LLVM: what takes long is called without it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from time import thread_time

from nnc.addresses import check_addresses, start
from nnc.backends.llvm.run.host import target_machine
from nnc.classes import dataclass
from nnc.codegen.ir.target import TargetDescription
from nnc.core.precautions.forking import FORK_GUARD
from nnc.core.precautions.shield import Shield
from nnc.core.running.llvm_library import COMPILING_BYTES, content_of, llvm, undisturbed, unlocked
from nnc.errors import OutOfMemoryError

# A thread that compiles beside others: what it compiles, its stack, and the heap that the C library reserves for it.
HELPER_BYTES = COMPILING_BYTES + 160_000_000


def compile_source(source: str, target: TargetDescription) -> bytes:
    """Object code for IR text; the caller keeps interrupts and forks away.

    Our generators vectorize, unroll and hoist, so a few passes that tidy up after them are enough: the whole of
    LLVM's pipeline takes longer and gives no faster kernels.
    """
    return _emit(source, target, is_object=True)


@dataclass(frozen=True, slots=True)
class CompiledText:
    """Object code, and the same in the processor's instructions as text."""

    content: bytes
    assembly: str


def compile_on(source: str, machine: llvm.TargetMachine) -> CompiledText:
    """Object code by a code generator of the caller's, after the same passes."""
    with undisturbed():
        tools = _tools_of(machine)
        content = _emitted(source, tools, is_object=True)
        return CompiledText(content, _emitted(source, tools, is_object=False).decode())


def assembly(source: str, target: TargetDescription) -> str:
    """The same code as text, in the processor's instructions, for people to read."""
    with undisturbed():
        return _emit(source, target, is_object=False).decode()


class Crew:
    """The threads of one batch: each takes the next text until none is left, and ends with the batch.

    An error, or Ctrl-C, ends it with the texts that are being compiled; their codes are in `codes`, None is for others.
    `seconds` are those of a processor for each text.
    """

    def __init__(
        self, compile_text: Callable[[str, TargetDescription], bytes], texts: Sequence[str], target: TargetDescription
    ) -> None:
        self.codes: list[bytes | None] = [None] * len(texts)
        self.seconds = [0.0] * len(texts)
        self._compile, self._texts, self._target = compile_text, texts, target
        # The longest first, so that nobody begins one when the others are at their end.
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]), reverse=True)
        self._turns = deque(enumerate(order))
        self._errors: dict[int, Exception] = {}

    def run(self, workers: int) -> None:
        """Compile on so many threads, the calling one among them; raises the error of the first text that has one."""
        check_addresses("compiling kernels", COMPILING_BYTES)
        helpers: list[threading.Thread] = []
        with FORK_GUARD:
            try:
                with Shield():
                    self._start(min(workers, len(self._texts)) - 1, helpers)
                while self._turns:
                    with Shield():
                        self._acquire_turn()
            finally:
                with Shield():
                    self._turns.clear()
                    for helper in helpers:
                        helper.join()
        if self._errors:
            raise self._errors[min(self._errors)]

    def _start(self, count: int, helpers: list[threading.Thread]) -> None:
        # Where no thread can be had the calling one does it all.
        with suppress(OutOfMemoryError):
            check_addresses("threads that compile", count * HELPER_BYTES)
            for _ in range(count):
                helper = threading.Thread(target=self._help, name="nnc-compile")
                start(helper, "a thread that compiles")
                helpers.append(helper)

    def _help(self) -> None:
        while self._turns:
            self._acquire_turn()

    def _acquire_turn(self) -> None:
        try:
            turn, place = self._turns.popleft()
        except IndexError:
            return
        began = thread_time()
        try:
            self.codes[place] = self._compile(self._texts[place], self._target)
            self.seconds[place] = thread_time() - began
        except Exception as error:
            self._errors[turn] = error
            self._turns.clear()


# ---- LLVM


def _emit(source: str, target: TargetDescription, *, is_object: bool) -> bytes:
    with _tools(target) as tools:
        return _emitted(source, tools, is_object=is_object)


def _emitted(source: str, tools: _Tools, *, is_object: bool) -> bytes:
    """In a frame of its own, so that what it makes is freed inside of the caller's block too."""
    run_passes, emit = unlocked("LLVMPY_RunNewFunctionPassManager"), unlocked("LLVMPY_TargetMachineEmitToMemory")
    # A context of its own: what LLVM keeps in the global one stays for ever.
    module = llvm.parse_assembly(source, llvm.create_context())
    module.verify()
    with llvm.ffi.OutputString() as message:
        for function in module.functions:
            if not function.is_declaration:
                run_passes(tools.passes, function, tools.builder)
        buffer = emit(tools.machine, module, int(is_object), message)
        if not buffer:
            raise RuntimeError(str(message))
        return content_of(buffer)


@dataclass(frozen=True, slots=True, eq=False)
class _Tools:
    """What modules for a target are compiled with, one after another."""

    machine: llvm.TargetMachine
    builder: llvm.PassBuilder
    passes: llvm.FunctionPassManager


@lru_cache(maxsize=8)
def _free_tools(target: TargetDescription) -> deque[_Tools]:
    """Tools that nobody uses; as many are made as there are threads at once.

    They are kept: llvmlite never frees a pass manager (2.4 KB), nor all of a pass builder (benchmarks/growth.py).
    """
    return deque()


@contextmanager
def _tools(target: TargetDescription) -> Iterator[_Tools]:
    free = _free_tools(target)
    try:
        tools = free.pop()
    except IndexError:
        tools = _made_tools(target)
    try:
        yield tools
    finally:
        free.append(tools)


def _made_tools(target: TargetDescription) -> _Tools:
    return _tools_of(target_machine(target))


def _tools_of(machine: llvm.TargetMachine) -> _Tools:
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()
    passes.add_simplify_cfg_pass()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    return _Tools(machine, llvm.create_pass_builder(machine, options), passes)
