"""`keras.models`: models, and how they are read again and copied."""

from __future__ import annotations

from pathlib import Path

from nnc.arguments import checked
from nnc.keras.engine.network import Model as Model
from nnc.keras.engine.network import Sequential as Sequential
from nnc.keras.engine.stored import clone_model as clone_model
from nnc.keras.engine.stored import load_model as load_model
from nnc.keras.engine.stored import model_from_json as model_from_json


@checked
def save_model(model: Model, filepath: Path | str, overwrite: bool = True) -> None:
    """`model.save(filepath)`"""
    model.save(filepath, overwrite=overwrite)
