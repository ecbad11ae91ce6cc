from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from tests.together import in_threads

from nnc import nn
from nnc.core.values.dtype import I32
from nnc.errors import ArgumentError, DataError, NotFiniteError, UsageError
from nnc.nn import Layer, Model, Scope, UpTo, generate, stream
from nnc.nn.generation import CachedReader
from nnc.nn.layers.embedding import broadcast_rows
from nnc.nn.layers.layer import T
from nnc.nn.zoo import GPT, LLaMA
from nnc.nn.zoo.language import sines_of
from nnc.ops import add, cumsum

PROMPTS = [[1, 2, 3], [5], [7] * 9, [0, 4]]


def language_model(layer: Layer | None = None, steps: int = 32, backend: str = "") -> Model:
    """Of weights so large that tokens differ."""
    model = Model(layer or GPT(17, 32, 16, 2, 2), (UpTo(steps),), input_dtype=I32, backend=backend)
    generator = np.random.default_rng(1)
    state = {path: value + generator.normal(0.0, 0.4, value.shape) for path, value in model.state_dict().items()}
    model.load_state_dict({path: value.astype(np.float32) for path, value in state.items()})
    return model


@pytest.fixture(scope="module")
def gpt() -> Model:
    return language_model()


LAYERS: dict[str, Layer] = {
    "gpt": GPT(17, 32, 16, 2, 2),
    "llama": LLaMA(17, 16, 2, 4, 2, 24),
    "window": LLaMA(17, 16, 1, 2, 1, 24, tied=True, window=3),
}


@pytest.mark.turns(5)
@pytest.mark.parametrize("name", LAYERS)
def test_tokens_with_a_cache_are_those_without(name: str) -> None:
    # Natively the other layers are tried where they are frozen.
    model = language_model(LAYERS[name], backend="" if name == "gpt" else "reference")
    assert model.cache_obstacle() == ""
    # Without a cache, a window has a program for each length.
    length = 2 if name == "window" else 12
    found = generate(model, PROMPTS, length)
    assert found == generate(model, PROMPTS, length, cache=False)
    assert len({token for row in found for token in row}) > 3
    assert found[2] == generate(model, PROMPTS[2], length)


@dataclass(frozen=True, slots=True)
class Sums(Layer):
    """y[t] = sum over s ≤ t of x[s]: looks back without a cache."""

    def build(self, scope: Scope[T], x: T) -> T:
        return cumsum(x, 1)


@dataclass(frozen=True, slots=True)
class Places(Layer):
    """y[t] = x[t] + sines of t, counted from the first step that it is given."""

    def build(self, scope: Scope[T], x: T) -> T:
        return add(x, broadcast_rows(sines_of(x), x))


@dataclass(frozen=True, slots=True)
class LearnedPlaces(Layer):
    """y[t] = x[t] + weight[t], the first rows of a table."""

    def build(self, scope: Scope[T], x: T) -> T:
        return nn.PositionEmbedding(40).build(Scope(scope.resolve, scope.path, outside=scope.outside), x)


LOOKING_BACK = nn.Sequential(nn.Embedding(9, 4), nn.LSTM(4), nn.Dense(9))
LOOKING: dict[str, tuple[Layer, str]] = {
    "attention to all": (nn.MultiHeadAttention(2), "attention"),
    "lstm": (nn.LSTM(4), "lstm looks at other steps"),
    "sums": (Sums(), "cumulative_sum lets rows reach each other"),
    "places": (Places(), "arange looks at other steps"),
    "learned places": (LearnedPlaces(), "as many rows as there are steps"),
}


@pytest.mark.parametrize("name", LOOKING)
def test_what_looks_at_steps_without_a_cache_reads_all_of_them_again(name: str) -> None:
    layer, why = LOOKING[name]
    net = nn.Sequential(nn.Embedding(9, 4), layer, nn.Dense(9))
    model = language_model(net)
    assert why in model.cache_obstacle()
    assert generate(model, [[1, 2], [3]], 3) == generate(model, [[1, 2], [3]], 3, cache=False)
    exact = Model(net, (8,), input_dtype=I32)
    with pytest.raises(UsageError, match=r"a model of exactly 8 tokens.*UpTo"):
        generate(exact, [1, 2], 3)


