"""Run by one rank and by several: adapters are trained, and text is generated, by weights in shards."""

import sys

import numpy as np

import nnc
from nnc import nn, parallel
from nnc.core.values.dtype import F64
from nnc.nn.zoo.language import GPT

ranks = parallel.world()
mesh = parallel.Mesh(data=ranks.size)
random = np.random.default_rng(0)
x, y = random.standard_normal((12, 10)), random.integers(0, 3, 12)
adapted = nn.LoRA(nn.Sequential(nn.Dense(32), nn.Tanh(), nn.Dense(3)), ("*",), rank=2)
model = nn.Model(adapted, (10,), optimizer=nn.Adam(0.01), dtype=F64, mesh=mesh, zero_stage=3)
frozen = model.state_dict()["0.weight"]
losses = []
model.fit(x, y, 6, epochs=2, callbacks=[lambda progress: losses.append(progress.loss)])
assert np.array_equal(model.state_dict()["0.weight"], frozen)
assert model.tensors()["0.weight"].shape == (-(-320 // ranks.size),)
language = nn.Model(GPT(50, 16, 32, 2, 2), (16,), input_dtype=nnc.i32, mesh=mesh, zero_stage=3)
text = nn.generate(language, [1, 2, 3], 8)
if ranks.rank == 0:
    np.save(sys.argv[1], np.array([*losses, *text]))
