"""What other projects call things: names and arguments of PyTorch, JAX, NumPy, Keras and MLX with our form for each."""
