"""A library: files by name, and what it takes in bytes.

    made = library(model, "digits", target="aarch64");  made.write("out")

Everything is made in memory; a folder is written when all of it is there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.codegen.ir.targets import SMALL
from nnc.core.precautions.replacement import make_folder, write_atomically
from nnc.core.running.dispatch import DISPATCHER, TARGET
from nnc.core.running.library_program import LibraryBackend, LibraryCode, ObjectFile
from nnc.core.values.platform import ObjectFormat, OpenDimensions, TargetFacts
from nnc.dynamic.tree import Tree
from nnc.errors import BackendError, IndexRangeError, UsageError
from nnc.export.archive import archive
from nnc.export.browser import browser_files
from nnc.export.c_names import c_names, check_name
from nnc.export.description import Described, MemoryRow, Port, describe
from nnc.export.example import Array, check, cmake_lists, example, filled, makefile
from nnc.export.interface import Interface, cpp_header, header
from nnc.export.library_sizes import Size, check_alike, open_lengths, open_shapes, opened_sizes, with_shared_constants
from nnc.export.program_ports import ExportableModel, Function, ProgramPorts, Source, ports_of
from nnc.export.shared_library import linker_of, shared_library
from nnc.nn import Model
from nnc.symbolic.passes import QuantizationMode

# What a C library has, or the object `support` of the archive.
MEMORY_FUNCTIONS = frozenset({"memcpy", "memmove", "memset"})
# Names that linkers of position-independent code make themselves.
LINKER = frozenset({"_GLOBAL_OFFSET_TABLE_", "__stack_pointer", "__memory_base", "__table_base", "__linear_memory"})
# More constants than these are a file beside the library, which need not be linked to be read.
MOST_INSIDE = 64 << 20


@dataclass(frozen=True, slots=True, eq=False)
class CLibrary:
    """The files of a library by name, and its figures; `write` puts them into a folder.

    `plan_bytes` of the arena are those of the plan; `state` says where each tensor is in the memory that lasts.
    """

    name: str
    target: TargetFacts
    files: Mapping[str, bytes]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    arena_bytes: int
    plan_bytes: int
    state: tuple[MemoryRow, ...]
    state_bytes: int
    constant_bytes: int
    code_bytes: int
    stack_bytes: int
    kernels: int
    undefined: tuple[str, ...]

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write all files, each whole or not at all; the paths."""
        place = Path(folder)
        make_folder(place)
        for name, content in self.files.items():
            write_atomically(place / name, [content])
        return tuple(place / name for name in self.files)


