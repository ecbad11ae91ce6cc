"""The C side of a library as text: header, C++ wrapper, an example, a check of recorded answers, build files.

Freestanding headers of C11 alone; names begin with that of the library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from nnc.classes import dataclass
from nnc.codegen.program.function import ErrorCode
from nnc.core.values.dtype import DType
from nnc.core.values.platform import OpenDimensions, TargetFacts
from nnc.export.description import ALIGNMENT, Port

# Elements of a port in C; floats of 16 bits are their bits.
TYPES = {
    "f64": "double", "f32": "float", "f16": "uint16_t", "bf16": "uint16_t", "i64": "int64_t", "i32": "int32_t",
    "i16": "int16_t", "i8": "int8_t", "u8": "uint8_t", "bool": "uint8_t",
}  # fmt: skip
MEANINGS = {
    ErrorCode.NONE: "done",
    ErrorCode.NULL: "a pointer is null",
    ErrorCode.MISALIGNED: "a pointer is not aligned as it must be",
    ErrorCode.ARENA_TOO_SMALL: "the arena has fewer bytes than the program needs",
    ErrorCode.OVERLAP: "an input or output lies over the arena or over another output",
    ErrorCode.INDEX: "an index is outside its axis",
    ErrorCode.ENDLESS: "a loop goes on beyond its bound",
    ErrorCode.SIZE: "a size that there is no program for",
}


@dataclass(frozen=True, slots=True)
class Interface:
    """What the texts tell of a library; `shapes` and `lengths` are of ports with open sizes: elements at each row."""

    name: str
    target: TargetFacts
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    arena_bytes: int
    state_bytes: int
    constant_bytes: int
    of_file: bool
    stack_bytes: int
    worker_bytes: int | None
    opened: OpenDimensions | None = None
    shapes: Mapping[str, str] = field(default_factory=dict)
    lengths: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """What macros begin with."""
        return self.name.upper()

    @property
    def is_pooled(self) -> bool:
        """Whether several workers may run it."""
        return self.worker_bytes is not None

    @property
    def parameters(self) -> str:
        """The parameters of the function that runs the program."""
        state = "void *state, " if self.state_bytes else ""
        sizes = "".join(f", size_t {name}" for name, _ in self.choices)
        return f"void *arena, {state}const {self.name}_inputs *inputs, {self.name}_outputs *outputs{sizes}"

    @property
    def largest(self) -> str:
        """What an example gives behind the ports: the largest sizes, if there are open ones."""
        return "".join(f", {sizes[-1]}" for _, sizes in self.choices)

    @property
    def choices(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The open dimensions by name."""
        return self.opened.choices if self.opened else ()

    def elements(self, port: Port) -> tuple[int, ...]:
        """The elements of a port at each row of open sizes, or the one count that there is."""
        return self.lengths.get(port.name, (port.spec.elements,))


def c_type(dtype: DType) -> str:
    """The type of an element."""
    return TYPES[dtype.name]


def header(library: Interface) -> str:
    """NAME.h"""
    prefix, name = library.prefix, library.name
    rows = [(code.name if code else "OK", int(code), MEANINGS[code]) for code in ErrorCode]
    codes = "\n".join(f"#define {prefix}_{word} {number} /* {meaning} */" for word, number, meaning in rows)
    weights = f"    const void *weights; /* {name}.weights, mapped or read */\n" if library.of_file else ""
    texts = {
        "CODES": codes,
        "SIZES": _sizes(library),
        "INPUTS": weights + _fields(library, library.inputs, "const "),
        "OUTPUTS": _fields(library, library.outputs, ""),
        "OPEN": _open(library),
        "POOL": "" if library.worker_bytes is None else _POOL,
        "INITIAL": _INITIAL if library.state_bytes else "",
        "PARAMETERS": library.parameters,
        "AND_STATE": " and of the state" if library.state_bytes else "",
        "EACH": "an arena and a state" if library.state_bytes else "an arena",
        "TARGET": library.target.name,
        "NAME": name,
        "PREFIX": prefix,
    }
    text = _HEADER
    for word, content in texts.items():
        text = text.replace(f"@{word}@", content)
    return text


