"""Functions that PyTorch alone has, by its names and with its arguments, made of those that all have."""
