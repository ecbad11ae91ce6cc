"""What eager, traced and batched values share: they behave as arrays do."""
