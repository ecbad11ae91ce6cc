"""The folder of a language model as the parts of a GGUF file: metadata, vocabulary, and tensors under its names.

Rows of queries and keys are pairs of features where files of the architecture have them so, experts lie one behind the
other, and a norm's weight is 1 + that of the folder where it is counted so there. What no metadata says is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.core.values.spec import Shape
from nnc.errors import UsageError
from nnc.language.architectures import ARCHITECTURES, ModelFiles
from nnc.language.architectures.architecture_rows import decoder_of
from nnc.language.architectures.facts import facts_of
from nnc.language.architectures.given_values import GivenValues
from nnc.language.architectures.tensor_names import EXPERTS, StoredPart, stored_name
from nnc.language.gguf.file_format import Plain
from nnc.language.text.tokenizer import TextTokenizer, text_tokenizer
from nnc.language.text.written_vocabulary import vocabulary_values

# What GGUF files call an architecture whose folders have another name.
NAMES: Mapping[str, str] = {"mixtral": "llama", "mistral": "llama", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe"}
FREQUENCIES = "rope_freqs.weight"
Floats = NDArray[np.float32]
# A tensor to be written: its shape, and its rows when their turn comes.
ConvertedTensor: TypeAlias = tuple[Shape, Callable[[], Floats]]


def gguf_metadata(files: ModelFiles) -> dict[str, Plain]:
    """What a GGUF file says of this network and its texts; UsageError where it cannot."""
    name = NAMES.get(files.architecture.name, files.architecture.name)
    values = _numbers(files)
    _check(files, name, values)
    tokenizer: TextTokenizer = text_tokenizer(files)
    return {
        "general.architecture": name,
        "general.name": files.place.name,
        **{f"{name}.{key}": value for key, value in values.items()},
        **vocabulary_values(tokenizer),
    }


def _numbers(files: ModelFiles) -> dict[str, Plain]:
    facts, rms = files.facts, "norm.bias" not in files.tensors.pieces
    epsilon = "attention.layer_norm_rms_epsilon" if rms else "attention.layer_norm_epsilon"
    values: dict[str, Plain] = {
        "context_length": facts.context,
        "embedding_length": facts.features,
        "block_count": facts.layers,
        "feed_forward_length": facts.hidden,
        "attention.head_count": facts.heads,
        "attention.head_count_kv": facts.key_value_heads,
        "attention.key_length": facts.width,
        "attention.value_length": facts.width,
        "rope.dimension_count": facts.rotated,
        "rope.freq_base": facts.base,
        "rope.freq_base_swa": facts.local_base,
        epsilon: facts.epsilon,
    }
    further: dict[str, Plain] = {
        "attention.sliding_window": facts.window,
        "attn_logit_softcapping": facts.score_cap,
        "final_logit_softcapping": facts.logit_cap,
        "expert_count": facts.experts,
        "expert_used_count": facts.used_experts,
        "expert_feed_forward_length": facts.expert_hidden,
        "expert_shared_feed_forward_length": facts.shared_hidden,
    }
    return values | {key: value for key, value in further.items() if value}


def _check(files: ModelFiles, name: str, values: Mapping[str, Plain]) -> None:
    """UsageError unless a file of these values makes the same network."""
    place, factors = str(files.place), _factors(files)
    scaling: dict[str, object] = {}
    if factors:
        scaling = {"type": "longrope", "short_factor": factors, "long_factor": factors, "attention_factor": 1.0}
    row = ARCHITECTURES.get(name) or ARCHITECTURES[files.architecture.name]
    facts = facts_of(GivenValues(place, values), GivenValues(place, scaling))
    context, pieces = files.facts.context, files.tensors.pieces
    table = files.tensors.source.shapes[pieces["tokens.weight"].name]
    made = decoder_of(row, facts, pieces, table[0], context)
    wanted = files.decoder(context, packed=False).decoder
    rotary, local = (
        None if each is None else replace(each, interleaved=row.interleaved) for each in (wanted.rotary, wanted.local)
    )
    wanted = replace(wanted, rotary=rotary, local=local)
    other = [each.name for each in fields(wanted) if getattr(wanted, each.name) != getattr(made, each.name)]
    if other:
        got = f"a {files.architecture.name} whose {other[0]} no GGUF file of ours says"
        raise UsageError(
            "quantize", got=got, need="a usual model", fix="convert it by llama.cpp's convert_hf_to_gguf.py"
        )


def _factors(files: ModelFiles) -> list[float]:
    """Factors of frequencies that do not follow the context."""
    kind = files.facts.scaling.text("rope_type", "type", default="")
    turns = files.facts.turns(files.facts.context)
    return list(turns.factors) if kind in ("llama3", "linear") else []


def converted_tensors(files: ModelFiles) -> dict[str, ConvertedTensor]:
    """The tensors by their names in the file, in f32 when they are read."""
    row, source = ARCHITECTURES[files.architecture.name], files.tensors.source
    grouped: dict[str, list[tuple[StoredPart, str]]] = {}
    for path, piece in files.tensors.pieces.items():
        grouped.setdefault(gguf_name(files, path, piece), []).append((piece, path))
    tensors: dict[str, ConvertedTensor] = {}
    for name, parts in grouped.items():
        shape = source.shapes[parts[0][0].name]
        shape = (shape[1], shape[0]) if parts[0][0].transposed and len(shape) == 2 else shape
        if name.endswith("ffn_gate_inp_shexp.weight"):
            shape = shape[1:]
        if "_exps." in name:
            # In the order of their numbers.
            parts.sort(key=lambda each: int(each[1].partition(".expert")[2].partition(".")[0]))
            shape = (len(parts), *shape)
        turned = row.interleaved and parts[0][1].rpartition(".")[0].rpartition(".")[2] in ("query", "key")
        tensors[name] = shape, _reader(files, parts, turned=turned)
    factors = _factors(files)
    if factors:
        tensors[FREQUENCIES] = (len(factors),), lambda: np.array(factors, np.float32)
    return tensors


def gguf_name(files: ModelFiles, path: str, piece: StoredPart) -> str:
    """What the tensor that holds one of ours is called in a GGUF file."""
    rows = [row for row in files.architecture.gguf if row.parts in (piece.parts, EXPERTS)]
    return stored_name(rows, path)[0]


def _reader(files: ModelFiles, parts: list[tuple[StoredPart, str]], *, turned: bool) -> Callable[[], Floats]:
    """The whole tensor, as the file has it: experts one behind the other, all else once."""
    source, width = files.tensors.source, files.facts.width
    raised = files.tensors.raised and parts[0][1].endswith("norm.weight")

    def read() -> Floats:
        names = dict.fromkeys(piece.name for piece, _ in parts)
        arrays = []
        for name in names:
            shape = source.shapes[name]
            array = source.rows(name, 0, shape[0] if len(shape) > 1 else 1).reshape(shape)
            arrays.append(array.T if parts[0][0].transposed and array.ndim == 2 else array)
        whole = np.stack(arrays) if len(arrays) > 1 else arrays[0]
        if turned:
            whole = whole.reshape(-1, 2, width // 2, *whole.shape[1:]).swapaxes(1, 2).reshape(whole.shape)
        return np.ascontiguousarray(whole + np.float32(1) if raised else whole)

    return read
