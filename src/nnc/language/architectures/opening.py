"""A model's files opened: a GGUF file, or a folder of Hugging Face; nothing of the weights is read."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from nnc.classes import dataclass
from nnc.core.precautions.reading import read_file
from nnc.core.values.dtype import BOOL, I32
from nnc.errors import FormatError, UsageError
from nnc.language.architectures.architecture_rows import Architecture, architecture_of, decoder_of
from nnc.language.architectures.encoder_rows import ENCODERS, GGUF_ENCODER, EncoderArchitecture, encoder_of
from nnc.language.architectures.facts import ModelFacts, facts_of
from nnc.language.architectures.given_values import GivenValues
from nnc.language.architectures.low_rank import AdaptedDecoder, Products
from nnc.language.architectures.stored import StoredDecoder, StoredEncoder, StoredTensors
from nnc.language.architectures.tensor_names import pieces_of
from nnc.language.architectures.weight_sources import GgufSource, SafetensorsSource, WeightSource
from nnc.language.gguf import GgufFile, read_gguf
from nnc.nn.layers.layer import Input, MultiLayer, UpTo
from nnc.nn.model.model import Model
from nnc.nn.state.tensor_files import stored_file_tensors
from nnc.nn.zoo.encoder import TextEncoder

CONFIG = "config.json"
MOST_CONFIG_BYTES = 1 << 22
# What stands for a text: the mean over its tokens, or the first of them.
MEAN, FIRST = "mean", "cls"
POOLINGS = {"pooling_mode_mean_tokens": MEAN, "pooling_mode_cls_token": FIRST}
# As GGUF files number them; 0 says nothing.
GGUF_POOLINGS = (MEAN, MEAN, FIRST)


@dataclass(frozen=True, slots=True, eq=False)
class ModelFiles:
    """A model's architecture, its numbers and tensors, and the file or folder that they are of.

    With a `window` layers see no more than so many last tokens, and `sinks` of the first where they would see more.
    """

    place: Path
    architecture: Architecture
    facts: ModelFacts
    tensors: StoredTensors
    gguf: GgufFile | None = None
    window: int = 0
    sinks: int = 0

    def decoder(self, context: int, *, packed: bool = True, floats: str = "") -> StoredDecoder:
        """The network for up to `context` positions, its matrices in the blocks of the file where they are `packed`.

        Those that the file has in `floats` are put in blocks of that format, where one is given. FormatError where the
        file does not hold the network's tensors.
        """
        source, pieces = self.tensors.source, self.tensors.pieces
        table = source.shapes[pieces["tokens.weight"].name] if "tokens.weight" in pieces else ()
        if len(table) != 2 or not 0 < table[0] <= 1 << 24:
            raise FormatError(str(self.place), got=f"a table of tokens {list(table)}", need="[tokens, features]")
        self.tensors.check_blocks(self.facts.layers)
        decoder = decoder_of(self.architecture, self.facts, pieces, table[0], context)
        decoder = replace(decoder, limit=self.window, sinks=self.sinks)
        if packed:
            decoder = replace(decoder, packed=self.tensors.packed(floats))
        return StoredDecoder(decoder, self.tensors)

    def without_texts(self) -> ModelFiles:
        """The same files without the vocabulary, which lies in a GGUF file as millions of bytes of texts."""
        if self.gguf is None:
            return self
        lean = self.gguf.without_texts()
        return replace(self, gguf=lean, tensors=replace(self.tensors, source=GgufSource(lean)))

    def adapted(self, products: Products) -> ModelFiles:
        """The same files with these products added."""
        return replace(self, tensors=replace(self.tensors, products=products))

    def model(self, context: int, *, head: bool = True, packed: bool = True) -> Model:
        """The model; its tensors are read when they are first asked for."""
        layer = self.decoder(context, packed=packed)
        if not head:
            layer = _headless(layer)
        model = Model(self._whole(layer), (UpTo(context),), input_dtype=I32)
        layer.tensors.check(layer.decoder, model.specs)
        return model

    def network(self, context: int, *, head: bool = True) -> MultiLayer:
        """What `model` is of: tokens to scores, or without a `head` to what is behind the last norm."""
        layer = self.decoder(context, packed=True)
        return self._whole(layer if head else _headless(layer))

    def _whole(self, layer: StoredDecoder) -> MultiLayer:
        """With the products that are added to it; beside matrices in blocks they are computed."""
        held = {path for path, _ in layer.decoder.packed}
        beside = {path: each for path, each in layer.tensors.products.items() if f"{path}.weight" in held}
        return AdaptedDecoder(layer, beside) if beside else layer


def _headless(layer: StoredDecoder) -> StoredDecoder:
    own = {path: piece for path, piece in layer.tensors.pieces.items() if not path.startswith("head.")}
    return StoredDecoder(replace(layer.decoder, head=False), replace(layer.tensors, pieces=own))


@dataclass(frozen=True, slots=True, eq=False)
class EncoderFiles:
    """An encoder of texts, and the folder that it is of. `pooling` says what of the tokens stands for their text."""

    place: Path
    facts: ModelFacts
    encoder: TextEncoder
    tensors: StoredTensors
    pooling: str
    gguf: GgufFile | None = None

    def model(self, context: int) -> Model:
        """Tokens and which of them are there, up to `context` of them, to the features of each."""
        rows = Input((UpTo(context),), I32), Input((UpTo(context),), BOOL)
        model = Model(StoredEncoder(self.encoder, self.tensors), rows)
        self.tensors.check(self.encoder, model.specs)
        return model


def open_encoder(path: Path | str) -> EncoderFiles | None:
    """The encoder of a GGUF file or a folder, also of sentence-transformers; None for a model of another kind."""
    place = Path(path)
    if place.suffix == ".gguf":
        return _gguf_encoder(place, read_gguf(place))
    folder = place if os.path.isdir(place) else place.parent
    if not os.path.isfile(folder / CONFIG):
        return None
    values = GivenValues(str(folder / CONFIG), read_json(folder / CONFIG))
    row = ENCODERS.get(values.text("model_type"))
    if row is None:
        return None
    facts = facts_of(values, GivenValues(values.place, {}))
    source = SafetensorsSource(str(folder), stored_file_tensors(folder))
    encoder, tensors = _encoder(row, values, facts, source)
    return EncoderFiles(folder, replace(facts, context=encoder.steps), encoder, tensors, _pooling(folder))


def _encoder(
    row: EncoderArchitecture, values: GivenValues, facts: ModelFacts, source: WeightSource
) -> tuple[TextEncoder, StoredTensors]:
    """The network, and its tensors."""
    tensors = StoredTensors(source, pieces_of(source.place, row.names, source.shapes))
    shapes = {path: source.shape(piece.name) for path, piece in tensors.pieces.items()}
    encoder = encoder_of(row, values, facts, shapes)
    tensors.check_blocks(facts.layers)
    return replace(encoder, packed=tensors.packed()), tensors


def _gguf_encoder(place: Path, file: GgufFile) -> EncoderFiles | None:
    name = GGUF_ENCODER.name
    if file.text("general.architecture") != name:
        return None
    values = GivenValues(str(place), _own_values(file, name))
    pooling = values.integer("pooling_type", default=0)
    if pooling >= len(GGUF_POOLINGS):
        raise FormatError(str(place), got=f"pooling {pooling}", need="1 (mean) or 2 (the first token)")
    facts = facts_of(values, GivenValues(str(place), {}))
    encoder, tensors = _encoder(GGUF_ENCODER, values, facts, GgufSource(file))
    return EncoderFiles(
        place, replace(facts, context=encoder.steps), encoder, tensors, GGUF_POOLINGS[pooling], gguf=file
    )


def _pooling(folder: Path) -> str:
    """How sentence-transformers makes a vector of those of tokens; FormatError for a way that is not known."""
    modules = folder / "modules.json"
    if os.path.isfile(modules):
        named = read_file(modules, "modules.json", MOST_CONFIG_BYTES).decode(errors="replace")
        if '.Dense"' in named:
            raise FormatError(str(modules), got="a dense layer behind the encoder", need="pooling and a norm alone")
    place = folder / "1_Pooling" / CONFIG
    if not os.path.isfile(place):
        return MEAN
    values = GivenValues(str(place), read_json(place))
    chosen = [
        name
        for name, kind in POOLINGS.items()
        if values.flag(name, default=False) or values.held.get("pooling_mode") == kind
    ]
    others = [name for name in values.held if name.startswith("pooling_mode_") and name not in POOLINGS]
    if len(chosen) != 1 or any(values.held[name] is True for name in others):
        raise FormatError(str(place), got="another pooling", need=f"one of {', '.join(POOLINGS)}")
    return POOLINGS[chosen[0]]


def open_files(path: Path | str, *, mapped: bool = False) -> ModelFiles:
    """What is in a GGUF file, or in the folder of a config.json and safetensors (or either of these files)."""
    place = Path(path)
    if os.path.isdir(place) or place.name == CONFIG:
        return _folder(place if os.path.isdir(place) else place.parent)
    if place.suffix in (".safetensors", ".json"):
        return _folder(place.parent)
    return _gguf(place, read_gguf(place, mapped=mapped))


def _gguf(place: Path, file: GgufFile) -> ModelFiles:
    name = file.text("general.architecture")
    if name == GGUF_ENCODER.name:
        raise _no_decoder(str(place), name)
    row = architecture_of(str(place), name)
    held = _own_values(file, name)
    scaling = {key.removeprefix("rope.scaling."): value for key, value in held.items() if "rope.scaling." in key}
    source = GgufSource(file)
    for kind in ("long", "short"):
        scaling |= _factors(source, f"rope_factors_{kind}.weight", f"{kind}_factor")
    if scaling.get("type") is None and "short_factor" in scaling:
        scaling["type"] = "longrope"
    turned = _factors(source, "rope_freqs.weight", "short_factor")
    if turned:
        # Factors of each pair, computed when the file was written.
        scaling = {**turned, "long_factor": turned["short_factor"], "type": "longrope", "attention_factor": 1.0}
    facts = facts_of(GivenValues(str(place), held), GivenValues(str(place), scaling))
    return _with_tensors(place, row, facts, source, file)


def _own_values(file: GgufFile, name: str) -> dict[str, object]:
    """What is said under the name of the architecture."""
    prefix = f"{name}."
    return {
        key.removeprefix(prefix): value.value.tolist() if isinstance(value.value, np.ndarray) else value.value
        for key, value in file.metadata.items()
        if key.startswith(prefix)
    }


def _no_decoder(place: str, kind: str) -> UsageError:
    need, fix = "a decoder, which writes texts", "nnc embed, or nnc.language.embed"
    return UsageError(place, got=f"{kind}, an encoder of texts", need=need, fix=fix)


def _factors(source: WeightSource, name: str, key: str) -> dict[str, object]:
    shape = source.shapes.get(name)
    if shape is None or len(shape) != 1:
        return {}
    return {key: source.rows(name, 0, 1)[0].tolist()}


def _folder(folder: Path) -> ModelFiles:
    held = read_json(folder / CONFIG)
    values = GivenValues(str(folder / CONFIG), held)
    kind = values.text("model_type")
    if kind in ENCODERS:
        raise _no_decoder(values.place, kind)
    row = replace(architecture_of(values.place, kind), interleaved=False)
    scaling = values.inside("rope_parameters", "rope_scaling")
    if not scaling.has("original_max_position_embeddings") and values.has("original_max_position_embeddings"):
        own = {**scaling.held, "original_max_position_embeddings": held["original_max_position_embeddings"]}
        scaling = GivenValues(scaling.place, own)
    facts = facts_of(values, scaling)
    if not values.flag("use_sliding_window", default=True):
        facts = replace(facts, window=0, layer_kinds=())
    source = SafetensorsSource(str(folder), stored_file_tensors(folder))
    files = _with_tensors(folder, row, facts, source, None)
    # A tied head may be there twice.
    tied = values.flag("tie_word_embeddings", default=row.gemma or row.name == "gpt2")
    if tied and "head.weight" in files.tensors.pieces:
        pieces = {path: piece for path, piece in files.tensors.pieces.items() if path != "head.weight"}
        files = replace(files, tensors=replace(files.tensors, pieces=pieces))
    return files


def _with_tensors(
    place: Path, row: Architecture, facts: ModelFacts, source: WeightSource, file: GgufFile | None
) -> ModelFiles:
    names = row.gguf if file is not None else row.hugging
    pieces = pieces_of(str(place), names, source.shapes)
    return ModelFiles(place, row, facts, StoredTensors(source, pieces, row.gemma and file is None), file)


def read_json(path: Path) -> dict[str, object]:
    """The object in a small JSON file."""
    try:
        held = json.loads(read_file(path, "a file of JSON", MOST_CONFIG_BYTES).decode())
    except (ValueError, RecursionError):
        held = None
    if not isinstance(held, dict):
        raise FormatError(str(path), got="no object of JSON", need="settings by name")
    return held