@checked
def library(
    source: Source,
    name: str,
    *,
    target: str = "native",
    function: Function = "predict",
    example: Sequence[Tree] = (),
    batch: Size = 1,
    quantize: QuantizationMode | None = None,
    sizes: Mapping[str, Size] | None = None,
    constants_inside: bool | None = None,
    pool: bool = False,
    shared: bool = False,
    small: bool = False,
) -> CLibrary:
    """The library of a model, of an ONNX file, of a compiled function, or of a program that was compiled for a target.

    `target` is a row of the table in docs/library.md, with features of LLVM's behind the name. `small` code takes less
    flash and scratch memory, and more time; behind the name of a target the word says the same. A model predicts
    `batch` examples, with `quantize` by weights in 8 bits (`Model.freeze`); `sizes` are those of a file's open
    dimensions. Either may be several, from which callers choose in each run: `batch=range(1, 9)`; at most 64 rows of
    sizes in all.
    `example` are arguments of a function, or specs of them. Constants are in the library, or in NAME.weights; by their
    size if that is not said.

    The `function` "train" is one update: weights, optimizer state and counts are in a memory that lasts, of
    NAME_STATE_BYTES, which `NAME_initial_state` is the beginning of; the rate is an input. "apply" predicts by the
    weights in such a state, which may be that of "train".

    With a `pool` there is NAME_run_parallel, which hands chunks of work to workers of the caller's by a callback.
    With `shared` there is a shared library too, by the target's C compiler or ld.lld where one is on this machine.

    BackendError lists every command without a kernel of the target, before anything is made.
    """
    check_name(name)
    opened, chosen = opened_sizes(batch, sizes or {})
    if opened is not None and not isinstance(source, Model | ExportableModel):
        got = f"open sizes of {type(source).__name__}"
        raise UsageError("library", got=got, need="a model or an ONNX file", fix="a library for each size")
    if small and isinstance(source, ProgramPorts):
        got, fix = "small code of a program that is compiled", f'compile(..., backend="{TARGET}aarch64,{SMALL}")'
        raise UsageError("library", got=got, need="a program compiled for it", fix=fix)
    asked = TARGET + (f"{target},{SMALL}" if small else target)
    ports = [ports_of(source, asked, function, example, row.batch, quantize, row.sizes) for row in chosen]
    backend = DISPATCHER.backend(ports[0].compiled.planned.backend)
    if not isinstance(backend, LibraryBackend):
        got, need = f"a program for {backend.name}", "one compiled for a target"
        raise BackendError("library", got=got, need=need, fix=f'compile(..., backend="{TARGET}aarch64")')
    if shared:
        linker_of(backend.facts)
    described = _described(name, ports, _most_inside(constants_inside), pool)
    code = backend.library([entry.program for entry in described], opened)
    check_undefined(code)
    answers = _answers(ports[-1], described[-1])
    made = _made(described, code, answers, opened)
    if not shared:
        return made
    title, content = shared_library(name, code.program.content, code.target)
    return replace(made, files={**made.files, title: content})


def _described(name: str, ports: Sequence[ProgramPorts], most_inside: int, pooled: bool) -> list[Described]:
    """What each program is; those of several sizes share constants."""
    if len(ports) == 1:
        return [describe(name, ports[0], most_inside=most_inside, pooled=pooled)]
    described = [describe(name, asked, most_inside=most_inside, pooled=pooled) for asked in ports]
    check_alike(described)
    return with_shared_constants(described, most_inside)


def check_undefined(code: LibraryCode) -> None:
    """BackendError where the code calls functions that neither it nor the support object has."""
    missing = set(code.program.undefined) - MEMORY_FUNCTIONS - set(code.support.defined) - LINKER
    if missing:
        got = f"calls of {', '.join(sorted(missing))} on {code.target.name}"
        raise BackendError("library", got=got, need="code that needs no C library")


def _most_inside(inside: bool | None) -> int:
    if inside is None:
        return MOST_INSIDE
    return 1 << 62 if inside else -1


def _answers(ports: ProgramPorts, described: Described) -> dict[str, Array] | None:
    """The outputs for the inputs that the check's rule gives, computed here; None where these are an error.

    The state is as it was.
    """
    compiled, given = ports.compiled, ports.given

    def run() -> dict[str, Array] | None:
        before = {name: np.array(tensor.numpy()) for name, tensor in described.lasting.items()}
        arrays = {port.name: filled(number, port) for number, port in enumerate(described.inputs, 1)}
        for name, tensor in given.items():
            tensor.copy_from(arrays[name])
        values = [(symbol, arrays[name]) for name, symbol in ports.inputs.items() if name in arrays]
        try:
            results = dict(zip(ports.outputs, compiled.read(values, ports.outputs.values()), strict=True))
            return results | {name: np.array(tensor.numpy()) for name, tensor in ports.made.items()}
        except IndexRangeError:
            return None
        finally:
            for name, array in before.items():
                described.lasting[name].copy_from(array)

    return compiled.exclusively(run)


