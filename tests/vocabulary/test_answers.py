"""Names of other projects: each row of a table is an error that names our form, and each form names what there is."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.core.values.dtype import F32
from nnc.core.values.spec import TensorSpec
from nnc.errors import ArgumentError, UnknownNameError, UsageError
from nnc.symbolic.ir import SymbolicGraph
from nnc.vocabulary.names import ARRAY, KIND, LINALG, MODULE, ONNX, RANDOM, SYMBOL
from nnc.vocabulary.network_names import LAYER, LAYERS, MODEL, OPTIMIZER

OWNERS: dict[str, Any] = {
    "x": nnc.tensor([[1.0, 2.0]]),
    "symbol": SymbolicGraph("answers").input(TensorSpec((1, 2), F32), "x"),
    "nnc": nnc,
    "nn": nn,
    "onnx": nnc.onnx,
    "nnc.cuda": nnc.cuda,
    "nnc.random": nnc.random,
    "nnc.linalg": nnc.linalg,
    "model": nn.Model(nn.Dense(2), (3,)),
    "layer": nn.Convolution(2),
    "optimizer": nn.Adam(),
}
TABLES: Mapping[str, Mapping[str, str]] = {
    "x": ARRAY,
    "symbol": SYMBOL,
    "nnc": MODULE,
    "nn": LAYERS,
    "onnx": ONNX,
    "nnc.cuda": KIND,
    "nnc.random": RANDOM,
    "nnc.linalg": LINALG,
    "model": MODEL,
    "layer": LAYER,
    "optimizer": OPTIMIZER,
}
ROWS = [(owner, name) for owner, table in TABLES.items() for name in table]


def test_there_are_enough_rows() -> None:
    # Of 460 rows 140 became methods and functions of PyTorch's and NumPy's (docs/design/0038).
    assert len(ROWS) >= 300


@pytest.mark.parametrize(("owner", "name"), ROWS, ids=[f"{owner}.{name}" for owner, name in ROWS])
def test_each_name_is_answered_with_our_form(owner: str, name: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        getattr(OWNERS[owner], name)
    assert str(caught.value).endswith(f"has no {name!r}. Fix: {TABLES[owner][name]}")


@pytest.mark.parametrize("owner", TABLES)
def test_forms_name_what_there_is(owner: str) -> None:
    owners = OWNERS | ({"x": OWNERS["symbol"]} if owner == "symbol" else {})
    for form in TABLES[owner].values():
        for spoken, path in re.findall(r"(?<![.\w\"])(x|nnc|nn|model|layer|optimizer)\.((?:\w+\.)*\w+)", form):
            found = owners[spoken]
            for part in path.split("."):
                if (spoken, part) != ("layer", "units"):
                    found = getattr(found, part)


def test_traced_and_batched_values_answer_too() -> None:
    for transformed in (nnc.compile, nnc.vmap, nnc.grad):
        with pytest.raises(UnknownNameError, match=r"Fix: nnc\.cummax\(x, axis\)"):
            transformed(lambda x: x.cummax(1))(np.ones(3))


def test_functions_of_arrays_refuse_symbols() -> None:
    with pytest.raises(UsageError, match=r"got a Symbol f32\[1, 2\]; need an array or a number\. Fix: nnc\.ops"):
        nnc.exp(OWNERS["symbol"])


def test_what_is_spelt_alike_is_named() -> None:
    for refused, text in (
        (lambda: nnc.tensor(1.0).summ, r"Variable has no 'summ'. Fix: did you mean x\.sum\?"),
        (lambda: nnc.expp, r"module 'nnc' has no 'expp'. Fix: did you mean nnc\.exp\?"),  # type: ignore[attr-defined]
        (lambda: nn.Dens, r"module 'nnc.nn' has no 'Dens'. Fix: did you mean nn\.Dense\?"),  # type: ignore[attr-defined]
        (lambda: OWNERS["model"].fitt, r"Model has no 'fitt'. Fix: did you mean model\.fit\?"),
        (lambda: nnc.tensor(1.0).qqqq, "Variable has no 'qqqq'$"),
    ):
        with pytest.raises(UnknownNameError, match=text):
            refused()


def test_it_is_python_s_error_too() -> None:
    for owner in OWNERS.values():
        assert not hasattr(owner, "nothing_of_the_kind")
        assert getattr(owner, "nothing_of_the_kind", 1) == 1
        assert not hasattr(owner, "__nothing__")
        with pytest.raises(AttributeError) as caught:
            owner._private
        assert not isinstance(caught.value, UsageError)


def test_copies_and_pickles_are_what_they_were() -> None:
    for name in ("x", "layer", "optimizer"):
        twin = copy.deepcopy(OWNERS[name])
        again = pickle.loads(pickle.dumps(OWNERS[name]))
        assert type(twin) is type(again) is type(OWNERS[name])


@pytest.mark.parametrize(
    ("refused", "text"),
    [
        (lambda: nn.Adam(betas=(0.9, 0.99)), r"Adam: got betas=; need rate, .* Fix: beta1=, beta2="),
        (lambda: nn.Dense(3, kernel_initializer="zeros"), r"Dense: got .* Fix: nn.Initialized"),
        (lambda: nn.Convolution1D(3, activation="relu"), "Fix: a layer behind it"),
        (lambda: nn.Model(nn.Dense(2), (3,), optimiser=nn.Adam()), "Fix: optimizer="),
        (lambda: nnc.vmap(abs, in_axis=0), "got in_axis=; .* Fix: in_axes="),
    ],
)
def test_arguments_of_other_projects_are_answered(refused: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=text) as caught:
        refused()
    assert caught.value.origin.startswith("test_answers.py")


def test_common_words_of_other_projects_are_taken() -> None:
    assert nn.Adam(lr=1e-2) == nn.Adam(learning_rate=1e-2) == nn.Adam(1e-2)
    assert nn.Adam(beta_1=0.8, eps=1e-6, weight_decay=0.1) == nn.Adam(beta1=0.8, epsilon=1e-6, decay=0.1)
    assert nn.Dense(3, use_bias=False) == nn.Dense(3, bias=False)
    assert nn.Convolution(out_channels=3, kernel_size=5, strides=2) == nn.Convolution(3, 5, 2)
    assert nn.Dropout(p=0.5) == nn.Dropout(0.5)
    assert nn.Embedding(num_embeddings=10, embedding_dim=4) == nn.Embedding(10, 4)
    assert nn.LSTM(hidden_size=8, num_layers=2) == nn.LSTM(8, layers=2)
    with pytest.raises(ArgumentError, match="rate="):
        nn.Adam(lr=-1.0)
