"""Adapters of PEFT give its logits, on folders and GGUF files; what we write is read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.language.small_models import COLUMNS, ROWS, TOKENS, write_folder, write_small_gguf
from tests.language.tuning.peft_models import CASES, peft_cases, write_peft

import nnc
from nnc.errors import FormatError
from nnc.language.architectures import ModelFiles, open_files
from nnc.language.architectures.low_rank import LowRank
from nnc.language.tuning.adapters import read_adapter, write_adapter
from nnc.language.tuning.merging import merge


def logits(files: ModelFiles) -> np.ndarray:
    model = files.model(64)
    model.backend = "reference"
    return np.asarray(model.predict(TOKENS)[0])[ROWS, :COLUMNS]


@pytest.mark.parametrize("name", CASES)
def test_an_adapter_gives_the_logits_of_peft(name: str, tmp_path: Path) -> None:
    case = peft_cases()[name]
    files = open_files(write_folder(tmp_path / "model", name))
    adapter = write_peft(tmp_path / "adapter", case)
    adapted = files.adapted(read_adapter(adapter, files))
    assert np.abs(logits(adapted) - np.array(case["logits"])).max() <= 1e-5 * case["largest"]
    assert adapted.tensors.fingerprint() != files.tensors.fingerprint()
    merge(tmp_path / "model", adapter, tmp_path / "merged")
    merged = logits(open_files(tmp_path / "merged"))
    assert np.abs(merged - np.array(case["logits"])).max() <= 1e-5 * case["largest"]


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_is_what_was_read(name: str, tmp_path: Path) -> None:
    files = open_files(write_folder(tmp_path / "model", name))
    products = read_adapter(write_peft(tmp_path / "adapter", peft_cases()[name]), files)
    write_adapter(tmp_path / "again", files, products, 3, 6.0)
    again = read_adapter(tmp_path / "again", files)
    assert again.keys() == products.keys()
    for path, product in products.items():
        np.testing.assert_allclose(again[path].product, product.product, rtol=1e-5, atol=1e-6)
    config = json.loads((tmp_path / "again" / "adapter_config.json").read_text())
    assert config["fan_in_fan_out"] is (name == "gpt2")
    assert not any("." in module for module in config["target_modules"])


def test_rows_of_queries_in_a_gguf_file_are_in_its_order(tmp_path: Path) -> None:
    draw = np.random.default_rng(2).standard_normal
    folder = open_files(write_folder(tmp_path / "model", "llama_biases"))
    products = {
        path: LowRank(draw((inner, 2), np.float32), draw((2, outer), np.float32))
        for path, inner, outer in (("block0.attention.query", 16, 16), ("block1.attention.key", 16, 8))
    }
    write_adapter(tmp_path / "adapter", folder, products, 2, 4.0)
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert config["target_modules"] == ["model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.k_proj"]
    want = logits(folder.adapted(read_adapter(tmp_path / "adapter", folder)))
    file = open_files(write_small_gguf(tmp_path / "a.gguf", "llama_biases"))
    own = read_adapter(tmp_path / "adapter", file)
    np.testing.assert_allclose(logits(file.adapted(own)), want, rtol=1e-4, atol=1e-4)
    write_adapter(tmp_path / "back", file, own, 2, 4.0)
    for path, product in read_adapter(tmp_path / "back", folder).items():
        np.testing.assert_allclose(product.product, products[path].product, rtol=1e-5, atol=1e-6)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "another method": ({"peft_type": "IA3"}, "peft_type 'IA3'; need LORA"),
    "directions": ({"use_dora": True}, "use_dora that is set"),
    "biases": ({"bias": "all"}, "bias that is set"),
    "modules": ({"modules_to_save": ["lm_head"]}, "modules_to_save that is set"),
    "another rank": ({"rank_pattern": {}}, "rank 3 of .*; need 2"),
    "no rank": ({"r": "8"}, "r that is str"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_adapter_of_another_kind_is_refused(name: str, tmp_path: Path) -> None:
    changes, match = WRONG[name]
    case = peft_cases()["llama"]
    files = open_files(write_folder(tmp_path / "model", "llama"))
    with pytest.raises(FormatError, match=match):
        read_adapter(write_peft(tmp_path / "adapter", {**case, "config": {**case["config"], **changes}}), files)


def test_an_adapter_of_another_model_is_refused(tmp_path: Path) -> None:
    files = open_files(write_folder(tmp_path / "model", "qwen3"))
    adapter = write_peft(tmp_path / "adapter", peft_cases()["llama"])
    with pytest.raises(FormatError, match=r"from 16 to \d+; need from 16 to \d+. Fix: another base"):
        read_adapter(adapter, files)
    nnc.save(adapter / "adapter_model.safetensors", {"a.b.lora_A.weight": np.ones((3, 2), np.float32)})
    with pytest.raises(FormatError, match="a.b without a pair"):
        read_adapter(adapter, files)
    nnc.save(adapter / "adapter_model.safetensors", {"lora_embedding_A": np.ones((3, 2), np.float32)})
    with pytest.raises(FormatError, match="lora_embedding_A.*need lora_A and lora_B"):
        read_adapter(adapter, files)
