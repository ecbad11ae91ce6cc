"""Values: element types, shapes, tensors and their memory, commands."""
