"""The 1,797 handwritten digits of the UCI "Optical Recognition of Handwritten Digits" test set.

E. Alpaydin, C. Kaynak (1998), doi:10.24432/C50P49, CC BY 4.0; `digits.md` beside the file has the details.
"""

from __future__ import annotations

import gzip
import hashlib
from importlib import resources

import numpy as np

from nnc.errors import DataError
from nnc.nn.data.data_set import DataSet, Split

FILE = "digits.csv.gz"
CHECKSUM = "02633070f0eba52475fb2cfaedcf256826aa2b6c462429e2e6d0826619fc55c9"
IMAGES, SIDE, INK = 1797, 8, 16
TEST_EVERY = 5


def load_digits() -> Split:
    """`inputs[n, 8, 8, 1] = pixels / 16` in 0..1, `labels[n]` the digit; every fifth image is for test.

    >>> digits = load_digits()
    >>> digits.train
    DataSet('digits/train', inputs=float32[1437, 8, 8, 1], labels=int32[1437], 10 classes)
    >>> digits.test
    DataSet('digits/test', inputs=float32[360, 8, 8, 1], labels=int32[360], 10 classes)
    """
    whole = decode_digits(resources.files("nnc.nn.data").joinpath(FILE).read_bytes())
    for_test = np.arange(IMAGES) % TEST_EVERY == 0
    return Split(whole.select(~for_test, "digits/train"), whole.select(for_test, "digits/test"))


def decode_digits(packed: bytes) -> DataSet:
    """The data set in the bytes of the file; raises `DataError` unless they are the bytes that we ship."""
    checksum = hashlib.sha256(packed).hexdigest()
    if checksum != CHECKSUM:
        raise DataError(
            f"data set digits: {FILE} is damaged",
            got=f"{len(packed)} bytes of SHA-256 {checksum[:12]}…",
            need=f"SHA-256 {CHECKSUM[:12]}…",
            fix="install nnc again.",
        )
    table = np.loadtxt(gzip.decompress(packed).decode("ascii").splitlines(), dtype=np.uint8, delimiter=",")
    inputs = table[:, :-1].reshape(IMAGES, SIDE, SIDE, 1).astype(np.float32) / np.float32(INK)
    return DataSet("digits", inputs, table[:, -1].astype(np.int32), classes=tuple("0123456789"))
