"""Tasks of the folder above as MLX writes them: modules, `value_and_grad(net, loss)`, `optimizer.update(net, …)`."""
