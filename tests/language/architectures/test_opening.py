"""Files of each architecture give the logits of transformers; what does not fit is an error before it is read."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.language.small_models import (
    COLUMNS,
    ROWS,
    TOKENS,
    cases,
    decoders,
    gguf_parts,
    weights,
    write_folder,
    write_small_gguf,
    write_text_model,
)

import nnc
from nnc import nn
from nnc.core.values.blocks import quantize
from nnc.core.values.dtype import I32, U8
from nnc.errors import FormatError
from nnc.language.architectures import open_files
from nnc.language.gguf import TensorSource, write_gguf
from nnc.nn.steps.padding import obstacle


def logits(place: Path) -> np.ndarray:
    model = open_files(place).model(64)
    model.backend = "reference"
    return np.asarray(model.predict(TOKENS)[0])[ROWS, :COLUMNS]


@pytest.mark.parametrize("name", decoders())
def test_a_folder_gives_the_logits_of_transformers(name: str, tmp_path: Path) -> None:
    case = cases()[name]
    error = np.abs(logits(write_folder(tmp_path / "model", name)) - np.array(case["logits"])).max()
    assert error <= 1e-5 * case["largest"]


@pytest.mark.parametrize("name", ["llama_biases", "qwen2", "qwen3", "mixtral", "qwen2_moe", "qwen3_moe"])
def test_a_gguf_file_gives_the_same(name: str, tmp_path: Path) -> None:
    case = cases()[name]
    error = np.abs(logits(write_small_gguf(tmp_path / "a.gguf", name)) - np.array(case["logits"])).max()
    assert error <= 1e-5 * case["largest"]


@pytest.mark.parametrize("kind", ["q4_1", "q8_0"])
def test_matrices_stay_in_the_blocks_of_the_file(kind: str, tmp_path: Path) -> None:
    files = open_files(write_text_model(tmp_path / "a.gguf", kind=kind))
    packed, wide = files.model(64), files.model(64, packed=False)
    tokens = TOKENS[:, :5]
    for model in (packed, wide):
        model.backend = "reference"
    np.testing.assert_allclose(packed.predict(tokens), wide.predict(tokens), rtol=1e-5, atol=1e-5)
    assert packed.specs["block0.attention.query.weight"].spec.dtype is U8
    assert packed.memory(1, "generate", 16).weights < 0.4 * wide.memory(1, "generate", 16).weights
    prompt = tokens[0].tolist()
    assert nn.generate(packed, prompt, 4) == nn.generate(wide, prompt, 4)


def test_blocks_that_nothing_reads_are_refused_before_they_are_read(tmp_path: Path) -> None:
    metadata, tensors = gguf_parts("qwen2")
    sources = [TensorSource.of(name, array) for name, array in tensors.items() if name != "token_embd.weight"]
    table = TensorSource("token_embd.weight", (48, 32), "iq4_nl", lambda: np.zeros((48, 18), np.uint8))
    write_gguf(tmp_path / "a.gguf", metadata, [*sources, table])  # type: ignore[arg-type]  # plain values
    with pytest.raises(FormatError, match=r"tokens\.weight in iq4_nl; need one of f32"):
        open_files(tmp_path / "a.gguf").model(64)


@pytest.mark.parametrize("name", ["gemma2", "gemma3", "mixtral"])
def test_caps_and_windows_generate_what_reading_again_does(name: str, tmp_path: Path) -> None:
    model = open_files(write_folder(tmp_path / "model", name)).model(32)
    model.backend = "reference"
    assert model.cache_obstacle() == ""
    prompt = TOKENS[0, :7].tolist()
    assert nn.generate(model, prompt, 3) == nn.generate(model, prompt, 3, cache=False)


@pytest.mark.parametrize("name", decoders())
def test_what_decoders_say_of_themselves_is_what_their_traces_say(name: str, tmp_path: Path) -> None:
    model = open_files(write_folder(tmp_path / "model", name)).model(32)
    assert vars(type(model.layer))["tokens_apart"]
    assert obstacle(model._sizes._traced_generation, 1, apart=True) == ""


def test_shards_are_one_model(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model", "qwen2")
    whole = logits(folder)
    tensors = weights("qwen2")
    names = list(tensors)
    (folder / "model.safetensors").unlink()
    files = {name: f"part-{place % 2}.safetensors" for place, name in enumerate(names)}
    for file in set(files.values()):
        nnc.save(folder / file, {name: tensors[name] for name in names if files[name] == file})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    assert (logits(folder / "model.safetensors.index.json") == whole).all()


WRONG_CONFIGS = {
    "unknown": ({"model_type": "mamba"}, "architecture 'mamba'; need one of llama"),
    "a text for a number": ({"hidden_size": "16"}, "hidden_size that is str; need an integer"),
    "no heads": ({"num_attention_heads": 0}, "0 heads"),
    "2^62 layers": ({"num_hidden_layers": 2**62}, "num_hidden_layers that is int"),
    "a million layers": ({"num_hidden_layers": 1_000_000}, "at most 1,000 layers"),
    "another number of layers": ({"num_hidden_layers": 3}, "tensors of 2 blocks; need those of 3"),
    "another width": ({"hidden_size": 32}, r"\[48, 16\]; need \[48, 32\]"),
    "another hidden size": ({"intermediate_size": 25}, "feed_forward"),
    "unknown scaling": ({"rope_parameters": {"rope_type": "spiral"}}, "scaled by 'spiral'"),
    "infinite": ({"rms_norm_eps": float("inf")}, "rms_norm_eps that is float"),
    "epsilon 0": ({"rms_norm_eps": 0.0}, "epsilon 0"),
    "more experts than there are": (
        {"num_local_experts": 2, "num_experts_per_tok": 3},
        "3 of 2 experts; need 1 or more",
    ),
    "a million experts": ({"num_local_experts": 1_000_000, "num_experts_per_tok": 2}, "at most 1,024"),
    "odd groups": ({"num_key_value_heads": 3}, "heads a multiple"),
}


@pytest.mark.parametrize("name", WRONG_CONFIGS)
def test_a_config_that_does_not_fit_is_an_error(name: str, tmp_path: Path) -> None:
    changes, match = WRONG_CONFIGS[name]
    folder = write_folder(tmp_path / "model", "llama")
    (folder / "config.json").write_text(json.dumps({**cases()["llama"]["config"], **changes}))
    with pytest.raises(FormatError, match=match):
        open_files(folder).model(64)


@pytest.mark.parametrize("content", ["", "[]", "[" * 100_000, '{"model_type": 3}'])
def test_a_config_that_is_none_is_an_error(content: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model", "llama")
    (folder / "config.json").write_text(content)
    with pytest.raises(FormatError, match=r"config\.json"):
        open_files(folder)


def test_tensors_that_do_not_fit_are_an_error(tmp_path: Path) -> None:
    place = tmp_path / "a.gguf"
    metadata, tensors = gguf_parts("qwen2")

    def opened(changed: dict[str, np.ndarray]) -> None:
        write_gguf(place, metadata, [TensorSource.of(name, array) for name, array in changed.items()])  # type: ignore[arg-type]
        open_files(place).model(64)

    with pytest.raises(FormatError, match="a table of tokens"):
        opened({name: array for name, array in tensors.items() if name != "token_embd.weight"})
    with pytest.raises(FormatError, match=r"no block0\.attention\.key\.weight"):
        opened({name: array for name, array in tensors.items() if name != "blk.0.attn_k.weight"})
    with pytest.raises(FormatError, match="a tensor 'extra'"):
        opened({**tensors, "extra": np.zeros(3, np.float32)})
    with pytest.raises(FormatError, match=r"norm\.weight \[15\]; need \[16\]"):
        opened({**tensors, "output_norm.weight": np.zeros(15, np.float32)})
    write_gguf(place, {}, [])
    with pytest.raises(FormatError, match=r"general\.architecture that is missing"):
        open_files(place)


def test_experts_in_blocks_are_rows_of_one_tensor(tmp_path: Path) -> None:
    metadata, tensors = gguf_parts("qwen2_moe")
    generator = np.random.default_rng(0)
    wide = {
        name: generator.standard_normal((*array.shape[:-1], 32), np.float32) if "_exps" in name else array
        for name, array in tensors.items()
    }
    for name in [name for name in wide if "ffn_down_exps" in name]:
        wide[name] = generator.standard_normal((5, 16, 32), np.float32)
    for name in [name for name in wide if "ffn_gate_exps" in name or "ffn_up_exps" in name]:
        wide[name] = generator.standard_normal((5, 32, 16), np.float32)
    metadata["qwen2moe.expert_feed_forward_length"] = 32
    sources = [
        TensorSource(name, array.shape, "q8_0", partial(quantize, array, "q8_0"))
        if "down_exps" in name
        else TensorSource.of(name, array)
        for name, array in wide.items()
    ]
    write_gguf(tmp_path / "a.gguf", metadata, sources)  # type: ignore[arg-type]  # plain values
    files = open_files(tmp_path / "a.gguf")
    assert dict(files.tensors.packed())["block1.feed_forward.expert4.narrow.weight"] == "q8_0"
    packed, floats = files.model(64), files.model(64, packed=False)
    for model in (packed, floats):
        model.backend = "reference"
    np.testing.assert_allclose(packed.predict(TOKENS), floats.predict(TOKENS), rtol=1e-4, atol=1e-4)


def test_experts_are_tuned(tmp_path: Path) -> None:
    """Gradients reach the experts that are used, and the router."""
    model = open_files(write_folder(tmp_path / "model", "mixtral")).model(12)
    trained = nn.Model(
        model.layer,
        (12,),
        input_dtype=I32,
        loss=nn.TokenCrossEntropy(),
        optimizer=nn.SGD(0.5, 0.0),
        backend="reference",
    )
    before = trained.state_dict()
    first, _ = trained.train_on_batch(TOKENS, np.roll(TOKENS, -1, 1))
    second, _ = trained.train_on_batch(TOKENS, np.roll(TOKENS, -1, 1))
    assert second < first
    after = trained.state_dict()
    changed = {path for path, array in before.items() if not np.array_equal(array, after[path])}
    assert "block0.feed_forward.router.weight" in changed
    assert any(".expert" in path for path in changed)
