"""Architectures of language models: what files say of a network becomes a decoder of `nnc.nn.zoo`.

given_values.py    numbers and texts of a config.json or of GGUF's metadata
facts.py           those that all architectures have
rotary_scaling.py  positions beyond those of training
tensor_names.py    names of tensors in files
encoder_rows.py    encoders of texts
architecture_rows.py a row per architecture, and the network that it makes
block_formats.py   which blocks a matrix gets
low_rank.py        products beside matrices
weight_sources.py  tensors of files, in f32 when asked for
stored.py          which part of which tensor each of ours is
opening.py         a file or folder opened
"""

from nnc.language.architectures.architecture_rows import ARCHITECTURES, Architecture
from nnc.language.architectures.opening import EncoderFiles, ModelFiles, open_encoder, open_files

__all__ = ["ARCHITECTURES", "Architecture", "EncoderFiles", "ModelFiles", "open_encoder", "open_files"]
