"""Products split among ranks: results of one rank, what is split and what is not, bytes of a rank, checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx.models import model as model_of
from tests.onnx.models import node
from tests.parallel.conftest import run_alone
from tests.parallel.ranks_as_threads import run_ranks

import nnc
import onnx
from nnc import nn
from nnc.errors import DisagreementError, IndexRangeError, MemoryLimitError, ShapeError, UsageError
from nnc.nn.layers.layer import Layer, Scope, T
from nnc.nn.zoo.language import GPT, LLaMA
from nnc.onnx import OnnxLayer, read
from nnc.ops import concatenate, multiply, reduce_max, reduce_sum, reshape, softmax, transpose
from nnc.ops.movement.broadcast import broadcast_to
from nnc.parallel import Mesh, Pipeline, joined
from nnc.parallel.block_operators import JOIN_BLOCKS, LEAVE
from nnc.parallel.tensor_shards import block_of
from nnc.symbolic import SymbolicGraph

TOKENS = np.random.default_rng(0).integers(0, 11, (4, 3)).astype(np.int32)
TARGETS = np.roll(TOKENS, 1, 1)
BLOCK = nn.TransformerBlock(2, 8, causal=True, rotary_base=100.0, gated=True, rms=True)
LANGUAGE = nn.Sequential(
    nn.RowParallel(nn.Embedding(11, 8, dtype=nnc.f64)), BLOCK, nn.Dropout(0.2), nn.ColumnParallel(nn.Dense(12))
)


def language(mesh: Mesh | None, zero_stage: Any = 0) -> nn.Model:  # a stage
    return nn.Model(
        LANGUAGE, (3,), loss=nn.SoftmaxCrossEntropy(), optimizer=nn.Adam(0.01), dtype=nnc.f64, input_dtype=nnc.i32,
        clip_norm=0.1, nan_guard=True, mesh=mesh, zero_stage=zero_stage,
    )  # fmt: skip


def trained(model: nn.Model, x: Any, y: Any, steps: int = 2) -> dict[str, Any]:  # arrays
    """Losses, weights and predictions; each rank along `data` has its part of the batch."""
    mesh = model.mesh or Mesh()
    number = joined(mesh.group("data")).rank if mesh.data > 1 else 0
    part = slice(number * len(x) // mesh.data, (number + 1) * len(x) // mesh.data)
    losses = [model.train_on_batch(x[part], y[part])[0] for _ in range(steps)]
    return {"losses": losses, "predicted": model.predict(x), **model.state_dict()}


def assert_same(many: dict[str, Any], one: dict[str, Any], tolerance: float = 1e-9) -> None:
    assert many.keys() == one.keys()
    for name, values in one.items():
        np.testing.assert_allclose(many[name], values, rtol=tolerance, atol=tolerance, err_msg=name)


def axes_of(model: nn.Model) -> dict[str, int]:
    return {path: row.place.axis for path, row in model.specs.items() if row.place is not None}


def test_two_by_two_ranks_train_as_one_and_their_checkpoint_loads_anywhere(tmp_path: Path) -> None:
    path, rows = tmp_path / "split.safetensors", nn.data.Examples("tokens", TOKENS, TARGETS)
    # Dropout draws by rank along `data`: only the ranks that share products draw the same.
    plain = nn.Sequential(*[layer for layer in LANGUAGE if not isinstance(layer, nn.Dropout)])

    def model(mesh: Mesh | None, stage: Any = 0) -> nn.Model:
        return nn.Model(
            plain, (3,), loss=nn.SoftmaxCrossEntropy(), dtype=nnc.f64, input_dtype=nnc.i32, mesh=mesh, clip_norm=0.1,
            zero_stage=stage,
        )  # fmt: skip

    def write(rank: int) -> dict[str, Any]:
        many = model(Mesh(data=2, tensor=2), 1)
        result = trained(many, TOKENS, TARGETS)
        nn.save_checkpoint(path, many, nn.position_of(many, nn.data.Batches(rows, 4)))
        many.save(tmp_path / "whole.safetensors")
        return result

    one = trained(model(None), TOKENS, TARGETS)
    results = run_ranks(4, write)
    for result in results:
        assert_same(result, one)
    assert len(list(path.with_suffix(".parts").iterdir())) == 4

    def load(other: nn.Model) -> tuple[float, float]:
        nn.load_checkpoint(path, other)
        weights = other.state_dict()
        assert all(np.array_equal(weights[name], results[0][name]) for name in weights)
        return other.train_on_batch(TOKENS, TARGETS)

    alone = load(model(None))
    assert run_ranks(2, lambda rank: load(model(Mesh(tensor=2)))) == [pytest.approx(alone)] * 2
    assert nn.load_model(tmp_path / "whole.safetensors").mesh is None


def test_dropout_guards_and_a_loaded_state_are_those_of_one_rank() -> None:
    one = language(None)
    state = one.state_dict()

    def run(rank: int) -> dict[str, Any]:
        many = language(Mesh(tensor=2))
        many.load_state_dict(state)
        result = trained(many, TOKENS, TARGETS)
        with pytest.raises(IndexRangeError, match="0 ≤ index < 11"):
            many.predict(np.full((1, 3), 11, np.int32))
        return result

    expected = trained(one, TOKENS, TARGETS)
    for result in run_ranks(2, run):
        assert_same(result, expected)


def test_a_launch_of_two_ranks_gives_the_losses_of_one(of_two: Path) -> None:
    run_alone("split_model.py", str(of_two / "products1.npy"))
    one, two = (np.load(of_two / f"products{ranks}.npy") for ranks in (1, 2))
    np.testing.assert_allclose(two, one, rtol=1e-9)


class Mixture(Layer):
    """What rules are for, between a layer of columns and one of rows."""

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to x[batch, 8]."""
        heads = reshape(x, (x.shape[0], 4, 2))
        turned = transpose(softmax(heads), (1, 0, 2))
        largest = broadcast_to(reduce_max(turned, 2, keepdims=True), turned.shape)
        both = concatenate([multiply(turned, largest), turned], 2)
        back = transpose(both, (1, 0, 2))
        return reshape(multiply(back, broadcast_to(reduce_sum(back, 2, keepdims=True), back.shape)), (x.shape[0], 16))


