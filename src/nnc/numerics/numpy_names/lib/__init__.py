"""What of `np.lib` arrays have here: `nnc.lib.stride_tricks.sliding_window_view(x, 3)`."""

from nnc.numerics.numpy_names.lib import stride_tricks as stride_tricks
