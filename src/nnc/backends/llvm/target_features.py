"""The names of features that LLVM has for a processor, and the refusal of others.

    check_features("x86-64,+avxvni", "x86_64-linux-gnu")        UsageError that names +avxvnni

LLVM ignores a name that it does not know, with a line on stderr, and lists those that it knows on stderr alone: a
process of its own is asked for the list.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Collection
from difflib import get_close_matches
from functools import lru_cache

from nnc.errors import BackendError, UsageError

ASK = """
import sys
sys.path[:] = sys.argv[2:]
from llvmlite import binding
binding.initialize_all_targets()
binding.initialize_all_asmprinters()
binding.Target.from_triple(sys.argv[1]).create_target_machine(features="+help")
"""
HEADING = "Available features for this target:"
ROW = re.compile(r"^  (\S+) +- ", re.MULTILINE)
MOST_NEAR = 3


@lru_cache(maxsize=16)
def feature_names(triple: str) -> frozenset[str]:
    """Those of the list that LLVM prints; BackendError where it prints none."""
    command = [sys.executable, "-I", "-c", ASK, triple, *sys.path]
    told = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    names = frozenset(ROW.findall(told.stderr.partition(HEADING)[2]))
    if not names:
        got = f"no list of features for {triple}: {told.stderr.strip()[-200:]}"
        raise BackendError("target", got=got, need="an llvmlite that prints it", fix="a target without features")
    return names


def check_features(text: str, triple: str) -> None:
    """UsageError where `NAME,FEATURES` has a feature that LLVM does not know for the processors of the triple."""
    asked = [part for part in text.split(",")[1:] if part.startswith(("+", "-"))]
    for part in asked:
        names = feature_names(triple)
        if part[1:] not in names:
            near = ", ".join(part[0] + name for name in _near(part[1:], names))
            need = f"one of the {len(names)} that LLVM has for {triple}"
            raise UsageError("target", got=f"the feature {part!r} in {text!r}", need=need, fix=f"such as {near}")


def _near(name: str, names: Collection[str]) -> list[str]:
    """Names that have it within, shortest first, then those that are spelled most alike."""
    within = sorted((known for known in names if name and name in known), key=lambda known: (len(known), known))
    alike = get_close_matches(name, sorted(names), n=MOST_NEAR, cutoff=0.0)
    return list(dict.fromkeys([*within, *alike]))[:MOST_NEAR]
