"""Vision transformers (Dosovitskiy et al. 2021)."""

from __future__ import annotations

from nnc.arguments import Count, Positive, checked
from nnc.classes import dataclass
from nnc.nn.layers import Convolution, Dense, LayerNorm, PositionEmbedding, TransformerBlock
from nnc.nn.layers.embedding import broadcast_rows, normal
from nnc.nn.layers.layer import Layer, Scope, T, require_rank
from nnc.ops import concatenate, reshape, slice_axis


@checked
@dataclass(frozen=True, slots=True)
class ViT(Layer):
    """Pictures[batch, height, width, channels] to scores[batch, classes], by patches of `patch` × `patch` pixels."""

    classes: Count = 1000
    patch: Count = 16
    features: Count = 768
    layers: Count = 12
    heads: Count = 12
    epsilon: Positive = 1e-6

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to pictures."""
        require_rank("ViT", x, 4, "batch, height, width, channels")
        patches = Convolution(self.features, self.patch, self.patch, 0).build(scope.inside("patches"), x)
        batch, rows, columns, features = patches.shape
        y = reshape(patches, (batch, rows * columns, features))
        token = scope.parameter("class_token", (1, features), y, normal)
        y = concatenate([broadcast_rows(token, slice_axis(y, 1, 0, 1)), y], 1)
        y = PositionEmbedding(rows * columns + 1).build(scope.inside("positions"), y)
        block = TransformerBlock(self.heads, epsilon=self.epsilon)
        for layer in range(self.layers):
            y = block.build(scope.inside(f"block{layer}"), y)
        y = LayerNorm(epsilon=self.epsilon).build(scope.inside("norm"), y)
        first = reshape(slice_axis(y, 1, 0, 1), (batch, features))
        return Dense(self.classes).build(scope.inside("classes"), first)


def vit_b_16(classes: int = 1000) -> ViT:
    """12 layers of 768 features, patches of 16 pixels: 86,567,656 parameters for pictures of 224 × 224."""
    return ViT(classes)


def vit_b_32(classes: int = 1000) -> ViT:
    """Patches of 32 pixels: 88,224,232 parameters."""
    return ViT(classes, patch=32)


def vit_l_16(classes: int = 1000) -> ViT:
    """24 layers of 1,024 features: 304,326,632 parameters."""
    return ViT(classes, features=1024, layers=24, heads=16)


def vit_h_14(classes: int = 1000) -> ViT:
    """32 layers of 1,280 features, patches of 14 pixels: 632,045,800 parameters."""
    return ViT(classes, patch=14, features=1280, layers=32, heads=16)
