"""Functions of arrays that JAX alone has, in `nnc.lax`: general convolutions and products, slices, windows, scans."""
