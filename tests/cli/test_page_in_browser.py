"""The page as people see it, in Debian's chromium: nothing complains, nothing is asked for, and what is shown is right.

Skipped where the system has no browser: `apt install chromium`. With NNC_PICTURES set to a folder the screenshots of
the documentation are written there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.browser import opened_browser

from nnc import ops
from nnc.concrete import CountBelow
from nnc.concrete.profiling import profile
from nnc.core.values.spec import spec
from nnc.nn.zoo import network
from nnc.planning import Block, Plan, Problem, Witness, memory_map
from nnc.symbolic import Compiled, SymbolicGraph, case_of, compile, scope, while_loop
from nnc.symbolic.stages import recorded_stages

EVIL = '</script><script>document.title = "taken"</script><img src=x onerror="document.title=1">\u202e\u2066'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened_browser() as browser:
        yield browser


@pytest.fixture
def shown(browser: Any, tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Opens a page; at the end nobody has complained, and no other file was asked for."""
    said: list[str] = []
    asked: list[str] = []
    pages = []

    def show(text: str) -> Any:
        page = browser.new_page(viewport={"width": 1400, "height": 800})
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url))
        place = tmp_path / f"{len(pages)}.html"
        place.write_text(text, encoding="utf-8")
        page.goto(place.as_uri())
        pages.append(page)
        return page

    yield show
    assert (said, len(asked)) == ([], len(pages))
    for page in pages:
        page.close()


def picture(page: Any, name: str) -> None:
    folder = os.environ.get("NNC_PICTURES")
    if folder:
        page.wait_for_timeout(200)
        page.screenshot(path=f"{folder}/{name}.png")


def place_of(page: Any, index: int) -> tuple[float, float]:
    """Where the middle of a block is on the screen, by the page's own numbers."""
    box = page.locator("#map").bounding_box()
    x, y = page.evaluate(
        "(at) => { const b = blocks[at]; return [((b[LOWER] + b[UPPER]) / 2 - view.x) / view.w,"
        " 1 - (b[ADDRESS] + b[BYTES] / 2 - view.y) / view.h]; }",
        index,
    )
    return box["x"] + box["width"] * x, box["y"] + box["height"] * y


def check_hover_and_search(page: Any, compiled: Compiled, wanted: str) -> None:
    view = compiled.view()
    largest = max(range(len(view.blocks)), key=lambda index: view.problem.blocks[index].size)
    page.mouse.move(*place_of(page, largest))
    assert view.blocks[largest].name in page.text_content("#tip")
    page.mouse.down()
    page.mouse.up()
    assert view.blocks[largest].name in page.text_content("#chosen")
    assert f"{view.problem.blocks[largest].size:,}" in page.text_content("#chosen")
    page.fill("#find", wanted)
    count = sum(
        any(wanted in text.lower() for text in (one.name, one.layer, one.operator, one.role, one.line))
        for one in view.blocks
    )
    assert count > 0
    assert page.text_content("#found") == f"{count} of {len(view.blocks)}"


def test_a_step_of_the_digits_network_with_its_graph_and_a_timeline(shown: Any) -> None:
    with recorded_stages() as stages:
        model = network("digits")
        compiled = model.training_step(64).compiled
    images = np.random.default_rng(0).random((128, 8, 8, 1), dtype=np.float32)
    with profile() as found:
        model.fit(images, np.zeros(128, np.int32), batch_size=64)
    page = shown(compiled.page("The digits network, a step with 64 examples", stages=stages, profile=found))
    picture(page, "page-map")
    check_hover_and_search(page, compiled, "conv")
    page.fill("#find", "")
    page.click("#peak button")
    page.click("text=show in the graph")
    chosen = page.text_content("#nodes .chosen text")
    assert chosen in page.text_content("#step")
    picture(page, "page-graph")
    page.select_option("#stage", label=next(f"{at}. {one.name}" for at, one in enumerate(stages) if one.fired))
    assert "×" in page.text_content("#fired")
    page.keyboard.press("Escape")
    page.click("text=timeline")
    picture(page, "page-timeline")
    box = page.locator("#bars").bounding_box()
    x = page.evaluate(
        "() => { const row = data.bars.find((r) => r[LANE] === 0); return (row[BEGIN] + row[DURATION] / 2) / total; }"
    )
    page.mouse.move(box["x"] + box["width"] * x, box["y"] + 20)
    assert "thread 0" in page.text_content("#tip")
    page.click("text=figures")
    assert "Time by layer" in page.text_content("#training")
    page.emulate_media(color_scheme="dark")
    page.keyboard.press("1")
    picture(page, "page-dark")


