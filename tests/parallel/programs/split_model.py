"""Run by one rank and by two, which have a stage each or share each product: losses are the same."""

import sys

import numpy as np

import nnc
from nnc import nn, parallel

ranks = parallel.world()
random = np.random.default_rng(0)
x, y = random.standard_normal((12, 10)), random.integers(0, 3, 12)
tower = nn.Sequential(nn.Dense(16), nn.Tanh(), nn.Dense(3))
losses: list[float] = []
for mesh in (parallel.Mesh(pipe=2), parallel.Mesh(tensor=2)):
    mesh = mesh if ranks.size > 1 else None
    pipeline = parallel.Pipeline(3, starts=("2",), schedule="1f1b")
    model = nn.Model(tower, (10,), optimizer=nn.Adam(0.01), dtype=nnc.f64, mesh=mesh, pipeline=pipeline)
    model.fit(x, y, 6, epochs=2, callbacks=[lambda progress: losses.append(progress.loss)])
if ranks.rank == 0:
    np.save(sys.argv[1], np.array(losses))
