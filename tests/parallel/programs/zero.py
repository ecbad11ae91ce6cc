"""Run by one rank and by several: every stage of ZeRO trains the same weights, and goes on from checkpoints of others.

python zero.py FOLDER STAGE…           trains, and writes checkpoints
python zero.py FOLDER STAGE=FROM…      goes on from the checkpoint of another stage
"""

import sys
from pathlib import Path

import numpy as np

from nnc import nn, parallel
from nnc.core.values.dtype import F64
from nnc.errors import UsageError
from nnc.nn.data import Batches, Examples

ranks = parallel.world()
folder, asked = Path(sys.argv[1]), sys.argv[2:]
random = np.random.default_rng(0)
x, y = random.standard_normal((24, 10)), random.integers(0, 3, 24)
net = nn.Sequential(nn.Dense(7, bias=False), nn.BatchNorm(), nn.ReLU(), nn.Dense(50), nn.Tanh(), nn.Dense(3))


def further(model, batches):
    """Losses and weights behind another epoch, and one with sums over batches."""
    losses = []
    model.fit(batches, epochs=1, callbacks=[lambda progress: losses.append(progress.loss)])
    model.fit(batches, epochs=1, accumulate=2, callbacks=[lambda progress: losses.append(progress.loss)])
    score = model.evaluate(x, y, 24)
    weights = np.concatenate([values.ravel() for values in model.state_dict().values()])
    return np.concatenate([losses, [score.loss, score.score], weights])


def refusal(model):
    """Without pytest, which takes each rank a third of a second to import."""
    try:
        model.freeze(2)
    except UsageError as error:
        return str(error)
    return ""


rows = []
for each in asked:
    stage, _, source = each.partition("=")
    options = {"clip_norm": 0.5, "dtype": F64, "nan_guard": stage > "1", "mesh": parallel.Mesh(data=ranks.size)}
    model = nn.Model(net, (10,), optimizer=nn.Adam(0.01), zero_stage=int(stage), **options)
    batches, path = Batches(Examples("noise", x, y), 8, seed=1), folder / f"stage{source or stage}.safetensors"
    if source:
        batches.restore(nn.load_checkpoint(path, model).batches)
    else:
        model.fit(batches, epochs=1)
        nn.save_checkpoint(path, model, nn.position_of(model, batches))
        # The second takes the place of the first, whose parts are gone then.
        nn.save_checkpoint(path, model, nn.position_of(model, batches), notes={"again": 1})
    rows.append(further(model, batches))
    if stage == "3" and not source:
        model.save(folder / "whole.safetensors")
        assert "weights in shards" in refusal(model)
        before = model.state_dict()
        model.load_state_dict(before)
        assert all(np.array_equal(before[path], values) for path, values in model.state_dict().items())
if ranks.rank == 0:
    np.save(folder / f"{ranks.size}.npy", rows)
