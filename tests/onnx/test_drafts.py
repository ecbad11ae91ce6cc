"""Programs for further sizes, made of what earlier ones were made of: the bits of a program for that size alone."""

from __future__ import annotations

import copy
import pickle
import random
import threading
from dataclasses import replace

import numpy as np
import pytest
from tests.onnx.models import model, node

import onnx
from nnc.core.values.spec import Blocked
from nnc.errors import NncError, ShapeError
from nnc.onnx import load
from nnc.onnx.drafts import DraftTemplate
from nnc.onnx.made.making import ProgramMaker
from nnc.onnx.made.onnx_program import OnnxProgram
from nnc.symbolic.sharing.openings import MOST_UNUSED, Templates

RANDOM = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)


def reshaping() -> onnx.ModelProto:
    """Shape → Gather → Mul → Concat → Reshape, and a mean over a length."""
    nodes = [
        node("MatMul", "x w", "p"),
        node("Shape", "p", "shape"),
        node("Gather", "shape zero", "batch", axis=0),
        node("Gather", "shape one", "length", axis=0),
        node("Mul", "length two", "twice"),
        node("Unsqueeze", "batch zero", "b"),
        node("Unsqueeze", "twice zero", "t"),
        node("Concat", "b t half", "wanted", axis=0),
        node("Reshape", "p wanted", "r"),
        node("Softmax", "r", "s", axis=1),
        node("ReduceMean", "s axis", "y", keepdims=0),
    ]
    numbers = {
        "zero": np.array(0),
        "one": np.array(1),
        "two": np.array(2),
        "half": np.array([4]),
        "axis": np.array([1]),
    }
    return model(nodes, {"x": ["n", "t", 6]}, ["y", "r"], {"w": weights(6, 8), **numbers})


def convolving() -> onnx.ModelProto:
    """Convolutions, pools, and a picture that is resized and laid beside an earlier one."""
    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "p v", "d", pads=[1, 1, 1, 1]),
        node("Resize", "d - scales", "up", mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric"),
        node("Slice", "r starts ends axes", "cut"),
        node("Shape", "up", "sizes"),
        node("Concat", "r c", "both", axis=1),
        node("Resize", "both - - sizes8", "even", mode="linear"),
        node("GlobalAveragePool", "up", "g"),
        node("Flatten", "g", "y"),
    ]  # fmt: skip
    numbers = {
        "scales": np.array([1, 1, 2, 2], np.float32), "starts": np.array([1]), "ends": np.array([2**31]),
        "axes": np.array([2]), "sizes8": np.array([1, 16, 12, 20]),
    }  # fmt: skip
    initializers = {"w": weights(8, 3, 3, 3), "v": weights(8, 8, 3, 3), **numbers}
    return model(nodes, {"x": [1, 3, "h", "w"]}, ["y", "cut", "even", "sizes"], initializers)


def recurrent() -> onnx.ModelProto:
    nodes = [
        node("LSTM", "x w r b", "h last", hidden_size=8),
        node("Squeeze", "h one", "s"),
        node("MatMul", "s v", "y"),
    ]
    initializers = {"w": weights(1, 32, 5), "r": weights(1, 32, 8), "b": weights(1, 64), "v": weights(8, 3)}
    return model(nodes, {"x": ["t", "n", 5]}, ["y", "last"], {**initializers, "one": np.array([1])})


def attending() -> onnx.ModelProto:
    """Two heads over tokens, with positions and a causal mask that follow from the length."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape one", "t", axis=0),
        node("Range", "zero t one", "places"),
        node("Gather", "table places", "positions", axis=0),
        node("Add", "x positions", "a"),
        *(node("MatMul", f"a {name}w", name) for name in "qkv"),
        *(node("Reshape", f"{name} heads", f"{name}r") for name in "qkv"),
        *(node("Transpose", f"{name}r", f"{name}t", perm=[0, 2, 1, 3]) for name in "qv"),
        node("Transpose", "kr", "kt", perm=[0, 2, 3, 1]),
        node("MatMul", "qt kt", "scores"),
        node("Trilu", "scores", "lower", upper=0),
        node("Mul", "lower scale", "scaled"),
        node("Softmax", "scaled", "p", axis=-1),
        node("MatMul", "p vt", "o"),
        node("Transpose", "o", "ot", perm=[0, 2, 1, 3]),
        node("Reshape", "ot whole", "y"),
    ]
    initializers = {
        "zero": np.array(0), "one": np.array(1), "table": weights(64, 16), "heads": np.array([0, 0, 2, 8]),
        "whole": np.array([0, 0, 16]), "scale": np.float32(0.35), **{f"{name}w": weights(16, 16) for name in "qkv"},
    }  # fmt: skip
    return model(nodes, {"x": ["n", "t", 16]}, ["y"], initializers)


FILES = {
    "reshaping": (reshaping(), lambda a, b: (a, b, 6)),
    "convolving": (convolving(), lambda a, b: (1, 3, 2 * a + 4, 2 * b + 4)),
    "recurrent": (recurrent(), lambda a, b: (a, b, 5)),
    "attending": (attending(), lambda a, b: (a, b, 16)),
}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether a template served, each time that one was asked."""
    outcomes: list[bool] = []
    at = DraftTemplate.at

    def noting(template: DraftTemplate, shapes: dict[str, tuple[int, ...]]) -> object:
        draft = at(template, shapes)
        outcomes.append(draft is not None)
        return draft

    monkeypatch.setattr(DraftTemplate, "at", noting)
    return outcomes


