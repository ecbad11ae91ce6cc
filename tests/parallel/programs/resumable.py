"""Run by ranks that somebody kills or stops: trains from the last checkpoint to the end, and says what came out.

python resumable.py FOLDER STAGE EPOCHS TIMEOUT [full]        with `full` the last rank's disk takes nothing more
"""

import hashlib
import os
import resource
import sys
from pathlib import Path

import numpy as np

from nnc import nn, parallel
from nnc.nn.data import Batches, Examples

folder, stage, epochs, timeout = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
ranks = parallel.world()
ranks.timeout = timeout
(folder / f"pid{ranks.rank}").write_text(str(os.getpid()))
random = np.random.default_rng(0)
x, y = random.standard_normal((32, 10)).astype(np.float32), random.integers(0, 3, 32)
net = nn.Sequential(nn.Dense(32), nn.BatchNorm(), nn.ReLU(), nn.Dense(3))
model = nn.Model(net, (10,), optimizer=nn.Adam(0.01), mesh=parallel.Mesh(data=ranks.size), zero_stage=stage)
batches, path = Batches(Examples("noise", x, y), 8, seed=1), folder / "last.safetensors"
if path.exists():
    batches.restore(nn.load_checkpoint(path, model).batches)
if sys.argv[5:] and ranks.rank == ranks.size - 1:
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
model.fit(batches, epochs=epochs - batches.state().epoch, callbacks=[nn.LastCheckpoint(path, updates=1)])
if ranks.rank == 0:
    digest = hashlib.sha256(b"".join(values.tobytes() for values in model.state_dict().values())).hexdigest()
    (folder / "result").write_text(f"{model.updates} {digest}")
