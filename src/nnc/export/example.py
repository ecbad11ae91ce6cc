"""Files beside a library: an example, a check of recorded answers, and what builds them.

The check fills inputs by one rule in C and in Python: x = x * 1664525 + 1013904223 modulo 2^32 for each element, floats
are (x >> 8) / 2^24, integers and truth values are 0 unless an example of them was given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nnc.core.values.dtype import TOLERANCE
from nnc.export.c_names import cmake_target
from nnc.export.description import ALIGNMENT, Port
from nnc.export.interface import Interface, c_type

Array = NDArray[np.generic]
# At most this many elements of an output are printed and recorded, spread over all of it.
SHOWN, RECORDED = 8, 256


def filled(seed: int, port: Port) -> Array:
    """The elements that the check's rule gives."""
    count, dtype = port.spec.elements, port.spec.dtype
    if not dtype.is_float:
        return np.zeros(port.spec.shape, dtype.numpy)
    state, values = np.uint64(seed), np.empty(count, np.uint64)
    factor, term, mask = np.uint64(1664525), np.uint64(1013904223), np.uint64(0xFFFFFFFF)
    for index in range(count):
        state = (state * factor + term) & mask
        values[index] = state
    return ((values >> np.uint64(8)).astype(np.float64) / 2**24).astype(dtype.numpy).reshape(port.spec.shape)


def buffers(library: Interface) -> str:
    """Memory of one instance, as a C program's static data."""
    prefix = library.prefix
    rows = [f"static _Alignas({ALIGNMENT}) unsigned char arena[{library.arena_bytes}];"]
    if library.state_bytes:
        rows.append(f"static _Alignas({ALIGNMENT}) unsigned char state[{library.state_bytes}];")
    if library.of_file:
        rows.append(f"static _Alignas({ALIGNMENT}) unsigned char weights[{library.constant_bytes}];")
    rows += [
        f"static {c_type(port.spec.dtype)} {port.name}[{max(port.spec.elements, 1)}];"
        for port in (*library.inputs, *library.outputs)
    ]
    return "\n".join(rows).replace("PREFIX", prefix)


def _start(library: Interface) -> str:
    name = library.name
    lines = []
    if library.state_bytes:
        lines.append(f"    memcpy(state, {name}_initial_state, sizeof state);")
    if library.of_file:
        lines += [
            f'    FILE *file = fopen("{name}.weights", "rb");',
            "    if (!file || fread(weights, 1, sizeof weights, file) != sizeof weights) {",
            f'        fprintf(stderr, "{name}.weights cannot be read\\n");',
            "        return 1;",
            "    }",
            "    fclose(file);",
        ]
    given = ", ".join([*(["weights"] if library.of_file else []), *(port.name for port in library.inputs)]) or "0"
    wanted = ", ".join(port.name for port in library.outputs) or "0"
    lines += [
        f"    const {name}_inputs inputs = {{{given}}};",
        f"    {name}_outputs outputs = {{{wanted}}};",
    ]
    return "\n".join(lines)


def _run(library: Interface) -> str:
    first = "arena, state" if library.state_bytes else "arena"
    return f"""    int error = {library.name}_run({first}, &inputs, &outputs{library.largest});
    if (error) {{
        fprintf(stderr, "{library.name}_run: error %d\\n", error);
        return 1;
    }}"""


def example(library: Interface) -> str:
    """main.c: one run on zeros, whose first results are printed."""
    printed = []
    for port in library.outputs:
        count = min(port.spec.elements, SHOWN)
        form, cast = ("%g", "(double)") if port.spec.dtype.is_float else ("%lld", "(long long)")
        printed.append(f'    for (int i = 0; i < {count}; ++i)\n        printf("{form} ", {cast}{port.name}[i]);')
        printed.append('    printf("\\n");')
    return f"""/* One run of {library.name} on zeros: put your own elements into the inputs. */
#include "{library.name}.h"
#include <stdio.h>
#include <string.h>

{buffers(library)}

int main(void) {{
{_start(library)}
{_run(library)}
{chr(10).join(printed)}
    return 0;
}}
"""


