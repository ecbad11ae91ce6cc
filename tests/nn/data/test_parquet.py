"""Parquet files that repeat long texts: each is kept once, or refused before it is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnc.errors import FormatError
from nnc.nn.data import DataFrame
from nnc.nn.data import parquet as work


def test_a_text_that_many_rows_name_is_kept_once(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra data is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra data is not installed")
    places, path = np.zeros(2_000, np.int32), tmp_path / "a.parquet"
    text = "x" * 200_000
    columns = {
        "text": pyarrow.DictionaryArray.from_arrays(places, pyarrow.array([text])),
        "bytes": pyarrow.DictionaryArray.from_arrays(places, pyarrow.array([text.encode()])),
        "number": pyarrow.DictionaryArray.from_arrays(places, pyarrow.array([7])),
        "listed": pyarrow.array([[text, "b"], None, ["c"], []] * 500),
    }
    parquet.write_table(pyarrow.table(columns), path)
    first, second, third, *_ = frame = DataFrame.from_parquet(path)
    assert (len(frame), first["text"] == text, first["bytes"] == text.encode(), first["number"]) == (
        2_000, True, True, 7,
    )  # fmt: skip
    assert (list(first["listed"]) == [text, "b"], second["listed"], list(third["listed"])) == (True, None, ["c"])


def test_texts_that_begin_alike_are_counted_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra data is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra data is not installed")
    path, alike = tmp_path / "a.parquet", {"use_dictionary": False, "column_encoding": {"a": "DELTA_BYTE_ARRAY"}}
    parquet.write_table(pyarrow.table({"a": ["ab", "ac", None]}), path, **alike)
    (batch,) = DataFrame.from_parquet(path).batch(3)
    assert batch["a"].tolist() == ["ab", "ac", ""]
    parquet.write_table(pyarrow.table({"a": ["x" * 50_000] * 600}), path, **alike)
    monkeypatch.setattr(work, "MOST_BYTES", 1 << 24)
    with pytest.raises(FormatError, match=r"bytes or more when decoded; need at most 1[0-9,]+ in a file of its size"):
        DataFrame.from_parquet(path)
