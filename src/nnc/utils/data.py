"""PyTorch's `torch.utils.data`: loaders, data sets and samplers of `nnc.nn.data`."""

from nnc.nn.data.loader import DataLoader, Dataset, Subset, TensorDataset, random_split
from nnc.nn.data.loader import collated as default_collate
from nnc.nn.data.samplers import (
    BatchSampler,
    ConcatDataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler", "ConcatDataset", "DataLoader", "Dataset", "IterableDataset", "RandomSampler", "Sampler",
    "SequentialSampler", "Subset", "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "default_collate",
    "random_split",
]  # fmt: skip
