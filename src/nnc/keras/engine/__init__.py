"""What is under the names of `nnc.keras`: layers, tensors before there are values, models, training and files."""
