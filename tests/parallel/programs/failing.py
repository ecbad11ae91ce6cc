"""Run by two ranks, of which the second does something else."""

import sys
import time

import numpy as np

from nnc import parallel

ranks = parallel.world()
ranks.timeout = 1.0
kind = sys.argv[1]
if ranks.rank == 0:
    ranks.allreduce(np.ones(4))
elif kind == "raises":
    raise ValueError("the second rank's own trouble")
elif kind == "other shape":
    ranks.allreduce(np.ones(5))
elif kind == "other operation":
    ranks.all_gather(np.ones(4))
elif kind == "late":
    time.sleep(60)
