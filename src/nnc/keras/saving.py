"""`keras.saving`: classes of your own that files may name."""

from nnc.keras.engine.stored import load_model as load_model
from nnc.keras.engine.stored import register_keras_serializable as register_keras_serializable
