"""Cache folders that cannot be used, and damaged tables of winners in them; one JSON line.

    python benchmarks/cache_folders.py [--damages N] [--first SEED]

`folders` are runs in a process each: a training, an eager product and a compiled function, in an empty folder and
again, in one that is read-only, with entries and without, full at 4 KB to 300 KB, no folder, of a name too long, and
a circle of links (by file systems of their own, for which it takes root). `tables` are runs with a damaged or foreign
autotune.json: those of `FILES` and `ROWS`, then random changes of a whole one. Wrong is another result than that of
the empty folder (of tables: by more than rounding, as another kernel may win), a process without LLVM, an error, and
a second warning.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from nnc import nn
from nnc.concrete import choices
from nnc.core.settings import SETTINGS

PROGRAM = """
import hashlib, sys
import numpy as np
import nnc
from nnc import nn
drawn = np.random.default_rng(0)
x, y = drawn.standard_normal((32, 10)).astype(np.float32), drawn.integers(0, 3, 32)
layers = nn.Sequential(nn.Dense(16), nn.BatchNorm(), nn.ReLU(), nn.Dropout(0.2), nn.Dense(3))
model = nn.Model(layers, (10,), optimizer=nn.Adam(0.01))
model.fit(x, y, epochs=2, batch_size=8)
a = nnc.tensor(x)
parts = [*model.state_dict().values(), (a @ a.T).numpy(), nnc.compile(lambda b: (b * 2).sum())(x).numpy()]
digest = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
print(digest, "nnc.backends.llvm.backend" in sys.modules)
"""
HEAD = '{"version": 2, "entries": '
Numbers = NDArray[np.float32]
Row = Callable[[str, float, str], object]
# A row of the table, changed; and whole files.
ROWS: dict[str, Row] = {
    "an integer": lambda claim, seconds, known: [claim, 1, known],
    "a huge integer": lambda claim, seconds, known: [claim, 10**400, known],
    "infinite": lambda claim, seconds, known: [claim, float("inf"), known],
    "not a number": lambda claim, seconds, known: [claim, float("nan"), known],
    "negative": lambda claim, seconds, known: [claim, -1.0, known],
    "a text": lambda claim, seconds, known: [claim, "1", known],
    "no claim": lambda claim, seconds, known: ["", seconds, known],
    "an unknown claim": lambda claim, seconds, known: ["no such kernel" * 999, seconds, known],
    "another claim": lambda claim, seconds, known: ["reference", seconds, known],
    "half a character": lambda claim, seconds, known: ["\ud800", seconds, known],
    "too short": lambda claim, seconds, known: [claim, seconds],
    "too long": lambda claim, seconds, known: [claim, seconds, known, 1],
    "a dictionary": lambda claim, seconds, known: {"claim": claim},
}
FILES: dict[str, bytes] = {
    "empty": b"", "null": b"null", "a list": b"[]", "a number": b"1e999", "a text": b'"x"', "zeros": bytes(1000),
    "no entries": b'{"version": 2}', "a list of entries": b'{"version": 2, "entries": [1]}',
    "another version": b'{"version": 99, "entries": {}}', "a huge version": b'{"version": ' + b"9" * 5000 + b"}",
    "a text for a version": b'{"version": "2", "entries": {}}', "deep": b"[" * 100_000,
    "no text": b'{"version": 2, "entries": {"\xff": ["a", 1.0, "b"]}}',
    "many": (HEAD + "{" + ", ".join(f'"k{row}": ["a", 1.0, "b"]' for row in range(50_000)) + "}}").encode(),
}  # fmt: skip
CHANGES = (b"9" * 50, b"}", b"{", b'"', b"[", b"null", b"-1e999", b"NaN", b"\\u0000")


@contextmanager
def mounted(place: Path, options: str, source: Path | None = None) -> Iterator[Path]:
    """A file system in memory at a new folder, with a copy of another folder's content."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options.replace("ro", "rw"), "tmpfs", place], check=True)
    try:
        if source is not None:
            subprocess.run(["cp", "-r", f"{source}/.", place], check=True)
        subprocess.run(["mount", "-o", f"remount,{options}", place], check=True)
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def ran(folder: Path) -> tuple[str, str]:
    """What the program prints with this cache folder, and what it says beside."""
    environment = {**os.environ, "NNC_CACHE_DIR": str(folder)}
    row = subprocess.run([sys.executable, "-P", "-c", PROGRAM], env=environment, capture_output=True, text=True)
    return row.stdout.strip(), row.stderr


