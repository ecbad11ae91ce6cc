"""What layers live in: scopes that give them tensors, and the weights that a layer has of its own."""
