"""Losses under Keras' names: `loss(y_true, y_pred, sample_weight)`, of probabilities unless `from_logits=True`.

A loss is the sum of weight · loss of each example (and place), divided by how many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeAlias

from nnc.arguments import Positive, Probability, checked
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import F32
from nnc.dynamic.eager import as_operand
from nnc.errors import ArgumentError
from nnc.keras.loss_functions import as_single, reduced, same_rank
from nnc.keras.loss_functions import binary_crossentropy as binary_crossentropy
from nnc.keras.loss_functions import binary_focal_crossentropy as binary_focal_crossentropy
from nnc.keras.loss_functions import categorical_crossentropy as categorical_crossentropy
from nnc.keras.loss_functions import categorical_hinge as categorical_hinge
from nnc.keras.loss_functions import cosine_similarity as cosine_similarity
from nnc.keras.loss_functions import hinge as hinge
from nnc.keras.loss_functions import huber as huber
from nnc.keras.loss_functions import kl_divergence as kl_divergence
from nnc.keras.loss_functions import log_cosh as log_cosh
from nnc.keras.loss_functions import mean_absolute_error as mean_absolute_error
from nnc.keras.loss_functions import mean_absolute_percentage_error as mean_absolute_percentage_error
from nnc.keras.loss_functions import mean_squared_error as mean_squared_error
from nnc.keras.loss_functions import mean_squared_logarithmic_error as mean_squared_logarithmic_error
from nnc.keras.loss_functions import poisson as poisson
from nnc.keras.loss_functions import sparse_categorical_crossentropy as sparse_categorical_crossentropy
from nnc.keras.loss_functions import squared_hinge as squared_hinge
from nnc.keras.masks import mask_of
from nnc.keras.named import Remembered, named

Reduction: TypeAlias = Literal["sum_over_batch_size", "sum", "mean", "none", "mean_with_sample_weight", "auto"]


class Loss(Remembered):
    """`loss(y_true, y_pred, sample_weight=None)`: subclasses say `call`, a number for each example.

    >>> from nnc import keras
    >>> keras.losses.MeanSquaredError()([[1.0], [2.0]], [[1.0], [4.0]]).item()
    2.0
    >>> keras.losses.MeanSquaredError()([[1.0], [2.0]], [[1.0], [4.0]], sample_weight=[1.0, 0.5]).item()
    1.0
    """

    function: ClassVar[Callable[..., Any] | None] = None

    def __init__(
        self, name: str | None = None, reduction: Reduction = "sum_over_batch_size", dtype: Any = None
    ) -> None:
        self.name = name or type(self).__name__
        self.reduction = "sum_over_batch_size" if reduction in ("auto", "mean") else reduction

    def options(self) -> dict[str, Any]:
        """What the function is told."""
        return {}

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """A number for each example."""
        assert self.function is not None
        return type(self).function(y_true, y_pred, **self.options())  # type: ignore[misc]  # a function, looked at above

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """The loss, as it is reduced; steps that layers have masked count for nothing."""
        return reduced(self.call(y_true, y_pred), sample_weight, self.reduction, mask_of(y_pred))


class MeanSquaredError(Loss):
    """mean (y_pred - y_true)²"""

    function = staticmethod(mean_squared_error)


class MeanAbsoluteError(Loss):
    """mean |y_pred - y_true|"""

    function = staticmethod(mean_absolute_error)


class MeanAbsolutePercentageError(Loss):
    """100 · mean |y_pred - y_true| / |y_true|"""

    function = staticmethod(mean_absolute_percentage_error)


class MeanSquaredLogarithmicError(Loss):
    """mean (ln(1 + y_pred) - ln(1 + y_true))²"""

    function = staticmethod(mean_squared_logarithmic_error)


class LogCosh(Loss):
    """mean ln cosh(y_pred - y_true)"""

    function = staticmethod(log_cosh)


class Poisson(Loss):
    """mean y_pred - y_true · ln y_pred"""

    function = staticmethod(poisson)


class KLDivergence(Loss):
    """Σ y_true · ln(y_true / y_pred)"""

    function = staticmethod(kl_divergence)


class Hinge(Loss):
    """mean max(1 - y_true · y_pred, 0)"""

    function = staticmethod(hinge)


class SquaredHinge(Loss):
    """mean max(1 - y_true · y_pred, 0)²"""

    function = staticmethod(squared_hinge)


class CategoricalHinge(Loss):
    """max(largest of the others - that of the class + 1, 0)"""

    function = staticmethod(categorical_hinge)


@checked
class Huber(Loss):
    """mean of d² / 2 where |d| ≤ delta, else delta · |d| - delta² / 2"""

    function = staticmethod(huber)

    def __init__(self, delta: Positive = 1.0, **options: Any) -> None:
        super().__init__(**options)
        self.delta = delta

    def options(self) -> dict[str, Any]:
        """The threshold."""
        return {"delta": self.delta}


@checked
class CosineSimilarity(Loss):
    """-Σ of the product of unit vectors along the axis"""

    def __init__(self, axis: int = -1, **options: Any) -> None:
        super().__init__(**options)
        self.axis = axis

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Minus the similarity."""
        return -cosine_similarity(y_true, y_pred, self.axis)