@pytest.mark.nightly("smaller graphs are shown in every run")
def test_training_resnet_50(shown: Any) -> None:
    compiled = network("resnet50").training_step(8).compiled
    text = compiled.page("ResNet-50, a step with 8 examples")
    assert len(text.encode()) < 1_000_000
    page = shown(text)
    check_hover_and_search(page, compiled, "conv")
    picture(page, "page-resnet50")


def looped() -> Compiled:
    graph = SymbolicGraph()
    x0 = graph.input(spec((64, 64)), "x0")
    with scope("walk"), while_loop(graph, CountBelow(5)) as loop:
        x, y = loop.carry(x0, "x"), loop.carry(ops.sin(x0), "y")
        (z,) = case_of(loop.body, loop.count, [lambda z: ops.exp(z) * z, lambda z: ops.tanh(z) + z], [y])
        loop.next(x, z)
        loop.next(y, ops.sin(x @ z))
    return compile(graph, [loop.result(x)])


def test_a_loop_is_one_iteration_with_its_buffers_and_branches_side_by_side(shown: Any) -> None:
    compiled = looped()
    page = shown(compiled.page("A loop"))
    bands = page.text_content("#loops")
    assert "one of 5 iterations" in bands
    assert "buffers take turns" in bands
    assert "case 0" in bands
    assert "case 1" in bands
    page.click("#loops button")
    assert page.evaluate("view.w < whole.w || view.w === whole.w")
    check_hover_and_search(page, compiled, "walk")
    picture(page, "page-loop")


def test_a_budget_shows_the_plan_before_and_what_is_computed_again(shown: Any) -> None:
    before = network("digits").training_step(8).compiled
    within = network("digits", memory_limit=before.memory().arena * 93 // 100).training_step(8).compiled
    page = shown(within.page("The digits network within 93 %", before=before))
    assert within.budget is not None
    assert f"{within.budget.repeated} steps computed again" in page.text_content("#again")
    picture(page, "page-budget")
    check_hover_and_search(page, within, "again")
    page.fill("#find", "")
    page.select_option("#plan", "0")
    assert page.text_content("#again") == ""
    assert f"{before.memory().arena:,} B" in page.text_content("#facts")


def test_a_hundred_thousand_blocks(shown: Any) -> None:
    blocks = tuple(Block(f"b{index}", 64, index // 100, index // 100 + 3) for index in range(100_000))
    offsets = tuple(index % 300 * 64 for index in range(100_000))
    plan = Plan(offsets, 19_200, 19_200, "", True, 0.0, Witness(0, tuple(range(100))))
    page = shown(memory_map(Problem(blocks), plan, "many"))
    page.fill("#find", "b4321")
    assert page.text_content("#found") == "11 of 100,000"
    page.keyboard.press("Escape")
    for _ in range(20):
        page.keyboard.press("+")
    page.mouse.move(*place_of(page, page.evaluate("blocks.findIndex((b) => b[LOWER] > view.x && b[ADDRESS] > view.y)")))
    assert "64 B" in page.text_content("#tip")


def test_names_of_others_do_nothing(shown: Any, call: Any, folder: Path) -> None:
    rows = "\n".join(f'"{name}",{at},{at + 2},64' for at, name in enumerate((EVIL.replace('"', '""'), "n" * 100_000)))
    (folder / "evil.csv").write_text(f"id,lower,upper,size\n{rows}\n", encoding="utf-8")
    assert call("viz", "evil.csv", "-o", "evil.html").code == 0
    text = (folder / "evil.html").read_text(encoding="utf-8")
    assert len(text) < 60_000
    page = shown(text)
    for name in page.locator("#peak button").all_text_contents():
        assert len(name) < 400
    page.click("#peak button >> nth=1")
    page.click("#peak button >> nth=0")
    assert page.title() == "evil.csv"
    assert "<script>" in page.text_content("#chosen")
    assert page.locator("img").count() == 0


def test_names_in_an_onnx_file_do_nothing(shown: Any, call: Any, folder: Path) -> None:
    onnx = pytest.importorskip("onnx")
    make = onnx.helper
    long = EVIL + "y" * 10_000_000
    ends = [make.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 4]) for name in (EVIL, long)]
    nodes = [make.make_node("Exp", [EVIL], ["h"], name=EVIL), make.make_node("Sin", ["h"], [long], name=long)]
    model = make.make_model(make.make_graph(nodes, EVIL, ends[:1], ends[1:]), opset_imports=[make.make_opsetid("", 20)])
    model.ir_version = 10
    onnx.save(model, str(folder / "evil.onnx"))
    assert call("plan", "evil.onnx", "--html", "evil.html").code == 0
    text = (folder / "evil.html").read_text(encoding="utf-8")
    assert len(text) < 60_000
    page = shown(text)
    page.click("#peak button")
    page.keyboard.press("2")
    assert page.title() == "evil.onnx"
    assert page.locator("img").count() == 0
