"""Adapters in PEFT's form: adapter_config.json beside adapter_model.safetensors.

    base_model.model.MODULE.lora_A.weight [rank, in]
    base_model.model.MODULE.lora_B.weight [out, rank]         W + alpha / rank · B · A

Modules have the names of transformers, whatever file the base is. What lies in one matrix there (qkv_proj) has one
A and one B, of which each part of ours gets its rows; written, products of the parts stand side by side, as one of a
larger rank. GGUF files of LLaMA have rows of queries and keys as pairs of features, into which those of B are brought.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.precautions.replacement import make_folder, write_atomically
from nnc.core.values.serialize import load_tensors, save_tensors
from nnc.core.values.tensor import Tensor
from nnc.errors import FormatError
from nnc.language.architectures import ModelFiles
from nnc.language.architectures.given_values import GivenValues
from nnc.language.architectures.low_rank import LowRank, Products
from nnc.language.architectures.opening import read_json
from nnc.language.architectures.tensor_names import StoredPart, module_of, pieces_of

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
SIDES = ("lora_A", "lora_B")
# What changes the formula above, by the values that leave it as it is.
OTHERS: Mapping[str, tuple[object, ...]] = {
    "use_dora": (False, None),
    "bias": ("none", None),
    "modules_to_save": (None, []),
    "alora_invocation_tokens": (None,),
    "trainable_token_indices": (None,),
    "layer_replication": (None,),
    "lora_bias": (False, None),
}
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class AdaptedModule:
    """A and B of a module, and what their product is multiplied with."""

    a: Floats
    b: Floats
    scale: float


def read_adapter(folder: Path | str, files: ModelFiles) -> Products:
    """The products of an adapter for this model, by our paths; FormatError for what does not fit it."""
    place = Path(folder)
    place = place.parent if place.name in (CONFIG, WEIGHTS) else place
    values = GivenValues(str(place / CONFIG), read_json(place / CONFIG))
    if values.text("peft_type", default="LORA") != "LORA":
        raise FormatError(values.place, got=f"peft_type {values.text('peft_type')!r}", need="LORA")
    for key, usual in OTHERS.items():
        if values.held.get(key) not in usual:
            raise FormatError(values.place, got=f"{key} that is set", need="an adapter of products alone")
    decoder = files.decoder(files.facts.context).decoder
    products: dict[str, LowRank] = {}
    for name, module in _modules(place, values).items():
        for path, part in pieces_of(str(place), files.architecture.hugging, {f"{name}.weight": ()}).items():
            path = path.removesuffix(".weight")
            wanted = files.tensors.matrix_shape(decoder, path)
            start, stop = _rows_of(files, path, part, module.b.shape[0])
            b = _turned(module.b[start:stop], files, path, decoder.head_width, to_file=True)
            if (module.a.shape[1], len(b)) != wanted:
                got = f"{name} from {module.a.shape[1]} to {len(b)}"
                raise FormatError(str(place), got=got, need=f"from {wanted[0]} to {wanted[1]}", fix="another base")
            products[path] = LowRank(np.ascontiguousarray(module.a.T), np.ascontiguousarray(b.T * module.scale))
    return products


def _modules(place: Path, values: GivenValues) -> dict[str, AdaptedModule]:
    """A, B and scale by the module's name."""
    held: dict[str, dict[str, Floats]] = {}
    for key, tensor in load_tensors(place / WEIGHTS).tensors.items():
        name, side = _parted(key)
        if side not in SIDES or len(tensor.shape) != 2 or not tensor.dtype.is_float:
            raise FormatError(str(place / WEIGHTS), got=f"{key}: {tensor.spec}", need="lora_A and lora_B of modules")
        held.setdefault(name, {})[side] = tensor.numpy().astype(np.float32)
    if not held:
        raise FormatError(str(place / WEIGHTS), got="no tensors", need="lora_A and lora_B of modules")
    usual, alpha = values.integer("r"), values.number("lora_alpha", default=8.0)
    ranks, alphas = values.inside("rank_pattern"), values.inside("alpha_pattern")
    rooted = values.flag("use_rslora", default=False)
    modules = {}
    for name, sides in held.items():
        if sides.keys() != set(SIDES) or sides["lora_A"].shape[0] != sides["lora_B"].shape[1]:
            raise FormatError(str(place / WEIGHTS), got=f"{name} without a pair", need="lora_A[r, in], lora_B[out, r]")
        rank = ranks.integer(_pattern(ranks, name), default=usual)
        if rank != sides["lora_A"].shape[0] or not rank:
            raise FormatError(str(place), got=f"rank {rank} of {name}", need=f"{sides['lora_A'].shape[0]}, as its A")
        own = alphas.number(_pattern(alphas, name), default=alpha)
        modules[name] = AdaptedModule(sides["lora_A"], sides["lora_B"], own / (math.sqrt(rank) if rooted else rank))
    return modules


