"""What notebooks show: a table per model and per history, no longer than a screen, nothing in it runs."""

from __future__ import annotations

from nnc import nn
from nnc.symbolic.text.tables import MOST_ROWS, table_of


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


def test_a_history_is_a_table_and_its_repr_a_line() -> None:
    history = nn.History([{"epoch": epoch, "loss": 1 / epoch} for epoch in range(1, 101)])
    history.rows[-1]["late"] = 2.0
    assert repr(history) == "History(100 epochs, loss 0.01, late 2)"
    lines = str(history).splitlines()
    assert lines[:3] == ["100 epochs", "epoch     loss  late", "    1        1"]
    assert len(lines) <= MOST_ROWS + 2
    assert lines[-1] == "  100     0.01     2"
    assert str(nn.History()) == "0 epochs\n"
    assert "<th>late</th>" in history._repr_html_()