_POOL = """
/* Workers of the caller's: parallel_for calls task(argument, n) for each n below tasks, and waits for all of them. */
typedef struct {
    void *context;
    size_t workers;
    void (*parallel_for)(void *context, size_t tasks, void (*task)(void *argument, size_t number), void *argument);
} @NAME@_pool;

/* The same results by several workers; each beyond the first needs @PREFIX@_WORKER_BYTES more behind the arena. */
int @NAME@_run_parallel(@PARAMETERS@, const @NAME@_pool *pool);
"""
_INITIAL = """
/* The state as it was when the library was made: copy it into aligned memory. */
extern const unsigned char @NAME@_initial_state[];
"""
_HEADER = """/* @NAME@: made by nnc for @TARGET@. Memory is the caller's; nothing is allocated. */
#ifndef @PREFIX@_H
#define @PREFIX@_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the arena@AND_STATE@, of the stack, and what the first byte of memory is aligned to. */
@SIZES@

@CODES@
@OPEN@
typedef struct {
@INPUTS@} @NAME@_inputs;

typedef struct {
@OUTPUTS@} @NAME@_outputs;
@INITIAL@
/* Runs the program once; several runs at once need @EACH@ each. */
int @NAME@_run(@PARAMETERS@);

/* The same, for callers that are not trusted: @PREFIX@_ARENA_TOO_SMALL, @PREFIX@_OVERLAP before anything is written. */
int @NAME@_run_checked(size_t arena_bytes, @PARAMETERS@);
@POOL@
#ifdef __cplusplus
}
#endif
#endif
"""


def _sizes(library: Interface) -> str:
    numbers = {"ARENA_BYTES": library.arena_bytes}
    if library.state_bytes:
        numbers["STATE_BYTES"] = library.state_bytes
    if library.of_file:
        numbers["WEIGHT_BYTES"] = library.constant_bytes
    if library.worker_bytes is not None:
        numbers["WORKER_BYTES"] = library.worker_bytes
    if library.stack_bytes:
        numbers["STACK_BYTES"] = library.stack_bytes
    numbers["ALIGNMENT"] = ALIGNMENT
    return "\n".join(f"#define {library.prefix}_{word} ((size_t){number})" for word, number in numbers.items())


def _open(library: Interface) -> str:
    """Which sizes there are; the bytes are enough for them all."""
    lines = [""] if library.choices else []
    for name, sizes in library.choices:
        listed = f"{sizes[0]} to {sizes[-1]}"
        if sizes != tuple(range(sizes[0], sizes[-1] + 1)):
            listed = ", ".join(map(str, sizes))
        size = f"{library.prefix}_SIZE"
        prefix = f"#define {library.prefix}_{name.upper()}"
        lines.append(f"/* {name} is one of {listed}, else the result is {size}; bytes above are enough for each. */")
        lines += [f"{prefix}_LEAST ((size_t){sizes[0]})", f"{prefix}_MOST ((size_t){sizes[-1]})"]
    return "\n".join([*lines, ""]) if lines else ""


def _fields(library: Interface, ports: Sequence[Port], qualifier: str) -> str:
    rows = [
        f"    {qualifier}{c_type(port.spec.dtype)} *{port.name}; /* {library.shapes.get(port.name, port.spec)} */\n"
        for port in ports
    ]
    return "".join(rows) or "    char unused;\n"


def cpp_header(library: Interface) -> str:
    """NAME.hpp: an arena of its own and a call of typed arrays."""
    name, prefix = library.name, library.prefix
    rows = "\n".join(
        f"    static constexpr std::size_t {port.name}_elements = {port.spec.elements};"
        for port in (*library.inputs, *library.outputs)
    )
    state = f"    alignas({ALIGNMENT}) unsigned char state[{library.state_bytes}];\n" if library.state_bytes else ""
    first = ", state" if library.state_bytes else ""
    start = (
        f"    program() {{ for (std::size_t i = 0; i < sizeof state; ++i) state[i] = {name}_initial_state[i]; }}\n"
        if library.state_bytes
        else ""
    )
    parameter = "".join(f", std::size_t {size}" for size, _ in library.choices)
    given = "".join(f", {size}" for size, _ in library.choices)
    return f"""// {name} for C++11 and newer: the memory of one instance, and its run.
#ifndef {prefix}_HPP
#define {prefix}_HPP
#include "{name}.h"
#include <cstddef>
namespace {name} {{
class program {{
public:
{rows}
{start}    int run(const {name}_inputs &inputs, {name}_outputs &outputs{parameter}) noexcept {{
        return {name}_run(arena{first}, &inputs, &outputs{given});
    }}
{state}private:
    alignas({ALIGNMENT}) unsigned char arena[{library.arena_bytes}];
}};
}}
#endif
"""
