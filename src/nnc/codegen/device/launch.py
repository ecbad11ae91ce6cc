"""Kernels on a device: an entry function for each phase, how it is launched, and the memory that it needs.

    kernel = device_kernel(generator, target, "k")
    kernel.text            one module: for CUDA as LLVM reads it, for Vulkan what `spirv` reads
    kernel.phases          (entry, items, first, workers of a group of threads, bytes that each worker has for itself)

An entry is called with (args, first, items, scratch, scratch_bytes): worker w of W does items first + w, first + w + W
and so on below first + items, with the memory at scratch + w * scratch_bytes. A worker is a thread, or as many as a
register has elements where the phase computes vectors. A barrier between phases is the border of two launches.
"""

from __future__ import annotations

from collections.abc import Mapping

from nnc.classes import dataclass
from nnc.codegen.device.functions import FUNCTIONS, function_text
from nnc.codegen.device.groups.device_rows import GroupKernel, group_kernel
from nnc.codegen.device.preamble import GROUP_THREADS, PTX_TRIPLE, entry, preamble, requested_shared_bytes
from nnc.codegen.device.spread import Spreader
from nnc.codegen.device.text import ParsedFunction, ParsedModule, parse
from nnc.codegen.frame.kernel import Generator
from nnc.codegen.ir.builder import Module
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription


@dataclass(frozen=True, slots=True)
class DevicePhase:
    """One launch: its entry function, its items from number `first` on, and threads.

    `threads` are those of a group, `worker` how many of them do one item together, and `scratch` the bytes that each
    worker needs for itself. `near` are the bytes of a group's memory that the launch has to ask for. `cost` is the
    generator's.
    """

    entry: str
    items: int
    first: int
    threads: int
    worker: int
    scratch: int
    near: int = 0
    cost: float = 0.0

    @property
    def groups(self) -> int:
        """Groups of threads when each worker does one item."""
        return -(-self.items * self.worker // self.threads)

    @property
    def workers(self) -> int:
        """Workers of one group."""
        return self.threads // self.worker


@dataclass(frozen=True, slots=True)
class DeviceKernel:
    """The text of a kernel's entries and of all that they call, and its phases.

    `tables` are the constants that the text names, as words. `missing` are functions that no device has and nobody has
    written: whoever runs the text refuses it by their names.
    """

    text: str
    phases: tuple[DevicePhase, ...]
    tables: Mapping[str, tuple[int, ...]]
    missing: tuple[str, ...]


def device_kernel(
    generator: Generator, target: TargetDescription, name: str, *, grouped: bool = True, bounded: bool = False
) -> DeviceKernel:
    """The kernel of a generator on a device, whose entries' names begin with `name`.

    Kernels of whole groups of threads are asked first, if the device is to run them `grouped`. One that is `bounded`
    says where it leaves an operand: in front of its table is the address of a record (`bounds`).
    """
    module, groups = Module(target), group_kernel(generator, target) if grouped else None
    if groups is not None:
        phases = groups.emit(module, name)
        return _assembled(parse(str(module)), phases, 0, target, groups, bounded=bounded)
    phases = generator.emit(module, name)
    return _assembled(parse(str(module)), phases, generator.scratch(target), target, bounded=bounded)


def _assembled(
    parsed: ParsedModule, phases: tuple[Phase, ...], scratch: int, target: TargetDescription,
    groups: GroupKernel | None = None, *, bounded: bool,
) -> DeviceKernel:  # fmt: skip
    """The kernel of a module's functions; with `groups`, of those that its threads run together."""
    group, paired = (groups.threads, groups.paired) if groups is not None else (0, False)
    tables, frames = dict(parsed.tables), dict[str, int]()
    texts, declared = list[str](), dict[str, str]()
    frame = -(-scratch // 64) * 64
    workers = {phase.symbol: group or _worker(parsed, phase.symbol, target.threads) for phase in phases}
    for name, function in parsed.functions.items():
        callers = [each for symbol, each in workers.items() if name in _reached(parsed, symbol)]
        threads = 1 if group else max(callers, default=1)
        spreader = Spreader(function, threads, frame, tables, bounded=bounded and name in workers)
        texts.append(spreader.write())
        declared |= spreader.declared
        frame = frames[name] = spreader.frame_end
    declared = {each: line for each, line in declared.items() if each not in parsed.functions}
    added, missing = _library(declared, tables, target)
    texts += added.values()
    size = frame if frame > -(-scratch // 64) * 64 else scratch
    made, entries = list[DevicePhase](), dict[str, str]()
    near = requested_shared_bytes(parsed.near) if target.triple == PTX_TRIPLE else 0
    for phase in phases:
        worker = workers[phase.symbol]
        name, threads = f"{phase.symbol}_entry", group or GROUP_THREADS
        entries.setdefault(phase.symbol, entry(name, phase.symbol, worker, threads, target.triple, paired=paired))
        made.append(DevicePhase(name, phase.items, phase.first, threads, worker, size, near, phase.cost))
    asked = {each: line for each, line in declared.items() if each not in added}
    text = preamble(asked, tables, parsed.near, texts, entries.values(), target)
    return DeviceKernel(text, tuple(made), tables, missing)


def _reached(parsed: ParsedModule, symbol: str) -> frozenset[str]:
    """The functions of a module that one calls, itself among them."""
    waiting, seen = [symbol], {symbol}
    while waiting:
        for i in parsed.functions[waiting.pop()].instructions():
            if i.opcode == "call" and i.detail in parsed.functions and i.detail not in seen:
                seen.add(i.detail)
                waiting.append(i.detail)
    return frozenset(seen)


def _worker(parsed: ParsedModule, symbol: str, threads: int) -> int:
    """How many threads do an item: those of a register where there are vectors, else one."""
    reached = (parsed.functions[name] for name in _reached(parsed, symbol))
    return threads if any(_computes_vectors(function) for function in reached) else 1


def _computes_vectors(function: ParsedFunction) -> bool:
    return any(
        kind.lanes > 1 for i in function.instructions() for kind in (i.kind, *(each.kind for each in i.operands))
    )


def library_text(name: str, target: TargetDescription) -> str:
    """A module with one function of the library, as kernels have it beside them."""
    declared, tables = {name: ""}, dict[str, tuple[int, ...]]()
    added, _ = _library(declared, tables, target)
    public = added.pop(name).replace("define internal ", "define ", 1)
    return preamble({each: line for each, line in declared.items() if each != name}, tables, {}, [public], (), target)


def _library(
    declared: dict[str, str], tables: dict[str, tuple[int, ...]], target: TargetDescription
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The functions of the library that are declared, and what is missing; what they declare and name is added."""
    added, missing = dict[str, str](), list[str]()
    for name in sorted(declared):
        if name.startswith(("llvm.", "nnc.")):
            continue
        if name not in FUNCTIONS:
            missing.append(name)
            continue
        parsed = parse(function_text(name, target))
        tables |= parsed.tables
        spreader = Spreader(parsed.functions[name], 1, 0, tables)
        added[name] = spreader.write()
        declared |= spreader.declared
    return added, tuple(missing)
