"""`keras.datasets`: nothing is downloaded, so what answers is the data set that comes with nnc."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from nnc.core.precautions.origin import caller_origin
from nnc.errors import DataError
from nnc.nn.data.digits import load_digits


class digits:  # noqa: N801  # a module of Keras' kind
    """1,797 handwritten digits of 8 × 8 pixels."""

    @staticmethod
    def load_data() -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """((x_train, y_train), (x_test, y_test)): pixels 0..16 of u8 [n, 8, 8], digits of u8 [n].

        >>> from nnc import keras
        >>> (x_train, y_train), (x_test, y_test) = keras.datasets.digits.load_data()
        >>> x_train.shape, y_test.shape
        ((1437, 8, 8), (360,))
        """
        split = load_digits()

        def arrays(part: Any) -> tuple[Any, Any]:
            return np.round(part.inputs[..., 0] * 16).astype(np.uint8), part.labels.astype(np.uint8)

        return arrays(split.train), arrays(split.test)


class _Elsewhere:
    """A data set that Keras downloads."""

    def __init__(self, name: str) -> None:
        self.name = name

    def load_data(self, *args: Any, **options: Any) -> NoReturn:
        """DataError: it is not here."""
        fix = "keras.datasets.digits.load_data(), or np.load of a file that you have"
        raise DataError(
            f"keras.datasets.{self.name}", got="a data set that is downloaded", need="one that is here", fix=fix,
            origin=caller_origin(),
        )  # fmt: skip


mnist, fashion_mnist, cifar10, cifar100, imdb, reuters, boston_housing, california_housing = map(
    _Elsewhere,
    ("mnist", "fashion_mnist", "cifar10", "cifar100", "imdb", "reuters", "boston_housing", "california_housing"),
)
