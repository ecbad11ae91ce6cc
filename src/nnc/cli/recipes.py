"""How each data set is trained unless told otherwise: the network, the optimizer, how long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from nnc.core.spec import Shape
from nnc.errors import DataError
from nnc.nn import Adam, Cosine, Layer, Model
from nnc.nn.data import DataSet, Split
from nnc.nn.data.digits import TEST_EVERY
from nnc.nn.zoo import digits_network


@dataclass(frozen=True, slots=True)
class Recipe:
    """A network and its training.

    The rate falls over `falling` epochs and then stays low. It does not depend on how many epochs are asked for, so
    twenty epochs and twenty more are the same as forty. Every `test_every`-th example is for test.
    """

    network: Callable[[], Layer]
    input_shape: Shape
    test_every: int
    epochs: int
    batch_size: int
    rate: float
    last_rate: float
    falling: int
    decay: float

    def model(self, split: Split, batch_size: int, seed: int, backend: str, memory_limit: int | None = None) -> Model:
        """The untrained model; with a `memory_limit`, in bytes, the arena of each of its steps takes no more."""
        updates_per_epoch = -(-len(split.train) // batch_size)
        schedule = Cosine(self.rate, self.falling * updates_per_epoch, self.last_rate)
        optimizer = Adam(schedule, decay=self.decay, decoupled=True)
        return Model(
            self.network(),
            self.input_shape,
            optimizer=optimizer,
            seed=seed,
            backend=backend,
            memory_limit=memory_limit,
        )

    def locate(self, split: Split, index: int) -> tuple[DataSet, int]:
        """The part and the row of example `index` of the whole data set."""
        total = len(split.train) + len(split.test)
        if not 0 <= index < total:
            raise DataError("index", got=str(index), need=f"0 to {total - 1}")
        before = index // self.test_every
        return (split.test, before) if index % self.test_every == 0 else (split.train, index - before - 1)


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "digits": Recipe(
            digits_network,
            input_shape=(8, 8, 1),
            test_every=TEST_EVERY,
            epochs=20,
            batch_size=64,
            rate=3e-3,
            last_rate=1e-5,
            falling=20,
            decay=0.1,
        ),
    }
)
