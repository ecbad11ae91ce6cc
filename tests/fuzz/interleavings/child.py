"""The process that runs interleavings: locks are patched before anything of nnc is imported.

python -m tests.fuzz.interleavings.child FIRST COUNT
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from tests.fuzz.interleavings.scheduler import Scheduler, patch


def main() -> None:
    """One line for each seed."""
    first, count = map(int, sys.argv[1:])
    patch()
    scenarios: Any = importlib.import_module("tests.fuzz.interleavings.scenarios")
    settings: Any = importlib.import_module("nnc.core.settings").SETTINGS
    warnings.simplefilter("error")
    with TemporaryDirectory(prefix="nnc-fuzz-") as folder:
        settings.cache_folder, settings.threads = Path(folder), 1
        for seed in range(first, first + count):
            print(json.dumps(run(scenarios, settings, seed)), flush=True)


def run(scenarios: Any, settings: Any, seed: int) -> dict[str, str | int]:
    """What came of one interleaving."""
    random = Random(seed)
    settings.kept_programs, settings.kept_kernel_bytes = 32, 64 << 20
    names = tuple(scenarios.SCENARIOS)
    name, backend = names[seed % len(names)], random.choice(("reference", "llvm"))
    scenario = scenarios.SCENARIOS[name](random, backend)
    scheduler = Scheduler(seed, random.choice((8, 30, 100, 400)))
    scheduler.run(scenario.works)
    faults = [f"{type(error).__name__}: {error} at {_place(error)}" for error in scheduler.errors]
    fault = "; ".join(faults) or scenario.check()
    return {"seed": seed, "scenario": name, "backend": backend, "switches": scheduler.switches, "fault": fault}


def _place(error: BaseException) -> str:
    trace, place = error.__traceback__, ""
    while trace is not None:
        place, trace = f"{trace.tb_frame.f_code.co_filename.rpartition('nnc/')[2]}:{trace.tb_lineno}", trace.tb_next
    return place


if __name__ == "__main__":
    main()
