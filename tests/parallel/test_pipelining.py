"""Networks cut into stages: results of one rank by each schedule, where they are cut, bytes of a rank, checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.parallel.ranks_as_threads import run_ranks

import nnc
from nnc import nn
from nnc.errors import ShapeError, UsageError
from nnc.nn.layers.layer import Layer, Scope, T
from nnc.nn.zoo.language import LLaMA
from nnc.ops import gemm
from nnc.parallel import Mesh, Pipeline
from nnc.parallel.pipelining import SCHEDULES, spans_of, units_of

X, Y = np.random.default_rng(0).standard_normal((6, 4)), np.array([0, 1, 1, 0, 1, 0])
TOWER = nn.Sequential(nn.Dense(6), nn.ReLU(), nn.Dense(8), nn.Tanh(), nn.Dense(2))
TOKENS = np.random.default_rng(0).integers(0, 11, (4, 3)).astype(np.int32)


class Tied(Layer):
    """Tokens to logits by one table, which the first and the last stage read."""

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to tokens."""
        tokens = nn.Embedding(11, 8, dtype=nnc.f64)
        y = tokens.build(scope.inside("tokens"), x)
        for number in range(2):
            y = nn.TransformerBlock(2, 8, causal=True).build(scope.inside(str(number)), y)
        return gemm(y, tokens.table(scope.inside("tokens")), transpose_b=True)


def model(layer: Layer, mesh: Mesh | None, **options: Any) -> nn.Model:
    shape, dtype = ((3,), nnc.i32) if isinstance(layer, Tied) else ((4,), nnc.f64)
    return nn.Model(
        layer,
        shape,
        loss=nn.SoftmaxCrossEntropy(),
        dtype=nnc.f64,
        input_dtype=dtype,
        mesh=mesh,
        clip_norm=0.1,
        **options,
    )