def collectives(graph: SymbolicGraph) -> tuple[int, int]:
    """How many sums over ranks there are, and how many values are joined."""
    ops = [record.command.op for _, record in graph.execs.items()]
    return ops.count(LEAVE), ops.count(JOIN_BLOCKS)


def test_what_lies_between_a_pair_stays_split_and_anything_else_is_joined() -> None:
    x, y = np.random.default_rng(1).standard_normal((4, 3)), np.array([0, 1, 1, 0])
    pair = nn.Sequential(
        nn.ColumnParallel(nn.Dense(8)), Mixture(), nn.GELU(), nn.Dropout(0.3), nn.RowParallel(nn.Dense(2))
    )
    joined_between = nn.Sequential(
        nn.ColumnParallel(nn.Dense(8)), nn.LayerNorm(), nn.ColumnParallel(nn.Dense(4)), nn.ColumnParallel(nn.Dense(2))
    )
    for layer, counts in ((pair, (1, 0)), (joined_between, (3, 2))):

        def run(mesh: Mesh | None, layer: Layer = layer) -> tuple[dict[str, Any], SymbolicGraph]:
            model = nn.Model(layer, (3,), loss=nn.SoftmaxCrossEntropy(), dtype=nnc.f64, mesh=mesh)
            return trained(model, x, y), model.training_step(4).compiled.planned.graph

        one, _ = run(None)
        for many, graph in run_ranks(2, lambda rank: run(Mesh(tensor=2))):
            assert_same(many, one)
            assert collectives(graph) == counts


