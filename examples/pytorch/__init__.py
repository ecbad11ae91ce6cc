"""Tasks of the folder above as PyTorch writes them: modules, `loss.backward()`, `optimizer.step()`."""