def _parted(key: str) -> tuple[str, str]:
    """Module and side of a tensor's name; the name of an adapter may stand behind the side."""
    parts = key.removeprefix(PREFIX).split(".")
    side = next((part for part in parts if part in SIDES), "")
    return ".".join(parts[: parts.index(side)]) if side else key, side


def _pattern(values: GivenValues, name: str) -> str:
    """The key of a pattern that a module's name ends with."""
    return next((key for key in values.held if name == key or name.endswith(f".{key}")), name)


def _rows_of(files: ModelFiles, path: str, part: StoredPart, count: int) -> tuple[int, int]:
    """Where the outputs of ours lie among those of the module."""
    if not part.parts:
        return 0, count
    decoder = files.decoder(files.facts.context).decoder
    prefix = path.rpartition(".")[0]
    sizes = [files.tensors.matrix_shape(decoder, f"{prefix}.{name}")[1] for name in part.parts]
    start = sum(sizes[: part.part])
    return start, start + sizes[part.part]


def _turned(b: Floats, files: ModelFiles, path: str, width: int, *, to_file: bool) -> Floats:
    """Rows of queries and keys in the order of the file, or back in that of transformers."""
    if files.gguf is None or not files.architecture.interleaved or path.rpartition(".")[2] not in ("query", "key"):
        return b
    if len(b) % width:
        return b
    halves = (2, width // 2) if to_file else (width // 2, 2)
    return b.reshape(-1, *halves, b.shape[1]).swapaxes(1, 2).reshape(b.shape)


def write_adapter(folder: Path | str, files: ModelFiles, products: Products, rank: int, alpha: float) -> None:
    """Write products of this rank, which are scaled by alpha / rank already, as PEFT reads them."""
    place = Path(folder)
    make_folder(place)
    decoder = files.decoder(files.facts.context).decoder
    parted: dict[str, dict[str, LowRank]] = {}
    for path, product in products.items():
        module, _ = module_of(files.architecture.hugging, path)
        parted.setdefault(module, {})[path] = product
    tensors: dict[str, Tensor] = {}
    ranks: dict[str, int] = {}
    for module, parts in parted.items():
        a = np.concatenate([product.a.T for product in parts.values()])
        b = np.concatenate(_columns(files, module, parts, decoder.head_width), axis=1) * np.float32(rank / alpha)
        if len(a) != rank:
            ranks[module] = len(a)
        for side, array in zip(SIDES, (a, b), strict=True):
            tensors[f"{PREFIX}{module}.{side}.weight"] = Tensor.from_numpy(np.ascontiguousarray(array, np.float32))
    save_tensors(place / WEIGHTS, tensors, {"format": "pt"})
    text = json.dumps(_config(files, sorted(parted), rank, alpha, ranks), indent=2)
    write_atomically(place / CONFIG, [text.encode()])


def _columns(files: ModelFiles, module: str, parts: Mapping[str, LowRank], width: int) -> list[Floats]:
    """Of each part of a module the columns of its B: its own outputs, and nothing for those of other parts."""
    decoder = files.decoder(files.facts.context).decoder
    _, names = module_of(files.architecture.hugging, next(iter(parts)))
    made = []
    for path, product in parts.items():
        b = _turned(product.b.T, files, path, width, to_file=False)
        prefix, _, own = path.rpartition(".")
        sizes = [files.tensors.matrix_shape(decoder, f"{prefix}.{name}")[1] for name in names]
        column = np.zeros((sum(sizes) or len(b), b.shape[1]), np.float32)
        start = sum(sizes[: names.index(own)]) if names else 0
        column[start : start + len(b)] = b
        made.append(column)
    return made


def _all_modules(files: ModelFiles) -> set[str]:
    """The names of all matrices in blocks: a name's end in `target_modules` means each module that has it."""
    shapes = files.tensors.source.shapes
    paths = [path for path, piece in files.tensors.pieces.items() if len(shapes[piece.name]) == 2]
    dense = [path.removesuffix(".weight") for path in paths if path.startswith("block")]
    return {module_of(files.architecture.hugging, path)[0] for path in dense}


def _config(
    files: ModelFiles, modules: Sequence[str], rank: int, alpha: float, ranks: Mapping[str, int]
) -> dict[str, object]:
    """adapter_config.json."""
    short = sorted({module.rpartition(".")[2] for module in modules})
    whole = {module for module in _all_modules(files) if module.rpartition(".")[2] in short}
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(files.place),
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "target_modules": short if whole == set(modules) else list(modules),
        "bias": "none",
        "fan_in_fan_out": any(piece.transposed for piece in files.tensors.pieces.values()),
        "inference_mode": True,
        "init_lora_weights": True,
        "modules_to_save": None,
        "use_rslora": False,
        "use_dora": False,
        "rank_pattern": dict(ranks),
        "alpha_pattern": {module: alpha * own / rank for module, own in ranks.items()},
    }
