"""Run by one rank and by several, which share each product: losses are the same."""

import sys

import numpy as np

import nnc
from nnc import nn, parallel

ranks = parallel.world()
random = np.random.default_rng(0)
x, y = random.standard_normal((12, 10)), random.integers(0, 3, 12)
tower = nn.Sequential(nn.Dense(16), nn.Tanh(), nn.Dense(3))
model = nn.Model(tower, (10,), optimizer=nn.Adam(0.01), dtype=nnc.f64, mesh=parallel.Mesh(tensor=ranks.size))
assert model.tensors()["0.weight"].shape == (10, 16 // ranks.size)
losses: list[float] = []
model.fit(x, y, 6, epochs=2, callbacks=[lambda progress: losses.append(progress.loss)])
if ranks.rank == 0:
    np.save(sys.argv[1], np.array(losses))
