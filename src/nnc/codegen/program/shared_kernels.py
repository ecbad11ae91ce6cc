"""Kernels of a program as text: those that differ by the sizes that they read alone have one text, and words each.

    kernels = write_kernels(module, "digits", generators)

A text that serves one kernel has its sizes as constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator
from nnc.codegen.frame.written import WrittenKernel, outline, write_into
from nnc.codegen.ir.builder import Module
from nnc.codegen.ir.native_kernel import Phase
from nnc.core.values.exact import Exact

# What a kernel reads, in the order in which its outline has it.
Sizes: TypeAlias = Sequence[int]


@dataclass(frozen=True, slots=True)
class ProgramKernel:
    """The phases of a kernel, and the words that they read."""

    phases: tuple[Phase, ...]
    words: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class _Text:
    """What was written for some kernels: their numbers, with phases and words."""

    module: Module
    name: str
    written: WrittenKernel
    served: dict[int, ProgramKernel]


def write_kernels(module: Module, name: str, generators: Sequence[Generator], *, shared: bool) -> list[ProgramKernel]:
    """All of them, as functions of the module; with `shared` one text serves several where it can."""
    groups: dict[object, dict[int, Sizes]] = {}
    for number, generator in enumerate(generators):
        shape, sizes = outline(generator, module.target) if shared else (None, ())
        groups.setdefault(Exact(shape) if shared else number, {})[number] = sizes
    kernels: dict[int, ProgramKernel] = {}
    for members in groups.values():
        for text in _texts(module, name, generators, members) if len(members) > 1 else ():
            if len(text.served) > 1:
                module.absorb(text.module, text.name)
                kernels |= text.served
        for number in members:
            if number not in kernels:
                kernels[number] = _fixed(module, f"{name}_kernel_{number}", generators[number])
    return [kernels[number] for number in range(len(generators))]


def _fixed(module: Module, name: str, generator: Generator) -> ProgramKernel:
    own = Module(module.target)
    phases = generator.emit(own, name)
    module.absorb(own, name)
    return ProgramKernel(phases)


def _texts(module: Module, name: str, generators: Sequence[Generator], members: Mapping[int, Sizes]) -> list[_Text]:
    """Texts that serve the members, by their sizes: a further one where the conditions of those before do not hold."""
    texts: list[_Text] = []
    for number, sizes in members.items():
        for text in texts:
            sized = text.written.at(sizes)
            if sized is not None:
                text.served[number] = ProgramKernel(sized.phases, sized.words)
                break
        else:
            own, title = Module(module.target), f"{name}_kernel_{number}"
            written = write_into(own, generators[number], title)
            sized = written.at(sizes)
            assert sized is not None, "a text serves the sizes that it was written for"
            texts.append(_Text(own, title, written, {number: ProgramKernel(sized.phases, sized.words)}))
    return texts
