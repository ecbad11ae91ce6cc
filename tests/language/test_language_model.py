"""Text in, text out: generation, chats, what is kept of them, and errors for what does not fit."""

from __future__ import annotations

import json
import re
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from tests.language.small_models import write_text_model

pytest.importorskip("tokenizers", reason="the extra language is not installed")
pytest.importorskip("jinja2", reason="the extra language is not installed")

from nnc import language, nn
from nnc.errors import ArgumentError, DataError, FormatError, UnknownNameError, UsageError
from nnc.language import LanguageModel
from nnc.language.architectures import open_files
from nnc.language.kept_tokens import KeptTokens
from nnc.nn.steps.keys import CacheType
from nnc.vocabulary.names import LANGUAGE, LANGUAGE_MODEL


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text_model(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="module")
def model(place: Path) -> LanguageModel:
    return language.load(place, context=64, backend="reference")


def test_text_is_that_of_the_likeliest_tokens(model: LanguageModel, place: Path) -> None:
    rereading = open_files(place).model(64)
    rereading.backend = "reference"
    prompt = model.tokenizer.encode("hello the")
    tokens = nn.generate(rereading, prompt, 6, stop=[2], cache=False)
    assert model.generate("hello the", 6) == model.tokenizer.decode(tokens)
    assert "".join(model.stream("hello the", 6)) == model.generate("hello the", 6)
    assert model.generate(["hello the", "in"], 6)[0] == model.generate("hello the", 6)


def test_words_of_other_projects_are_taken_or_answered(model: LanguageModel, place: Path) -> None:
    assert model.generate("hello the", max_tokens=6) == model.generate("hello the", 6)  # type: ignore[call-overload]  # what is tested
    assert language.load(place, n_ctx=32, backend="reference").context == 32  # type: ignore[call-arg]  # as above
    for owner, told, table in ((language, "nnc.language", LANGUAGE), (model, "llm", LANGUAGE_MODEL)):
        for name, form in table.items():
            with pytest.raises(UnknownNameError, match=re.escape(f"has no {name!r}. Fix: {form}")):
                getattr(owner, name)
            for spoken, path in re.findall(r"(nnc\.language|llm)\.([\w.]+)", form):
                assert attrgetter(path)(language if spoken == "nnc.language" else model) is not None, told
    for words, fix in (
        ({"do_sample": True}, "temperature=0.8 draws"),
        ({"repeat_penalty": 1.1}, "top_p= or min_p="),
        ({"max_length": 9}, "length=, of what comes behind"),
    ):
        with pytest.raises(ArgumentError, match=f"Fix: .*{fix}"):
            model.generate("the", **words)  # type: ignore[call-overload]  # as above


def test_the_same_seed_draws_the_same_text(model: LanguageModel) -> None:
    first = model.generate("the", 8, temperature=2.0, seed=1)
    assert model.generate("the", 8, temperature=2.0, seed=1) == first
    assert model.generate("the", 8, temperature=2.0, seed=2) != first
    assert model.generate("the", 8, temperature=2.0, min_p=1.0) == model.generate("the", 8)


def test_a_text_stops_before_what_stops_it(model: LanguageModel) -> None:
    whole = model.generate("the", 12)
    stop = whole[3:5]
    assert model.generate("the", 12, stop=stop) == whole[: whole.index(stop)]
    assert model.generate(["the"], 12, stop=[stop]) == [whole[: whole.index(stop)]]
    with pytest.raises(ArgumentError, match="an empty text"):
        model.generate("the", 1, stop=[""])


def test_a_stream_tells_why_it_ended_and_how_many_tokens_there_were(model: LanguageModel) -> None:
    stream = model.stream("hello the", 12)
    whole = "".join(stream)
    assert (stream.reason, stream.read, stream.written) == ("length", 3, 12)
    other = model.stream("hello the", 12, stop=whole[3:5])
    "".join(other)
    assert other.reason == "stop"
    assert other.written < 12
    left = model.stream("hello the", 12)
    next(left)
    left.close()
    assert "".join(left) in whole


