"""Object code, programs, workers: how kernels are loaded and run."""
