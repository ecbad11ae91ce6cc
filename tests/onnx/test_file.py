"""Hostile and broken files: one of our errors, soon, with nothing read outside the folder of the model."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.fuzz.limits import memory_limit, processor_limit
from tests.onnx.models import model, node

import onnx
from nnc.errors import FormatError, UsageError
from nnc.onnx import load
from nnc.onnx.file import schema_of
from onnx import helper

ONE = np.ones(1, np.float32)
Make = Callable[[], onnx.ModelProto | bytes]
SECONDS = 5
MORE_MEMORY = 1 << 30


def run(made: onnx.ModelProto | bytes | Path) -> None:
    loaded = load(made, backend="reference")
    loaded.run({name: np.ones([1], np.float32) for name in loaded.inputs})


def external(location: str, **entries: int | str) -> onnx.ModelProto:
    made = model([node("Add", "x w", "y")], {"x": [1]}, ["y"], {"w": ONE})
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return made


def bomb() -> onnx.ModelProto:
    functions = []
    for level in range(40):
        inner = "Neg" if level == 0 else f"f{level - 1}"
        domain = "" if level == 0 else "own"
        nodes = [node(inner, "a", "b", domain=domain), node(inner, "b", "c", domain=domain)]
        functions.append(helper.make_function("own", f"f{level}", ["a"], ["c"], nodes, [helper.make_opsetid("", 21)]))
    return model([node("f39", "x", "y", domain="own")], {"x": [1]}, ["y"], functions=functions)


def circle() -> onnx.ModelProto:
    own = helper.make_function("own", "f", ["a"], ["b"], [node("f", "a", "b", domain="own")], [])
    return model([node("f", "x", "y", domain="own")], {"x": [1]}, ["y"], functions=[own])


def endless() -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Identity", "go", "again"), node("Add", "v v", "w")],
        "body",
        [
            helper.make_tensor_value_info("i", onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", onnx.TensorProto.FLOAT, [1]),
        ],
        [helper.make_empty_tensor_value_info(name) for name in ("again", "w")],
    )
    return model([node("Loop", "- t x", "y", body=body)], {"x": [1]}, ["y"], {"t": np.array(True)})


def wide(operator: str, **values: object) -> onnx.ModelProto:
    names = " ".join(values)
    return model([node(operator, f"x {names}", "y")], {"x": [1]}, ["y"], {k: np.asarray(v) for k, v in values.items()})


def strange() -> onnx.ModelProto:
    made = model([node("Add", "x w", "y")], {"x": [1]}, ["y"], {"w": ONE})
    made.graph.initializer[0].data_type = 99
    return made


def negative() -> onnx.ModelProto:
    made = model([node("Add", "x w", "y")], {"x": [1]}, ["y"], {"w": ONE})
    made.graph.initializer[0].dims[0] = -1
    return made


def short() -> onnx.ModelProto:
    made = model([node("Add", "x w", "y")], {"x": [1]}, ["y"], {"w": ONE})
    made.graph.initializer[0].dims[0] = 1 << 40
    return made


def twice(what: str) -> onnx.ModelProto:
    """Two tensors of one name."""
    nodes = [node("Neg", "x", "a"), node("Exp", "x", "a" if what == "nodes" else "b"), node("Add", "a w", "y")]
    made = model(nodes, {"x": [1]}, ["y"], {"w": ONE})
    if what == "tensors":
        made.graph.initializer.append(onnx.numpy_helper.from_array(ONE * 2, "w"))
    return made


def doubling(operator: str) -> onnx.ModelProto:
    """A constant that doubles 60 times."""
    nodes = [
        node(operator, f"c{k} c{k}", f"c{k + 1}", **({"axis": 0} if operator == "Concat" else {})) for k in range(60)
    ]
    if operator == "Tile":
        nodes = [node("Tile", f"c{k} two", f"c{k + 1}") for k in range(60)]
    last = [node("ReduceSum", "c60", "s", keepdims=0), node("Add", "x s", "y")]
    return model([*nodes, *last], {"x": [1]}, ["y"], {"c0": np.ones(1024, np.float32), "two": np.array([2])})


def nested(depth: int) -> onnx.ModelProto:
    """Branches in branches."""
    inner = leaf = helper.make_graph([node("Neg", "x", "r")], "g", [], [helper.make_empty_tensor_value_info("r")])
    for _ in range(depth):
        branch = node("If", "c", "r", then_branch=inner, else_branch=leaf)
        inner = helper.make_graph([branch], "g", [], [helper.make_empty_tensor_value_info("r")])
    choice = [node("Greater", "x zero", "c"), node("If", "c", "y", then_branch=inner, else_branch=leaf)]
    return model(choice, {"x": [1]}, ["y"], {"zero": np.zeros(1, np.float32)})


def no_text() -> bytes:
    """A name that is no UTF-8."""
    data = model([node("Neg", "x", "yyyy")], {"x": [1]}, ["yyyy"]).SerializeToString()
    return data.replace(b"yyyy", b"\xff\xfe\xc0y")


def no_text_behind_data() -> bytes:
    """An output whose name is no UTF-8, in the part behind a size of the data."""
    nodes = [node("NonZero", "x", "n"), node("Neg", "x", "yyyy")]
    data = model(nodes, {"x": [1]}, ["n", "yyyy"]).SerializeToString()
    return data.replace(b"yyyy", b"\xff\xfe\xc0y")


def stacked() -> onnx.ModelProto:
    """A loop that stacks 2^24 rows of its state."""
    made = endless()
    made.graph.node[0].input[0], made.graph.node[0].input[1] = "count", ""
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.array(1 << 40), "count"))
    return made


HOSTILE: dict[str, Make] = {
    "two nodes that write one name": lambda: twice("nodes"),
    "two tensors of one name": lambda: twice("tensors"),
    "a constant that doubles by joining": lambda: doubling("Concat"),
    "a constant that doubles by tiling": lambda: doubling("Tile"),
    "names that are no text": no_text,
    "names that are no text behind a size of the data": no_text_behind_data,
    "a loop of 2^40 iterations": stacked,
    "a range of 2^40": lambda: wide("Range", b=np.float32(1 << 40), c=np.float32(1)),
    "a constant of 2^50 zeros": lambda: model(
        [node("ConstantOfShape", "s", "z"), node("Add", "x z", "y")], {"x": [1]}, ["y"], {"s": np.array([1 << 50])}
    ),
    "one-hot of 2^45 classes": lambda: model(
        [node("Cast", "x", "i", to=7), node("OneHot", "i d v", "y")],
        {"x": [1]},
        ["y"],
        {"d": np.array(1 << 45), "v": np.array([0.0, 1.0])},
    ),
    "a split into 2^40 parts": lambda: model(
        [node("Split", "x", "a b", num_outputs=1 << 40), node("Add", "a b", "y")], {"x": [2]}, ["y"]
    ),
    "a border of 2^45": lambda: wide("Pad", p=np.array([0, 1 << 45])),
    "a negative size of an input": lambda: model([node("Neg", "x", "y")], {"x": [-5, 3]}, ["y"]),
    "a size of an input beyond all memory": lambda: model([node("Neg", "x", "y")], {"x": [1 << 40, 1 << 40]}, ["y"]),
    "a shape of other elements": lambda: wide("Reshape", s=np.array([7, -1])),
    "functions that double 40 times": bomb,
    "a function that calls itself": circle,
    "a loop without an end": endless,
    "nodes in a circle": lambda: model([node("Add", "x b", "a"), node("Neg", "a", "b")], {"x": [1]}, ["a"]),
    "a name that nothing writes": lambda: model([node("Add", "x nothing", "y")], {"x": [1]}, ["y"]),
    "an output that nothing writes behind a size of the data": lambda: model(
        [node("NonZero", "x", "y")], {"x": [1]}, ["nothing", "y"]
    ),
    "a tile of 2^40": lambda: wide("Tile", r=np.array([1 << 40])),
    "an expansion to 2^50": lambda: wide("Expand", s=np.array([1 << 50])),
    "a shape whose product overflows": lambda: wide("Expand", s=np.array([1 << 32, 1 << 32])),
    "an element type that there is not": strange,
    "a negative size": negative,
    "less data than the shape": short,
    "an operator set of the future": lambda: model([node("Neg", "x", "y")], {"x": [1]}, ["y"], opset=999),
    "a path out of the folder": lambda: external("../secret"),
    "an absolute path": lambda: external("/etc/passwd"),
    "a negative offset": lambda: external("weights", offset=-4),
    "a length beyond the data": lambda: external("weights", length=1 << 50),
    "no graph": onnx.ModelProto,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_model_is_one_of_our_errors(name: str, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "model.onnx"
    path.parent.mkdir()
    made = HOSTILE[name]()
    path.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
    (tmp_path / "secret").write_bytes(ONE.tobytes())
    with processor_limit(SECONDS), memory_limit(MORE_MEMORY), pytest.raises(UsageError):
        run(path)


def typed(number: int) -> onnx.ModelProto:
    """A tensor of another file with an element type of this number."""
    made = external("weights")
    made.graph.initializer[0].data_type = number
    return made


ELSEWHERE: dict[str, tuple[onnx.ModelProto, str]] = {
    "an element type that there is not": (typed(99), "element type 99"),
    "texts": (typed(onnx.TensorProto.STRING), "element type 8"),
    "an offset that is no number": (external("weights", offset="many"), "no number"),
    "a length of other elements": (external("weights", length=8), "8 bytes for"),
    "a file that is too short": (external("weights", offset=64), "weights of 8 bytes"),
    "a file that is not there": (external("nowhere"), "No such file"),
    "a folder": (external("folder"), "location 'folder'"),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_data_of_another_file_is_refused(name: str, tmp_path: Path) -> None:
    made, told = ELSEWHERE[name]
    (tmp_path / "weights").write_bytes(bytes(8))
    (tmp_path / "folder").mkdir()
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(FormatError, match=told):
        run(tmp_path / "model.onnx")


@pytest.mark.parametrize("how", ["overwritten", "replaced", "cut"])
def test_data_that_changed_since_the_model_was_read_is_refused(how: str, tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.write_bytes(np.float32([1]).tobytes())
    (tmp_path / "model.onnx").write_bytes(external("weights").SerializeToString())
    run(tmp_path / "model.onnx")
    loaded = load(tmp_path / "model.onnx", backend="reference")
    if how == "replaced":
        (tmp_path / "new").write_bytes(np.float32([2]).tobytes())
        (tmp_path / "new").replace(weights)
    else:
        weights.write_bytes(np.float32([2]).tobytes()[: 4 if how == "overwritten" else 2])
        os.utime(weights, ns=(0, 0))
    with pytest.raises(FormatError, match="weights, which has changed since the model was read.* load the model again"):
        loaded.run({"x": np.ones([1], np.float32)})


def test_data_of_another_file_needs_a_folder() -> None:
    with pytest.raises(FormatError, match="external data of a model without a folder"):
        run(external("weights"))


def test_data_of_no_elements_is_not_mapped(tmp_path: Path) -> None:
    made = external("weights")
    made.graph.initializer[0].dims[0] = 0
    (tmp_path / "weights").write_bytes(b"")
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    found = load(tmp_path / "model.onnx")
    assert found.file.array(found.file.graph.initializer[0]).shape == (0,)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such file"):
        load(tmp_path / "model.onnx")


@pytest.mark.parametrize("depth", [5, 30])
def test_branches_in_branches_are_read_or_refused(depth: int) -> None:
    with processor_limit(SECONDS):
        try:
            run(nested(depth))
        except UsageError:
            assert depth > 20


@pytest.mark.parametrize("data", [b"", b"\x00", b"no protobuf at all", bytes(range(256))])
def test_bytes_that_are_no_model_are_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match="need"):
        load(data)


def test_an_old_operator_set_is_read_where_its_operators_are_the_same_still() -> None:
    x = np.array([-1.0], np.float32)
    old = model([node("Shape", "x", "s"), node("ReduceSum", "s", "y")], {"x": [1]}, ["y"], opset=5)
    np.testing.assert_array_equal(load(old).run({"x": x})["y"], [1])
    with pytest.raises(UsageError, match="operator set 1"):
        load(model([node("Relu", "x", "y")], {"x": [1]}, ["y"], opset=1))


def test_a_truncated_file_is_refused_wherever_it_ends() -> None:
    whole = model([node("Add", "x w", "y")], {"x": [1]}, ["y"], {"w": ONE}).SerializeToString()
    for length in range(0, len(whole), 7):
        try:
            run(whole[:length])
        except UsageError:
            continue


def test_external_data_is_the_model_s_own_and_links_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(external("weights").SerializeToString())
    (tmp_path / "weights").write_bytes((ONE * 3).tobytes())
    found = load(path)
    np.testing.assert_array_equal(found.run({"x": ONE})["y"], [4.0])
    os.truncate(tmp_path / "weights", 0)
    np.testing.assert_array_equal(found.run({"x": ONE})["y"], [4.0])
    (tmp_path / "weights").unlink()
    (tmp_path / "shared").write_bytes((ONE * 3).tobytes())
    os.link(tmp_path / "shared", tmp_path / "weights")
    with pytest.raises(UsageError, match="a file of several names"):
        run(path)
    (tmp_path / "weights").unlink()
    os.symlink("/etc/passwd", tmp_path / "weights")
    with pytest.raises(UsageError, match="through a link"):
        run(path)


def test_operators_of_versions_and_names_that_cannot_be_are_unknown() -> None:
    assert schema_of("Add", 13, "") is not None
    assert schema_of("Add", 0, "") is None
    assert schema_of("Add", 1 << 31, "") is None
    assert schema_of("NoSuchOperator", 13, "") is None
