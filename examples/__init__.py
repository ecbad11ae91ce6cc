"""The tour of the house: the same training in four ways, from models down to commands on tensors."""
