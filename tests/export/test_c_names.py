"""Names of ports and sizes that are words of C, of JavaScript, or of the texts of a library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.export.compiled_c import checked
from tests.onnx import models

import nnc.onnx
import onnx
from nnc import export
from nnc.errors import UsageError
from nnc.export.c_names import c_names

PORTS = ("for", "inputs", "x 1", "x.1", "1", "default")


def test_what_becomes_one_name_gets_numbers_and_words_an_underscore() -> None:
    assert list(c_names(PORTS).values()) == ["for_", "inputs_", "x_1", "x_1_2", "port_1", "default_"]
    assert c_names(["x.1"], taken=["x_1"]) == {"x.1": "x_1_2"}


def test_a_library_of_such_names_compiles_and_meets_its_answers(tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("Sum", list(PORTS), ["x_1"]), onnx.helper.make_node("Neg", ["x_1"], ["weights"])]
    described = models.model(nodes, dict.fromkeys(PORTS, ("batch size", 3)), ["x_1", "weights"])
    onnx.save(described, tmp_path / "words.onnx")
    made = export.library(nnc.onnx.load(tmp_path / "words.onnx"), "net", sizes={"batch size": (1, 2)})
    assert [port.name for port in made.outputs] == ["x_1_3", "weights_"]
    assert "size_t batch_size" in made.files["net.h"].decode()
    assert checked(made, tmp_path / "net", "gcc") == "net: the recorded answers\n"


@pytest.mark.parametrize("name", ["class", "std", "a b", "", "1"])
def test_a_library_is_called_by_no_word_of_a_language(name: str) -> None:
    function = nnc.compile(lambda x: x + 1.0)
    with pytest.raises(UsageError, match="library: got"):
        export.library(function, name, example=(np.ones(2, np.float32),))
