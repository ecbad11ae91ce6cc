"""Weights that stay in their file: the same text, and a statement of what is in memory and what is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.language.small_models import write_small_gguf, write_text_model

pytest.importorskip("tokenizers", reason="the extra language is not installed")
pytest.importorskip("jinja2", reason="the extra language is not installed")

from nnc import language
from nnc.cli.main import main
from nnc.errors import FormatError, UsageError
from nnc.language.statement import read_rate
from nnc.nn.model.model import Model


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return write_text_model(tmp_path / "small.gguf", kind="q8_0", context=64)


@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_texts_are_those_of_weights_in_memory(place: Path, backend: str) -> None:
    mapped = language.load(place, mapped=True, backend=backend)
    own = language.load(place, backend=backend)
    for prompt in ("hello the", "in"):
        assert mapped.generate(prompt, 12) == own.generate(prompt, 12)
    assert mapped.generate("he", 8, temperature=2.0, seed=3) == own.generate("he", 8, temperature=2.0, seed=3)


def test_matrices_in_blocks_lie_in_the_file(place: Path) -> None:
    tokens = language.load(place, mapped=True, backend="reference").tokens
    assert isinstance(tokens, Model)
    for path, tensor in tokens.tensors().items():
        assert (tensor.storage.file is not None) == (tensor.dtype.name == "u8"), path
        assert tensor.storage.read_only == (tensor.dtype.name == "u8"), path


def test_the_statement_says_what_stays_and_what_is_read(place: Path) -> None:
    mapped, own = language.memory(place, mapped=True), language.memory(place)
    loaded = language.load(place, mapped=True, backend="reference").tokens
    assert isinstance(loaded, Model)
    held = sum(each.spec.nbytes for each in loaded.tensors().values() if each.storage.file is not None)
    assert (mapped.mapped, mapped.total, mapped.resident) == (held, own.total, own.total - held)
    # The table is the head too, and all of it is read.
    assert mapped.read == held
    assert (own.mapped, own.read, own.resident) == (0, 0, own.total)


def test_a_table_of_its_own_is_read_by_rows(tmp_path: Path) -> None:
    place = write_small_gguf(tmp_path / "untied.gguf", "llama", "q8_0")
    files = language.statement.open_files(place, mapped=True)
    held, read = files.tensors.mapped_bytes(files.decoder(16).decoder)
    table = files.tensors.mapped(files.decoder(16).decoder, "tokens.weight")
    untied = "head.weight" in files.tensors.pieces
    assert held - read == (table.spec.nbytes if untied and table is not None else 0)


def test_a_file_that_became_shorter_is_an_error(place: Path) -> None:
    model = language.load(place, mapped=True, backend="reference")
    model.generate("he", 2)
    os.truncate(place, 4096)
    with pytest.raises(FormatError, match="it became shorter meanwhile"):
        model.generate("he", 2)


def test_floats_cannot_stay_in_a_file(tmp_path: Path) -> None:
    place = write_text_model(tmp_path / "floats.gguf")
    with pytest.raises(UsageError, match="mapped=True for a file of floats"):
        language.load(place, mapped=True)


def test_a_limit_below_the_weights_streams_them(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own, mapped = language.memory(place), language.memory(place, mapped=True)
    command = ["generate", str(place), "--prompt", "he", "--length", "3", "--backend", "reference", "--limit"]
    assert main([*command, str(own.total)]) == 0
    plain = capsys.readouterr()
    assert main([*command, str(own.total - 1)]) == 0
    streamed = capsys.readouterr()
    assert streamed.out == plain.out
    assert "of weights stay in the file" in streamed.err
    assert "of weights stay in the file" not in plain.err
    assert main([*command, str(mapped.resident - 1)]) != 0
    assert main(["plan", str(place), "--limit", str(mapped.resident)]) == 0
    assert "read_per_token" in capsys.readouterr().out
    assert main(["plan", str(place), "--limit", str(mapped.resident - 1)]) == 1


def test_the_rate_of_a_disk_is_measured(place: Path, tmp_path: Path) -> None:
    assert read_rate(place) > 0
    (tmp_path / "large").write_bytes(bytes(3 << 20))
    assert read_rate(tmp_path / "large") > 0
