"""The smallest program that still fails, as far as leaving out steps, inputs and options finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.symbolic.programs import Program
from tests.symbolic.rows.scope import Step


def reduce(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Take the first smaller program that fails, again and again."""
    while True:
        smaller = next((one for one in _smaller(program) if fails(one)), None)
        if smaller is None:
            return program
        program = smaller


def _smaller(program: Program) -> Iterator[Program]:
    count = len(program.steps)
    for size in (count // 2, count // 4, 1):
        for start in range(0, count if size else 0, max(size, 1)):
            yield replace(program, steps=program.steps[:start] + program.steps[start + size :])
    if len(program.wanted) > 1:
        for place in range(len(program.wanted)):
            yield replace(program, wanted=program.wanted[:place] + program.wanted[place + 1 :])
    if len(program.specs) > 1:
        for place in range(len(program.specs)):
            yield replace(program, specs=program.specs[:place] + program.specs[place + 1 :])
    for place, step in enumerate(program.steps):
        for other in _simpler(step):
            yield replace(program, steps=(*program.steps[:place], other, *program.steps[place + 1 :]))
    for place, number in enumerate(program.wanted):
        for smaller in {0, number // 2} - {number}:
            yield replace(program, wanted=(*program.wanted[:place], smaller, *program.wanted[place + 1 :]))


def _simpler(step: Step) -> Iterator[Step]:
    for place, inner in enumerate(step.inner):
        yield replace(step, inner=step.inner[:place] + step.inner[place + 1 :])
        for other in _simpler(inner):
            yield replace(step, inner=(*step.inner[:place], other, *step.inner[place + 1 :]))
    for name in ("first", "second", "option"):
        number = getattr(step, name)
        if number:
            yield replace(step, **{name: 0})
            yield replace(step, **{name: number // 2})
