"""Small random weights under the names of Hugging Face's transformers become those of our networks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.core.values.dtype import I32
from nnc.core.values.serialize import save_tensors
from nnc.core.values.tensor import Tensor
from nnc.errors import FormatError, UsageError
from nnc.nn import HUGGING_FACE, Layer, Model, NameRule, load_pretrained
from nnc.nn.files.torch_names import torch_state_dict
from nnc.nn.zoo import BERT, GPT, LLaMA, ViT, resnet18

Arrays = dict[str, np.ndarray]


def renamed(arrays: Arrays, *rows: tuple[str, str]) -> Arrays:
    """By the first row that fits, in the other direction than the tables go."""
    found: Arrays = {}
    for path, array in arrays.items():
        pattern, name = next((row for row in rows if re.fullmatch(row[0], path)), (None, None))
        assert pattern is not None, path
        match = re.fullmatch(pattern, path)
        assert match is not None
        found[match.expand(name)] = array
    return found


def gpt2(arrays: Arrays) -> Arrays:
    """Keys and values beside queries, matrices [in, out], masks, and the table of tokens twice."""
    found: Arrays = {"lm_head.weight": arrays["tokens.weight"]}
    for layer in range(2):
        place = f"block{layer}.attention"
        for kind, axis in (("weight", 1), ("bias", 0)):
            parts = [arrays.pop(f"{place}.{name}.{kind}").T for name in ("query", "key", "value")]
            found[f"transformer.h.{layer}.attn.c_attn.{kind}"] = np.concatenate(parts, axis)
        found[f"transformer.h.{layer}.attn.bias"] = np.ones((1, 1, 8, 8), np.float32)
    plain = renamed(
        arrays,
        (r"tokens\.weight", "transformer.wte.weight"),
        (r"positions\.weight", "transformer.wpe.weight"),
        (r"norm\.(\w+)", r"transformer.ln_f.\1"),
        (r"block(\d)\.attention_norm\.(\w+)", r"transformer.h.\1.ln_1.\2"),
        (r"block(\d)\.feed_forward_norm\.(\w+)", r"transformer.h.\1.ln_2.\2"),
        (r"block(\d)\.attention\.output\.(\w+)", r"transformer.h.\1.attn.c_proj.\2"),
        (r"block(\d)\.feed_forward\.widen\.(\w+)", r"transformer.h.\1.mlp.c_fc.\2"),
        (r"block(\d)\.feed_forward\.narrow\.(\w+)", r"transformer.h.\1.mlp.c_proj.\2"),
    )
    return found | {name: array.T if "attn" in name or "mlp" in name else array for name, array in plain.items()}


def bert(arrays: Arrays) -> Arrays:
    layer = "bert.encoder.layer"
    return renamed(
        arrays,
        (r"tokens\.weight", "bert.embeddings.word_embeddings.weight"),
        (r"positions\.weight", "bert.embeddings.position_embeddings.weight"),
        (r"sentence_types", "bert.embeddings.token_type_embeddings.weight"),
        (r"norm\.(\w+)", r"bert.embeddings.LayerNorm.\1"),
        (r"pooler\.(\w+)", r"bert.pooler.dense.\1"),
        (r"block(\d)\.attention\.output\.(\w+)", rf"{layer}.\1.attention.output.dense.\2"),
        (r"block(\d)\.attention\.(\w+)\.(\w+)", rf"{layer}.\1.attention.self.\2.\3"),
        (r"block(\d)\.attention_norm\.(\w+)", rf"{layer}.\1.attention.output.LayerNorm.\2"),
        (r"block(\d)\.feed_forward\.widen\.(\w+)", rf"{layer}.\1.intermediate.dense.\2"),
        (r"block(\d)\.feed_forward\.narrow\.(\w+)", rf"{layer}.\1.output.dense.\2"),
        (r"block(\d)\.feed_forward_norm\.(\w+)", rf"{layer}.\1.output.LayerNorm.\2"),
    ) | {"bert.embeddings.position_ids": np.arange(8)[None], "cls.predictions.bias": np.zeros(11, np.float32)}


def vit(arrays: Arrays) -> Arrays:
    layer = "vit.encoder.layer"
    found = renamed(
        arrays,
        (r"class_token", "vit.embeddings.cls_token"),
        (r"positions\.weight", "vit.embeddings.position_embeddings"),
        (r"patches\.(\w+)", r"vit.embeddings.patch_embeddings.projection.\1"),
        (r"norm\.(\w+)", r"vit.layernorm.\1"),
        (r"classes\.(\w+)", r"classifier.\1"),
        (r"block(\d)\.attention\.output\.(\w+)", rf"{layer}.\1.attention.output.dense.\2"),
        (r"block(\d)\.attention\.(\w+)\.(\w+)", rf"{layer}.\1.attention.attention.\2.\3"),
        (r"block(\d)\.attention_norm\.(\w+)", rf"{layer}.\1.layernorm_before.\2"),
        (r"block(\d)\.feed_forward\.widen\.(\w+)", rf"{layer}.\1.intermediate.dense.\2"),
        (r"block(\d)\.feed_forward\.narrow\.(\w+)", rf"{layer}.\1.output.dense.\2"),
        (r"block(\d)\.feed_forward_norm\.(\w+)", rf"{layer}.\1.layernorm_after.\2"),
    )
    with_batch = ("vit.embeddings.cls_token", "vit.embeddings.position_embeddings")
    return found | {name: found[name][None] for name in with_batch} | {"vit.pooler.dense.bias": np.zeros(8, np.float32)}


def llama(arrays: Arrays) -> Arrays:
    parts = {
        r"attention\.query": "self_attn.q_proj",
        r"attention\.key": "self_attn.k_proj",
        r"attention\.value": "self_attn.v_proj",
        r"attention\.output": "self_attn.o_proj",
        r"feed_forward\.gate": "mlp.gate_proj",
        r"feed_forward\.widen": "mlp.up_proj",
        r"feed_forward\.narrow": "mlp.down_proj",
    }
    return renamed(
        arrays,
        (r"tokens\.weight", "model.embed_tokens.weight"),
        (r"norm\.weight", "model.norm.weight"),
        (r"head\.weight", "lm_head.weight"),
        *((rf"block(\d)\.{one}\.weight", rf"model.layers.\1.{two}.weight") for one, two in parts.items()),
        (r"block(\d)\.attention_norm\.weight", r"model.layers.\1.input_layernorm.weight"),
        (r"block(\d)\.feed_forward_norm\.weight", r"model.layers.\1.post_attention_layernorm.weight"),
    )


def resnet(arrays: Arrays) -> Arrays:
    stages = ((rf"stage{n}_(\d+)\.sum", rf"resnet.encoder.stages.{n - 1}.layers.\1") for n in range(1, 5))
    kinds = (("convolution", "convolution"), ("norm", "normalization"))
    blocks = [
        (rf"{ours}\.{body}\.{kind}\.(\w+)", rf"{theirs}.{place}.{named}.\2")
        for ours, theirs in stages
        for body, place in ((r"body\.first", "layer.0"), (r"body\.second", "layer.1"), ("shortcut", "shortcut"))
        for kind, named in kinds
    ]
    stem = [(rf"stem\.{kind}\.(\w+)", rf"resnet.embedder.embedder.{named}.\1") for kind, named in kinds]
    counted = {"resnet.embedder.embedder.normalization.num_batches_tracked": np.array(3)}
    return renamed(arrays, *stem, *blocks, (r"classes\.(\w+)", r"classifier.1.\1")) | counted


CASES: dict[str, tuple[Layer, tuple[int, ...], Callable[[Arrays], Arrays], str]] = {
    "gpt2": (GPT(11, 8, 8, 2, 2), (6,), gpt2, ""),
    "bert": (BERT(11, 8, 8, 2, 2), (6,), bert, ""),
    "vit": (ViT(3, 4, 8, 1, 2), (8, 8, 3), vit, ""),
    "llama": (LLaMA(11, 8, 2, 4, 2, 12), (6,), llama, "llama"),
    "resnet": (resnet18(3), (32, 32, 3), resnet, "resnet_basic"),
}


def filled(layer: Layer, shape: tuple[int, ...], seed: int) -> Model:
    options = {} if len(shape) == 3 else {"input_dtype": I32}
    model = Model(layer, shape, **options, backend="reference")  # type: ignore[arg-type]  # by name
    generator = np.random.default_rng(seed)
    state = {path: generator.standard_normal(value.shape) for path, value in model.state_dict().items()}
    model.load_state_dict({path: value.astype(np.float32) for path, value in state.items()})
    return model


def written(path: Path, arrays: Arrays) -> Path:
    save_tensors(path, {name: Tensor.from_numpy(np.ascontiguousarray(one)) for name, one in arrays.items()})
    return path


@pytest.mark.parametrize("name", CASES)
def test_weights_of_their_names_are_ours(name: str, tmp_path: Path) -> None:
    layer, shape, theirs, family = CASES[name]
    model, other = filled(layer, shape, 1), filled(layer, shape, 2)
    arrays = theirs(torch_state_dict(model))
    report = load_pretrained(other, written(tmp_path / "model.safetensors", arrays), family)
    assert report.complete
    for path, value in model.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[path], value, err_msg=path)


def test_an_index_of_several_files_is_read_as_one(tmp_path: Path) -> None:
    layer, shape, theirs, _ = CASES["llama"]
    model, other = filled(layer, shape, 1), filled(layer, shape, 2)
    arrays = theirs(torch_state_dict(model))
    files = {name: f"model-{place % 3}.safetensors" for place, name in enumerate(sorted(arrays))}
    for file in set(files.values()):
        written(tmp_path / file, {name: array for name, array in arrays.items() if files[name] == file})
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": files}))
    assert load_pretrained(other, tmp_path).complete
    np.testing.assert_array_equal(other.state_dict()["head.weight"], model.state_dict()["head.weight"])
    assert nnc.load(index).keys() == arrays.keys()
    for text, told in (
        ("{}", "no map of weights"),
        ("[", "no map of weights"),
        ('{"weight_map": {"a": "../other"}}', r"the file '../other'"),
        ('{"weight_map": {"a": "model-0.safetensors"}}', "no a"),
        ('{"weight_map": {"a": "absent.safetensors"}}', "no such file"),
    ):
        index.write_text(text)
        with pytest.raises(FormatError, match=told):
            load_pretrained(other, tmp_path)
    with pytest.raises(FormatError, match="no such file"):
        load_pretrained(other, tmp_path / "absent")


def test_what_a_network_lacks_is_left_out_and_what_a_file_lacks_is_told(tmp_path: Path) -> None:
    layer, shape, theirs, _ = CASES["bert"]
    arrays = theirs(torch_state_dict(filled(layer, shape, 1)))
    bare = filled(BERT(11, 8, 8, 2, 2, pooled=False), shape, 2)
    assert load_pretrained(bare, written(tmp_path / "whole", arrays)).complete
    del arrays["bert.encoder.layer.1.output.dense.bias"]
    path = written(tmp_path / "part", arrays | {"extra": np.zeros(3, np.float32)})
    before = bare.state_dict()
    with pytest.raises(FormatError, match=r"missing: block1.feed_forward.narrow.bias; unexpected: extra"):
        load_pretrained(bare, path)
    np.testing.assert_array_equal(bare.state_dict()["tokens.weight"], before["tokens.weight"])
    assert load_pretrained(bare, path, strict=False).missing == ("block1.feed_forward.narrow.bias",)


def test_rules_are_of_a_family_or_one_s_own(tmp_path: Path) -> None:
    model = Model(nn.Sequential(body=nn.Dense(2)), (3,), backend="reference")
    weight, bias = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros(2, np.float32)
    path = written(tmp_path / "file", {"linear.weight": weight, "linear.bias": bias, "note": bias})
    with pytest.raises(UsageError, match="names='' for a Sequential"):
        load_pretrained(model, path)
    with pytest.raises(UsageError, match="names='gpt3'"):
        load_pretrained(model, path, "gpt3")
    rules = [NameRule(r"linear\.(\w+)", r"body.\1"), NameRule("note", "")]
    assert load_pretrained(model, path, rules).complete
    np.testing.assert_array_equal(model.state_dict()["body.weight"], weight.T)
    twice = [NameRule(r"linear\.(\w+)", r"body.\1"), NameRule("note", "body.bias")]
    with pytest.raises(FormatError, match="two tensors for body.bias"):
        load_pretrained(model, path, twice)
    assert set(HUGGING_FACE) >= {"gpt2", "bert", "vit", "resnet_bottleneck"}
