"""The discrete Fourier transform, by NumPy's pocketfft."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Inputs, Outputs, Rows, widen, write
from nnc.ops.products.fourier import FFT, FourierAttrs


def fft(attrs: FourierAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[k] = sum_n x[n] · e^(∓2πi · k · n / N), not divided by N in either direction."""
    if attrs.inverse:
        write(outputs[0], np.fft.ifft(widen(inputs[0]), axis=attrs.axis, norm="forward"))
    else:
        write(outputs[0], np.fft.fft(widen(inputs[0]), axis=attrs.axis))


ROWS: Rows = {FFT: fft}