def test_a_prompt_beyond_the_context_is_refused_or_shortened(model: LanguageModel) -> None:
    long = "in" * 80
    with pytest.raises(DataError, match=r"a prompt of 80 tokens and 4 more; need at most 64.*shorten=True"):
        model.generate(long, 4)
    assert model.generate(long, 4, shorten=True) == model.generate("in" * 60, 4)
    with pytest.raises(DataError, match="length=63 at most"):
        model.generate(long, 64, shorten=True)
    with pytest.raises(DataError, match="an empty prompt"):
        model.generate("")


def test_tokens_that_are_shared_are_not_read_again(model: LanguageModel) -> None:
    kept, tokens = KeptTokens(model.tokens, 64), model.tokenizer.encode("hello the in the hello in he he the")
    fresh = [KeptTokens(model.tokens, 64).scores(tokens[:count]) for count in (len(tokens), 7, 5)]
    first = kept.scores(tokens[:5])
    np.testing.assert_allclose(first, fresh[2], atol=1e-5)
    np.testing.assert_allclose(kept.scores(tokens), fresh[0], atol=1e-5)
    assert kept.tokens == tokens
    np.testing.assert_allclose(kept.scores(tokens[:7]), fresh[1], atol=1e-5)
    np.testing.assert_allclose(kept.scores(tokens[:7]), fresh[1], atol=1e-5)


