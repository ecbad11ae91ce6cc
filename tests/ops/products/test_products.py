"""Matrix products by NumPy's rules."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.eager import Eager

from nnc.errors import ShapeError
from nnc.ops import matmul

SHAPES = [
    ((3,), (3,)),
    ((3,), (3, 2)),
    ((4, 3), (3,)),
    ((4, 3), (3, 2)),
    ((5, 4, 3), (3, 2)),
    ((5, 4, 3), (5, 3, 2)),
    ((2, 1, 4, 3), (5, 3, 2)),
    ((3,), (5, 3, 2)),
    ((5, 4, 3), (3,)),
    ((0, 3), (3,)),
    ((2, 0), (0, 2)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_matmul_is_numpys(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    generator = np.random.default_rng(0)
    a, b = generator.standard_normal(left), generator.standard_normal(right)
    found = matmul(Eager(a), Eager(b))
    assert found.shape == (a @ b).shape
    np.testing.assert_allclose(found.array, a @ b, rtol=1e-12, atol=1e-12)


def test_a_scalar_has_no_matrix_product() -> None:
    with pytest.raises(ShapeError, match="need at least one axis each"):
        matmul(Eager(np.ones(())), Eager(np.ones(3)))
