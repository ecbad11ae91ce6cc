"""The ways in which weights of products are fewer bits: integers of 8, and blocks of GGUF's types."""

from typing import Literal

QuantizationMode = Literal[
    "weights", "dynamic", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k"
]
