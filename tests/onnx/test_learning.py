"""Operators of ai.onnx.ml: trees, linear models and what prepares their rows, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.onnx.models import node

import onnx
from nnc import ops
from nnc.errors import UsageError
from nnc.onnx import load
from nnc.symbolic import backward
from onnx import helper

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((20, 4)).astype(np.float32)
GAPS = np.where(RANDOM.random((20, 4)) < 0.3, np.nan, X).astype(np.float32)
KINDS = {"f": onnx.TensorProto.FLOAT, "i": onnx.TensorProto.INT64, "t": onnx.TensorProto.STRING}
Arrays = list[NDArray[Any]]
ML = "ai.onnx.ml"


def made(operator: str, given: Arrays, outputs: str, **attributes: Any) -> onnx.ModelProto:
    """A model of one node; `outputs` has a letter for the kind of each."""
    inputs = [
        helper.make_tensor_value_info(f"x{place}", helper.np_dtype_to_tensor_dtype(one.dtype), one.shape)
        for place, one in enumerate(given)
    ]
    results = [helper.make_tensor_value_info(f"y{place}", KINDS[kind], None) for place, kind in enumerate(outputs)]
    names = [" ".join(one.name for one in each) for each in (inputs, results)]
    nodes = [node(operator, *names, domain=ML, **attributes)]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(ML, 3)]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, results), opset_imports=opsets, ir_version=9)


class Forest:
    """Random trees as the lists of TreeEnsembleClassifier and TreeEnsembleRegressor."""

    def __init__(self, count: int, mode: str, seed: int, *, missing: bool = False) -> None:
        self.random = np.random.default_rng(seed)
        self.mode, self.missing = mode, missing
        self.nodes: dict[str, list[Any]] = {}
        self.leaves: list[tuple[int, int]] = []
        for tree in range(count):
            self.grow(tree, 0, iter(range(1, 1000)), 4)

    def grow(self, tree: int, node: int, numbers: Any, depth: int) -> None:
        leaf = depth == 0 or self.random.random() < 0.2
        true, false = (0, 0) if leaf else (next(numbers), next(numbers))
        row = {
            "treeids": tree, "nodeids": node, "modes": "LEAF" if leaf else self.mode,
            "featureids": int(self.random.integers(0, 4)), "values": float(self.random.standard_normal()),
            "truenodeids": true, "falsenodeids": false,
            "missing_value_tracks_true": int(self.missing and self.random.random() < 0.5),
        }  # fmt: skip
        for name, value in row.items():
            self.nodes.setdefault(f"nodes_{name}", []).append(value)
        if leaf:
            self.leaves.append((tree, node))
            return
        self.grow(tree, true, numbers, depth - 1)
        self.grow(tree, false, numbers, depth - 1)

    def lists(self, kind: str, targets: list[int], *, each: bool, positive: bool = False) -> dict[str, list[Any]]:
        """Weights of one target per tree, or of every target in each leaf."""
        rows = [
            (*leaf, target)
            for leaf in self.leaves
            for target in (targets if each else [targets[leaf[0] % len(targets)]])
        ]
        weights = self.random.standard_normal(len(rows))
        columns = {name: [row[place] for row in rows] for place, name in enumerate(("treeids", "nodeids", "ids"))}
        columns["weights"] = (np.abs(weights) if positive else weights).tolist()
        return {**self.nodes, **{f"{kind}_{name}": one for name, one in columns.items()}}


MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
REGRESSORS = {
    f"regressor {how} {mode} {'each leaf' if each else 'a tree each'}": made(
        "TreeEnsembleRegressor", [GAPS], "f", n_targets=3, aggregate_function=how, base_values=[0.1, 0.2, 0.3],
        **Forest(7, mode, place, missing=True).lists("target", [0, 1, 2], each=each),
    )
    for place, (how, mode, each) in enumerate(
        [(how, "BRANCH_LEQ", each) for how in ("SUM", "AVERAGE", "MIN", "MAX") for each in (True, False)]
        + [("SUM", mode, False) for mode in MODES[1:]]
    )
}  # fmt: skip
LABELS: dict[str, Any] = {"it": {"classlabels_int64s": [10, 11, 12]}, "tt": {"classlabels_strings": ["a", "b", "c"]}}
CLASSIFIERS = {
    f"classifier {change} of {classes} classes, labels {kind[0]}": made(
        "TreeEnsembleClassifier", [X], f"{kind[0]}f", post_transform=change,
        **{name: one[:classes] for name, one in LABELS[kind].items()},
        **Forest(6, "BRANCH_LEQ", classes).lists("class", targets, each=False, positive=positive),
    )
    for change in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
    for kind in LABELS
    for classes, targets, positive in ((3, [0, 1, 2], False), (2, [0], False))
}  # fmt: skip
LINEAR = {
    f"{name} {change}": made(
        name, [X], outputs, coefficients=np.linspace(-1, 1, 4 * rows).tolist(),
        intercepts=np.linspace(0.1, 0.3, rows).tolist(), post_transform=change, **more,
    )
    for change in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
    for name, rows, outputs, more in (
        ("LinearRegressor", 2, "f", {"targets": 2}),
        ("LinearClassifier", 3, "if", {"classlabels_ints": [5, 6, 7]}),
        ("LinearClassifier", 1, "if", {"classlabels_ints": [0, 1]}),
    )
}  # fmt: skip
KERNELS = {
    f"support vectors {kernel}": made(
        "SVMRegressor", [X], "f", kernel_type=kernel, kernel_params=[0.5, 0.3, 2.0], n_supports=3, rho=[0.2],
        coefficients=[0.5, -1.0, 2.0], support_vectors=np.linspace(-1, 1, 12).tolist(),
    )
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID")
}  # fmt: skip
PREPARING = {
    "Scaler": made("Scaler", [X], "f", offset=[1.0, 2.0, 3.0, 4.0], scale=[0.5, 1.0, 2.0, 3.0]),
    "Scaler of integers": made("Scaler", [np.arange(8).reshape(2, 4)], "f", offset=[1.0], scale=[2.0]),
    **{f"Normalizer {norm}": made("Normalizer", [X], "f", norm=norm) for norm in ("MAX", "L1", "L2")},
    "Imputer": made("Imputer", [GAPS], "f", imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=np.nan),
    "OneHotEncoder": made("OneHotEncoder", [np.array([1, 3, 9])], "f", cats_int64s=[1, 2, 3]),
    "FeatureVectorizer": made("FeatureVectorizer", [X, X[:, :2]], "f", inputdimensions=[4, 2]),
    "ArrayFeatureExtractor": made("ArrayFeatureExtractor", [X, np.array([2, 0])], "f"),
}
GIVEN: dict[str, Arrays] = {
    "Scaler of integers": [np.arange(8).reshape(2, 4)],
    "Imputer": [GAPS],
    "OneHotEncoder": [np.array([1, 3, 9])],
    "FeatureVectorizer": [X, X[:, :2]],
    "ArrayFeatureExtractor": [X, np.array([2, 0])],
    **{name: [GAPS] for name in REGRESSORS},
}
CASES = {**REGRESSORS, **CLASSIFIERS, **LINEAR, **KERNELS, **PREPARING}


@pytest.mark.parametrize("name", CASES)
def test_a_row_gives_what_onnxruntime_gives(name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model = CASES[name]
    feeds = {f"x{place}": one for place, one in enumerate(GIVEN.get(name, [X]))}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for want, found in zip(session.run(None, feeds), load(model, backend="reference").run(feeds).values(), strict=True):
        if want.dtype == object:
            np.testing.assert_array_equal(found, want)
        else:
            np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
            assert np.asarray(found).dtype == want.dtype


def test_a_map_for_each_row_and_labels_that_go_on() -> None:
    """What converters of scikit-learn write: the label as text, cast, and a map of probabilities."""
    model = made("TreeEnsembleClassifier", [X], "tf", classlabels_strings=["1", "2", "3"],
                 **Forest(6, "BRANCH_LEQ", 3).lists("class", [0, 1, 2], each=True))  # fmt: skip
    model.graph.node.append(node("ZipMap", "y1", "maps", domain=ML, classlabels_strings=["1", "2", "3"]))
    model.graph.node.append(node("Cast", "y0", "number", to=onnx.TensorProto.INT64))
    model.graph.node.append(node("Identity", "y0", "label"))
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in ("number", "label", "maps"))
    results = load(model, backend="reference").run({"x0": X})
    maps: Any = results["maps"]
    best = [max(one, key=one.get) for one in maps]
    np.testing.assert_array_equal(results["label"], best)
    np.testing.assert_array_equal(results["number"], [int(one) for one in best])


def test_gradients_go_through_trees_to_their_leaves_and_through_linear_models() -> None:
    graph, inputs, _, (y,) = load(CASES["LinearRegressor LOGISTIC"]).graph()
    assert backward(graph, [ops.reduce_sum(y, (0, 1))], [inputs["x0"]]).of(inputs["x0"]) is not None


def test_trees_with_a_circle_or_a_missing_node_are_refused() -> None:
    lists = Forest(1, "BRANCH_LEQ", 0).lists("target", [0], each=False)
    for name, value in (("nodes_truenodeids", 0), ("nodes_falsenodeids", 10**6)):
        broken = {**lists, name: [value] * len(lists[name])}
        with pytest.raises(UsageError):
            load(made("TreeEnsembleRegressor", [X], "f", n_targets=1, **broken)).run({"x0": X})
