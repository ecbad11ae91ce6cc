"""Workers of a program for browsers and node: they take chunks of a phase from one word of shared memory.

    const digits = await load({ workers: 4 });

The word is a ticket: which phase, how many chunks it has, and which is next. Who exchanges it for the next one has the
chunk; the caller takes some too, and waits for the rest. Bits do not depend on who computes what.
"""

from __future__ import annotations

from nnc.export.interface import Interface

# Words of the control block.
CONTROL_BYTES = 64


def worker_files(library: Interface) -> dict[str, bytes]:
    """NAME.pool.mjs, which starts workers, and NAME.worker.mjs, which is one."""
    texts = {f"{library.name}.pool.mjs": _POOL, f"{library.name}.worker.mjs": _WORKER}
    return {name: text.replace("@NAME@", library.name).encode() for name, text in texts.items()}


_POOL = """// @NAME@: workers that take chunks of a phase from a word of shared memory.
const TICKET = 0, ARGUMENT = 1, DONE = 2, FAILED = 3;
const LONGEST_SPIN = 2000;
export const inNode = typeof process !== "undefined" && Boolean(process.versions?.node);

// Takes chunks while there are any; the ticket that had none left.
function takeChunks(words, task) {
  for (;;) {
    const ticket = Atomics.load(words, TICKET), number = ticket & 255;
    if (number >= ((ticket >>> 8) & 255)) return ticket;
    if (Atomics.compareExchange(words, TICKET, ticket, ticket + 1) !== ticket) continue;
    try {
      task(Atomics.load(words, ARGUMENT), number);
    } catch (error) {
      Atomics.store(words, FAILED, 1);
    }
    Atomics.add(words, DONE, 1);
  }
}

// A worker's life: chunks, and sleep until there is another ticket.
export function serve(words, task) {
  for (;;) {
    const ticket = takeChunks(words, task);
    for (let turn = 0; turn < LONGEST_SPIN && Atomics.load(words, TICKET) === ticket; ++turn);
    Atomics.wait(words, TICKET, ticket);
  }
}

// What the program calls for a phase of several chunks.
export function handOut(words, taskOf) {
  let phase = 0;
  return (context, chunks, task, argument) => {
    phase = (phase + 1) & 0x7fff;
    Atomics.store(words, ARGUMENT, argument);
    Atomics.store(words, DONE, 0);
    Atomics.store(words, TICKET, (phase << 16) | (chunks << 8));
    Atomics.notify(words, TICKET);
    takeChunks(words, taskOf());
    while (Atomics.load(words, DONE) < chunks);
    if (Atomics.exchange(words, FAILED, 0)) throw new Error("@NAME@: a worker failed");
  };
}

// Whether pages and workers may share memory here: browsers ask for headers of isolation, see docs/library.md.
export const sharing = typeof SharedArrayBuffer !== "undefined" && globalThis.crossOriginIsolated !== false;

// As many workers as there are stacks; what ends them.
export async function start(module, memory, control, stacks) {
  const { Worker } = inNode ? await import("node:worker_threads") : globalThis;
  const workers = stacks.map(() => new Worker(new URL("./@NAME@.worker.mjs", import.meta.url), { type: "module" }));
  const end = () => workers.splice(0).forEach((worker) => worker.terminate());
  try {
    await Promise.all(workers.map((worker, place) => new Promise((resolve, reject) => {
      const failed = (event) => reject(new Error(`@NAME@: a worker does not start: ${event.message}`));
      if (inNode) worker.once("message", resolve).once("error", failed);
      else [worker.onmessage, worker.onerror] = [resolve, failed];
      worker.postMessage({ module, memory, control, stack: stacks[place] });
    })));
  } catch (error) {
    end();
    throw error;
  }
  workers.forEach((worker) => worker.unref?.());
  return end;
}
"""

_WORKER = """// @NAME@: one worker, started by @NAME@.pool.mjs.
import { inNode, serve } from "./@NAME@.pool.mjs";

const port = inNode ? (await import("node:worker_threads")).parentPort : self;

async function begin({ module, memory, control, stack }) {
  const stack_pointer = new WebAssembly.Global({ value: "i32", mutable: true }, stack);
  const instance = await WebAssembly.instantiate(module, { env: { memory, stack_pointer, parallel_for() {} } });
  port.postMessage("ready");
  serve(new Int32Array(memory.buffer, control, 4), instance.exports.@NAME@_task);
}

if (inNode) port.once("message", begin);
else port.onmessage = ({ data }) => begin(data);
"""
