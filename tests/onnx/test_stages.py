"""Results whose size depends on data: the model runs in stages, each planned, and its memory has a stated bound."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from tests.onnx.models import model, node

import onnx
from nnc.errors import UsageError
from nnc.onnx import OnnxModel, load

RANDOM = np.random.default_rng(0)
BOX = RANDOM.uniform(0, 1, (300, 4)).astype(np.float32)


def suppressed() -> onnx.ModelProto:
    """Scores of 300 boxes from features, the boxes that are picked, and features that only the end reads."""
    nodes = [
        node("MatMul", "x w", "s"),
        node("Sigmoid", "s", "p"),
        node("Unsqueeze", "boxes zero", "b"),
        node("Unsqueeze", "p both", "scores"),
        node("NonMaxSuppression", "b scores most overlap least", "picked"),
        node("Slice", "picked two three one", "column"),
        node("Squeeze", "column one", "places"),
        node("Gather", "boxes places", "y"),
        node("Gather", "p places", "q"),
        node("Relu", "s", "r"),
        node("ReduceSum", "r", "total", keepdims=0),
    ]
    values = {
        "w": RANDOM.standard_normal(300).astype(np.float32),
        "boxes": np.sort(BOX.reshape(300, 2, 2), 1).reshape(300, 4),
        "zero": np.array([0]), "both": np.array([0, 1]), "one": np.array([1]), "two": np.array([2]),
        "three": np.array([3]), "most": np.array([200]), "overlap": np.float32([0.3]), "least": np.float32([0.5]),
    }  # fmt: skip
    return model(nodes, {"x": [300, 300]}, ["y", "q", "total"], values)


def chained() -> onnx.ModelProto:
    """What is positive, of that what is large, and how often each whole part is there."""
    nodes = [
        node("Mul", "x scale", "scaled"),
        node("Reshape", "scaled flat", "a"),
        node("Greater", "a zero", "positive"),
        node("Compress", "a positive", "b"),
        node("Exp", "b", "c"),
        node("Greater", "c one", "large"),
        node("Compress", "c large", "d"),
        node("Floor", "d", "e"),
        node("Unique", "e", "whole - - count"),
        node("Mul", "whole whole", "y"),
        node("Add", "x x", "z"),
    ]
    values = {"scale": np.float32(2), "flat": np.array([-1]), "zero": np.float32(0), "one": np.float32(2)}
    return model(nodes, {"x": ["n", 40]}, ["y", "count", "z", "x"], values)


def widened() -> onnx.ModelProto:
    """A size that is computed from data: as many rows as the mean says."""
    nodes = [
        node("ReduceMean", "x", "m", keepdims=0),
        node("Cast", "m", "i", to=onnx.TensorProto.INT64),
        node("Reshape", "i one", "size"),
        node("ConstantOfShape", "size", "zeros"),
        node("Add", "zeros m", "y"),
    ]
    return model(nodes, {"x": [400]}, ["y"], {"one": np.array([1])})


MODELS: dict[str, tuple[onnx.ModelProto, Any]] = {
    "boxes that are picked": (suppressed(), lambda seed: np.random.default_rng(seed).normal(0, 0.1, (300, 300))),
    "a chain of choices": (chained(), lambda seed: np.random.default_rng(seed).normal(0, 1, (7 + seed, 40))),
    "a size of the data": (widened(), lambda seed: np.random.default_rng(seed).uniform(3, 9 + seed, 400)),
}


def compare(loaded: OnnxModel, made: onnx.ModelProto, x: Any) -> None:
    expected = ReferenceEvaluator(made).run(None, {"x": x})
    for want, (name, found) in zip(expected, loaded.run({"x": x}).items(), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5, err_msg=name)
        assert np.asarray(found).dtype == want.dtype


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("backend", ["llvm", "reference"])
def test_stages_give_what_the_model_means(name: str, backend: str) -> None:
    made, draw = MODELS[name]
    loaded = load(made, backend=backend)
    for seed in range(3):
        compare(loaded, made, draw(seed).astype(np.float32))
    assert loaded.by_value == set()


def test_the_part_in_front_is_one_program_whatever_the_size_behind_it() -> None:
    loaded = load(suppressed(), backend="reference")
    draw = MODELS["boxes that are picked"][1]
    sizes = {loaded.run({"x": draw(seed).astype(np.float32)})["y"].shape for seed in range(4)}  # type: ignore[union-attr]
    assert len(sizes) > 1
    (stages,) = loaded._stages.values()
    assert len(stages.before._programs) == 1


def test_the_memory_of_a_model_in_stages_counts_the_largest_results() -> None:
    statement = load(chained()).memory(n=50)
    largest = np.full((50, 40), 3, np.float32)
    loaded = load(chained())
    loaded.run({"x": largest})
    for stages in loaded._stages.values():
        for part in (stages.before, stages.behind):
            for program in part._programs.values():
                assert not hasattr(program, "compiled") or program.compiled is None or (
                    program.compiled.memory().arena <= statement.arena
                )  # fmt: skip


def test_a_size_without_a_bound_is_refused_by_the_plan_alone() -> None:
    loaded = load(widened())
    with pytest.raises(UsageError, match="depends on the elements of"):
        loaded.memory()


def test_stages_are_copied_pickled_and_shared_between_threads() -> None:
    made, draw = MODELS["a chain of choices"]
    loaded = load(made, backend="reference")
    inputs = [draw(seed).astype(np.float32) for seed in range(6)]
    expected = [loaded.run({"x": x})["y"] for x in inputs]
    for other in (copy.deepcopy(loaded), copy.copy(loaded), pickle.loads(pickle.dumps(loaded))):
        np.testing.assert_array_equal(other.run({"x": inputs[0]})["y"], expected[0])
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: loaded.run({"x": x})["y"], inputs * 3))
    for got, want in zip(found, expected * 3, strict=True):
        np.testing.assert_array_equal(got, want)