def test_a_model_of_one_length_generates_with_a_cache() -> None:
    open_, exact = language_model(), Model(GPT(17, 32, 16, 2, 2), (32,), input_dtype=I32)
    exact.load_state_dict(open_.state_dict())
    assert generate(exact, [3, 1], 6) == generate(open_, [3, 1], 6)


def test_drawn_tokens_are_the_same_for_a_seed_whatever_the_batch(gpt: Model) -> None:
    one = generate(gpt, PROMPTS, 8, temperature=1.5, top_k=6, top_p=0.9, seed=4)
    assert one == generate(gpt, PROMPTS, 8, temperature=1.5, top_k=6, top_p=0.9, seed=4, cache=False)
    assert one != generate(gpt, PROMPTS, 8, temperature=1.5, top_k=6, top_p=0.9, seed=5)
    assert one[0] == generate(gpt, PROMPTS[0], 8, temperature=1.5, top_k=6, top_p=0.9, seed=4)
    assert generate(gpt, PROMPTS, 8, top_k=1) == generate(gpt, PROMPTS, 8)


def test_a_row_ends_before_a_stop_and_the_others_go_on(gpt: Model) -> None:
    whole = generate(gpt, PROMPTS, 10)
    stop = whole[0][4]
    wanted = [row[: row.index(stop)] if stop in row else row for row in whole]
    assert generate(gpt, PROMPTS, 10, stop=[stop]) == wanted
    assert len(wanted[0]) <= 4


def test_a_stream_gives_each_token_of_generate(gpt: Model) -> None:
    tokens = stream(gpt, [1, 2, 3], 9, temperature=1.0, seed=2)
    assert iter(tokens) is tokens
    assert list(tokens) == generate(gpt, [1, 2, 3], 9, temperature=1.0, seed=2)
    first, second = stream(gpt, [1, 2, 3], 9), stream(gpt, [7, 7], 9)
    pairs = list(zip(first, second, strict=True))
    assert [pair[0] for pair in pairs] == generate(gpt, [1, 2, 3], 9)
    assert [pair[1] for pair in pairs] == generate(gpt, [7, 7], 9)


def test_a_sliding_stream_goes_on_from_the_last_half(gpt: Model) -> None:
    found = list(stream(gpt, [1, 2, 3], 50, sliding=True, temperature=1.0, seed=3))
    assert len(found) == 50
    assert found[:29] == generate(gpt, [1, 2, 3], 29, temperature=1.0, seed=3)
    greedy = [1, 2, 3, *stream(gpt, [1, 2, 3], 50, sliding=True)]
    assert greedy[32:48] == generate(gpt, greedy[16:32], 16)
    assert list(stream(gpt, [5] * 40, 5, sliding=True)) == generate(gpt, [5] * 16, 5)
    assert len(list(stream(gpt, [1, 2, 3], 50, sliding=True, stop=[greedy[40]]))) <= 37


def best_of_all(model: Model, prompt: list[int], length: int) -> list[int]:
    """The continuation of the highest probability, by looking at each."""
    vocabulary = model.outputs[0].shape[-1]
    rows = np.stack(np.meshgrid(*[np.arange(vocabulary)] * length, indexing="ij"), -1).reshape(-1, length)
    tokens = np.concatenate([np.broadcast_to(prompt, (len(rows), len(prompt))), rows], 1).astype(np.int32)
    scores = model.predict(tokens, 512).astype(np.float64)[:, len(prompt) - 1 : -1]
    logs = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    totals = np.take_along_axis(logs, rows[:, :, None], 2).sum((1, 2))
    return [int(token) for token in rows[totals.argmax()]]


