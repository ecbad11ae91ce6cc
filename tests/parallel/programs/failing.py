"""Run by two ranks, of which the second does something else: failing.py KIND…, each kind in a group of its own."""

import sys
import time

import numpy as np

from nnc import parallel
from nnc.errors import DisagreementError

ranks = parallel.world()
for kind in sys.argv[1:]:
    group = ranks.split(0, kind)
    try:
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
        # Both are told; lines of several ranks may get into each other.
        if ranks.rank == 0:
            print(error, file=sys.stderr)