def recorded_places(port: Port) -> Sequence[int]:
    """Which elements of an output are recorded: all of a few, else so many spread over all."""
    count = port.spec.elements
    return range(count) if count <= RECORDED else [index * count // RECORDED for index in range(RECORDED)]


def check(library: Interface, answers: Mapping[str, Array] | None) -> str:
    """check.c: the run on the elements of the rule, compared with what was recorded; 0 where it fits.

    Without answers the run must say that these elements are an error.
    """
    fills, tables, compares = [], [], []
    for number, port in enumerate(library.inputs):
        if port.spec.dtype.name in ("f32", "f64"):
            fills.append(f"    fill_{port.spec.dtype.name}({port.name}, {port.spec.elements}, {number + 1}u);")
    for port in library.outputs:
        if answers is None or port.spec.dtype.name in ("f16", "bf16"):
            continue
        places, values = recorded_places(port), np.asarray(answers[port.name]).reshape(-1)
        kind = c_type(port.spec.dtype)
        told = ", ".join(_literal(values[place]) for place in places)
        where = ", ".join(map(str, places))
        tables.append(f"static const {kind} {port.name}_recorded[] = {{{told}}};")
        tables.append(f"static const size_t {port.name}_places[] = {{{where}}};")
        allowed = TOLERANCE[port.spec.dtype].of_program(answers[port.name])
        compares.append(
            f"    for (size_t i = 0; i < {len(places)}; ++i)\n"
            f"        wrong += differs((double){port.name}[{port.name}_places[i]], (double){port.name}_recorded[i], "
            f"{allowed.relative!r}, {allowed.absolute!r});"
        )
    texts = {
        "BUFFERS": buffers(library),
        "TABLES": "\n".join(tables),
        "START": "\n".join([*fills, _start(library)]),
        "RUN": _run(library) if answers is not None else _refused(library),
        "COMPARES": "\n".join(compares),
    }
    text = _CHECK.replace("NAME", library.name)
    for word, content in texts.items():
        text = text.replace(f"@{word}@", content)
    return text


def _refused(library: Interface) -> str:
    given = ("arena, state" if library.state_bytes else "arena") + f", &inputs, &outputs{library.largest}"
    return f"    wrong += {library.name}_run({given}) == 0; /* these elements are an error */"


def _literal(value: np.generic) -> str:
    number = value.item()
    if isinstance(number, float):
        if np.isfinite(number):
            return number.hex()
        return "(0.0 / 0.0)" if np.isnan(number) else f"({'1.0' if number > 0 else '-1.0'} / 0.0)"
    return str(int(number))


_CHECK = """/* Compares a run of NAME with answers that were recorded when it was made. */
#include "NAME.h"
#include <stdio.h>
#include <string.h>

@BUFFERS@

@TABLES@

static void fill_f32(float *elements, size_t count, uint32_t state) {
    for (size_t i = 0; i < count; ++i) {
        state = state * 1664525u + 1013904223u;
        elements[i] = (float)(state >> 8) / 16777216.0f;
    }
}

static void fill_f64(double *elements, size_t count, uint32_t state) {
    for (size_t i = 0; i < count; ++i) {
        state = state * 1664525u + 1013904223u;
        elements[i] = (double)(state >> 8) / 16777216.0;
    }
}

static int differs(double got, double recorded, double relative, double absolute) {
    double size = recorded < 0 ? -recorded : recorded, apart = got < recorded ? recorded - got : got - recorded;
    if (got != got || recorded != recorded)
        return (got != got) != (recorded != recorded);
    return got != recorded && !(apart <= absolute + relative * size);
}

int main(void) {
    int wrong = 0;
    (void)fill_f32;
    (void)fill_f64;
    (void)differs;
@START@
@RUN@
@COMPARES@
    printf(wrong ? "NAME: %d elements differ\\n" : "NAME: the recorded answers\\n", wrong);
    return wrong != 0;
}
"""


def makefile(library: Interface) -> str:
    """make; make check"""
    name, target = library.name, library.target
    return f"""# make; make check RUN="qemu-aarch64 -L /usr/aarch64-linux-gnu"
CC = {target.compiler}
CFLAGS = -std=c11 -O2 {target.flags}
RUN =

all: main check

main: main.c {name}.h lib{name}.a
\t$(CC) $(CFLAGS) main.c lib{name}.a -o main

check: check.c {name}.h lib{name}.a
\t$(CC) $(CFLAGS) check.c lib{name}.a -o check
\t$(RUN) ./check

clean:
\trm -f main check

.PHONY: all clean
"""


def cmake_lists(library: Interface) -> str:
    """CMakeLists.txt: an imported library and the two programs."""
    name, target = library.name, cmake_target(library.name)
    return f"""cmake_minimum_required(VERSION 3.13)
project({name}_example C)
add_library({target} STATIC IMPORTED GLOBAL)
set_target_properties({target} PROPERTIES
    IMPORTED_LOCATION ${{CMAKE_CURRENT_SOURCE_DIR}}/lib{name}.a
    INTERFACE_INCLUDE_DIRECTORIES ${{CMAKE_CURRENT_SOURCE_DIR}})
add_executable({name}_main main.c)
target_link_libraries({name}_main {target})
add_executable({name}_check check.c)
target_link_libraries({name}_check {target})
enable_testing()
add_test(NAME {name}_check COMMAND {name}_check WORKING_DIRECTORY ${{CMAKE_CURRENT_SOURCE_DIR}})
"""
