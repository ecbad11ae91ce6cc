from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnc.errors import FormatError
from nnc.planning import Block, read_csv

DATA = Path(__file__).parent / "data"


def test_the_plain_columns() -> None:
    problem = read_csv(DATA / "bottleneck.csv")
    assert len(problem.blocks) == 8
    assert problem.blocks[1] == Block("stem", 800, 1, 6)


def test_the_optional_columns() -> None:
    problem = read_csv(DATA / "mixed.csv")
    assert problem.blocks[0] == Block("weights", 1000, 0, 9, alignment=256, offset=0, memory="device")
    assert problem.blocks[4] == Block("staging", 77, 0, 2, alignment=8)
    assert problem.memories == ("device", "host")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("id,lower,upper\n0,0,1\n", 1),
        ("lower,upper,size\n0,1,2\n", 1),
        ("id,lower,upper,size\n0,0,1,2\n1,0,x,2\n", 3),
        ("id,lower,upper,size\n0,0,1\n", 2),
        ("id,lower,upper,size\n0,5,1,2\n", 2),
        ("id,lower,upper,size\n0,0,1,2\n1,0,1,2,3\n", 3),
        ("id,lower,upper,size,lower\n0,0,1,2,0\n", 1),
        ("id,lower,upper,size,SIZE\n0,0,1,2,2\n", 1),
        ("id,lower,upper,size,alignment,offset\n0,0,1,2,4,3\n", 2),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "broken.csv"
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        read_csv(path)
    assert caught.value.origin == f"{path}:{line}"


def test_spaces_in_the_header_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "spaces.csv"
    path.write_text("buffer_id, lower, upper, size\n7,0,1,2\n")
    assert read_csv(path).blocks == (Block("7", 2, 0, 1),)


def test_a_byte_order_mark_and_capitals_do_not_matter(tmp_path: Path) -> None:
    """As spreadsheets write it: the mark once became a part of the first name."""
    path = tmp_path / "spreadsheet.csv"
    path.write_text("\ufeffID,Lower,UPPER,Size,Memory\r\nA,0,1,2,Fast\r\n", encoding="utf-8")
    assert read_csv(path).blocks == (Block("A", 2, 0, 1, memory="Fast"),)


def test_columns_without_a_name_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "commas.csv"
    path.write_text("id,lower,upper,size,,\n7,0,1,2,,\n")
    assert read_csv(path).blocks == (Block("7", 2, 0, 1),)


def test_a_pipe_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(FormatError, match="got a pipe or a device; need a CSV file"):
        read_csv(tmp_path / "pipe.csv")
