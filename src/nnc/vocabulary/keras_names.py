"""Names of Keras that `nnc.keras` lacks, each with our form of it: one row a name."""

from __future__ import annotations

from collections.abc import Mapping

# `keras.layers.…`
LAYERS: Mapping[str, str] = {
    "Hashing": "keras.utils.to_categorical, or a dictionary of your own, before fit",
    "GroupQueryAttention": "nnc.nn.MultiHeadAttention(heads, groups)",
    "DenseFeatures": "layers.Concatenate()([a, b])",
}
# `keras.…`
KERAS: Mapping[str, str] = {
    "applications": "nnc.nn.zoo.network(name), whose weights load_pretrained reads",
    "mixed_precision": "nnc.nn.Model(net, shape, precision=nnc.bf16)",
    "distribution": "nnc.parallel",
    "tree": "nnc.tree",
    "preprocessing": "keras.utils, or nnc.nn.data",
    "quantizers": "nnc.nn.Model(net, shape).freeze(batch, quantize=…)",
    "export": 'nnc.onnx.save(nnc.nn.Model(model, shape), "net.onnx"), or model.save("model.keras")',
    "GradientTape": "from nnc.keras.tape import GradientTape",
    "StatelessScope": "nnc.value_and_grad(net, loss)",
    "wrappers": "nnc.sklearn",
    "estimator": "nnc.sklearn",
    "dtype_policies": "nnc.nn.Model(net, shape, precision=nnc.bf16)",
    "hub": "nnc.nn.load_pretrained",
    "tuner": "scikit-learn's searches, over nnc.sklearn",
    "visualization": "model.summary()",
    "legacy": "the names of Keras 3",
}
# `keras.ops.…`
OPS: Mapping[str, str] = {
    "ctc_loss": "nnc.nn.CTC(labels)",
    "erfinv": "scipy.special.erfinv, before fit",
}
