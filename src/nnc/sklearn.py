"""Models as scikit-learn estimators: in pipelines, searches and cross validation. Extra: `pip install 'nnc[sklearn]'`.

predict_proba(x) = softmax(layer(x)) for classes; predict(x) = layer(x) for numbers
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from nnc.core.precautions.named_functions import HoldsFunctions
from nnc.errors import DataError
from nnc.nn import Callback, Dense, History, Layer, Loss, MeanSquaredError, Model, Optimizer, ReLU, Sequential
from nnc.nn.training.training import Listener

Array = NDArray[np.generic]
# What makes the layer for so many outputs.
LayerMaker = Callable[[int], Layer]


class _Network(HoldsFunctions, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators share; options are looked at by `fit`, as scikit-learn asks for.

    The network has `hidden` dense layers with ReLU, or is what `layer` makes for a number of outputs. Options that are
    None are those of `nnc.nn.Model`. After `fit`, `model_` is the model and `history_` its figures, a row per epoch.
    """

    model_: Model
    history_: History

    def __init__(
        self,
        hidden: Sequence[int] = (64,),
        *,
        layer: LayerMaker | None = None,
        epochs: int = 100,
        batch_size: int = 32,
        optimizer: Optimizer | None = None,
        loss: Loss | None = None,
        callbacks: Iterable[Callback | Listener] = (),
        memory_limit: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.hidden = hidden
        self.layer = layer
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.loss = loss
        self.callbacks = callbacks
        self.memory_limit = memory_limit
        self.random_state = random_state

    def _made(self, features: int, outputs: int) -> Model:
        hidden = [part for units in self.hidden for part in (Dense(units), ReLU())]
        layer = Sequential(*hidden, Dense(outputs)) if self.layer is None else self.layer(outputs)
        loss = self.loss or (MeanSquaredError() if isinstance(self, RegressorMixin) else None)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return Model(layer, (features,), loss=loss, optimizer=self.optimizer, seed=seed, memory_limit=self.memory_limit)

    def _trained(self, inputs: Array, targets: Array, epochs: int) -> Self:
        history = self.model_.fit(
            inputs, targets, epochs=epochs, batch_size=self.batch_size, callbacks=tuple(self.callbacks)
        )
        self.history_ = History([*self.history_.rows, *history.rows], history.complete, history.reason)
        return self

    @property
    def n_iter_(self) -> int:
        """Epochs that were trained."""
        return len(self.history_)

    def _outputs(self, values: ArrayLike) -> NDArray[np.float64]:
        """The layer's output for each row, in batches of one size: whatever stands beside it, a row gives the same."""
        check_is_fitted(self)
        inputs = validate_data(self, values, dtype=np.float32, reset=False)
        filling = np.zeros((-len(inputs) % self.batch_size, inputs.shape[1]), inputs.dtype)
        outputs = self.model_.predict(np.concatenate([inputs, filling]), self.batch_size)[: len(inputs)]
        return np.asarray(outputs, np.float64)


class NNClassifier(ClassifierMixin, _Network):  # type: ignore[misc]  # scikit-learn has no types
    """A network that tells classes, whatever they are called: numbers, texts, truth values.

    >>> x, y = np.array([[0.0], [1.0]] * 8), np.array(["no", "yes"] * 8)
    >>> NNClassifier((8,), epochs=60, random_state=0).fit(x, y).predict([[0.0], [1.0]]).tolist()
    ['no', 'yes']
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803 - scikit-learn's name
        """Train a new model."""
        inputs, labels = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(labels)
        self._begin(inputs, np.unique(labels))
        return self._trained(inputs, self._places(labels), self.epochs)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:  # noqa: N803
        """One more epoch, with these examples; the first call may name classes that come later."""
        first = not hasattr(self, "model_")
        inputs, labels = validate_data(self, X, y, dtype=np.float32, reset=first)
        check_classification_targets(labels)
        if first:
            self._begin(inputs, np.unique(labels if classes is None else classes))
        return self._trained(inputs, self._places(labels), 1)

    def predict(self, X: ArrayLike) -> Array:  # noqa: N803 - scikit-learn's name
        """The class of each row."""
        places = self._outputs(X).argmax(1)
        labels: Array = self.classes_[places]
        return labels

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803 - scikit-learn's name
        """p[n, class], in the order of `classes_`."""
        logits = self._outputs(X)
        powers = np.exp(logits - logits.max(1, keepdims=True))
        shares: NDArray[np.float64] = powers / powers.sum(1, keepdims=True)
        return shares

    def _begin(self, inputs: Array, classes: Array) -> None:
        self.classes_, self.history_ = classes, History()
        self.model_ = self._made(inputs.shape[1], len(classes))

    def _places(self, labels: Array) -> NDArray[np.int32]:
        unknown = np.setdiff1d(labels, self.classes_)
        if unknown.size:
            raise DataError("partial_fit", got="a class that is not in classes_", need="the classes of the first call")
        return np.searchsorted(self.classes_, labels).astype(np.int32)


class NNRegressor(RegressorMixin, _Network):  # type: ignore[misc]  # scikit-learn has no types
    """A network that gives a number for each row, or as many as `y` has columns.

    >>> x = np.linspace(-1, 1, 64)[:, None]
    >>> bool(NNRegressor((32,), epochs=300, random_state=0).fit(x, x[:, 0] ** 2).score(x, x[:, 0] ** 2) > 0.5)
    True
    """

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803 - scikit-learn's name
        """Train a new model."""
        inputs, targets = validate_data(self, X, y, dtype=np.float32, multi_output=True, y_numeric=True)
        self._begin(inputs, targets)
        return self._trained(inputs, targets, self.epochs)

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803 - scikit-learn's name
        """One more epoch, with these examples."""
        first = not hasattr(self, "model_")
        inputs, targets = validate_data(self, X, y, dtype=np.float32, multi_output=True, y_numeric=True, reset=first)
        if first:
            self._begin(inputs, targets)
        return self._trained(inputs, targets, 1)

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803 - scikit-learn's name
        """y[n], or y[n, column]."""
        labels = self._outputs(X)
        return labels[:, 0] if self._single else labels

    def _begin(self, inputs: Array, targets: Array) -> None:
        self._single, self.history_ = targets.ndim == 1, History()
        self.model_ = self._made(inputs.shape[1], 1 if self._single else targets.shape[1])
