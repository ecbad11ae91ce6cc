"""`nnc train table` beside scikit-learn on the data sets that scikit-learn brings: one JSON line each.

    python -m benchmarks.tables [NAME …]

Five splits, each with every fifth row for the test, the same rows for all. Scores are means over the splits: accuracy,
or R² where the target is a number, in points of a hundred. Peers get standardized columns and their own defaults.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from nnc.cli.programs.table import TEST_EVERY
from nnc.cli.recipe import Arguments
from nnc.cli.training import Options, prepare

SPLITS = 5
DATA: dict[str, Callable[..., Any]] = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast_cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
    "diabetes": datasets.load_diabetes,
}
PEERS: dict[bool, dict[str, Callable[[], Any]]] = {
    True: {
        "LogisticRegression": LogisticRegression,
        "SVC": SVC,
        "MLPClassifier": lambda: MLPClassifier(random_state=0),
        "RandomForestClassifier": lambda: RandomForestClassifier(random_state=0),
    },
    False: {
        "RidgeCV": RidgeCV,
        "SVR": SVR,
        "MLPRegressor": lambda: MLPRegressor(random_state=0),
        "RandomForestRegressor": lambda: RandomForestRegressor(random_state=0),
    },
}


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    for name in names or DATA:
        x, y = DATA[name](return_X_y=True)
        print(json.dumps({"data": name, "rows": len(x), "columns": x.shape[1], **compared(x, y)}), flush=True)


def compared(x: np.ndarray, y: np.ndarray) -> dict[str, object]:
    classes = y.dtype.kind == "i"
    ours, theirs, began = [], {name: [] for name in PEERS[classes]}, perf_counter()
    for split in range(SPLITS):
        rows = np.roll(np.arange(len(x)), -split)
        ours.append(trained(x[rows], y[rows]))
    seconds = (perf_counter() - began) / SPLITS
    for split in range(SPLITS):
        rows = np.roll(np.arange(len(x)), -split)
        held = np.arange(len(x)) % TEST_EVERY == 0
        for name, make in PEERS[classes].items():
            peer = make_pipeline(StandardScaler(), make()).fit(x[rows][~held], y[rows][~held])
            theirs[name].append(100 * peer.score(x[rows][held], y[rows][held]))
    means = {name: round(float(np.mean(scores)), 2) for name, scores in theirs.items()}
    best = max(means, key=means.__getitem__)
    score = round(float(np.mean(ours)), 2)
    return {
        "score": "accuracy" if classes else "r2",
        "ours": score,
        "seconds": round(seconds, 1),
        "scikit-learn": means,
        "best": best,
        "points_above_best": round(score - means[best], 2),
    }


def trained(x: np.ndarray, y: np.ndarray) -> float:
    """What `nnc train table FILE.csv --target y` prints as its score."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*(f"x{column}" for column in range(x.shape[1])), "y"])
            writer.writerows([*map(repr, map(float, row)), target] for row, target in zip(x, y.tolist(), strict=True))
        training = prepare(Options("table", Path(folder) / "a.safetensors", Arguments((str(path),), "y")))
        training.run(lambda progress, speed: None, lambda: False)
        return 100 * training.evaluate().score


if __name__ == "__main__":
    main(sys.argv[1:])
