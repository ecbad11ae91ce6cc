"""What notebooks show: a table per model and per history, no longer than a screen, nothing in it runs."""

from __future__ import annotations

from nnc import nn
from nnc.nn.html import MOST_ROWS, table_of


def test_a_model_shows_its_layers_and_its_parameters() -> None:
    model = nn.Model(nn.Sequential(body=nn.Dense(3), head=nn.Dense(2)), (4,))
    html = model._repr_html_()
    assert html.startswith("<table><caption>Model: 23 parameters, f32[4] to f32[2], by Adam(")
    assert "<td>head</td><td>Dense(units=2, bias=True)</td><td>[2]</td><td>8</td>" in html
    assert repr(model) == "Model(23 parameters, f32[4] to f32[2], by Adam)"


def test_a_history_shows_its_rows() -> None:
    history = nn.History([{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25}], reason="stopped")
    html = history._repr_html_()
    assert "<caption>2 epochs, stopped</caption>" in html
    assert "<tr><td>2</td><td>0.25</td></tr>" in html
    assert nn.History()._repr_html_().startswith("<table><caption>0 epochs")


def test_tables_end_and_names_are_text() -> None:
    html = table_of("<script>", ["a"], [[f"<b>{row}"] for row in range(100)])
    assert "<script>" not in html
    assert "<b>" not in html
    assert html.count("<tr>") == MOST_ROWS + 2
    assert "… 60 more …" in html
