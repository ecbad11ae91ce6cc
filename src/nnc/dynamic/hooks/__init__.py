"""Functions that see gradients of single values on their way back."""
