"""Language models on a device: the same text, streams and chats as on the host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.language.small_models import write_text_model
from tests.simulated_device import SimulatedMachine, simulated

import nnc

pytest.importorskip("tokenizers", reason="the extra language is not installed")
pytest.importorskip("jinja2", reason="the extra language is not installed")

from nnc import language, nn
from nnc.core.values.dtype import I32
from nnc.nn import generate
from nnc.nn.zoo.language import GPT


@pytest.fixture
def machine() -> Iterator[SimulatedMachine]:
    with simulated() as made:
        yield made


def test_text_is_that_of_the_host(machine: SimulatedMachine, tmp_path: Path) -> None:
    place = write_text_model(tmp_path / "tiny.gguf")
    host = language.load(place, context=64, backend="reference")
    with nnc.device("cuda"):
        there = language.load(place, context=64)
    for _ in range(2):
        assert there.generate("hello the", 6) == host.generate("hello the", 6)
    assert there.generate(["hello the", "in"], 6) == host.generate(["hello the", "in"], 6)
    assert machine.driver.counts["kernel"] > 100


def test_conversations_are_kept(machine: SimulatedMachine, tmp_path: Path) -> None:
    place = write_text_model(tmp_path / "tiny.gguf")
    with nnc.device("cuda"):
        model = language.load(place, context=64)
    chat = model.conversation()
    first = "".join(chat.say("he", 4))
    assert first == chat.messages[-1]["content"]
    chat.save(tmp_path / "chat.json")
    other = model.conversation()
    other.load(tmp_path / "chat.json")
    assert "".join(other.say("o", 3)) == "".join(chat.say("o", 3))


def test_generation_by_several_beams(machine: SimulatedMachine) -> None:
    def written(device: str) -> list[list[int]]:
        model = nn.Model(GPT(11, 16, 16, 2, 1), (nn.UpTo(16),), input_dtype=I32, seed=2, device=device)
        return [generate(model, [1, 2], 5, beams=beams) for beams in (1, 3)]

    assert written("cuda") == written("cpu")
