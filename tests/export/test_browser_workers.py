"""Workers of a module of WebAssembly, in node and in Chromium: the bits of one, sizes, ends, errors."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.browser import opened_browser, served
from tests.export.compiled_c import tool

from nnc import export, nn

X = np.random.default_rng(0).random((2, 16, 16, 3), np.float32)
GIVEN = f"const x = new Float32Array({json.dumps(X.ravel().tolist())});"
# What pages ask for who share memory with workers.
ISOLATED = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}
PAGE = f"""<!doctype html><pre id="told"></pre><script type="module">
  import {{ load }} from "./net.mjs";
  {GIVEN}
  const net = await load({{ workers: 2 }});
  const {{ output }} = net.run({{ input: x }});
  document.getElementById("told").textContent = JSON.stringify([net.workers, Array.from(output)]);
  document.title = "told";
</script>"""


@pytest.fixture(scope="module")
def model() -> nn.Model:
    layers = nn.Sequential(nn.Convolution(16), nn.ReLU(), nn.Convolution(16), nn.ReLU(), nn.Flatten(), nn.Dense(10))
    return nn.Model(layers, (16, 16, 3))


@pytest.fixture(scope="module")
def folder(model: nn.Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("net")
    export.library(model, "net", target="browser", batch=(1, 2), pool=True).write(place)
    (place / "index.html").write_text(PAGE)
    return place


def test_any_number_of_workers_gives_the_same_bits_at_each_size(model: nn.Model, folder: Path) -> None:
    (folder / "bits.mjs").write_text(f"""
        import {{ load }} from "./net.mjs";
        {GIVEN}
        const made = [], half = x.subarray(0, x.length / 2);
        for (const workers of [1, 2, 3]) {{
            const net = await load({{ workers }}), rows = [];
            for (const input of [x, half, x]) rows.push(Array.from(net.run({{ input }}).output));
            net.close();
            rows.push(Array.from(net.run({{ input: x }}).output));
            made.push([net.workers, rows]);
        }}
        for (const workers of [0, 65, 1.5]) await load({{ workers }}).catch((error) => made.push(String(error)));
        console.log(JSON.stringify(made));
    """)
    ran = subprocess.run([tool("node"), "bits.mjs"], cwd=folder, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    *made, none, many, broken = json.loads(ran.stdout)
    assert [workers for workers, _ in made] == [1, 1, 1]  # behind close()
    assert all(rows == made[0][1] for _, rows in made)
    two, one, again, alone = made[0][1]
    assert two == again == alone
    np.testing.assert_allclose(np.reshape(two, (2, 10)), model.predict(X), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.reshape(one, (1, 10)), model.predict(X[:1]), rtol=1e-4, atol=1e-5)
    assert none == "RangeError: workers: got 0; need 1 to 64"
    assert (many, broken) == (none.replace("got 0", "got 65"), none.replace("got 0", "got 1.5"))


def test_the_recorded_answers_are_met_by_two_workers(folder: Path) -> None:
    ran = subprocess.run([tool("node"), "check.mjs"], cwd=folder, capture_output=True, text=True, timeout=100)
    assert (ran.returncode, ran.stdout) == (0, "net: the recorded answers\n"), ran.stderr


@pytest.fixture(scope="module")
def browser() -> Any:
    with opened_browser() as opened:
        yield opened


@pytest.mark.parametrize(("headers", "workers"), [(ISOLATED, 2), ({}, 1)])
def test_a_page_has_workers_where_it_may_share_memory(
    browser: Any, model: nn.Model, folder: Path, headers: dict[str, str], workers: int
) -> None:
    with served(folder, headers) as address:
        page = browser.new_page()
        page.goto(address)
        page.wait_for_function('document.title === "told"')
        counted, output = json.loads(page.locator("#told").inner_text())
        page.close()
    assert counted == workers
    np.testing.assert_allclose(np.reshape(output, (2, 10)), model.predict(X), rtol=1e-4, atol=1e-5)