def _made(
    every: Sequence[Described], code: LibraryCode, answers: Mapping[str, Array] | None, opened: OpenDimensions | None
) -> CLibrary:
    """All files as bytes; ports and the arena are those of the largest size."""
    described = every[-1]
    program, interface = described.program, _interface(described, code)
    if opened is not None:
        names = c_names(opened.names)
        opened = OpenDimensions(tuple((names[name], sizes) for name, sizes in opened.choices))
        shapes, lengths = open_shapes(opened, every), open_lengths(every)
        interface = replace(interface, opened=opened, shapes=shapes, lengths=lengths)
    return CLibrary(
        program.name,
        code.target,
        _files(interface, described, code, answers),
        described.inputs,
        described.outputs,
        code.arena_bytes,
        max(entry.program.arena.nbytes for entry in every),
        described.state,
        interface.state_bytes,
        program.constant_bytes,
        code.program.code_bytes,
        code.program.stack_bytes,
        code.kernels,
        code.program.undefined,
    )


def _interface(described: Described, code: LibraryCode) -> Interface:
    program = described.program
    return Interface(
        program.name,
        code.target,
        described.inputs,
        described.outputs,
        code.arena_bytes,
        len(program.initial),
        program.constant_bytes,
        program.content is None and program.constant_bytes > 0,
        code.program.stack_bytes,
        code.worker_bytes if program.pooled else None,
    )


def _files(
    interface: Interface, described: Described, code: LibraryCode, answers: Mapping[str, Array] | None
) -> dict[str, bytes]:
    name, members = interface.name, {"program.o": code.program, "support.o": code.support}
    files = {
        f"lib{name}.a": _archive(members, code.target),
        f"{name}.o": code.program.content,
        f"{name}.h": header(interface).encode(),
        f"{name}.hpp": cpp_header(interface).encode(),
        f"{name}.json": _facts(interface, described, code).encode(),
        "main.c": example(interface).encode(),
        "check.c": check(interface, answers).encode(),
        "Makefile": makefile(interface).encode(),
        "CMakeLists.txt": cmake_lists(interface).encode(),
    }
    if code.alone is not None:
        files |= browser_files(interface, code.alone, answers)
    if interface.of_file:
        files[f"{name}.weights"] = described.constant_content
    return files


def _archive(members: Mapping[str, ObjectFile], target: TargetFacts) -> bytes:
    bsd = target.format is ObjectFormat.MACHO
    prefix = "_" if bsd else ""
    symbols = {name: [prefix + symbol for symbol in member.defined] for name, member in members.items()}
    return archive({name: member.content for name, member in members.items()}, symbols, bsd=bsd)


def _facts(interface: Interface, described: Described, code: LibraryCode) -> str:
    """NAME.json: ports, bytes, and what each byte is for."""
    facts = {
        "name": interface.name,
        "target": {
            "name": interface.target.name,
            "triple": interface.target.triple,
            "processor": interface.target.processor,
            "features": interface.target.features,
        },
        "inputs": [_port(port) for port in described.inputs],
        "outputs": [_port(port) for port in described.outputs],
        "bytes": {
            "arena": code.arena_bytes,
            "plan": described.program.arena.nbytes,
            **code.beside,
            "state": interface.state_bytes,
            "constants": interface.constant_bytes,
            "code": code.program.code_bytes,
            "stack": code.program.stack_bytes,
        },
        "kernels": code.kernels,
        **_open_facts(interface, code),
        "arena": [_row(row) for row in described.arena],
        "state": [_row(row) for row in described.state],
        "constants": [_row(row) for row in described.constants],
    }
    return json.dumps(facts, indent=1) + "\n"


def _open_facts(interface: Interface, code: LibraryCode) -> dict[str, object]:
    """Which sizes there are, and the bytes of the arena at each row of them."""
    if interface.opened is None:
        return {}
    names, rows = interface.opened.names, interface.opened.rows
    arenas = [
        {**dict(zip(names, row, strict=True)), "arena": nbytes} for row, nbytes in zip(rows, code.arenas, strict=True)
    ]
    return {"open": {"sizes": dict(interface.opened.choices), "arenas": arenas}}


def _port(port: Port) -> dict[str, object]:
    return {"name": port.name, "dtype": port.spec.dtype.name, "shape": list(port.spec.shape)}


def _row(row: MemoryRow) -> dict[str, object]:
    return {"name": row.name, "offset": row.offset, "bytes": row.nbytes}
