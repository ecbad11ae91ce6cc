"""A program for browsers and node: a module of WebAssembly, an ES module with types, a page.

    import { load } from "./digits.mjs";
    const digits = await load();
    const { output } = digits.run({ input: new Float32Array(64) });

Addresses are known before anything runs, so the ES module is a table of typed arrays over one memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from nnc.classes import dataclass
from nnc.core.running.library_program import ObjectFile
from nnc.export.browser_check import check_script
from nnc.export.browser_workers import CONTROL_BYTES, worker_files
from nnc.export.description import ALIGNMENT, Port
from nnc.export.example import Array
from nnc.export.interface import Interface
from nnc.export.wasm_module import PAGE, STACK_BYTES, data_end, stack_top, wasm_module

# Typed arrays of elements; floats of 16 bits are their bits.
ARRAYS = {
    "f64": "Float64Array", "f32": "Float32Array", "f16": "Uint16Array", "bf16": "Uint16Array", "i64": "BigInt64Array",
    "i32": "Int32Array", "i16": "Int16Array", "i8": "Int8Array", "u8": "Uint8Array", "bool": "Uint8Array",
}  # fmt: skip
POINTER_BYTES = 4


@dataclass(frozen=True, slots=True)
class PortAddress:
    """Where a port's elements are in the memory, and how many at each open size."""

    port: Port
    address: int
    elements: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """Addresses behind constants and stack: state, weights of a file, ports, structures of pointers, words of workers.

    The arena is behind all, as each worker beyond the first has some memory behind it.
    """

    state: int
    weights: int
    inputs: tuple[PortAddress, ...]
    outputs: tuple[PortAddress, ...]
    input_pointers: int
    output_pointers: int
    control: int
    arena: int
    end: int

    @classmethod
    def of(cls, library: Interface, begin: int) -> MemoryMap:
        """One behind the other, aligned."""
        end = begin

        def take(nbytes: int) -> int:
            nonlocal end
            place = -(-end // ALIGNMENT) * ALIGNMENT
            end = place + nbytes
            return place

        state = take(library.state_bytes)
        weights = take(library.constant_bytes if library.of_file else 0)

        def placed(port: Port) -> PortAddress:
            elements = library.elements(port)
            return PortAddress(port, take(max(elements) * port.spec.dtype.itemsize), elements)

        inputs, outputs = tuple(map(placed, library.inputs)), tuple(map(placed, library.outputs))
        pointers = take(POINTER_BYTES * (len(inputs) + library.of_file)), take(POINTER_BYTES * len(outputs))
        control, arena = take(CONTROL_BYTES if library.is_pooled else 0), take(library.arena_bytes)
        return cls(state, weights, inputs, outputs, *pointers, control, arena, end)


def browser_files(library: Interface, code: ObjectFile, answers: Mapping[str, Array] | None) -> dict[str, bytes]:
    """The module of WebAssembly, the ES module, its types, a page and a check of recorded answers, by file name."""
    memory = MemoryMap.of(library, data_end(code.content) + STACK_BYTES)
    words = ["run_workers", "task"] if library.is_pooled else ["run"]
    words += ["initial_state_address"] if library.state_bytes else []
    exports = [f"{library.name}_{word}" for word in words]
    module = wasm_module(code.content, exports, -(-memory.end // PAGE), shared=library.is_pooled)
    return {
        f"{library.name}.wasm": module,
        f"{library.name}.mjs": _script(library, memory, stack_top(code.content)).encode(),
        f"{library.name}.d.ts": _types(library).encode(),
        **(worker_files(library) if library.is_pooled else {}),
        "check.mjs": check_script(library, answers).encode(),
        "index.html": _PAGE.replace("NAME", library.name).encode(),
    }


def _rows(ports: Sequence[PortAddress]) -> str:
    rows = []
    for row in ports:
        kind, elements = ARRAYS[row.port.spec.dtype.name], list(row.elements)
        rows.append(f"  {json.dumps(row.port.name)}: [{kind}, {row.address}, {elements}],\n")
    return "".join(rows)


def _script(library: Interface, memory: MemoryMap, top: int) -> str:
    pooled = POOLED if library.is_pooled else ALONE
    words = {
        **dict(zip(("IMPORT", "START", "RUN", "END"), pooled, strict=True)),
        "NAME": library.name,
        "STACK_TOP": str(top),
        "STACK": str(STACK_BYTES),
        "CONTROL": str(memory.control),
        "ARENA_BYTES": str(library.arena_bytes),
        "WORKER_BYTES": str(library.worker_bytes),
        "INPUTS": _rows(memory.inputs),
        "OUTPUTS": _rows(memory.outputs),
        "NAMES": json.dumps([name for name, _ in library.choices]),
        "SIZES": json.dumps(library.opened.rows if library.opened else [[]]),
        "ARENA": str(memory.arena),
        "STATE": str(memory.state),
        "STATE_BYTES": str(library.state_bytes),
        "WEIGHTS": str(memory.weights),
        "WEIGHT_BYTES": str(library.constant_bytes if library.of_file else 0),
        "INPUT_POINTERS": str(memory.input_pointers),
        "OUTPUT_POINTERS": str(memory.output_pointers),
    }
    text = _SCRIPT
    for word, content in words.items():
        text = text.replace(f"@{word}@", content)
    return text


_SCRIPT = """// @NAME@: made by nnc. One instance is one memory; load() again for another one.
@IMPORT@// Ports: the array's kind, its address, and its elements at each row of the sizes.
const INPUTS = {
@INPUTS@};
const OUTPUTS = {
@OUTPUTS@};
const NAMES = @NAMES@, SIZES = @SIZES@;
const STATE_BYTES = @STATE_BYTES@, WEIGHT_BYTES = @WEIGHT_BYTES@, MOST_WORKERS = 64;
const ERRORS = ["", "a null pointer", "a misaligned pointer", "an arena too small", "memory that overlaps",
  "an index outside its axis", "a loop beyond its bound"];

// The place in SIZES: that of the sizes asked for, or of the only ones that all inputs fit.
function placeOf(inputs, sizes) {
  const rows = Object.entries(INPUTS), told = `${NAMES}: got`;
  if (!NAMES.length) return 0;
  if (sizes.length) {
    const place = SIZES.findIndex((row) => row.length === sizes.length && row.every((size, n) => size === sizes[n]));
    if (place < 0) throw new RangeError(`${told} ${sizes}; need one of ${SIZES.join(" | ")}`);
    return place;
  }
  const fits = (_, place) => rows.every(([name, [, , lengths]]) => inputs[name]?.length === lengths[place]);
  const fitting = SIZES.filter(fits);
  if (fitting.length === 1) return SIZES.indexOf(fitting[0]);
  const got = rows.map(([name]) => `${name}: ${inputs[name]?.length ?? "nothing"}`).join(", ");
  const need = fitting.length ? `say which of ${fitting.join(" | ")}` : `need one of ${SIZES.join(" | ")}`;
  throw new RangeError(`${told} ${got}; ${need}`);
}

async function bytesOf(url) {
  if (url.protocol === "file:") {
    const { readFile } = await import("node:fs/promises");
    return readFile(url);
  }
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  return response.arrayBuffer();
}

export async function load(options = {}) {
  const url = options.url ?? new URL("./@NAME@.wasm", import.meta.url);
  const module = await WebAssembly.compile(options.module ?? (await bytesOf(url)));
@START@  const { @NAME@_initial_state_address } = instance.exports;
  const view = ([Kind, address, lengths], place) => new Kind(memory.buffer, address, lengths[place]);
  const pointers = (rows, first) => Object.values(rows).forEach(([, address], place) => {
    new Uint32Array(memory.buffer, first, place + 1)[place] = address;
  });
  if (WEIGHT_BYTES) {
    const weights = options.weights ?? (await bytesOf(new URL("./@NAME@.weights", import.meta.url)));
    new Uint8Array(memory.buffer, @WEIGHTS@, WEIGHT_BYTES).set(new Uint8Array(weights));
    new Uint32Array(memory.buffer, @INPUT_POINTERS@, 1)[0] = @WEIGHTS@;
  }
  pointers(INPUTS, @INPUT_POINTERS@ + (WEIGHT_BYTES ? 4 : 0));
  pointers(OUTPUTS, @OUTPUT_POINTERS@);
  const state = new Uint8Array(memory.buffer, @STATE@, STATE_BYTES);
  const reset = () => {
    if (STATE_BYTES) state.set(new Uint8Array(memory.buffer, @NAME@_initial_state_address(), STATE_BYTES));
  };
  reset();
  return {
    state,
    reset,
@END@    run(inputs = {}, ...sizes) {
      const place = placeOf(inputs, sizes);
      for (const [name, row] of Object.entries(INPUTS)) {
        const given = inputs[name], need = row[2][place];
        if (given?.length !== need) {
          throw new RangeError(`${name}: got ${given?.length ?? "nothing"}; need ${need} elements`);
        }
        view(row, place).set(given);
      }
      const places = STATE_BYTES ? [@ARENA@, @STATE@] : [@ARENA@];
      const given = [...places, @INPUT_POINTERS@, @OUTPUT_POINTERS@, ...SIZES[place]];
      const error = @RUN@;
      if (error) throw new Error(`@NAME@: ${ERRORS[error]}`);
      return Object.fromEntries(Object.entries(OUTPUTS).map(([name, row]) => [name, view(row, place).slice()]));
    },
  };
}
"""

# What is in the script with a pool, and without: imports, the instance and its memory, a run, and what ends workers.
ALONE = (
    "",
    """  const instance = await WebAssembly.instantiate(module, {});
  const { memory } = instance.exports;
""",
    "instance.exports.@NAME@_run(...given)",
    "",
)
POOLED = (
    """import { handOut, sharing, start } from "./@NAME@.pool.mjs";
""",
    """  const asked = options.workers ?? 1;
  if (!(Number.isInteger(asked) && asked > 0 && asked <= MOST_WORKERS)) {
    throw new RangeError(`workers: got ${asked}; need 1 to ${MOST_WORKERS}`);
  }
  // Behind the arena: memory of each worker beyond the caller, then their stacks.
  let workers = sharing ? asked : 1;
  const stacks = Math.ceil((@ARENA@ + @ARENA_BYTES@ + (workers - 1) * @WORKER_BYTES@) / 64) * 64;
  const pages = Math.ceil((stacks + (workers - 1) * @STACK@) / 65536);
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
  const stack_pointer = new WebAssembly.Global({ value: "i32", mutable: true }, @STACK_TOP@);
  const parallel_for = handOut(new Int32Array(memory.buffer, @CONTROL@, 4), () => instance.exports.@NAME@_task);
  const instance = await WebAssembly.instantiate(module, { env: { memory, stack_pointer, parallel_for } });
  const tops = Array.from({ length: workers - 1 }, (_, place) => stacks + (place + 1) * @STACK@);
  const end = await start(module, memory, @CONTROL@, tops);
""",
    "instance.exports.@NAME@_run_workers(...given, workers)",
    """    get workers() {
      return workers;
    },
    close() {
      workers = 1;
      end();
    },
""",
)


def _types(library: Interface) -> str:
    given = "".join(f"  {port.name}: {ARRAYS[port.spec.dtype.name]};\n" for port in library.inputs)
    made = "".join(f"  {port.name}: {ARRAYS[port.spec.dtype.name]};\n" for port in library.outputs)
    told, parameter = "", ""
    workers, option = (_WORKERS, _OPTION) if library.is_pooled else ("", "")
    if library.choices:
        told = f"; {', '.join(name for name, _ in library.choices)} where inputs do not tell"
        parameter = "".join(f", {name}?: {' | '.join(map(str, sizes))}" for name, sizes in library.choices)
    return f"""export interface Inputs {{
{given}}}
export interface Outputs {{
{made}}}
export interface Program {{
  /** What lasts from run to run: copy it out to save it, set it to go on from there. */
  readonly state: Uint8Array;
  /** The state as it was when the program was made. */
  reset(): void;
{workers}  /** One run: elements of every input, in row-major order; outputs are copies{told}. */
  run(inputs: Inputs{parameter}): Outputs;
}}
export interface Options {{
  url?: URL;
  module?: BufferSource;
  weights?: ArrayBuffer;
{option}}}
export function load(options?: Options): Promise<Program>;
"""


_WORKERS = """  /** How many compute, the caller among them. */
  readonly workers: number;
  /** Ends the workers; runs go on by the caller alone. */
  close(): void;
"""
_OPTION = """  /** How many compute, the caller among them; 1 where pages may not share memory with workers. */
  workers?: number;
"""
_PAGE = """<!doctype html>
<meta charset="utf-8">
<title>NAME</title>
<pre id="told">loading NAME …</pre>
<script type="module">
  import { load } from "./NAME.mjs";
  const told = document.getElementById("told");
  try {
    const program = await load();
    window.program = program;
    told.textContent = "NAME is ready: program.run({…}) in the console";
  } catch (error) {
    told.textContent = String(error);
  }
</script>
"""
