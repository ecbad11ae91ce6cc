"""Generation with weights of its own: the same tokens, one copy of each weight, in 8 bits too."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from tests.nn.test_generation import LAYERS, PROMPTS, language_model
from tests.together import in_threads

from nnc import nn
from nnc.core.values.dtype import BF16, I32
from nnc.errors import UsageError
from nnc.nn import FrozenGeneration, Model, UpTo, generate, stream
from nnc.nn.zoo import GPT, LLaMA
from nnc.symbolic.passes import DEFAULT, Pass, QuantizationMode

GATED_BLOCK = nn.TransformerBlock(2, 40, causal=True, bias=False, activation=nn.SiLU(), gated=True, rms=True)


@pytest.fixture(scope="module")
def gpt() -> Model:
    return language_model()


def scores(source: Model | FrozenGeneration, batch: int = 2, steps: int = 16) -> np.ndarray:
    """Behind a prompt of zeros to `steps`."""
    step = source.generation_step(source.generation_caches(batch, 32), steps)
    tokens = np.arange(batch * steps).reshape(batch, steps) % 17
    positions = np.broadcast_to(np.arange(steps), tokens.shape)
    return step.run((tokens, positions, np.full(batch, steps - 1)))[0]


@pytest.mark.turns(6)
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("name", LAYERS)
def test_tokens_are_those_of_the_model(name: str, batch: int) -> None:
    model = language_model(LAYERS[name])
    frozen = model.freeze_generation(batch)
    assert generate(frozen, PROMPTS, 8) == generate(model, PROMPTS, 8)
    assert generate(frozen, PROMPTS[2], 8) == list(stream(frozen, PROMPTS[2], 8)) == generate(model, PROMPTS[2], 8)
    assert generate(frozen, PROMPTS, 6, beams=2) == generate(model, PROMPTS, 6, beams=2)


@pytest.mark.parametrize("mode", [None, "weights", "dynamic"])
def test_all_programs_share_one_copy_of_each_weight(gpt: Model, mode: QuantizationMode | None) -> None:
    frozen = gpt.freeze_generation(4, quantize=mode)
    assert frozen.nbytes == frozen.memory(4).weights
    assert mode is not None or frozen.nbytes == gpt.memory(4, "generate").weights
    shared = {id(tensor) for tensor in frozen._weights.values()}
    for batch, steps in ((1, 1), (4, 1), (4, 16), (16, 32)):
        caches = frozen.generation_caches(batch, 32)
        bound = frozen.generation_step(caches, steps).compiled.bindings.tensors.values()
        assert {id(one) for one in bound if one is not None} <= shared | {id(one) for one in caches.tensors.values()}
    assert "bytes of weights" in repr(frozen)


def test_what_happens_to_the_model_later_does_not_reach_it() -> None:
    model = language_model()
    before, frozen = scores(model), model.freeze_generation(2)
    model.load_state_dict({path: np.zeros_like(value) for path, value in model.state_dict().items()})
    np.testing.assert_allclose(scores(frozen), before, rtol=1e-5, atol=1e-5)
    assert not scores(model).any()


def test_copies_pickles_and_threads_say_the_same(gpt: Model) -> None:
    frozen = gpt.freeze_generation(4, quantize="weights")
    wanted = generate(frozen, PROMPTS, 8)
    for other in (copy.copy(frozen), copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen))):
        assert generate(other, PROMPTS, 8) == wanted
    found: list[list[list[int]]] = []
    in_threads(*[lambda: found.append(generate(frozen, PROMPTS, 8))] * 4)
    assert found == [wanted] * 4


@pytest.mark.parametrize(("mode", "error"), [("weights", 0.03), ("dynamic", 0.06)])
def test_weights_in_eight_bits(gpt: Model, mode: QuantizationMode, error: float) -> None:
    frozen = gpt.freeze_generation(2, quantize=mode)
    assert frozen.nbytes < 0.5 * gpt.memory(2, "generate").weights
    for steps in (1, 16):
        exact = scores(gpt, steps=steps)
        assert np.linalg.norm(scores(frozen, steps=steps) - exact) < error * np.linalg.norm(exact)
    assert mode in repr(frozen)


def test_no_program_falls_back_for_weights_in_blocks(gpt: Model) -> None:
    frozen = gpt.freeze_generation(4)
    counts = []
    for batch, steps in ((1, 1), (4, 1), (4, 16), (16, 32)):
        report = frozen.generation_step(frozen.generation_caches(batch, 32), steps).compiled.report()
        products = [row for row in report if "gemm" in str(row.command)]
        assert {row.backend for row in products} == {"llvm"}
        counts.append(sum(row.count for row in products if "/" in str(row.inputs[1])))
    # How many a processor wants in blocks is its own affair.
    assert len(set(counts)) == 1


@pytest.mark.turns(4)
@pytest.mark.parametrize("mode", [None, "weights", "dynamic"])
def test_batches_and_prompts_of_any_size_run_on_the_weights_that_two_programs_wanted(
    mode: QuantizationMode | None,
) -> None:
    # At one token, a gate looks like a factor per channel, and the norm in the middle has some.
    layer = nn.Sequential(nn.Embedding(17, 24), nn.Dense(24), nn.BatchNorm(), GATED_BLOCK, nn.Dense(17))
    model = language_model(layer)
    model.passes = (*DEFAULT, Pass.BATCH_NORM)
    for rows in (1, 16):
        frozen = model.freeze_generation(rows, quantize=mode)
        for batch in (1, 16):
            for steps in (1, 16, 32):
                exact = scores(model, batch, steps)
                error = np.linalg.norm(scores(frozen, batch, steps) - exact)
                assert error <= (0.2 if mode else 1e-5) * np.linalg.norm(exact)


def test_a_model_that_was_frozen_is_trained_on(gpt: Model) -> None:
    model = language_model()
    frozen = model.freeze_generation()
    before = generate(frozen, [1, 2], 6)
    x = np.tile(np.arange(8, dtype=np.int32), (4, 1))
    model.fit(x, (x + 1) % 8, epochs=60)
    assert generate(model, [0, 1, 2, 3], 3) == [4, 5, 6]
    assert generate(model.freeze_generation(), [0, 1, 2, 3], 3) == [4, 5, 6]
    assert generate(frozen, [1, 2], 6) == before == generate(gpt, [1, 2], 6)


def test_products_in_bf16() -> None:
    model = Model(GPT(17, 32, 16, 2, 2), (UpTo(32),), input_dtype=I32, precision=BF16)
    frozen = model.freeze_generation(2)
    assert frozen.nbytes < 0.7 * model.memory(2, "generate").weights
    np.testing.assert_allclose(scores(frozen), scores(model), rtol=0.05, atol=0.02)


def test_one_room_of_caches_serves_both() -> None:
    model = language_model(LLaMA(17, 16, 2, 4, 2, 24))
    frozen = model.freeze_generation(1)
    caches = frozen.generation_caches(1, 32)
    frozen.generation_step(caches, 16)
    assert set(caches.tensors) == {f"cache.{name}" for name in ("block0.attention.key", "block0.attention.value",
                                                       "block1.attention.key", "block1.attention.value")}  # fmt: skip
    assert sum(one.spec.nbytes for one in caches.tensors.values()) == frozen.memory(1, 32).cache


def test_what_cannot_be() -> None:
    with pytest.raises(UsageError, match="cache=True"):
        generate(language_model().freeze_generation(), [1, 2], 3, cache=False)
    recurrent = Model(nn.Sequential(nn.Embedding(28, 16), nn.LSTM(16), nn.Dense(28)), (UpTo(8),), input_dtype=I32)
    with pytest.raises(UsageError, match="other steps"):
        recurrent.freeze_generation()
