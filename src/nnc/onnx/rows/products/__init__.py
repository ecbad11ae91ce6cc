"""Products of matrices, linear algebra, Fourier transforms."""
