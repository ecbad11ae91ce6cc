"""Debug check: native code gets no address but into memory whose owner the program holds.

Where memory lies is asked of NumPy, not of the address that its holder has written down.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from nnc.codegen.ir.native_kernel import AddressRange
from nnc.core.running.dispatch import Call
from nnc.core.values.storage import MAX_BYTES, Bytes
from nnc.errors import VerificationError


def check_owned(ranges: Iterable[AddressRange], calls: Sequence[Call], more: Iterable[Bytes] = ()) -> None:
    """VerificationError unless each range lies in the memory of a tensor of the calls, or in `more`."""
    tensors = [tensor for call in calls for tensor in (*call.inputs, *call.outputs, call.workspace)]
    owned = [tensor.storage.bytes for tensor in tensors if tensor is not None]
    spans = sorted((int(held.ctypes.data), int(held.ctypes.data + held.nbytes)) for held in (*owned, *more))
    # Of the spans that begin so early, the furthest end.
    ends = [0, *accumulate((end for _, end in spans), max)]
    for span in ranges:
        if span.begin < span.end and ends[bisect_right(spans, (span.begin, span.begin + MAX_BYTES))] < span.end:
            raise VerificationError(f"native program: {span.end - span.begin} bytes of memory that nobody here holds")
