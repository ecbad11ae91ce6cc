"""The text of a whole program, or of one for each row of open sizes: kernels, constants, functions.

text = write_program([program], target)
text = write_program(programs, target, OpenDimensions((("n", (1, 2, 4)),)))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnc.codegen.device.functions import FUNCTIONS, function_module
from nnc.codegen.ir.builder import ADDRESS, I64, Builder, Module, Value
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.program.checked import CheckedFunction, SingleThreadFunction, WorkersFunction
from nnc.codegen.program.contents import reserved
from nnc.codegen.program.entry import RunFunction
from nnc.codegen.program.narrow import with_own_arithmetic
from nnc.codegen.program.pool_calls import write_tasks
from nnc.codegen.program.shared_kernels import ProgramKernel, write_kernels
from nnc.codegen.program.size_switch import of_sizes, size_parameters, write_choices
from nnc.codegen.program.statements import LinkedProgram
from nnc.codegen.program.support import support_functions
from nnc.core.values.exact import Exact
from nnc.core.values.platform import OpenDimensions


def distinct_kernels(programs: Sequence[LinkedProgram]) -> dict[Exact, int]:
    """The generators of all programs, each once, by number."""
    numbers: dict[Exact, int] = {}
    for generator in (generator for program in programs for generator in program.kernels):
        numbers.setdefault(Exact(generator), len(numbers))
    return numbers


def constants_symbol(program: LinkedProgram) -> str:
    """The name of its constants."""
    return f"{program.name}_constants"


def contents_of(program: LinkedProgram) -> dict[str, bytes]:
    """What the program has in it by name: constants that are no file's, and how the state begins."""
    contents = {constants_symbol(program): program.constants or b"", f"{program.name}_initial_state": program.state}
    return {symbol: content for symbol, content in contents.items() if content}


def write_program(
    programs: Sequence[LinkedProgram], target: TargetDescription, opened: OpenDimensions | None = None, *,
    alone: bool = False,
) -> str:  # fmt: skip
    """The text of a program: kernels, constants, and the functions that a header declares; of one, or of each row
    of sizes.

    What `contents_of` the first one says is put into the object file (`filled`). One that is `alone` has what others
    find in a C library itself, and says where its first state is.
    """
    module, first = Module(target), programs[0]
    numbers = distinct_kernels(programs)
    generators = [key.value for key in numbers]
    made = write_kernels(module, first.name, generators, shared=opened is not None or target.small)  # type: ignore[arg-type]  # of such keys
    for symbol, content in contents_of(first).items():
        module.define(reserved(symbol, content, "internal" if symbol == constants_symbol(first) else ""))
    if first.pooled:
        write_tasks(module, first.name)
    if opened is None:
        _functions(module, first, first.name, made)
    else:
        own = Module(target)
        for program, sizes in zip(programs, opened.rows, strict=True):
            kernels = [made[numbers[Exact(generator)]] for generator in program.kernels]
            _functions(own, replace(program, name=of_sizes(first.name, sizes)), first.name, kernels)
        module.absorb(own, first.name)
        write_choices(module, first, opened)
    if alone:
        _alone(module, first, opened)
    supply_mathematics(module)
    text = str(module)
    has_wide = target.pointer_bytes == I64.size or target.triple.startswith("wasm")
    return text if has_wide else with_own_arithmetic(text)


def _functions(module: Module, program: LinkedProgram, shared: str, kernels: Sequence[ProgramKernel]) -> None:
    """The functions of a program; `shared` is what names begin with of what programs of all sizes have."""
    RunFunction(module, program, shared, kernels).emit()
    if program.pooled:
        SingleThreadFunction(module, program).emit()
    CheckedFunction(module, program).emit()


def supply_mathematics(module: Module) -> None:
    """What is called of the C library's mathematics, as functions of the program's own."""
    while called := sorted(module.declared & FUNCTIONS.keys()):
        for name in called:
            module.supply(name, function_module(name, module.target))


def _alone(module: Module, program: LinkedProgram, opened: OpenDimensions | None) -> None:
    if program.pooled:
        WorkersFunction(module, program, size_parameters(module, opened)).emit()
    for function in support_functions(module.target):
        module.append(function)
    if program.state:
        b = Builder(module, f"{program.name}_initial_state_address", (), "ptr")
        b.finish(Value(f"@{program.name}_initial_state", ADDRESS, b))
