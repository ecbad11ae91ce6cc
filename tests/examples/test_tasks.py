"""The tasks of practice, small, each in two schools' styles: it runs as it stands, and its score shows learning."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from examples.pytorch import cartpole as pytorch_cartpole
from examples.pytorch import embeddings as pytorch_embeddings
from examples.pytorch import resume as pytorch_resume
from examples.pytorch import text as pytorch_text
from PIL import Image

import nnc
from examples import cartpole, embeddings, resume, text
from nnc import nn
from nnc.nn.zoo import BERT


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    lines = ["size,colour,kind,price"]
    for size, red in zip(random.standard_normal(200), random.integers(0, 2, 200)):
        kind = "high" if (size > 0) == red else "low"
        lines.append(f"{size:.3f},{'red' if red else 'blue'},{kind},{2 * size + red:.3f}")
    path = tmp_path_factory.mktemp("table") / "things.csv"
    path.write_text("\n".join(lines))
    return path


def ways(task: str, school: str) -> pytest.MarkDecorator:
    """The `main` of a task as it stands in `examples`, and as that school writes it."""
    mains = [import_module(f"examples.{path}").main for path in (task, f"{school}.{task}")]
    return pytest.mark.parametrize("main", mains, ids=["first", school])


Main = Callable[..., float]


@pytest.mark.parametrize("target", ["kind", "price"])
@ways("tables", "pytorch")
def test_tables_of_classes_and_of_numbers(main: Main, target: str, table: Path) -> None:
    assert main(table, target, epochs=40) > 0.9


def test_a_text_is_read_and_written_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("she sells sea shells by the sea shore. " * 40)
    assert text.main(tmp_path / "text", steps=16, features=32, layers=1, epochs=6) < 2.0
    assert pytorch_text.main(tmp_path / "text", steps=16, features=32, layers=1, updates=80) < 2.0
    assert {len(line) for line in capsys.readouterr().out.splitlines()[:3:2]} == {16}


def test_embeddings_are_those_of_the_weights_in_the_folder(tmp_path: Path) -> None:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "cat", "sit", "##s", "."]
    sizes = {
        "vocab_size": len(pieces),
        "max_position_embeddings": 16,
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 12,
    }
    model = nn.Model(BERT(9, 16, 8, 1, 2, 12, pooled=False), (nn.UpTo(16),), input_dtype=nnc.i32, seed=4)
    theirs = {
        "tokens": "embeddings.word_embeddings",
        "positions": "embeddings.position_embeddings",
        "sentence_types": "embeddings.token_type_embeddings.weight",
        "norm": "embeddings.LayerNorm",
        **{f"block0.attention.{part}": f"encoder.layer.0.attention.self.{part}" for part in ("query", "key", "value")},
        "block0.attention.output": "encoder.layer.0.attention.output.dense",
        "block0.attention_norm": "encoder.layer.0.attention.output.LayerNorm",
        "block0.feed_forward.widen": "encoder.layer.0.intermediate.dense",
        "block0.feed_forward.narrow": "encoder.layer.0.output.dense",
        "block0.feed_forward_norm": "encoder.layer.0.output.LayerNorm",
    }
    named = {}
    for path, array in nn.torch_state_dict(model).items():
        place = path if path in theirs else path.rpartition(".")[0]
        named[theirs[place] + path.removeprefix(place)] = array
    nnc.save(tmp_path / "model.safetensors", named | {"pooler.dense.bias": np.zeros(8, np.float32)})
    (tmp_path / "config.json").write_text(json.dumps(sizes))
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    tokens, mask = embeddings.tokens_of(tmp_path / "vocab.txt", ["A cat sits.", "Zebra"])
    assert tokens.tolist() == [[2, 4, 5, 6, 7, 8, 3], [2, 1, 3, 0, 0, 0, 0]]
    assert mask.sum(1).tolist() == [7, 3]
    found = embeddings.main(tmp_path, ["A cat sits.", "Zebra"])
    mean = model.predict(tokens[1:, :3]).mean(1)
    np.testing.assert_allclose(found[1:], mean / np.linalg.norm(mean), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(pytorch_embeddings.main(tmp_path, ["A cat sits.", "Zebra"]), found, rtol=1e-4, atol=1e-6)


@ways("loop", "pytorch")
def test_a_loop_of_ones_own(main: Main) -> None:
    assert main(epochs=3) > 0.85


@ways("pictures", "pytorch")
def test_folders_of_pictures(main: Main, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for kind in ("flat", "striped"):
        (tmp_path / kind).mkdir()
        for number in range(30):
            pixels = np.full((16, 16, 3), random.integers(60, 120), np.uint8)
            pixels[:: 4 if kind == "striped" else 16] += 100
            Image.fromarray(pixels).save(tmp_path / kind / f"{number}.png")
    assert main(tmp_path, size=16, epochs=6) > 0.8


def test_training_is_taken_up_again_to_the_same_bits(tmp_path: Path) -> None:
    whole = resume.main(tmp_path / "whole.safetensors", epochs=2)
    asked = iter([False] * 30)
    resume.main(tmp_path / "broken.safetensors", epochs=2, stop=lambda: next(asked, True))
    again = resume.main(tmp_path / "broken.safetensors", epochs=2)
    assert again.updates == whole.updates == 90
    assert all((again.state_dict()[path] == array).all() for path, array in whole.state_dict().items())


def test_a_loop_of_pytorch_is_taken_up_again_to_the_same_bits(tmp_path: Path) -> None:
    whole = pytorch_resume.main(tmp_path / "whole.safetensors", epochs=2)
    pytorch_resume.main(tmp_path / "broken.safetensors", epochs=2, last=1)
    again = pytorch_resume.main(tmp_path / "broken.safetensors", epochs=2)
    assert all((again.state_dict()[path] == array).all() for path, array in whole.state_dict().items())


@ways("autoencoder", "pytorch")
def test_an_autoencoder_finds_a_code(main: Main) -> None:
    assert main(epochs=4) < 0.75


@ways("physics", "mlx")
def test_a_network_solves_a_differential_equation(main: Main) -> None:
    assert main(updates=400) < 0.1


@ways("neural_ode", "mlx")
def test_a_differential_equation_is_learned_from_its_paths(main: Main) -> None:
    assert main(updates=150) < 1.0


def test_a_pole_is_kept_up() -> None:
    """Draws of the first weights differ, and how soon each learns."""
    assert cartpole.main(rounds=12) > 80
    assert pytorch_cartpole.main(rounds=12) > 45


@ways("sequences", "pytorch")
def test_sequences_of_many_lengths(main: Main) -> None:
    assert main(count=200, epochs=6, longest=6) > 0.85


@ways("gan", "pytorch")
def test_a_generator_finds_the_ring(main: Main) -> None:
    """Before training its points lie 0.7 to 0.9 from the ring."""
    assert main(updates=1500) < 0.3


@ways("triplets", "pytorch")
def test_one_encoder_of_three_images_puts_a_class_together(main: Main) -> None:
    assert main(epochs=2) > 0.8


@ways("dqn", "pytorch")
def test_a_value_of_each_push_keeps_the_pole_up(main: Main) -> None:
    """A pole falls after 10 steps by the network that has learned nothing."""
    assert main(steps=800) > 20


@ways("small_memory", "jax")
def test_a_limit_on_memory_costs_work_and_no_bits(main: Main) -> None:
    assert main(depth=12) < 0.8
