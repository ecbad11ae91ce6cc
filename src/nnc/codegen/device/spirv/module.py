"""A kernel as a SPIR-V module for Vulkan 1.2: an entry point for each phase, whose words are push constants.

    spirv = spirv_module(kernel)
    spirv.code         the module
    spirv.tables       constants, as bytes; their address is the sixth word of a launch

A launch pushes six words of 64 bits: args, first, items, scratch, scratch_bytes, and the address of the tables. What is
at these addresses is reached by them alone: buffers with device addresses, and no descriptors.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping

from nnc.classes import dataclass
from nnc.codegen.device.launch import DeviceKernel
from nnc.codegen.device.preamble import entries_of
from nnc.codegen.device.spirv import assembler as spirv
from nnc.codegen.device.spirv.assembler import SpirvAssembler, text_words
from nnc.codegen.device.spirv.structured import SpirvFlow, SpirvLoop
from nnc.codegen.device.spirv.translations import InstructionWriter
from nnc.codegen.device.text import Kind, ParsedFunction, TextBlock, TextInstruction, parse

FUNCTION_START, PARAMETER, FUNCTION_END, VARIABLE = 54, 55, 56, 59
PHI, LOOP_MERGE, SELECTION_MERGE, LABEL, BRANCH, BRANCH_IF, RETURN, RETURN_VALUE = (
    245,
    246,
    247,
    248,
    249,
    250,
    253,
    254,
)
COMPUTE, LOCAL_SIZE = 5, 17
# SignedZeroInfNanPreserve: the capability, the mode of an entry point, and what floats of so many bits need themselves.
KEEPS_SPECIAL, SPECIAL_KEPT = 4466, 4461
FLOAT_CAPABILITIES = {16: spirv.FLOAT16, 32: spirv.SHADER, 64: spirv.FLOAT64}
TABLE_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class SpirvCode:
    """A module and the constants that it reads; `entries` are the names of its entry points."""

    code: bytes
    tables: bytes
    entries: tuple[str, ...]


def spirv_module(kernel: DeviceKernel, kept: Collection[int] = ()) -> SpirvCode:
    """The module of a kernel whose target is Vulkan.

    Floats of `kept` bits keep the signs of zeros, infinities and NaN, where a device can say so; elsewhere it may
    compute as if there were none.
    """
    entries, parsed = entries_of(kernel.text), parse(kernel.text)
    places, data = dict[str, int](), b""
    for name, values in parsed.tables.items():
        places[name] = len(data)
        data += struct.pack(f"<{len(values)}q", *values)
        data += bytes(-len(data) % TABLE_ALIGNMENT)
    module = SpirvAssembler()
    threads = {phase.entry: phase.threads for phase in kernel.phases}
    ids = {name: module.id() for name in parsed.functions}
    for name, function in parsed.functions.items():
        _FunctionWriter(module, function, ids, places, parsed.near).write(is_entry=name in entries)
    for name in entries:
        module.entries += module.words(spirv.ENTRY_POINT, COMPUTE, ids[name], *text_words(name), *module.interface)
    for name in entries:
        module.entries += module.words(spirv.EXECUTION_MODE, ids[name], LOCAL_SIZE, threads[name], 1, 1)
    for width in sorted(kept):
        if FLOAT_CAPABILITIES[width] in module.capabilities:
            module.capabilities.add(KEEPS_SPECIAL)
            for name in entries:
                module.entries += module.words(spirv.EXECUTION_MODE, ids[name], SPECIAL_KEPT, width)
    return SpirvCode(module.assembled(), data, entries)


class _FunctionWriter(InstructionWriter):
    """Writes one function with its control flow."""

    def __init__(
        self,
        module: SpirvAssembler,
        function: ParsedFunction,
        ids: Mapping[str, int],
        tables: Mapping[str, int],
        near: Mapping[str, Kind],
    ) -> None:
        super().__init__(module, ids, tables, near)
        self.function, self.flow = function, SpirvFlow.of(function)
        self.labels = {block.label: module.id() for block in function.blocks}
        # Of a loop by its first label: the block behind its head, that which repeats, and that behind it.
        self.bodies = {label: (module.id(), module.id(), module.id()) for label in self.flow.headers}

    def write(self, *, is_entry: bool) -> None:
        """The whole function."""
        m, arguments = self.m, self.function.arguments
        kinds = [] if is_entry else [each.kind for each in arguments]
        result = m.type(self.function.result)
        m.write(
            FUNCTION_START, result, self.called[self.function.name], 0, m.function_type(self.function.result, kinds)
        )
        for argument in () if is_entry else arguments:
            m.write(PARAMETER, m.type(argument.kind), self.name(argument.text))
        for place, block in enumerate(self.function.blocks):
            m.write(LABEL, self.labels[block.label])
            if place == 0:
                self._begin(is_entry)
            self._block(place, block)
        m.write(FUNCTION_END)

    def _begin(self, is_entry: bool) -> None:
        """Variables, and the words of a launch."""
        for i in self.function.instructions():
            if i.opcode == "alloca":
                kind = self.m.type(i.kind)
                variable = self.m.id()
                self.m.write(VARIABLE, self.m.pointer(spirv.FUNCTION, kind), variable, spirv.FUNCTION)
                self.slots[i.result] = (variable, i.kind)
        for place, argument in enumerate(self.function.arguments if is_entry else ()):
            self.values[argument.text] = self.pushed(place)

    def _block(self, place: int, block: TextBlock) -> None:
        rest = list(block.instructions)
        while rest and rest[0].opcode == "phi":
            self._join(rest.pop(0), block.label)
        if (loop := self.flow.headers.get(block.label)) is not None:
            body, repeated, behind = self.bodies[loop.header]
            self.m.write(LOOP_MERGE, behind, repeated, 0)
            self.m.write(BRANCH, body)
            self.m.write(LABEL, body)
        for i in rest[:-1]:
            self.translate(i)
        self._jump(place, block, rest[-1])

    def _join(self, i: TextInstruction, label: str) -> None:
        pairs = []
        for value, source in zip(i.operands[::2], i.operands[1::2], strict=True):
            pairs += [self.value(value), self._predecessor(source.text, label)]
        self.result(PHI, i.kind, *pairs, name=i.result)

    def _predecessor(self, source: str, label: str) -> int:
        """Where a jump from one label to another comes from."""
        loop = self.flow.latches.get(source)
        if loop is not None:
            _, repeated, behind = self.bodies[loop.header]
            return repeated if loop.header == label else behind
        return self.bodies[source][0] if source in self.bodies else self.labels[source]

    def _jump(self, place: int, block: TextBlock, i: TextInstruction) -> None:
        m = self.m
        if i.opcode == "ret":
            if i.operands:
                m.write(RETURN_VALUE, self.value(i.operands[0]))
            else:
                m.write(RETURN)
        elif (loop := self.flow.latches.get(block.label)) is not None:
            self._repeat(loop, i)
        elif len(i.operands) == 1:
            m.write(BRANCH, self.labels[i.operands[0].text])
        else:
            condition, yes, no = i.operands
            left = self.flow.broken(place, yes.text)
            if left is None:
                m.write(SELECTION_MERGE, self.labels[no.text], 0)
            target = self.labels[yes.text] if left is None else self.bodies[left.header][2]
            m.write(BRANCH_IF, self.value(condition), target, self.labels[no.text])

    def _repeat(self, loop: SpirvLoop, i: TextInstruction) -> None:
        """The end of a loop, the block that repeats it, and that behind it."""
        m, (_, repeated, behind) = self.m, self.bodies[loop.header]
        if len(i.operands) == 1:
            m.write(BRANCH, repeated)
        else:
            condition, yes, _ = i.operands
            targets = (repeated, behind) if yes.text == loop.header else (behind, repeated)
            m.write(BRANCH_IF, self.value(condition), *targets)
        m.write(LABEL, repeated)
        m.write(BRANCH, self.labels[loop.header])
        m.write(LABEL, behind)
        m.write(BRANCH, self.labels[loop.exit])
