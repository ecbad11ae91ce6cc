"""What a fine-tuning is asked for."""

from __future__ import annotations

from collections.abc import Mapping

from nnc.arguments import Count, Positive, Rate, Seed, Share, Size, checked
from nnc.classes import dataclass
from nnc.errors import UsageError
from nnc.nn.optimization.optimizers import AdamW
from nnc.nn.optimization.schedules import Cosine, Warmup

METHODS = ("lora", "qlora", "full")
# Rates of Adam that are usual: of adapters and of all weights, and a tenth of these where answers are compared.
RATES: Mapping[str, float] = {"lora": 2e-4, "qlora": 2e-4, "full": 2e-5}
PREFERENCE_SHARE = 0.1
USUAL_CONTEXT = 512
# Of a file in floats whose matrices are to be in blocks.
USUAL_BLOCKS = "q4_k"


@checked
@dataclass(frozen=True, slots=True)
class TuningOptions:
    """`method`: "lora" trains products of `rank` beside matrices in f32, "qlora" beside matrices in blocks of 4 bits
    (of the file's, where it has some), "full" all tensors, in f32.

    `targets` are patterns of the dense layers that get a product, which is scaled by alpha / rank. Rows have `context`
    tokens (at most 512 unless given); an update is by `batch` rows, `accumulate` times. The `rate` rises over the part
    `warmup` of all updates and falls by a cosine. `beta` is that of preferences. `limit` is in bytes of process.
    """

    method: str = "lora"
    rank: Count = 16
    alpha: Positive = 32.0
    targets: tuple[str, ...] = ("block*",)
    context: Size = 0
    batch: Count = 1
    accumulate: Count = 1
    epochs: Count = 1
    rate: Positive | None = None
    warmup: Share = 0.03
    decay: Rate = 0.0
    clip_norm: Positive | None = 1.0
    beta: Positive = 0.1
    limit: Size | None = None
    seed: Seed = 0
    backend: str = ""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UsageError("finetune", got=f"method {self.method!r}", need=f"one of {', '.join(METHODS)}")

    @property
    def adapts(self) -> bool:
        """Whether products beside matrices are trained, and these stay."""
        return self.method != "full"

    def optimizer(self, updates: int, *, preferences: bool) -> AdamW:
        """Adam whose rate rises, then falls to nothing over so many updates."""
        rate = self.rate or RATES[self.method] * (PREFERENCE_SHARE if preferences else 1.0)
        warm = round(self.warmup * updates)
        falling = Cosine(rate, max(updates - warm, 1))
        return AdamW(Warmup(warm, falling) if warm else falling, decay=self.decay)
