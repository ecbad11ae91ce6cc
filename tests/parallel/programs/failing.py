"""Run by two ranks, of which the second does something else: failing.py KIND…, each kind in a group of its own.

What compiled functions do among all ranks comes first.
"""

import sys
import time

import numpy as np

import nnc
from nnc import parallel
from nnc.errors import DisagreementError

ranks = parallel.world()


STEPS = {"other rows": (nnc.sin, nnc.sin), "other number": (nnc.cos, nnc.cos), "other program": (nnc.tanh, nnc.exp)}
STEPS["another number later"] = (nnc.sqrt, nnc.sqrt)


def run_program(kind):
    """A compiled function that is another one on each rank, or that is given rows of another number."""
    factor, rows = (
        (3.0 + ranks.rank if kind == "other number" else 3.0),
        (4 + ranks.rank if kind == "other rows" else 4),
    )
    x, step = nnc.variable(np.ones((rows, 2), np.float32)), STEPS[kind][ranks.rank]
    function = nnc.compile(lambda x, number: parallel.allreduce(step(x).mean(0) * factor * number))
    for _ in range(3):
        function(x, 2.0)
    if kind == "another number later":
        function(x, 2.0 + ranks.rank)


def sends_another(kind, group):
    """The second rank receives what the first does not send."""
    if ranks.rank == 0:
        group.send(np.ones(5 if kind == "sends other shape" else 4), 0, 1, 3 if kind == "sends other tag" else 0)
    else:
        group.send(np.ones(4), 0, 1)


for kind in sys.argv[1:]:
    group = ranks.split(0, kind)
    try:
        if kind in STEPS:
            run_program(kind)
            continue
        if kind.startswith("sends"):
            sends_another(kind, group)
            continue
        if ranks.rank == 0:
            group.timeout = 1.0 if kind == "late" else 60.0
            group.allreduce(np.ones(4))
        elif kind == "raises":
            raise ValueError("the second rank's own trouble")
        elif kind == "other shape":
            group.allreduce(np.ones(5))
        elif kind == "other operation":
            group.all_gather(np.ones(4))
        elif kind == "late":
            # The launcher ends it, once the first rank has given up.
            time.sleep(60)
    except DisagreementError as error:
        # Both are told, unless one had no need to wait; lines of several ranks may get into each other.
        if ranks.rank == 0 or kind.startswith("sends"):
            print(error, file=sys.stderr)