def test_as_many_beams_as_there_are_continuations_find_the_best() -> None:
    model = language_model(GPT(5, 32, 8, 1, 2))
    assert generate(model, [1, 2], 3, beams=25) == best_of_all(model, [1, 2], 3)
    found = generate(model, [[1, 2], [3]], 6, beams=3)
    assert found == generate(model, [[1, 2], [3]], 6, beams=3, cache=False)
    assert [len(row) for row in found] == [6, 6]


def test_beams_end_at_a_stop(gpt: Model) -> None:
    stop = [token for token in range(17) if token != 3]
    (row,) = generate(gpt, [[1, 2, 3]], 6, beams=2, stop=stop)
    assert set(row) <= {3}
    assert generate(gpt, [[1, 2, 3], [4]], 6, beams=2, stop=range(17)) == [[], []]


def test_threads_generate_each_their_own(gpt: Model) -> None:
    wanted = generate(gpt, PROMPTS, 6)
    wrong: list[int] = []

    def ask(number: int) -> None:
        for _ in range(3):
            if generate(gpt, PROMPTS[number], 6) != wanted[number]:
                wrong.append(number)

    in_threads(*(lambda number=number: ask(number) for number in range(4)))  # type: ignore[misc]  # bound by default
    assert wrong == []


def test_copies_say_the_same_and_a_training_in_between_is_seen() -> None:
    model = language_model()
    before = generate(model, [1, 2], 6)
    assert generate(copy.deepcopy(model), [1, 2], 6) == before
    assert generate(pickle.loads(pickle.dumps(model)), [1, 2], 6) == before
    x = np.tile(np.arange(8, dtype=np.int32), (4, 1))
    model.fit(x, (x + 1) % 8, epochs=60)
    assert generate(model, [0, 1, 2, 3], 3) == [4, 5, 6]
    assert model.cache_obstacle() == ""


@pytest.mark.parametrize(
    ("prompt", "options", "kind", "told"),
    [
        ([], {}, DataError, "an empty prompt"),
        ([[1], []], {}, DataError, "an empty prompt 1"),
        ([1, 17], {}, DataError, r"token 17 in prompt 0; need 0 to 16"),
        ([1, -1], {}, DataError, "token -1"),
        ([1, 2.5], {}, ArgumentError, r"2.5 in prompt 0; need integers"),
        ([1, [2]], {}, ArgumentError, "tokens beside lists of tokens"),
        ("text", {}, ArgumentError, "prompt='text'"),
        ([1], {"length": 32}, DataError, r"a prompt of 1 tokens and 32 more; need at most 32 positions.*length=31"),
        ([1] * 32, {"length": 1}, DataError, "a shorter prompt"),
        ([1], {"length": 0}, ArgumentError, "length=0"),
        ([1], {"temperature": 0.0}, ArgumentError, "temperature=0"),
        ([1], {"top_p": 0.0}, ArgumentError, "top_p=0"),
        ([1], {"top_p": 1.1}, ArgumentError, "top_p=1.1"),
        ([1], {"top_k": 0}, ArgumentError, "top_k=0"),
        ([1], {"beams": 0}, ArgumentError, "beams=0"),
        ([1], {"beams": 2, "temperature": 1.0}, UsageError, "beams that draw"),
        ([1], {"stop": [99]}, DataError, "token 99"),
        ([1], {"seed": -1}, ArgumentError, "seed=-1"),
    ],
)
def test_wrong_arguments_are_told(
    gpt: Model, prompt: object, options: dict[str, object], kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told):
        generate(gpt, prompt, **{"length": 5, **options})  # type: ignore[call-overload]  # that is the point


def test_a_stream_is_of_one_prompt_and_complains_at_once(gpt: Model) -> None:
    with pytest.raises(UsageError, match="2 prompts"):
        stream(gpt, np.ones((2, 3), int), 5)
    with pytest.raises(DataError, match="token 17"):
        stream(gpt, [17])


def test_a_model_of_other_things_than_tokens_is_told() -> None:
    with pytest.raises(UsageError, match="integers"):
        generate(Model(nn.Dense(3), (4,)), [1])
    with pytest.raises(UsageError, match="scores"):
        generate(Model(nn.Sequential(nn.Embedding(9, 4), nn.Flatten()), (4,), input_dtype=I32), [1])