def folders(place: Path) -> tuple[int, list[str]]:
    """How many runs there were, and what was wrong with which."""
    usual = place / "usual"
    expected, told = ran(usual)
    wrong = [] if expected.endswith("True") and not told else [f"empty: {expected} {told[-300:]}"]
    (place / "file").write_text("x", encoding="ascii")
    (place / "loop").symlink_to(place / "loop")
    cases = {"again": usual, "a file": place / "file", "below a file": place / "file" / "x", "a loop": place / "loop"}
    cases |= {"too long": place / ("x" * 300), "of the system": Path("/proc/nnc")}
    results = {name: ran(folder) for name, folder in cases.items()}
    for number, (options, source) in enumerate((
        ("ro", None), ("ro", usual), ("rw,size=4k", None), ("rw,size=64k", None), ("rw,size=300k", None)
    )):  # fmt: skip
        with mounted(place / f"mounted{number}", options, source) as folder:
            results[f"{options} {'full' if source else 'empty'}"] = ran(folder)
    for name, (printed, beside) in results.items():
        wrong += [] if printed == expected and beside.count("Warning") < 2 else [f"{name}: {printed} {beside[-300:]}"]
    return 1 + len(results), wrong


def tables(folder: Path, damages: int, first: int) -> tuple[int, list[str]]:
    """The same of damaged tables, in this process."""
    SETTINGS.cache_folder = folder
    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    expected, _ = predicted(x)
    path = folder / choices.FILE_NAME
    whole = path.read_bytes()
    document, contents = json.loads(whole), dict(FILES)
    for name, change in ROWS.items():
        entries = {key: change(*row) for key, row in document["entries"].items()}
        contents[f"a row with {name}"] = json.dumps({**document, "entries": entries}).encode()
    for seed in range(first, first + damages):
        contents[f"seed {seed}"] = damaged(whole, Random(seed))
    wrong = []
    for name, content in contents.items():
        path.write_bytes(content)
        try:
            given, told = predicted(x)
        except Exception as error:  # whatever it is: any is wrong, and the next table is tried
            wrong.append(f"{name}: {type(error).__name__}: {error}")
        else:
            right = np.allclose(given, expected, rtol=1e-5, atol=1e-6) and len(told) < 2
            wrong += [] if right else [f"{name}: {told}"]
    return len(contents), wrong


def predicted(x: Numbers) -> tuple[Numbers, list[str]]:
    """Outputs of a model that measures kernels, or reads the table, and what was warned of."""
    choices.cache_in.cache_clear()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = nn.Model(nn.Sequential(nn.Dense(5), nn.ReLU(), nn.Dense(2)), (6,), autotune=True)
        outputs: Numbers = model.predict(x)
        return outputs, [str(warning.message) for warning in told]


def damaged(whole: bytes, random: Random) -> bytes:
    content = bytearray(whole)
    for _ in range(random.randint(1, 6)):
        place = random.randrange(len(content))
        match random.randrange(3):
            case 0:
                content[place] = random.randrange(256)
            case 1:
                del content[place : place + random.randint(1, 60)]
            case _:
                content[place:place] = random.choice(CHANGES)
    return bytes(content)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--damages", type=int, default=500, help="random changes (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: %(default)s)")
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        runs, wrong = folders(Path(name))
        count, others = tables(Path(name, "usual"), options.damages, options.first)
    print(json.dumps({"folders": runs, "tables": count, "wrong": wrong + others}))
    return 1 if wrong or others else 0


if __name__ == "__main__":
    sys.exit(main())