@checked
class BinaryCrossentropy(Loss):
    """-t ln p - (1 - t) ln(1 - p), of probabilities, or of logits"""

    function = staticmethod(binary_crossentropy)

    def __init__(self, from_logits: bool = False, label_smoothing: Probability = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self.from_logits, self.label_smoothing = from_logits, label_smoothing

    def options(self) -> dict[str, Any]:
        """What it is of."""
        return {"from_logits": self.from_logits, "label_smoothing": self.label_smoothing}


@checked
class BinaryFocalCrossentropy(Loss):
    """(1 - p of the right class)^gamma times the binary cross entropy"""

    function = staticmethod(binary_focal_crossentropy)

    def __init__(
        self, apply_class_balancing: bool = False, alpha: float = 0.25, gamma: float = 2.0, from_logits: bool = False,
        **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(**options)
        self.chosen = {
            "apply_class_balancing": apply_class_balancing, "alpha": alpha, "gamma": gamma, "from_logits": from_logits
        }  # fmt: skip

    def options(self) -> dict[str, Any]:
        """What it is of."""
        return self.chosen


@checked
class CategoricalCrossentropy(Loss):
    """-Σ t · ln p, of shares of classes"""

    function = staticmethod(categorical_crossentropy)

    def __init__(
        self, from_logits: bool = False, label_smoothing: Probability = 0.0, axis: int = -1, **options: Any
    ) -> None:
        super().__init__(**options)
        self.from_logits, self.label_smoothing, self.axis = from_logits, label_smoothing, axis

    def options(self) -> dict[str, Any]:
        """What it is of."""
        return {"from_logits": self.from_logits, "label_smoothing": self.label_smoothing, "axis": self.axis}


@checked
class SparseCategoricalCrossentropy(Loss):
    """-ln p of the class, a number"""

    function = staticmethod(sparse_categorical_crossentropy)

    def __init__(
        self, from_logits: bool = False, ignore_class: int | None = None, axis: int = -1, **options: Any
    ) -> None:
        super().__init__(**options)
        self.from_logits, self.ignore_class, self.axis = from_logits, ignore_class, axis

    def options(self) -> dict[str, Any]:
        """What it is of."""
        return {"from_logits": self.from_logits, "ignore_class": self.ignore_class, "axis": self.axis}


class FunctionLoss(Loss):
    """Any function of (y_true, y_pred) that gives a number for each example, or one for all."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__(getattr(function, "__name__", "loss"))
        self.of_examples = function

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """What the function gives."""
        given, wanted = as_single(y_pred), as_single(y_true)
        if wanted.dtype.is_continuous and wanted.dtype is not given.dtype:
            wanted = wanted.astype(given.dtype)
        wanted, given = same_rank(wanted, given)
        each = as_operand(self.of_examples(wanted, given))
        return each if each.dtype.is_float else each.astype(F32)


CLASSES: tuple[type[Loss], ...] = (
    MeanSquaredError, MeanAbsoluteError, MeanAbsolutePercentageError, MeanSquaredLogarithmicError, LogCosh, Poisson,
    KLDivergence, Hinge, SquaredHinge, CategoricalHinge, Huber, CosineSimilarity, BinaryCrossentropy,
    BinaryFocalCrossentropy, CategoricalCrossentropy, SparseCategoricalCrossentropy,
)  # fmt: skip
SHORT = {
    "mse": MeanSquaredError, "mae": MeanAbsoluteError, "mape": MeanAbsolutePercentageError,
    "msle": MeanSquaredLogarithmicError, "kld": KLDivergence, "kullback_leibler_divergence": KLDivergence,
    "logcosh": LogCosh, "log_cosh": LogCosh, "mean_squared_error": MeanSquaredError,
    "mean_absolute_error": MeanAbsoluteError, "mean_absolute_percentage_error": MeanAbsolutePercentageError,
    "mean_squared_logarithmic_error": MeanSquaredLogarithmicError, "poisson": Poisson, "kl_divergence": KLDivergence,
    "hinge": Hinge, "squared_hinge": SquaredHinge, "categorical_hinge": CategoricalHinge, "huber": Huber,
    "huber_loss": Huber, "cosine_similarity": CosineSimilarity,
    "binary_crossentropy": BinaryCrossentropy, "bce": BinaryCrossentropy,
    "binary_focal_crossentropy": BinaryFocalCrossentropy, "categorical_crossentropy": CategoricalCrossentropy,
    "sparse_categorical_crossentropy": SparseCategoricalCrossentropy,
}  # fmt: skip
NAMES: dict[str, type[Loss]] = {kind.__name__: kind for kind in CLASSES} | SHORT
mse, mae, mape, msle, kld = (
    mean_squared_error, mean_absolute_error, mean_absolute_percentage_error, mean_squared_logarithmic_error,
    kl_divergence,
)  # fmt: skip


def get(value: Any) -> Loss | None:
    """The loss of that name, or the object itself; a function of (y_true, y_pred) as a loss.

    >>> from nnc import keras
    >>> keras.losses.get("mse").name
    'MeanSquaredError'
    """
    if value is None or isinstance(value, Loss):
        return value
    if isinstance(value, str):
        return named("loss", value, NAMES)()
    if isinstance(value, type) and issubclass(value, Loss):
        return value()
    if callable(value):
        return FunctionLoss(value)
    got, need = f"loss={value!r}", 'a name such as "mse", a Loss, or a function of (y_true, y_pred)'
    raise ArgumentError("compile", got=got, need=need, origin=caller_origin())
