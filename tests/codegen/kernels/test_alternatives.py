"""Alternatives differ from the first choice and from each other, and compute the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.backends.llvm.harness import check, random
from tests.codegen.kernels.convolutions.test_convolution_algorithms import operands, problem, sums
from tests.codegen.kernels.products.test_gemm import gemm

from nnc.backends.llvm.backend import LlvmBackend
from nnc.backends.llvm.run.host import host_target
from nnc.codegen.frame.row import view_of
from nnc.codegen.frame.tile import Tile, alike, alternatives, candidates, choose_tile
from nnc.codegen.ir.builder import BF16, F16, F32
from nnc.codegen.ir.target import Machine
from nnc.codegen.kernels.convolutions.convolution_algorithms import data_gradient, forward, weight_gradient
from nnc.codegen.kernels.products.gemm_plan import MAX_DEPTH
from nnc.codegen.kernels.products.gemv import matrix_times_vector
from nnc.codegen.kernels.table import ROWS
from nnc.core.values.command import Command
from nnc.core.values.spec import Blocked, spec
from nnc.ops.products.products import GEMM, GemmAttrs

TARGET = host_target()


def test_tiles_of_other_widths_that_cost_little_more() -> None:
    tiles = candidates(TARGET, F32)
    best = choose_tile(TARGET, F32, 200, 300)
    found = alternatives(tiles, lambda tile: tile.covering(200, 300), best)
    assert 1 <= len(found) <= 3
    assert len({tile.vectors for tile in (best, *found)}) == 1 + len(found)
    assert all(tile.covering(200, 300) <= 1.5 * best.covering(200, 300) for tile in found)
    assert alternatives(tiles[:1], lambda tile: 1.0, tiles[0]) == ()
    assert str(Tile(14, 2, 16)) == "14x2"


def test_few_registers_read_three_vectors_where_the_nearest_cache_holds_their_panel() -> None:
    product = gemm(random((512, 400)), random((400, 480)))
    few = replace(TARGET, vector_bits=256, vector_registers=16)
    for nearest, usual, other in ((48 << 10, "4x3", "tile-6x2"), (32 << 10, "6x2", "tile-4x3")):
        target = replace(few, machine=Machine(level_one_bytes=nearest))
        assert str(choose_tile(target, F32, alike(512), 480, 0, MAX_DEPTH)) == usual
        assert other in product.alternatives(target)
        assert f"tile-{usual}" not in product.alternatives(target)


def test_products_in_other_tiles_and_other_blocks() -> None:
    a, b = random((61, 1100)), random((1100, 150), seed=1)
    product = gemm(a, b)
    others = product.alternatives(TARGET)
    assert {name.split("-")[0] for name in others} == {"tile", "depth"}
    want = (a.astype(np.float64) @ b).astype(np.float32)
    for other in others.values():
        check(other, [a, b], [want], spread=40)
    assert not any(
        name.startswith("depth")
        for name in replace(product, problem=replace(product.problem, scalar=F16)).alternatives(TARGET)
    )


def test_a_vector_has_the_kernel_of_matrices_as_its_alternative() -> None:
    a, b = random((1, 90)), random((90, 70), seed=1)
    product = gemm(a, b)
    assert matrix_times_vector(product.problem) is not None
    assert product.alternatives(TARGET) == {"matrix": product}
    check(product, [a, b], [a @ b], spread=10)


@pytest.mark.parametrize("channels", [16, 40], ids=str)
def test_convolutions_by_every_algorithm(channels: int) -> None:
    c = problem(2, (9, 7), channels, (3, 3), 48, border=1)
    x, w, g = operands(c, np.float32)
    y, back, weights = (want.astype(np.float32) for want in sums(c, x, w, g))
    for ways, given, want in ((forward(c, bias=False), [x, w], y), (data_gradient(c), [g, w], back)):
        others = ways.alternatives(TARGET)
        assert {"direct"} < others.keys()
        assert ({"winograd-2", "winograd-4"} <= others.keys()) == (ways.tiles is not None and ways.tiles.fits)
        for other in others.values():
            check(other, given, [want], spread=100)
    others = weight_gradient(c).alternatives(TARGET)
    assert others
    for other in others.values():
        check(other, [x, g], [weights], spread=100)


def test_a_product_among_convolutions_has_both_kinds() -> None:
    c = problem(2, (6, 6), 24, (1, 1), 150)
    names = forward(c, bias=True).alternatives(TARGET).keys()
    assert "direct" in names
    assert any(name.startswith("tile") for name in names)
    assert any(name.startswith("tile") for name in weight_gradient(c).alternatives(TARGET))
    depthwise = problem(2, (8, 8), 8, (3, 3), 8, border=1, groups=8)
    assert weight_gradient(depthwise).alternatives(TARGET) == {}


def test_blocks_of_pairs_are_not_read_by_sums_that_have_none() -> None:
    """Where products are summed in pairs, sums written out are of an even depth alone; beside AMX never."""
    pairs, matrices = (replace(TARGET, pairs=not tiles, tiles=tiles) for tiles in (False, True))
    for target, channels, read in ((pairs, 24, True), (pairs, 25, False), (matrices, 32, False)):
        ways = forward(replace(problem(2, (6, 6), channels, (1, 1), 64), scalar=BF16), bias=False)
        assert ways.product is not None
        found = ways.product.packing(target)
        assert found is not None
        layout = Blocked((1, 1, channels, 64), 3, found[0].width, found[0].steps)
        assert layout.steps == 2
        assert ("direct" in ways.in_blocks(layout).alternatives(target)) == read
        assert "direct" in ways.alternatives(target)


def test_rows_drop_what_equals_the_first_choice() -> None:
    a, b, c = (view_of(spec(shape)) for shape in ((1, 64), (64, 32), (1, 32)))
    row = ROWS[GEMM]
    others = row.others(GemmAttrs(), [a, b], [c], TARGET)
    assert list(others) == ["matrix"]
    assert row.generator("matrix", GemmAttrs(), [a, b], [c], TARGET) == others["matrix"]
    first = row.generate(GemmAttrs(), [a, b], [c])
    for name in ("", "gone"):
        assert row.generator(name, GemmAttrs(), [a, b], [c], TARGET) == first


def test_kernels_of_variants_have_their_own_workspace() -> None:
    command, specs = Command(GEMM, GemmAttrs()), (spec((64, 600)), spec((600, 200)), None)
    kernels = LlvmBackend().variants(command, specs, (spec((64, 200)),))
    assert kernels
    assert all(kernel.workspace_bytes == 0 for kernel in kernels.values())
