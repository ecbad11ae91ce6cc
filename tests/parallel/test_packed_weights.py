"""Weights whose columns are read in equal parts, as queries, keys and values: each part is split by heads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.parallel.ranks_as_threads import run_ranks
from tests.parallel.test_tensor_parallel import assert_same, axes_of, trained

import nnc
from nnc import nn
from nnc.errors import ShapeError
from nnc.nn.layers.layer import Layer
from nnc.nn.modules.module import Module
from nnc.ops import reshape, scaled_dot_product_attention, slice_axis, transpose
from nnc.parallel import Mesh, RankGroup
from nnc.parallel.block_operators import BlockPlace

DRAW = np.random.default_rng(0)
X, Y = DRAW.standard_normal((2, 4, 3, 12))
TWO, THREE = Mesh(tensor=2), Mesh(tensor=3)


class Attending(Module):
    """Weights of attention are there beside its result, and nobody reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(12, 6, batch_first=True)

    def forward(self, x: Any) -> Any:  # arrays
        y, _ = self.attention(x, x, x)
        return x + y


def heads(how: str) -> Layer:
    """Attention of six heads over 36 features, of which a third each are queries, keys and values."""

    def attend(y: Any) -> Any:  # operands
        b, t, e = y.shape
        if how == "slices":
            parts = [slice_axis(y, 2, part * e // 3, (part + 1) * e // 3) for part in range(3)]
        elif how == "an axis":
            parts = [slice_axis(reshape(y, (b, t, 3, 6, 2)), 2, part, part + 1) for part in range(3)]
        else:
            turned = transpose(reshape(y, (b, t, 3, 6, 2)), (2, 0, 1, 3, 4))
            parts = [slice_axis(turned, 0, part, part + 1) for part in range(3)]
        return reshape(scaled_dot_product_attention(*(reshape(part, (b, t, 6, 2)) for part in parts)), (b, t, e // 3))

    return nn.Lambda(attend)


def packed(how: str) -> Layer:
    return nn.Sequential(nn.Dense(36), nn.Lambda(lambda x: x * 0.5), heads(how), nn.Dense(12))


CASES: dict[str, tuple[Any, Mesh, dict[str, Any]]] = {
    "module": (Attending, THREE, {}),
    "encoder": (lambda: nn.TransformerEncoderLayer(12, 6, 16, dropout=0.0, batch_first=True), TWO, {"clip_norm": 0.1}),
    "slices": (lambda: packed("slices"), TWO, {"dtype": nnc.f64}),
    "an axis": (lambda: packed("an axis"), TWO, {"dtype": nnc.f64}),
    "an axis in front": (lambda: packed("in front"), THREE, {"dtype": nnc.f64}),
    "adapters": (lambda: nn.LoRA(packed("slices"), ("*",), rank=2), TWO, {"dtype": nnc.f64}),
}


def model_of(layer: Any, mesh: Mesh | None, **options: Any) -> nn.Model:
    # Keys have no gradient by their bias: Adam would divide roundings by each other.
    return nn.Model(layer, (3, 12), loss=nn.MeanSquaredError(), optimizer=nn.SGD(0.1), mesh=mesh, **options)


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", CASES)
def test_each_rank_has_heads_of_queries_keys_and_values(name: str) -> None:
    make, mesh, options = CASES[name]
    dtype = np.float64 if "dtype" in options else np.float32
    layer, x, y = make(), X.astype(dtype), Y.astype(dtype)

    def run(mesh: Mesh | None) -> dict[str, Any]:
        model = model_of(layer, mesh, **options)
        if mesh is not None:
            assert 3 in [row.place.parts for row in model.specs.values() if row.place is not None]
        return trained(model, x, y)

    one = run(None)
    for many in run_ranks(mesh.size, lambda _: run(mesh)):
        assert_same(many, one, 1e-9 if "dtype" in options else 1e-5)


def test_files_and_states_have_the_whole_weight_in_its_order(tmp_path: Path) -> None:
    path, net, rows = tmp_path / "a.safetensors", Attending(), nn.data.Examples("numbers", X, Y)
    x, y = X.astype(np.float32), Y.astype(np.float32)
    one = model_of(net, None)
    state = one.state_dict()

    def write(rank: int) -> dict[str, Any]:
        model = model_of(net, Mesh(data=2, tensor=2), zero_stage=3)
        model.load_state_dict(state)
        for name, value in state.items():
            np.testing.assert_array_equal(model.state_dict()[name], value)
        result = trained(model, x, y)
        nn.save_checkpoint(path, model, nn.position_of(model, nn.data.Batches(rows, 4)))
        model.save(tmp_path / "whole.safetensors")
        return result

    expected = trained(one, x, y)
    results = run_ranks(4, write)
    for result in results:
        assert_same(result, expected, 1e-5)

    def load(mesh: Mesh | None) -> None:
        model = model_of(net, mesh)
        nn.load_checkpoint(path, model)
        weights = model.state_dict()
        assert all(np.array_equal(value, results[0][name]) for name, value in weights.items())

    load(None)
    run_ranks(3, lambda _: load(THREE))
    plain = nn.load_model(tmp_path / "whole.safetensors", classes=[Attending]).state_dict()
    assert all(np.array_equal(value, results[0][name]) for name, value in plain.items())


def test_half_of_a_packed_weight_is_stated_and_other_sizes_stay_whole() -> None:
    one, two = (model_of(Attending(), mesh).memory(4) for mesh in (None, TWO))
    # All but the bias behind the sum.
    assert two.weights == one.weights // 2 + 12 * 4 // 2
    assert axes_of(model_of(Attending(), TWO)).keys() == {
        "attention.in_proj_weight", "attention.in_proj_bias", "attention.out_proj.weight",
    }  # fmt: skip
    odd = nn.Sequential(nn.TransformerEncoderLayer(12, 3, 16, batch_first=True))
    assert {path.rpartition(".")[0] for path in axes_of(model_of(odd, TWO))} == {"0.linear1", "0.linear2"}
    with pytest.raises(ShapeError, match="a multiple of 5 ranks"):
        model_of(nn.ColumnParallel(nn.Dense(36)), Mesh(tensor=5))


def test_blocks_of_an_axis_in_parts_are_the_whole_again() -> None:
    whole = np.arange(24).reshape(2, 12)
    for parts, ranks in ((1, 2), (3, 2), (2, 3), (1, 5)):
        place = BlockPlace(RankGroup(ranks), 1, parts)
        blocks = [place.cut(whole, rank) for rank in range(ranks)]
        assert {block.shape for block in blocks} == {(2, -(-12 // parts // ranks) * parts)}
        np.testing.assert_array_equal(place.whole(blocks, 12), whole)
