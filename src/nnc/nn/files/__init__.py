"""Models and tensors in files."""
