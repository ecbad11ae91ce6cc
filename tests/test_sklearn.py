"""Networks as scikit-learn estimators: its own checks, its pipelines and searches."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from nnc import nn
from nnc.errors import ArgumentError, DataError, MemoryLimitError
from nnc.sklearn import NNClassifier, NNRegressor

X, Y = load_iris(return_X_y=True)
# One batch an epoch: a program for training and one for prediction.
QUICK = {"hidden": (8,), "epochs": 12, "batch_size": 300, "optimizer": nn.Adam(0.1), "random_state": 0}


@pytest.mark.parametrize("estimator", [NNClassifier(**QUICK), NNRegressor(**QUICK)], ids=["classes", "numbers"])
def test_the_checks_of_scikit_learn_pass(estimator: BaseEstimator) -> None:
    check_estimator(estimator, on_skip=None)


def test_it_works_in_pipelines_searches_and_cross_validation() -> None:
    pipeline = make_pipeline(StandardScaler(), NNClassifier(**QUICK))
    assert cross_val_score(pipeline, X, Y, cv=3).mean() > 0.9
    search = GridSearchCV(pipeline, {"nnclassifier__epochs": [1, 20]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"nnclassifier__epochs": 20}
    assert search.score(X, Y) > 0.9


def test_classes_keep_their_names_and_probabilities_add_up_to_one() -> None:
    names = np.array(["setosa", "versicolor", "virginica"])
    flowers = NNClassifier(**QUICK).fit(X, names[Y])
    chances = flowers.predict_proba(X)
    assert flowers.classes_.tolist() == names.tolist()
    assert (flowers.predict(X) == names[chances.argmax(1)]).all()
    np.testing.assert_allclose(chances.sum(1), 1.0)


def test_the_same_seed_gives_the_same_bits_and_a_pickle_keeps_them() -> None:
    first, second = (clone(NNRegressor(**QUICK)).fit(X, Y) for _ in range(2))
    assert first.predict(X).tobytes() == second.predict(X).tobytes()
    assert pickle.loads(pickle.dumps(first)).predict(X).tobytes() == first.predict(X).tobytes()


def test_parts_of_the_data_may_come_one_after_the_other() -> None:
    parts = NNClassifier(**QUICK)
    for rows in np.array_split(np.arange(150), 3):
        parts.partial_fit(X[rows], Y[rows], classes=[0, 1, 2])
    assert parts.n_iter_ == len(parts.history_) == 3
    assert parts.predict_proba(X).shape == (150, 3)
    with pytest.raises(DataError, match="not in classes_"):
        parts.partial_fit(X[:2], [0, 7])


def test_a_layer_of_ones_own_and_several_targets() -> None:
    def layer(outputs: int) -> nn.Layer:
        return nn.Sequential(nn.Dense(6), nn.Tanh(), nn.Dense(outputs))

    both = NNRegressor(layer=layer, epochs=30, optimizer=nn.Adam(0.05), loss=nn.Huber(), random_state=0)
    x = StandardScaler().fit_transform(X)
    targets = x[:, 2:] * [1.0, 2.0]
    assert both.fit(x, targets).predict(x).shape == (150, 2)
    assert both.model_.parameter_count() == 4 * 6 + 6 + 6 * 2 + 2
    assert both.score(x, targets) > 0.9


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(NotFittedError):
        NNClassifier().predict(X)
    with pytest.raises(MemoryLimitError):
        NNClassifier(memory_limit=100).fit(X, Y)
    with pytest.raises(ArgumentError, match="epochs=-1"):
        NNRegressor(epochs=-1).fit(X, Y)
    with pytest.raises(ArgumentError, match="units='a'"):
        NNRegressor(hidden=("a",)).fit(X, Y)