def rows(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def assert_same(got: dict[str, object], want: dict[str, object]) -> None:
    for name in want:
        np.testing.assert_array_equal(got[name], want[name], err_msg=name)


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", FILES)
def test_results_at_any_size_are_those_of_a_program_for_that_size_alone(name: str, served: list[bool]) -> None:
    file, shape = FILES[name]
    loaded, numbers = load(file), random.Random(name)
    sizes = [(3, 5), (4, 7), (7, 4), *[(numbers.randint(1, 12), numbers.randint(1, 12)) for _ in range(4)]]
    for pair in sizes:
        x = rows(shape(*pair))
        got = loaded.run({"x": x})
        assert_same(got, load(file).run({"x": x}))
    assert sum(served) >= 4, "most sizes are served by a template"


def test_sizes_that_take_another_way_have_a_template_of_their_own(served: list[bool]) -> None:
    file, shape = FILES["reshaping"]
    loaded = load(file)
    for pair in ((3, 5), (4, 5), (1, 5), (6, 5), (1, 9), (0, 5)):
        x = rows(shape(*pair))
        assert_same(loaded.run({"x": x}), load(file).run({"x": x}))
    assert not all(served)


def test_a_size_that_a_file_refuses_is_told_as_before() -> None:
    nodes = [node("Reshape", "x four", "y")]
    loaded = load(model(nodes, {"x": ["n", 3]}, ["y"], {"four": np.array([-1, 4])}))
    for count in (4, 8, 12):
        assert loaded.run({"x": rows((count, 3))})["y"].shape == (count * 3 // 4, 4)
    with pytest.raises(NncError, match="Reshape"):
        loaded.run({"x": rows((5, 3))})
    with pytest.raises(ShapeError, match="input x"):
        loaded.run({"x": rows((4, 2))})
    assert loaded.run({"x": rows((16, 3))})["y"].shape == (12, 4)


def test_sizes_that_contradict_each_other_are_told_with_both_inputs() -> None:
    inputs = {"x": ["n", 3], "y": ["n", 3]}
    built = load(model([node("Concat", "x y", "z", axis=1)], inputs, ["z"], {}))
    for count in (2, 3):
        feeds = {name: np.ones((count, 3), np.float32) for name in inputs}
        assert built.run(feeds)["z"].shape == (count, 6)
    feeds = {"x": np.ones((4, 3), np.float32), "y": np.ones((5, 3), np.float32)}
    with pytest.raises(ShapeError, match="axis 0 of x of size 4 and axis 0 of y of size 5; need one size n"):
        built.run(feeds)
    # What onnxruntime runs, whatever the axes are called, runs here.
    added = load(model([node("Add", "x y", "z")], inputs, ["z"], {}))
    assert added.run({**feeds, "y": np.ones((1, 3), np.float32)})["z"].shape == (4, 3)


def test_where_no_template_serves_twice_no_more_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that reads the value: a table of as many rows as the input has."""
    made = 0
    keep = Templates._keep

    def counting(templates: Templates, kind: object, template: DraftTemplate) -> None:
        nonlocal made
        made += 1
        keep(templates, kind, template)

    monkeypatch.setattr(Templates, "_keep", counting)
    nodes = [node("EyeLike", "x", "e"), node("Add", "x e", "y")]
    loaded = load(model(nodes, {"x": ["n", 4]}, ["y"]))
    for count in range(1, 12):
        want = rows((count, 4)) + np.eye(count, 4, dtype=np.float32)
        np.testing.assert_array_equal(loaded.run({"x": rows((count, 4))})["y"], want)
    assert made == MOST_UNUSED


def test_threads_that_ask_for_sizes_at_once_get_theirs() -> None:
    file, shape = FILES["reshaping"]
    loaded = load(file)
    results: dict[int, dict[str, object]] = {}

    def ask(count: int) -> None:
        results[count] = loaded.run({"x": rows(shape(3, count))})

    threads = [threading.Thread(target=ask, args=(count,)) for count in range(2, 12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for count in range(2, 12):
        assert_same(results[count], load(file).run({"x": rows(shape(3, count))}))


def test_an_interrupt_while_a_template_is_made_leaves_nothing_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    file, shape = FILES["reshaping"]
    loaded = load(file)
    loaded.run({"x": rows(shape(3, 4))})
    drafted = ProgramMaker.drafted

    def interrupted(*arguments: object) -> object:
        drafted(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(ProgramMaker, "drafted", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loaded.run({"x": rows(shape(3, 5))})
    monkeypatch.undo()
    for count in (5, 6, 7):
        assert_same(loaded.run({"x": rows(shape(3, count))}), load(file).run({"x": rows(shape(3, count))}))


def test_copies_and_pickles_of_a_model_with_templates_run() -> None:
    file, shape = FILES["reshaping"]
    loaded = load(file)
    for count in (4, 5, 6):
        loaded.run({"x": rows(shape(3, count))})
    want = loaded.run({"x": rows(shape(3, 7))})
    for twin in (copy.copy(loaded), copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded))):
        assert_same(twin.run({"x": rows(shape(3, 7))}), want)


def test_memory_of_further_sizes_is_that_of_a_program_for_them(served: list[bool]) -> None:
    file, _ = FILES["convolving"]
    loaded = load(file)
    for height in (8, 10, 12, 16):
        assert loaded.memory(h=height, w=8).arena == load(file).memory(h=height, w=8).arena
    assert any(served)


def test_programs_of_further_sizes_read_the_tensors_of_earlier_ones() -> None:
    """A table that is read in order is no copy for each size."""
    file = model([node("Mul", "x w", "p"), node("Add", "p w", "y")], {"x": ["n", 64]}, ["y"], {"w": weights(64)})
    loaded = load(file)
    for count in (2, 3, 4, 5):
        loaded.run({"x": rows((count, 64))})
    programs = [program for program in loaded._programs.values() if isinstance(program, OnnxProgram)]
    addresses = [
        {tensor.address for tensor in program.compiled.bindings.tensors.values() if tensor is not None}
        for program in programs
        if program.compiled is not None
    ]
    assert len(addresses) == 4
    assert all(bound == addresses[0] for bound in addresses)


def wide() -> onnx.ModelProto:
    """Convolutions and a product whose weights are in other blocks where there are few rows."""
    nodes = [
        node("Conv", "x w", "c", pads=[0, 1, 0, 1]),
        node("Relu", "c", "r"),
        node("Conv", "r v", "d", pads=[1, 1, 1, 1]),
        node("Relu", "d", "e"),
        node("GlobalAveragePool", "e", "g"),
        node("Flatten", "g", "f"),
        node("MatMul", "f u", "y"),
    ]
    initializers = {"w": weights(60, 480, 1, 3), "v": weights(72, 60, 3, 3), "u": weights(72, 300)}
    return model(nodes, {"x": [1, 480, 3, "n"]}, ["y", "e"], initializers)


def test_blocks_are_laid_once_for_sizes_at_which_kernels_wish_for_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    laid, lay = list[object](), ProgramMaker.laid
    monkeypatch.setattr(
        ProgramMaker, "laid", lambda self, draft, *known: laid.append(draft) or lay(self, draft, *known)
    )
    file, layouts, counts = wide(), set[object](), list[int]()
    loaded = load(file)
    # Where registers are of 256 bits, all of these but the last wish for the same blocks.
    for size in (40, 44, *random.Random(0).sample(range(1, 400), 24), 1):
        x, before = rows((1, 480, 3, size)), len(laid)
        got = loaded.run({"x": x})
        counts.append(len(laid) - before)
        alone = load(file)
        assert_same(got, alone.run({"x": x}))
        (program,), (other,) = (each.planned({"x": x})[0] for each in (loaded, alone))
        assert replace(program.memory(), peak_tensors=()) == replace(other.memory(), peak_tensors=())
        assert program.compiled is not None
        specs = [tensor.spec for tensor in program.compiled.bindings.tensors.values() if tensor is not None]
        layouts.add(tuple(spec.layout for spec in specs if isinstance(spec.layout, Blocked)))
    assert len(layouts) >= 2, "weights are in several blocks"
    assert counts.count(0) >= len(counts) // 2
