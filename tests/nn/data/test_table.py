"""Tables: numbers and categories to inputs, by a scheme that holds for the next file; errors name column and row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnc import nn
from nnc.errors import DataError, FormatError
from nnc.nn.data import read_inputs, read_table

TEXT = """size, town, price
1,north,10
3,south,30
,north,20
"""


@pytest.fixture
def table(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "houses.csv"
        path.write_text(text)
        return path

    return write


def test_numbers_are_standardized_and_texts_are_categories(table: Callable[[str], Path]) -> None:
    examples, scheme = read_table(table(TEXT), "price")
    np.testing.assert_array_equal(examples.inputs, [[-1, 1, 0], [1, 0, 1], [0, 1, 0]])
    np.testing.assert_array_equal(examples.labels, [[10], [30], [20]])
    assert [column.name for column in scheme.columns] == ["size", "town"]
    assert (scheme.features, scheme.classes, examples.inputs.dtype) == (3, (), np.float32)


def test_a_target_of_texts_or_on_request_is_of_classes(table: Callable[[str], Path]) -> None:
    examples, scheme = read_table(table(TEXT), "town")
    assert (scheme.classes, examples.labels.tolist()) == (("north", "south"), [0, 1, 0])
    examples, scheme = read_table(table(TEXT), "price", classes=True)
    assert (scheme.classes, examples.labels.tolist()) == (("10", "20", "30"), [0, 2, 1])


def test_a_scheme_holds_for_the_next_file(table: Callable[[str], Path]) -> None:
    _, scheme = read_table(table(TEXT), "price")
    examples, same = read_table(table("price,town,size\n1,west,2\n2,south,\n"), "price", scheme=scheme)
    assert same is scheme
    np.testing.assert_array_equal(examples.inputs, [[0, 0, 0], [0, 0, 1]])


def test_rows_held_out_for_a_test_decide_no_mean(table: Callable[[str], Path]) -> None:
    _, scheme = read_table(table("a,y\n1000,1\n1,1\n3,1\n1000,1\n"), "y", held_out=3)
    assert (scheme.columns[0].mean, scheme.columns[0].deviation) == (2.0, 1.0)


def test_inputs_need_no_target(table: Callable[[str], Path]) -> None:
    examples, scheme = read_table(table(TEXT), "price")
    np.testing.assert_array_equal(read_inputs(table("town,size\nnorth,1\n"), scheme), examples.inputs[:1])
    with pytest.raises(DataError, match="no column 'town'"):
        read_inputs(table("size\n1\n"), scheme)


def test_a_missing_class_is_told(table: Callable[[str], Path]) -> None:
    with pytest.raises(DataError, match=r"'' in column 'town', row 3; need one of north, south"):
        read_table(table("a,town\n1,north\n1,\n1,south\n"), "town")


def test_a_table_without_inputs_is_told(table: Callable[[str], Path]) -> None:
    with pytest.raises(DataError, match="no column beside the target"):
        read_table(table("y\n1\n"), "y")


def test_a_model_learns_a_table(table: Callable[[str], Path]) -> None:
    rows = "\n".join(f"{a},{'up' if a % 2 else 'down'},{a / 10 + 3 * (a % 2)}" for a in range(40))
    examples, scheme = read_table(table("a,kind,y\n" + rows), "y")
    layer = nn.Sequential(nn.Dense(16), nn.Tanh(), nn.Dense(1))
    model = nn.Model(layer, (scheme.features,), loss=nn.MeanSquaredError(), optimizer=nn.Adam(0.05))
    history = model.fit(examples, epochs=60, batch_size=8, metrics=["r2"])
    assert history["r2"][-1] > 0.95


@pytest.mark.parametrize(
    ("text", "target", "error", "told"),
    [
        (TEXT, "prize", DataError, "no column 'prize'.*did you mean 'price'"),
        ("a,b\n1,2\n1\n", "b", FormatError, "1 cells in row 3; need 2 cells"),
        ("a,b\n", "b", DataError, "no rows"),
        ("", "b", FormatError, "the head"),
        ("a,a\n1,2\n", "a", FormatError, "each once"),
        ("a,b\n1,\n", "b", DataError, "no number in column 'b', row 2"),
        ("a,b\n" + "".join(f"x{n},1\n" for n in range(101)), "b", DataError, "101 different texts in column 'a'"),
    ],
)
def test_what_is_no_table_is_told(
    text: str, target: str, error: type[Exception], told: str, table: Callable[[str], Path]
) -> None:
    with pytest.raises(error, match=told):
        read_table(table(text), target)


def test_what_the_scheme_does_not_know_is_told(table: Callable[[str], Path]) -> None:
    _, numbers = read_table(table(TEXT), "price")
    _, classes = read_table(table(TEXT), "town")
    with pytest.raises(DataError, match=r"'big' in column 'size', row 2"):
        read_table(table("size,town,price\nbig,north,1\n"), "price", scheme=numbers)
    with pytest.raises(DataError, match="no column 'size'"):
        read_table(table("town,price\nnorth,1\n"), "price", scheme=numbers)
    with pytest.raises(DataError, match=r"'west' in column 'town', row 2; need one of north, south"):
        read_table(table("size,town,price\n1,west,1\n"), "town", scheme=classes)
    with pytest.raises(DataError, match="texts in column 'town'"):
        read_table(table(TEXT), "town", classes=False)


def test_numbers_too_large_to_be_standardized_are_refused(table: Callable[[str], Path]) -> None:
    with pytest.raises(DataError, match=r"numbers up to 1e\+300 in column 'size'; need numbers whose squares"):
        read_table(table("size,price\n1e300,1\n-1e300,2\n"), "price")
