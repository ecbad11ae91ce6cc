"""Training: epochs over batches."""
