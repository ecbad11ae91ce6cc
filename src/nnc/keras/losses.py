"""Losses under Keras' names: `loss(y_true, y_pred, sample_weight)`, of probabilities unless `from_logits=True`.

A loss is the sum of weight · loss of each example (and place), divided by how many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, ClassVar, Literal, TypeAlias

from nnc.arguments import Positive, Probability
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import F32
from nnc.dynamic.arrays.array import ArrayOperand
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
from nnc.keras.named import Remembered, named, snake_case
from nnc.nn.functional import Values

Reduction: TypeAlias = Literal["sum_over_batch_size", "sum", "mean", "none", "mean_with_sample_weight", "auto"]
LossFunction: TypeAlias = Callable[..., ArrayOperand]


class Loss(Remembered):
    """`loss(y_true, y_pred, sample_weight=None)`: subclasses say `call`, a number for each example.

    >>> from nnc import keras
    >>> keras.losses.MeanSquaredError()([[1.0], [2.0]], [[1.0], [4.0]]).item()
    2.0
    >>> keras.losses.MeanSquaredError()([[1.0], [2.0]], [[1.0], [4.0]], sample_weight=[1.0, 0.5]).item()
    1.0
    """

    function: ClassVar[LossFunction]

    def __init_subclass__(cls, of: LossFunction | None = None) -> None:
        super().__init_subclass__()
        if of is not None:
            cls.function = staticmethod(of)

    def __init__(
        self, name: str | None = None, reduction: Reduction = "sum_over_batch_size", dtype: Any = None, **told: Any
    ) -> None:
        self.name = name or type(self).__name__
        self.reduction = "sum_over_batch_size" if reduction in ("auto", "mean") else reduction
        known = signature(type(self).function).parameters if hasattr(type(self), "function") else {}
        unknown = sorted(told.keys() - known)
        if unknown:
            got, need = f"{unknown[0]}={told[unknown[0]]!r}", f"options of {type(self).__name__}"
            raise ArgumentError(type(self).__name__, got=got, need=need, origin=caller_origin())
        # What the function is told beside targets and outputs.
        self.told = told

    def call(self, y_true: Values, y_pred: Values) -> ArrayOperand:
        """A number for each example."""
        return type(self).function(y_true, y_pred, **self.told)

    def __call__(self, y_true: Values, y_pred: Values, sample_weight: Values | None = None) -> ArrayOperand:
        """The loss, as it is reduced; steps that layers have masked count for nothing."""
        return reduced(self.call(y_true, y_pred), sample_weight, self.reduction, mask_of(y_pred))


class MeanSquaredError(Loss, of=mean_squared_error):
    """mean (y_pred - y_true)²"""


class MeanAbsoluteError(Loss, of=mean_absolute_error):
    """mean |y_pred - y_true|"""


class MeanAbsolutePercentageError(Loss, of=mean_absolute_percentage_error):
    """100 · mean |y_pred - y_true| / |y_true|"""


class MeanSquaredLogarithmicError(Loss, of=mean_squared_logarithmic_error):
    """mean (ln(1 + y_pred) - ln(1 + y_true))²"""


class LogCosh(Loss, of=log_cosh):
    """mean ln cosh(y_pred - y_true)"""


class Poisson(Loss, of=poisson):
    """mean y_pred - y_true · ln y_pred"""


class KLDivergence(Loss, of=kl_divergence):
    """Σ y_true · ln(y_true / y_pred)"""


class Hinge(Loss, of=hinge):
    """mean max(1 - y_true · y_pred, 0)"""


class SquaredHinge(Loss, of=squared_hinge):
    """mean max(1 - y_true · y_pred, 0)²"""


class CategoricalHinge(Loss, of=categorical_hinge):
    """max(largest of the others - that of the class + 1, 0)"""


class Huber(Loss, of=huber):
    """mean of d² / 2 where |d| ≤ delta, else delta · |d| - delta² / 2"""

    def __init__(self, delta: Positive = 1.0, **options: Any) -> None:
        super().__init__(delta=delta, **options)


class CosineSimilarity(Loss, of=cosine_similarity):
    """-Σ of the product of unit vectors along the axis"""

    def __init__(self, axis: int = -1, **options: Any) -> None:
        super().__init__(axis=axis, **options)

    def call(self, y_true: Values, y_pred: Values) -> ArrayOperand:
        """Minus the similarity."""
        return -super().call(y_true, y_pred)


class BinaryCrossentropy(Loss, of=binary_crossentropy):
    """-t ln p - (1 - t) ln(1 - p), of probabilities, or of logits"""

    def __init__(self, from_logits: bool = False, label_smoothing: Probability = 0.0, **options: Any) -> None:
        super().__init__(from_logits=from_logits, label_smoothing=label_smoothing, **options)


class BinaryFocalCrossentropy(Loss, of=binary_focal_crossentropy):
    """(1 - p of the right class)^gamma times the binary cross entropy"""

    def __init__(
        self, apply_class_balancing: bool = False, alpha: float = 0.25, gamma: float = 2.0, from_logits: bool = False,
        **options: Any,
    ) -> None:  # fmt: skip
        options |= {"apply_class_balancing": apply_class_balancing, "alpha": alpha, "gamma": gamma}
        super().__init__(from_logits=from_logits, **options)


class CategoricalCrossentropy(Loss, of=categorical_crossentropy):
    """-Σ t · ln p, of shares of classes"""

    def __init__(
        self, from_logits: bool = False, label_smoothing: Probability = 0.0, axis: int = -1, **options: Any
    ) -> None:
        super().__init__(from_logits=from_logits, label_smoothing=label_smoothing, axis=axis, **options)


class SparseCategoricalCrossentropy(Loss, of=sparse_categorical_crossentropy):
    """-ln p of the class, a number"""

    def __init__(
        self, from_logits: bool = False, ignore_class: int | None = None, axis: int = -1, **options: Any
    ) -> None:
        super().__init__(from_logits=from_logits, ignore_class=ignore_class, axis=axis, **options)


class FunctionLoss(Loss):
    """Any function of (y_true, y_pred) that gives a number for each example, or one for all."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__(getattr(function, "__name__", "loss"))
        self.of_examples = function

    def call(self, y_true: Values, y_pred: Values) -> ArrayOperand:
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
    "logcosh": LogCosh, "huber_loss": Huber, "bce": BinaryCrossentropy,
}  # fmt: skip
NAMES: dict[str, type[Loss]] = {
    **{kind.__name__: kind for kind in CLASSES}, **{snake_case(kind.__name__): kind for kind in CLASSES}, **SHORT
}  # fmt: skip
mse, mae, mape, msle, kld = (
    mean_squared_error, mean_absolute_error, mean_absolute_percentage_error, mean_squared_logarithmic_error,
    kl_divergence,
)  # fmt: skip


def get(value: object) -> Loss | None:
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
