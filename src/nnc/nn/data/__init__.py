"""Data sets that ship with nnc, and batches drawn from any data set.

    digits = load("digits")
    for batch in Batches(digits.train, 64, seed=0):
        ...                             # batch.inputs, batch.labels

`load` reads by name from the table `DATA_SETS`. A `DataFrame` has named columns from arrays, files, folders of images
and data sets of other libraries, made when they are needed. `Batches` gives the same order for the same seed on every
machine, and its `state()` is enough to go on at exactly the next batch.
"""

from __future__ import annotations

from nnc.nn.data.batches import Batch, Batches, BatchSource, BatchState
from nnc.nn.data.data_set import DataSet, Examples, Split
from nnc.nn.data.data_sets import DATA_SETS, load
from nnc.nn.data.digits import load_digits
from nnc.nn.data.frame import DataFrame
from nnc.nn.data.images import Augmentation, Brightness, Crop, Flip, ImageFolder, Normalized, read_image
from nnc.nn.data.loader import DataLoader, Dataset, Subset, TensorDataset, random_split
from nnc.nn.data.samplers import (
    BatchSampler,
    ConcatDataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from nnc.nn.data.table import TableColumn, TableScheme, read_inputs, read_table

__all__ = [
    "DATA_SETS",
    "Augmentation",
    "Batch",
    "BatchSampler",
    "BatchSource",
    "BatchState",
    "Batches",
    "Brightness",
    "ConcatDataset",
    "Crop",
    "DataFrame",
    "DataLoader",
    "DataSet",
    "Dataset",
    "Examples",
    "Flip",
    "ImageFolder",
    "IterableDataset",
    "Normalized",
    "RandomSampler",
    "SequentialSampler",
    "Split",
    "Subset",
    "SubsetRandomSampler",
    "TableColumn",
    "TableScheme",
    "TensorDataset",
    "WeightedRandomSampler",
    "load",
    "load_digits",
    "random_split",
    "read_image",
    "read_inputs",
    "read_table",
]
