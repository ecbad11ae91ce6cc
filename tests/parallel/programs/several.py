"""Run by ranks: programs of this folder one after another, `[[PROGRAM, ARGUMENT…], …]` in JSON."""

import json
import runpy
import sys
from pathlib import Path

for name, *arguments in json.loads(sys.argv[1]):
    sys.argv = [name, *arguments]
    runpy.run_path(str(Path(__file__).with_name(name)), run_name="__main__")