def test_pairs_heads_and_adapters_are_split_by_themselves() -> None:
    mesh = Mesh(tensor=2)
    tower = nn.Sequential(nn.Dense(6), nn.ReLU(), nn.Dense(8), nn.Tanh(), nn.Dense(2))
    assert axes_of(nn.Model(tower, (4,), mesh=mesh)) == {"0.weight": 1, "0.bias": 0, "2.weight": 0}
    # Statistics of a batch are of whole features, and three heads cannot be halved: what is around them is left whole.
    normed = nn.Sequential(nn.Dense(6), nn.BatchNorm(), nn.Dense(8), nn.GELU(), nn.Dense(2))
    assert axes_of(nn.Model(normed, (4,), mesh=mesh)) == {"2.weight": 1, "2.bias": 0, "4.weight": 0}
    block = axes_of(nn.Model(nn.TransformerBlock(3, 8, bias=False), (4, 6), mesh=mesh))
    assert block == {"feed_forward.widen.weight": 1, "feed_forward.narrow.weight": 0}
    gpt = axes_of(nn.Model(GPT(11, 8, 16, 1, 2, bias=False), (8,), input_dtype=nnc.i32, mesh=mesh))
    assert {path.rpartition("block0.")[2]: axis for path, axis in gpt.items()} == {
        "attention.query.weight": 1, "attention.key.weight": 1, "attention.value.weight": 1,
        "attention.output.weight": 0, **block,
    }  # fmt: skip
    adapted = axes_of(nn.Model(nn.LoRA(nn.FeedForward(8, bias=False), ("*",), rank=2), (2, 4), mesh=mesh))
    assert {"widen.weight", "narrow.weight", "widen.lora_b"} <= adapted.keys()


