"""Wide CSV files and long texts: what a file of few bytes may take."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnc.errors import DataError, FormatError
from nnc.nn.data import DataFrame, arrow


def test_a_wide_file_is_read_in_groups_of_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow", reason="the extra data is not installed")
    monkeypatch.setattr(arrow, "GROUP_OF_COLUMNS", 8)
    monkeypatch.setattr(arrow, "MOST_COLUMNS", 60)
    names = [f"c{place}" for place in range(70)]
    path, kinds = tmp_path / "wide.csv", ("1", "0.5", "", "north", "true")
    path.write_text(",".join(names) + "\n" + ",".join(kinds[place % 5] for place in range(len(names))) + "\n")
    with pytest.raises(FormatError, match=r"70 columns; need at most 60 at once. Fix: name those to read"):
        DataFrame.from_csv(path)
    frame = DataFrame.from_csv(path, ["c69", *names[:50]])
    (batch,) = frame.batch(1)
    assert frame.columns == ("c69", *names[:50])
    assert [batch[f"c{place}"].tolist() for place in (30, 31, 32, 33, 69)] == [[1], [0.5], [""], ["north"], [True]]
    with pytest.raises(DataError, match=r"no column 'd'; need one of c0, .*, c49, …"):
        DataFrame.from_csv(path, ["d"])
    path.write_text(",".join(["c"] * 90) + "\n")
    with pytest.raises(FormatError, match="two columns 'c'"):
        DataFrame.from_csv(path)


def test_a_long_text_does_not_widen_the_others(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra data is not installed")
    (tmp_path / "a.csv").write_text("a,b\n" + "x" * 400_000 + ",1\n" + "y,2\n" * 1_000)
    first, *_, last = DataFrame.from_csv(tmp_path / "a.csv")
    assert (len(first["a"]), last["a"]) == (400_000, "y")
