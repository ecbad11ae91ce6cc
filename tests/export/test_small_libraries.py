"""Small code: less flash and scratch memory for the same answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.export.compiled_c import checked

from nnc import export, nn
from nnc.codegen.ir.targets import TARGETS, library_target
from nnc.errors import UsageError
from nnc.export.program_ports import Function, ports_of

# A convolution that is done in tiles elsewhere, taps in a loop, a product.
LAYERS = nn.Sequential(
    nn.Convolution(16), nn.ReLU(), nn.Convolution(16, 5, groups=16, strides=2), nn.GlobalAveragePool(), nn.Dense(10)
)


@pytest.fixture(scope="module")
def model() -> nn.Model:
    return nn.Model(LAYERS, (12, 12, 16))


@pytest.mark.parametrize("function", ["predict", "train"])
def test_small_code_gives_the_recorded_answers(model: nn.Model, function: Function, tmp_path: Path) -> None:
    made = export.library(model, "mixed", target="x86-64", function=function, batch=2, small=True)
    assert checked(made, tmp_path, "gcc") == "mixed: the recorded answers\n"


def test_code_and_arena_are_less_than_half(model: nn.Model) -> None:
    fast, small = (export.library(model, "mixed", target="thumbv7em", small=word) for word in (False, True))
    assert small.code_bytes * 2 < fast.code_bytes
    assert small.plan_bytes <= fast.plan_bytes
    assert small.arena_bytes * 2 < fast.arena_bytes
    assert json.loads(small.files["mixed.json"])["target"]["name"] == "thumbv7em,small"


def test_small_stands_behind_every_name_with_other_features() -> None:
    for row in TARGETS:
        made = library_target(f"{row.name},small")
        assert made.description.small
        assert made.description.features == row.description.features
    both = library_target("x86-64-v3,small,+avxvnni")
    assert both.description.small
    assert both.description.features.endswith("+avxvnni")


def test_small_code_for_the_processor_at_hand(model: nn.Model) -> None:
    made = export.library(model, "mixed", small=True)
    assert made.target.name == "native,small"
    assert made.target.features == export.library(model, "mixed").target.features


def test_what_is_no_feature_is_refused_with_what_is() -> None:
    with pytest.raises(UsageError, match=r"'smaller' in 'aarch64,smaller'; need features of LLVM's.*or small"):
        library_target("aarch64,smaller")
    with pytest.raises(UsageError, match=r"Helium in 'thumbv8.1m,\+mve'"):
        library_target("thumbv8.1m,+mve")


@pytest.mark.parametrize(
    ("target", "near"),
    [
        ("x86-64-v3,+avxvni", r"'\+avxvni' in .* LLVM has for x86_64-linux-gnu.*\+avxvnni"),
        ("x86-64,small,-avxv", r"'-avxv' in .*Fix: such as -avxvnni"),
        ("native,+", r"'\+' in 'native,\+'"),
        ("wasm32-simd,+help", r"'\+help' in .* LLVM has for wasm32"),
    ],
)
def test_features_that_llvm_does_not_know_are_refused_with_near_ones(
    model: nn.Model, target: str, near: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match=near):
        export.library(model, "mixed", target=target)
    assert capfd.readouterr().err == ""


def test_a_program_that_is_compiled_is_as_it_was_compiled(model: nn.Model) -> None:
    ports = ports_of(model, "target:aarch64", "predict", (), 1, None, {})
    with pytest.raises(UsageError, match='backend="target:aarch64,small"'):
        export.library(ports, "mixed", small=True)
