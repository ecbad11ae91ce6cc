"""check.mjs beside a module of WebAssembly: a run on the elements of the check's rule against recorded answers.

node check.mjs
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from nnc.core.values.dtype import TOLERANCE
from nnc.export.description import Port
from nnc.export.example import Array, recorded_places
from nnc.export.interface import Interface


def check_script(library: Interface, answers: Mapping[str, Array] | None) -> str:
    """check.mjs; without answers the run must say that these elements are an error."""
    rows = {} if answers is None else {port.name: _recorded(port, answers[port.name]) for port in library.outputs}
    inputs = {port.name: [port.spec.dtype.name, port.spec.elements] for port in library.inputs}
    words = {"NAME": library.name, "INPUTS": json.dumps(inputs), "RECORDED": json.dumps(rows)}
    words["OPTIONS"] = "{ workers: 2 }" if library.is_pooled else ""
    words["REFUSED"] = json.dumps(answers is None)
    text = _CHECK
    for word, content in words.items():
        text = text.replace(f"@{word}@", content)
    return text


def _recorded(port: Port, answer: Array) -> Sequence[object]:
    """Places, what is there, and what may differ; bits of floats of 16 bits are not compared."""
    if port.spec.dtype.name in ("f16", "bf16"):
        return [[], [], 0, 0]
    places, allowed = list(recorded_places(port)), TOLERANCE[port.spec.dtype].of_program(answer)
    values = [_told(value) for value in np.asarray(answer).reshape(-1)[places]]
    return [places, values, allowed.relative, allowed.absolute]


def _told(value: np.generic) -> object:
    """An element as JSON has it: words where a number is none, or where it has more than 53 bits."""
    number = value.item()
    return number if isinstance(number, float) and np.isfinite(number) else str(number)


_CHECK = """// Compares a run of @NAME@ with answers that were recorded when it was made: node check.mjs
import { load } from "./@NAME@.mjs";

const INPUTS = @INPUTS@;
const RECORDED = @RECORDED@;
const REFUSED = @REFUSED@;
const KINDS = {
  f64: Float64Array, f32: Float32Array, f16: Uint16Array, bf16: Uint16Array, i64: BigInt64Array, i32: Int32Array,
  i16: Int16Array, i8: Int8Array, u8: Uint8Array, bool: Uint8Array,
};
const WORDS = { nan: NaN, inf: Infinity, "-inf": -Infinity, True: 1, False: 0 };

function filled([kind, count], seed) {
  const elements = new KINDS[kind](count);
  if (kind === "f32" || kind === "f64") {
    for (let i = 0, state = seed; i < count; ++i) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      elements[i] = (state >>> 8) / 16777216;
    }
  }
  return elements;
}

function differs(got, told, relative, absolute) {
  const recorded = typeof told === "string" ? WORDS[told] ?? Number(told) : told;
  if (Number.isNaN(got) || Number.isNaN(recorded)) return Number.isNaN(got) !== Number.isNaN(recorded);
  return got !== recorded && !(Math.abs(got - recorded) <= absolute + relative * Math.abs(recorded));
}

const program = await load(@OPTIONS@);
const given = Object.entries(INPUTS).map(([name, row], place) => [name, filled(row, place + 1)]);
let wrong = 0;
try {
  const outputs = program.run(Object.fromEntries(given));
  wrong += REFUSED;
  for (const [name, [places, values, relative, absolute]] of Object.entries(RECORDED)) {
    places.forEach((place, i) => (wrong += differs(Number(outputs[name][place]), values[i], relative, absolute)));
  }
} catch (error) {
  if (!REFUSED) throw error;
}
console.log(wrong ? `@NAME@: ${wrong} elements differ` : "@NAME@: the recorded answers");
process.exitCode = wrong ? 1 : 0;
"""
