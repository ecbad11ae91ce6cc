"""Run by one rank and by several: the losses, and a checkpoint, of the same training."""

import sys

import numpy as np

from nnc import nn, parallel
from nnc.core.values.dtype import F64

ranks = parallel.world()
random = np.random.default_rng(0)
x, y = random.standard_normal((45, 6, 6, 2)), random.integers(0, 3, 45)
net = nn.Sequential(nn.Convolution(4, bias=False), nn.BatchNorm(), nn.ReLU(), nn.Flatten(), nn.Dense(3))
options = {"clip_norm": 1.0, "dtype": F64, "mesh": parallel.Mesh(data=ranks.size)}
model = nn.Model(net, (6, 6, 2), optimizer=nn.Adam(0.01), **options)
losses = []
model.fit(x, y, 16, epochs=3, callbacks=[lambda progress: losses.append(progress.loss)])
model.fit(x, y, 16, epochs=1, accumulate=2, callbacks=[lambda progress: losses.append(progress.loss)])
# One rank's wish ends the training of all behind the same update.
model.fit(x, y, 16, epochs=9, stop=lambda: ranks.rank == ranks.size - 1)
losses.append(model.updates)
weights = np.concatenate([tensor.numpy().ravel() for tensor in model.tensors().values()])
assert (ranks.all_gather(weights[None]) == weights).all(), "ranks have other weights"
if ranks.rank == 0:
    np.save(sys.argv[1], np.concatenate([losses, weights]))