@pytest.mark.parametrize(
    ("held", "bits", "near"), [("f32", 32, 1e-5), ("bf16", 16, 0.1), ("int8", 8, 0.1), ("int4", 4, 0.7)]
)
def test_caches_of_few_bits_are_near_those_of_many(
    place: Path, tmp_path: Path, held: CacheType, bits: int, near: float
) -> None:
    model, whole = (language.load(place, context=64, cache=each) for each in (held, "f32"))
    tokens = model.tokenizer.encode("hello the in the hello in he he the")
    kept, wide = KeptTokens(model.tokens, 64), KeptTokens(whole.tokens, 64)
    for count in (len(tokens) - 3, len(tokens) - 2, len(tokens)):
        np.testing.assert_allclose(kept.scores(tokens[:count]), wide.scores(tokens[:count]), atol=near * 3)
    # The statement is what there is: int8 and int4 have a number of four bytes for each token and head.
    elements = sum(each.spec.elements for each in wide._caches.tensors.values())
    stated = language.memory(place, context=64, cache=held).cache
    assert stated == sum(each.spec.nbytes for each in kept._caches.tensors.values())
    assert stated >= elements * bits // 8
    assert (stated > elements * bits // 8) is (held in ("int8", "int4"))
    kept.save(tmp_path / "kept", "a model")
    other = KeptTokens(model.tokens, 64)
    other.load(tmp_path / "kept", "a model")
    np.testing.assert_array_equal(other.scores(tokens), kept.scores(tokens))
    if held != "f32":
        with pytest.raises(FormatError, match="what this model keeps"):
            wide.load(tmp_path / "kept", "a model")


@pytest.mark.parametrize(("held", "most"), [("int8", 127), ("int4", 7)])
def test_what_is_kept_is_the_nearest_of_few_numbers(place: Path, held: CacheType, most: int) -> None:
    model, whole = (language.load(place, context=64, cache=each) for each in (held, "f32"))
    tokens = model.tokenizer.encode("hello the in the hello in he")
    kept, wide = KeptTokens(model.tokens, 64), KeptTokens(whole.tokens, 64)
    kept.scores(tokens)
    wide.scores(tokens)
    # Of the first block, which reads the same tokens.
    names = sorted(name for name in wide._caches.tensors if "block0." in name)
    assert len(names) == 2
    for name in names:
        numbers, scales = (kept._caches.tensors[each].numpy()[0, : len(tokens)] for each in (name, f"{name}.scale"))
        wanted = wide._caches.tensors[name].numpy()[0, : len(tokens)].reshape(*scales.shape, -1)
        numbers = numbers.reshape(*scales.shape, -1).astype(np.float32)
        if held == "int4":
            numbers = np.concatenate((numbers % 16, numbers // 16), -1) - 8
        np.testing.assert_allclose(scales, np.abs(wanted).max(-1) / most, rtol=1e-5)
        assert np.abs(numbers).max() == most
        assert (np.abs(numbers * scales[..., None] - wanted) <= scales[..., None] * 0.501).all()


def test_a_cache_of_another_type_is_refused(place: Path) -> None:
    with pytest.raises(ArgumentError, match="cache.*int2"):
        language.load(place, cache="int2")


def test_a_conversation_goes_on_in_another_process(model: LanguageModel, tmp_path: Path) -> None:
    chat = model.conversation("in")
    first = "".join(chat.say("he", 4))
    assert chat.messages == [
        {"role": "system", "content": "in"},
        {"role": "user", "content": "he"},
        {"role": "assistant", "content": first},
    ]
    assert first == model.chat(chat.messages[:2], 4)
    chat.save(tmp_path / "chat.json")
    other = model.conversation()
    other.load(tmp_path / "chat.json")
    assert other.messages == chat.messages
    assert "".join(other.say("o", 3)) == "".join(chat.say("o", 3))
    chat.reset()
    assert chat.messages == [{"role": "system", "content": "in"}]
    with pytest.raises(DataError, match="a chat of"):
        chat.say("in" * 64)
    assert len(chat.messages) == 1


def test_an_answer_that_is_left_stays_as_far_as_it_came(model: LanguageModel) -> None:
    chat = model.conversation()
    answer = chat.say("the", 8)
    begun = next(answer)
    answer.close()  # type: ignore[attr-defined]  # a generator
    assert chat.messages[-1]["role"] == "assistant"
    assert chat.messages[-1]["content"].startswith(begun)


def test_what_another_model_kept_is_refused(model: LanguageModel, tmp_path: Path) -> None:
    chat = model.conversation()
    "".join(chat.say("he", 2))
    chat.save(tmp_path / "chat.json")
    other = language.load(write_text_model(tmp_path / "b.gguf", context=32, drawn=1), context=32, backend="reference")
    with pytest.raises(FormatError, match="no kept tokens of this model"):
        other.conversation().load(tmp_path / "chat.json")
    chat.save(tmp_path / "messages.json", kept=False)
    loaded = other.conversation()
    loaded.load(tmp_path / "messages.json")
    assert loaded.messages == chat.messages


def test_a_file_that_is_no_chat_is_an_error(model: LanguageModel, tmp_path: Path) -> None:
    place, chat = tmp_path / "chat.json", model.conversation()
    for content in ("", "[]", '{"messages": []}', '{"messages": [{"role": 1}]}', "[" * 100_000):
        place.write_text(content)
        with pytest.raises(FormatError, match="no chat"):
            chat.load(place)
    place.write_text(json.dumps({"messages": [{"role": "user", "content": "a"}]}))
    (tmp_path / "chat.json.kept.safetensors").write_bytes(b"none")
    with pytest.raises(FormatError):
        chat.load(place)


def test_memory_is_stated_before_anything_is_read(model: LanguageModel, place: Path) -> None:
    planned = language.memory(place, context=64, batch=2)
    assert planned.cache == model.memory(64, 2).cache
    assert planned.cache == 2 * model.memory(64, 1).cache
    assert language.memory(place, context=32).cache * 4 == planned.cache
    with pytest.raises(UsageError, match="a context of 65"):
        model.memory(65)
    with pytest.raises(UsageError, match="65 tokens; need at most 64, for which the model was trained"):
        language.memory(place, context=65)


def test_vectors_of_texts_have_length_one(place: Path) -> None:
    vectors = language.embed(place, ["hello", "hello", "the in"], context=64, backend="reference")
    assert vectors.shape == (3, 32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert (vectors[0] == vectors[1]).all()
    with pytest.raises(DataError, match="a text of 0 tokens"):
        language.embed(place, [""], context=64, backend="reference")


def test_a_file_without_tokens_for_text_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no tokenizer"):
        language.load(write_text_model(tmp_path / "a.gguf", model=None))


def test_the_statement_counts_the_model_and_the_caches_of_a_draft(tmp_path: Path) -> None:
    """Each row has its own caches of the draft's model."""
    place, small = write_text_model(tmp_path / "a.gguf"), write_text_model(tmp_path / "b.gguf", context=32)
    alone, draft = language.memory(place, batch=4), language.memory(small)
    both = language.memory(place, batch=4, draft=small)
    assert both.weights == alone.weights + draft.weights
    assert both.cache == alone.cache + 4 * draft.cache
    assert both.total == alone.total + draft.total + 3 * draft.cache
    assert language.memory(place, batch=4, draft="ngram").total == alone.total
    loaded = language.load(place, draft=small, backend="reference")
    assert loaded.memory(batch=4).cache == both.cache