def trained(made: nn.Model, x: Any = X, y: Any = Y) -> dict[str, Any]:
    """Losses, weights, predictions and the loss of all; each rank along `data` has its part of the batch."""
    mesh = made.mesh or Mesh()
    number = mesh.own_place()[0] if mesh.is_launched else 0
    part = slice(number * len(x) // mesh.data, (number + 1) * len(x) // mesh.data)
    losses = [made.train_on_batch(x[part], y[part]) for _ in range(2)]
    return {"losses": losses, "predicted": made.predict(x), "loss": made.evaluate(x, y).loss, **made.state_dict()}


def assert_same(many: dict[str, Any], one: dict[str, Any], tolerance: float = 1e-9) -> None:
    assert many.keys() == one.keys()
    for name, values in one.items():
        np.testing.assert_allclose(many[name], values, rtol=tolerance, atol=tolerance, err_msg=name)


def stages_of(made: nn.Model) -> dict[str, int]:
    return {path: row.stage for path, row in made.specs.items() if path.endswith("weight")}


def test_three_stages_train_as_one_rank_by_both_schedules_to_the_same_bits(tmp_path: Path) -> None:
    path, rows = tmp_path / "stages.safetensors", nn.data.Examples("rows", X, Y)
    one = trained(model(TOWER, None, nan_guard=True))

    def run(schedule: Any) -> dict[str, Any]:
        pipeline = Pipeline(4, schedule=schedule)
        many = model(TOWER, Mesh(pipe=3), pipeline=pipeline, nan_guard=True)
        result = trained(many)
        nn.save_checkpoint(path, many, nn.position_of(many, nn.data.Batches(rows, 6)))
        many.save(tmp_path / "whole.safetensors")
        assert len(many.parameters) == 2
        return result

    first, second = (run_ranks(3, lambda rank, schedule=schedule: run(schedule)) for schedule in SCHEDULES)
    for result in first:
        assert_same(result, one)
    assert_same(second[0], first[0], 0.0)

    def load(other: nn.Model) -> tuple[float, float]:
        nn.load_checkpoint(path, other)
        weights = other.state_dict()
        assert all(np.array_equal(weights[name], second[0][name]) for name in weights)
        return other.train_on_batch(X, Y)

    alone = load(model(TOWER, None))
    assert run_ranks(2, lambda rank: load(model(TOWER, Mesh(pipe=2)))) == [pytest.approx(alone)] * 2
    assert nn.load_model(tmp_path / "whole.safetensors").mesh is None


def test_tensor_by_pipe_on_four_ranks_is_one_rank_with_a_table_that_both_ends_read() -> None:
    net = Tied()
    one = trained(model(net, None, optimizer=nn.Adam(0.01)), TOKENS, np.roll(TOKENS, 1, 1))

    def run(rank: int) -> dict[str, Any]:
        many = model(net, Mesh(tensor=2, pipe=2), optimizer=nn.Adam(0.01), pipeline=Pipeline(2, schedule="1f1b"))
        assert many.specs["tokens.weight"].stage == 0
        assert many.specs["1.feed_forward.narrow.weight"].stage == 1
        return trained(many, TOKENS, np.roll(TOKENS, 1, 1))

    for result in run_ranks(4, run):
        assert_same(result, one)


def test_parts_of_data_go_through_stages_with_state_in_shards_and_metrics() -> None:
    one = model(TOWER, None)
    history = one.fit(X, Y, batch_size=5, epochs=1, metrics=["accuracy"])

    def run(rank: int) -> tuple[Any, dict[str, Any]]:
        # Batches of 5 and 1: ranks have 2, 3, 0 and 1 examples, in parts of 1 and 2.
        many = model(TOWER, Mesh(data=2, pipe=2), zero_stage=1, pipeline=Pipeline(2, ("4",), "gpipe"))
        return many.fit(X, Y, batch_size=4, epochs=1), many.state_dict()

    other = model(TOWER, None)
    other.fit(X, Y, batch_size=4, epochs=1)
    for _, weights in run_ranks(4, run):
        assert_same(weights, other.state_dict())

    def measured(rank: int) -> float:
        many = model(TOWER, Mesh(pipe=2), pipeline=Pipeline(4, schedule="1f1b"))
        return many.fit(X, Y, batch_size=5, epochs=1, metrics=["accuracy"]).rows[-1]["accuracy"]

    assert run_ranks(2, measured) == [history.rows[-1]["accuracy"]] * 2


def test_gradients_of_several_batches_are_summed_in_stages() -> None:
    tower = nn.Sequential(nn.Dense(6), nn.Tanh(), nn.Dense(2))

    def fitted(mesh: Mesh | None, **options: Any) -> dict[str, Any]:
        made = model(tower, mesh, nan_guard=True, **options)
        losses: list[float] = []
        made.fit(X[:4], Y[:4], 2, epochs=1, accumulate=2, callbacks=[lambda progress: losses.append(progress.loss)])
        return {"updates": made.updates, "losses": losses, **made.state_dict()}

    one, pipeline = fitted(None), Pipeline(1, schedule="1f1b")
    for options in ({"mesh": Mesh(pipe=2)}, {"mesh": Mesh(data=2, pipe=2), "zero_stage": 2}):
        ranks = options["mesh"].size
        for many in run_ranks(ranks, lambda _, options=options: fitted(pipeline=pipeline, **options)):
            assert_same(many, one)


def test_stages_cost_the_same_and_begin_where_they_are_told() -> None:
    tower = nn.Sequential(*[nn.Dense(256) for _ in range(8)], nn.Dense(2))
    assert list(stages_of(model(tower, Mesh(pipe=4))).values()) == [0, 0, 0, 1, 1, 2, 2, 3, 3]
    asked = model(tower, Mesh(pipe=3), pipeline=Pipeline(starts=("1", "7")))
    assert list(stages_of(asked).values()) == [0, 1, 1, 1, 1, 1, 1, 2, 2]


def test_the_stage_that_takes_most_is_stated_and_backward_early_takes_less() -> None:
    tower = nn.Sequential(*[nn.Sequential(nn.Dense(32), nn.Tanh()) for _ in range(6)])

    def stated(**options: Any) -> Any:
        made = nn.Model(tower, (32,), loss=nn.MeanSquaredError(), **options)
        return made.memory(64)

    gpipe, early, chosen = (
        stated(mesh=Mesh(pipe=2), pipeline=Pipeline(8, schedule=schedule)) for schedule in ("gpipe", "1f1b", None)
    )
    assert early.step.arena < 0.6 * gpipe.step.arena
    assert chosen.step.arena == early.step.arena
    whole = stated()
    assert 2 * chosen.weights == whole.weights
    assert 2 * chosen.optimizer_state == whole.optimizer_state


def test_units_are_done_once_each_and_gradients_behind_their_part() -> None:
    for schedule in SCHEDULES:
        for stages, parts in ((2, 1), (2, 5), (4, 3), (3, 8)):
            for stage in range(stages):
                units = units_of(schedule, stage, stages, parts)
                assert sorted(units) == sorted((part, back) for part in range(parts) for back in (False, True))
                assert all(units.index((part, False)) < units.index((part, True)) for part in range(parts))
    assert spans_of(7, 3) == [(0, 2), (2, 4), (4, 7)]
    assert spans_of(2, 5) == [(0, 1), (1, 2)]


def test_what_stages_cannot_do_says_so() -> None:
    mesh = Mesh(pipe=2)
    for starts, message in ((("9",), r"begins with '9'; .* one of 2, 4"), (("2", "4"), "2 starts"), (("0",), "'0'")):
        with pytest.raises(UsageError, match=message):
            model(TOWER, mesh, pipeline=Pipeline(starts=starts))
    with pytest.raises(UsageError, match="1 layers with weights for 2 stages"):
        model(nn.Sequential(nn.Dense(2)), mesh)
    with pytest.raises(UsageError, match="renewed by statistics of a whole batch"):
        model(nn.Sequential(nn.Dense(4), nn.BatchNorm(), nn.Dense(2)), mesh).memory(4)
    idle = model(TOWER, mesh, optimizer=nn.SGD(0.1).without("0.*"), pipeline=Pipeline(starts=("2",)))
    with pytest.raises(UsageError, match="clip_norm or nan_guard, and no weight that is trained in stage 0"):
        idle.memory(4)
    made = model(TOWER, mesh)
    with pytest.raises(UsageError, match=r"weights on several stages \(pipe\)"):
        made.freeze(1)
    with pytest.raises(UsageError, match="nnc launch -n 2"):
        made.train_on_batch(X, Y)
    with pytest.raises(ShapeError):
        made.memory(0)


def test_weights_of_stages_lie_in_shards_and_are_gathered_for_each_part() -> None:
    def updated(mesh: Mesh | None, **options: Any) -> tuple[dict[str, Any], int]:
        made = model(TOWER, mesh, nan_guard=True, **options)
        results = trained(made)
        part = slice(0, 6) if mesh is None else slice(mesh.own_place()[0] * 3, mesh.own_place()[0] * 3 + 3)
        made.backward(X[part], Y[part])
        made.apply_gradients()
        weights = sum(tensor.spec.nbytes for tensor in made.tensors().values())
        return results | {f"summed {path}": value for path, value in made.state_dict().items()}, weights

    alone, nbytes = updated(None)
    mesh, options = Mesh(data=2, pipe=2), {"zero_stage": 3, "pipeline": Pipeline(2)}
    ranks = run_ranks(4, lambda rank: updated(mesh, **options))
    for many, _ in ranks:
        for name, wanted in alone.items():
            if name != "losses":
                np.testing.assert_allclose(many[name], wanted, rtol=1e-9, atol=1e-12, err_msg=name)
    # Shards are as long as the longest.
    assert nbytes <= sum(own for _, own in ranks) < 1.1 * nbytes
    deep = nn.Sequential(*[nn.Sequential(nn.Dense(32), nn.Tanh()) for _ in range(4)])
    arenas = [
        nn.Model(deep, (32,), mesh=mesh, zero_stage=stage, pipeline=Pipeline(2)).memory(2).total for stage in (2, 3)
    ]
    assert arenas[1] < 0.9 * arenas[0]


def test_stages_write_the_text_of_one_rank_and_keep_what_their_own_layers_read() -> None:
    prompts = [[1, 2, 3], [5, 6]]

    def written(mesh: Mesh | None) -> tuple[list[Any], int, int]:
        language = nn.Model(LLaMA(11, 8, 2, 2, 2, 8), (nn.UpTo(16),), input_dtype=nnc.i32, mesh=mesh)
        texts: list[Any] = [nn.generate(language, prompts, 3, beams=2), [*nn.stream(language, [4], 3, cache=False)]]
        weights = sum(tensor.spec.nbytes for tensor in language.tensors().values())
        return texts, language.memory(4, "generate", 8).cache, weights

    texts, cache, weights = written(None)
    ranks = run_ranks(2, lambda rank: written(Mesh(pipe=2)))
    assert [own for own, _, _ in ranks] == [texts] * 2
    assert [own for _, own, _ in ranks] == [cache // 2] * 2
    assert sum(own for _, _, own in ranks) == weights
    unlaunched = nn.Model(LLaMA(11, 8, 2, 2, 2, 8), (nn.UpTo(16),), input_dtype=nnc.i32, mesh=Mesh(pipe=2))
    assert unlaunched.memory(4, "generate", 8).cache == cache // 2