@pytest.mark.turns(4)
@pytest.mark.parametrize("rank", [0, 2])
def test_files_of_others_and_their_adapters_are_split_and_cut_like_layers(rank: int, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    sizes = {"w0": (4, 8), "b0": (8,), "w1": (6, 8), "b1": (6,), "w2": (6, 3)}
    weights = {name: draw.standard_normal(size).astype(np.float32) for name, size in sizes.items()}
    nodes = [
        node("MatMul", "x w0", "a"), node("Add", "a b0", "b"), node("Relu", "b", "c"),
        node("Gemm", "c w1 b1", "d", transB=1), node("Tanh", "d", "e"), node("MatMul", "e w2", "y"),
    ]  # fmt: skip
    onnx.save(model_of(nodes, {"x": ["n", 4]}, ["y"], weights), tmp_path / "net.onnx")
    x, y = draw.standard_normal((6, 4)).astype(np.float32), np.array([0, 1, 2, 0, 1, 2])

    def run(mesh: Mesh | None) -> dict[str, Any]:
        body = OnnxLayer(read(tmp_path / "net.onnx"), rank=rank)
        made = nn.Model(body, (4,), optimizer=nn.SGD(0.1), mesh=mesh, pipeline=Pipeline(schedule="gpipe"))
        if mesh == Mesh(tensor=2):
            split = {"w0": 1, "b0": 0, "w1": 1} if not rank else {"w0_lora_b": 1, "w1_lora_b": 1}
            assert axes_of(made) == split
        return trained(made, x, y)

    one = run(None)
    for mesh in (Mesh(tensor=2), Mesh(pipe=2)):
        for many in run_ranks(2, lambda _, mesh=mesh: run(mesh)):
            assert_same(many, one, 1e-4)


def test_a_rank_of_two_states_half_of_a_large_table_and_of_its_pairs() -> None:
    net = LLaMA(1 << 15, 32, 1, 4, 2, 64)

    def model(mesh: Mesh | None, **options: Any) -> nn.Model:
        return nn.Model(net, (8,), loss=nn.SoftmaxCrossEntropy(), input_dtype=nnc.i32, mesh=mesh, **options)

    one, two = (model(mesh).memory(1) for mesh in (None, Mesh(tensor=2)))
    assert 0.5 <= two.weights / one.weights < 0.51
    assert two.optimizer_state < 0.51 * one.optimizer_state
    assert model(Mesh(tensor=2), memory_limit=two.step.arena).memory(1).step.arena <= two.step.arena
    with pytest.raises(MemoryLimitError):
        model(Mesh(tensor=2), memory_limit=1000).memory(1)
    assert model(Mesh(tensor=2)).parameter_count() == model(None).parameter_count()


def test_a_text_is_generated_by_caches_of_half_of_the_heads() -> None:
    def text(mesh: Mesh | None) -> tuple[list[int], int]:
        model = nn.Model(LLaMA(50, 16, 1, 4, 2, 16), (8,), input_dtype=nnc.i32, mesh=mesh)
        return list(nn.generate(model, [1, 2, 3], 4)), model.memory(1, "generate", 8).cache

    tokens, kept = text(None)
    assert run_ranks(2, lambda rank: text(Mesh(tensor=2))) == [(tokens, kept // 2)] * 2


def test_sixteen_bits_and_ranks_that_begin_otherwise() -> None:
    x, y = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32), np.array([0, 1, 1, 0])
    layer = nn.Sequential(nn.Dense(8), nn.ReLU(), nn.Dense(2))

    def model(mesh: Mesh | None, seed: int = 0) -> nn.Model:
        return nn.Model(layer, (3,), loss=nn.SoftmaxCrossEntropy(), mesh=mesh, precision=nnc.bf16, seed=seed)

    one = trained(model(None), x, y)
    for many in run_ranks(2, lambda rank: trained(model(Mesh(tensor=2)), x, y)):
        assert_same(many, one, 2e-2)
    with pytest.raises(DisagreementError, match="'seed=0' on rank 0, 'seed=1' on rank 1"):
        run_ranks(2, lambda rank: model(Mesh(tensor=2), rank).train_on_batch(x, y))


def test_layers_of_one_s_own_lie_elsewhere_on_each_rank() -> None:
    x, y = np.ones((4, 3), np.float32), np.array([0, 1, 1, 0])

    def run(rank: int) -> float:
        layer = nn.Sequential(nn.Dense(8), nn.Lambda(lambda h: h * h), nn.Dense(2))
        model = nn.Model(layer, (3,), loss=nn.SoftmaxCrossEntropy(), mesh=Mesh(tensor=2))
        return model.train_on_batch(x, y)[0]

    first, second = run_ranks(2, run)
    assert first == second


def test_ranks_of_another_graph_are_told_what_differs() -> None:
    """Layers of one's own look alike; parts of a batch are of other sizes, which is no difference."""

    def run(rank: int, factor: float) -> float:
        layer = nn.Sequential(nn.Dense(3), nn.Lambda(lambda h: h * factor))
        model = nn.Model(layer, (3,), mesh=Mesh(data=2))
        return model.train_on_batch(np.ones((4 + rank, 3), np.float32), np.zeros(4 + rank, int))[0]

    first, second = run_ranks(2, lambda rank: run(rank, 2.0))
    assert first == second
    with pytest.raises(DisagreementError, match=r"graph of train: .*scale=2.0.* on rank 0, .*scale=3.0.* on rank 1"):
        run_ranks(2, lambda rank: run(rank, 2.0 + rank))


def test_what_cannot_be_split_says_so() -> None:
    mesh = Mesh(tensor=2)

    def model(layer: Layer, **options: Any) -> nn.Model:
        return nn.Model(layer, (4,), mesh=mesh, **options)

    with pytest.raises(ShapeError, match=r"0\.weight\[4, 5\], whose axis 1 has 5; need a multiple of 2 ranks"):
        model(nn.Sequential(nn.ColumnParallel(nn.Dense(5)), nn.ReLU(), nn.Dense(2)))
    with pytest.raises(UsageError, match="a row one within a column one at 0"):
        model(nn.Sequential(nn.ColumnParallel(nn.RowParallel(nn.Dense(4)))))
    with pytest.raises(UsageError, match="no product that 2 ranks can split"):
        model(nn.Sequential(nn.Dense(5), nn.ReLU(), nn.Dense(3)))
    with pytest.raises(UsageError, match="which no product reads"):
        model(nn.Sequential(nn.ColumnParallel(nn.LayerNorm()), nn.Dense(4)))
    with pytest.raises(UsageError, match="tensor parallel with Lamb, which reads whole parameters"):
        model(nn.Sequential(nn.Dense(8), nn.ReLU(), nn.Dense(2)), optimizer=nn.Lamb(0.1))
    split = model(nn.Sequential(nn.Dense(8), nn.ReLU(), nn.Dense(2)))
    with pytest.raises(UsageError, match="weights split among ranks"):
        split.freeze(1)
    with pytest.raises(UsageError, match="nnc launch -n 2"):
        split.predict(np.ones((1, 4), np.float32))


def test_blocks_cover_an_axis_and_end_in_zeros() -> None:
    array = np.arange(1, 7).reshape(2, 3)
    assert [block_of(array, 1, rank, 2).tolist() for rank in range(2)] == [[[1, 2], [4, 5]], [[3, 0], [6, 0]]]
    assert [block_of(array, 0, rank, 3).tolist() for rank in range(3)] == [[[1, 2, 3]], [[4, 5, 6]], [[0, 0, 0]]]