def test_weights_that_are_no_numbers_are_told() -> None:
    model = language_model()
    model.load_state_dict({path: np.full_like(value, np.nan) for path, value in model.state_dict().items()})
    for beams in (1, 2):
        with pytest.raises(NotFiniteError, match="scores that are not numbers"):
            generate(model, [1], 2, beams=beams)


def test_programs_are_as_few_as_the_powers_of_two() -> None:
    model = language_model(steps=32)
    for length in range(1, 20):
        generate(model, [1] * length, 2)
    assert len(model._programs.kept) <= 5


def test_the_memory_of_a_generation_is_known_before() -> None:
    model = Model(GPT(17, 32, 16, 2, 2), (UpTo(32),), input_dtype=I32)
    memory = model.memory(3, "generate", 20)
    # Keys and values of 2 layers in 4 rows (3 rounded up) of 32 tokens (20 rounded up) of 16 features of 4 bytes.
    assert memory.cache == 2 * 2 * 4 * 32 * 16 * 4
    assert memory.total == memory.step.arena + memory.weights + memory.cache
    assert f"cache {memory.cache} B" in str(memory)
    assert model.memory(1, "generate").cache == memory.cache // 4
    caches = model.generation_caches(3, 20)
    step = model.generation_step(caches, 1)
    assert sum(one.spec.nbytes for one in caches.tensors.values()) == memory.cache
    assert step.compiled.memory().arena <= memory.step.arena
    with pytest.raises(UsageError, match="keeps nothing of earlier tokens.*lstm"):
        language_model(LOOKING_BACK).memory(1, "generate")


def test_caches_are_handed_on_empty_with_their_programs() -> None:
    model = language_model()
    with pytest.raises(UsageError, match="rows; need at most 1,048,576 rows that share pages"):
        model.generation_caches(10**300, 20, 1)
    first = model.generation_caches(1, 20)
    step = model.generation_step(first, 1)
    first.reach = 7
    for tensor in first.tensors.values():
        tensor.numpy()[:, :7] = np.nan
    model.give_back(first)
    second = model.generation_caches(1, 30)
    assert second is first
    assert model.generation_step(second, 1) is step
    assert not any(tensor.numpy().any() for tensor in second.tensors.values())
    assert model.generation_caches(1, 20) is not first
    model.give_back(second)
    assert model.generation_caches(2, 20) is not first


def test_a_generation_gives_its_caches_back_when_it_ends_or_is_left() -> None:
    model = language_model()
    generate(model, [1, 2, 3], 4)
    (caches,) = model._programs._spare
    left = stream(model, [1, 2, 3], 4)
    next(left)
    assert not model._programs._spare
    del left
    assert list(model._programs._spare) == [caches]
    assert caches.reach >= 4


@pytest.mark.parametrize("frozen", [False, True])
def test_long_prompts_are_read_in_parts(frozen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = language_model(GPT(17, 600, 16, 2, 2), 600)
    draw = np.random.default_rng(3)
    # Ends in the first part, at borders of parts, just behind one, and in the last part.
    prompts = [draw.integers(0, 17, length).tolist() for length in (3, 256, 257, 512, 520)]
    tokens = model.freeze_generation(5) if frozen else model
    scores = CachedReader(tokens, 5, 600).read(prompts)
    continued = generate(tokens, prompts, 4)
    # No step takes more memory than the statement says, which counts parts.
    stated = tokens.memory(5, length=600) if frozen else model.memory(5, "generate", 600)
    assert all(compiled.memory().arena <= stated.step.arena for compiled in tokens._programs.bound())
    monkeypatch.setattr("nnc.nn.generation.MOST_STEPS", 600)
    whole = CachedReader(tokens, 5, 600).read(prompts)
    np.testing.assert_allclose(scores, whole, rtol=1e-4, atol=1e-5)
    assert continued == generate(tokens, prompts, 4)
