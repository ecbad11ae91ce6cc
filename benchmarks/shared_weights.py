"""Weights of processes that map one model: proportional set sizes (PSS), a JSON line per form.

    python benchmarks/shared_weights.py [--only NAME ...] [--workers N] [--forms predict freeze onnx compile]

Each of N workers, which are spawned, loads the model and answers twice, and then waits for the others. While all are
there each reads /proc/self/smaps_rollup: a page that n processes map counts 1 / n in each. Bytes beyond those before
loading: `apart` is all that the workers take with weights of their own, `mapped` with `mapped=True`, of which
`anonymous` is what no file is behind, of each worker, and `files` what files are behind, of all; `files_of_one` where
one worker is alone. `stated` bytes are mapped by the statement. `copies` = files / files_of_one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import numpy as np

import nnc
from nnc.backends.llvm.run.engine import engine
from nnc.nn.zoo import network

FORMS = ("predict", "freeze", "onnx", "compile")


def proportional() -> dict[str, int]:
    """Bytes of this process, of pages that others have too a share: all, and those that no file is behind."""
    rows = dict(row.split(":", 1) for row in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    return {name: int(rows[name].split()[0]) << 10 for name in ("Pss", "Pss_Anon")}


def answer(form: str, name: str, folder: Path, mapped: bool) -> tuple[object, int, int]:
    """What holds the model, the bytes that its statement says are mapped, and a checksum of its answer."""
    tensors = folder / "weights.safetensors"
    if form == "onnx":
        served = nnc.onnx.load(folder / "model.onnx", mapped=mapped)
        given = next(iter(served.inputs))
        shape = tuple(size.dim_value or 1 for size in served.inputs[given].type.tensor_type.shape.dim)
        x = np.ones(shape, np.int32 if "bert" in name or "gpt" in name else np.float32)
        results = [next(iter(served.run({given: x}).values())) for _ in range(2)]
        sizes = {"batch": 1} if "batch" in str(served.inputs[given]) else {}
        return served, served.memory(**sizes).mapped, crc32(np.asarray(results[-1]).tobytes())
    model = network(name)
    x = np.ones((1, *model.input_shape), model.input_dtype.numpy)
    if form == "compile":
        arrays = nnc.load(tensors, mapped=mapped)
        function = nnc.compile(lambda given: model.apply(given, arrays))
        results = [function(x).numpy() for _ in range(2)]
        return (function, arrays), function.memory(x).mapped, crc32(results[-1].tobytes())
    nnc.load(tensors, model, mapped=mapped)
    if form == "predict":
        stated = model.memory(1, "predict").mapped
        return model, stated, crc32([np.asarray(model.predict(x)) for _ in range(2)][-1].tobytes())
    step = model.freeze(1)
    return (
        (model, step),
        model.memory(1, "freeze").mapped,
        crc32([np.asarray(step.run(x)) for _ in range(2)][-1].tobytes()),
    )


def work(form: str, name: str, folder: str, mapped: bool, line: Connection) -> None:
    """Load, answer, tell; then count once all are there."""
    engine()
    before = proportional()
    held, stated, checksum = answer(form, name, Path(folder), mapped)
    line.send((stated, checksum))
    line.recv()
    line.send({key: nbytes - before[key] for key, nbytes in proportional().items()})
    line.recv()
    del held


def together(form: str, name: str, folder: str, mapped: bool, workers: int) -> dict[str, int]:
    """Bytes of all workers, those that one says are mapped, and how many different answers there were."""
    context = multiprocessing.get_context("spawn")
    lines = []
    for _ in range(workers):
        ours, theirs = context.Pipe()
        context.Process(target=work, args=(form, name, folder, mapped, theirs), daemon=True).start()
        lines.append(ours)
    told = [line.recv() for line in lines]
    for line in lines:
        line.send(None)
    taken = [line.recv() for line in lines]
    for line in lines:
        line.send(None)
    total, anonymous = (sum(row[key] for row in taken) for key in ("Pss", "Pss_Anon"))
    answers = len({checksum for _, checksum in told})
    facts = {"total": total, "anonymous": anonymous // workers, "files": total - anonymous}
    return facts | {"stated": told[0][0], "answers": answers}


def row(form: str, name: str, workers: int) -> dict[str, object]:
    """The line of a form."""
    with TemporaryDirectory() as folder:
        model = network(name)
        model.save_weights(Path(folder) / "weights.safetensors")
        if form == "onnx":
            nnc.onnx.save(model, Path(folder) / "model.onnx")
        weights = sum(tensor.spec.nbytes for tensor in model.tensors().values())
        del model
        apart = together(form, name, folder, False, workers)
        alone = together(form, name, folder, True, 1)
        mapped = together(form, name, folder, True, workers)
    return {
        "form": form, "network": name, "workers": workers, "weights": weights, "apart": apart["total"],
        "mapped": mapped["total"], "anonymous": mapped["anonymous"], "files": mapped["files"],
        "files_of_one": alone["files"], "stated": mapped["stated"],
        "copies": round(mapped["files"] / alone["files"], 3), "answers": mapped["answers"],
    }  # fmt: skip


def main() -> None:
    """Read the options, print the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=["resnet50"])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    options = parser.parse_args()
    for name in options.only:
        for form in options.forms:
            print(json.dumps(row(form, name, options.workers)), flush=True)


if __name__ == "__main__":
    main()
